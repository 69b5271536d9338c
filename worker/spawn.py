"""An order to fork a worker, as it comes from a supervisor."""

import re
from dataclasses import dataclass
from typing import Any

from chong.worker.plain import encode_plain
from chong.worker.wire import FRAME_LIMIT

MEMO_LIMIT = FRAME_LIMIT - 1024
"""Bytes of memo and title, so that the frame of a `worker` report holds them and the rest."""
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}\Z")


@dataclass(frozen=True, slots=True)
class SpawnOrder:
    """run: the attempt's identity. task: the name of its definition, which may be unknown here.

    log: the path its output is appended to. memo: kept, and given back on attach.
    """

    run: str
    task: str
    log: str
    title: str
    memo: Any

    @classmethod
    def parse(cls, message: dict[str, Any]) -> "SpawnOrder":
        """ValueError unless an attach could list the run: what it says must fit a frame."""
        texts = [text for name in ("run", "task", "log", "title") if isinstance(text := message.get(name), str)]
        if len(texts) != 4 or "\0" in texts[-1]:  # noqa: PLR2004 - the four just named
            raise ValueError("spawn: expected run, task, log and title as text, got something else")
        run, task, log, title = texts
        if not _RUN.match(run):
            raise ValueError(f"spawn: expected a run that can name a directory, got {run[:60]!r}")
        memo = message.get("memo")
        _check_size(memo, title)
        return cls(run, task, log, title, memo)


def _check_size(memo: Any, title: str) -> None:
    try:
        size = len(encode_plain([memo, title]).encode())
    except (UnicodeEncodeError, RecursionError):
        raise ValueError("spawn: expected a memo that can be sent back, got one that cannot") from None
    if size > MEMO_LIMIT:
        raise ValueError(f"spawn: expected memo and title of at most {MEMO_LIMIT} bytes, got {size}")
