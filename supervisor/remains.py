"""What a forkserver left of the runs for which no supervisor came back, as the next one reads it."""

import json
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chong.store.model import Usage
from chong.supervisor.files import read_json
from chong.supervisor.frames import held_back
from chong.supervisor.verdict import usage_of
from chong.worker.wire import ProtocolError, decode_up


@dataclass(frozen=True, slots=True)
class Remains:
    """What a forkserver left of a run when nobody came: how it ended, its unread frames, its memo."""

    code: int | None
    signal: int | None
    at: datetime
    frames: tuple[bytes, ...]
    memo: Any = None
    usage: Usage | None = None
    oom: bool = False

    @property
    def was_ended(self) -> bool:
        """Whether the forkserver's own ladder may have ended it; else it went by itself meanwhile."""
        return self.code is None and not self.oom and self.signal in {None, signal.SIGTERM, signal.SIGKILL}


def _newer(data: bytes | None, frames: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What was held back, unless it left after all."""
    try:
        if data is None or decode_up(data).number <= max((decode_up(frame).number for frame in frames), default=0):
            return ()
    except ProtocolError:
        return ()  # junk: what else remains decides
    return (data,)


def read_remains(run_dir: Path) -> Remains | None:
    """None when there are none, or when they cannot be read: then the outcome stays unknown."""
    try:
        content: Any = read_json(run_dir / "remains.json")
        frames = tuple(json.dumps(frame, ensure_ascii=False).encode() for frame in content["frames"])
        frames += _newer(held_back(run_dir), frames)
        at = datetime.fromtimestamp(content["at"], UTC)
        return Remains(
            content["code"],
            content["signal"],
            at,
            frames,
            content.get("memo"),
            usage_of(content),
            content.get("oom") is True,
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
