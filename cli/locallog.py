"""The logs that lie on this node's disk, for when the store cannot say whose they are."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from chong.cli.find import CANDIDATES, ambiguity
from chong.store.errors import Refused

_NAME = re.compile(r"([0-9a-f-]{36})\.(\d+)\.log\Z")


class LocalLog(NamedTuple):
    """The output of one attempt."""

    task_id: str
    attempt: int
    path: Path


def local_log(directory: Path, part: str, attempt: int | None) -> LocalLog | None:
    """The log of the one task whose id is, begins or ends with `part`; of its latest attempt here, unless one is named.

    None when there is none; Refused when several tasks fit.
    """
    found = [
        log for log in _logs(directory) if log.task_id.startswith(part.lower()) or log.task_id.endswith(part.lower())
    ]
    tasks = sorted({log.task_id for log in found}, reverse=True)
    if len(tasks) > 1:
        shown = tasks[:CANDIDATES]
        raise Refused(f"{ambiguity(part, len(shown), more=len(tasks) > len(shown))} {', '.join(shown)}")
    return max((log for log in found if attempt in (None, log.attempt)), default=None, key=lambda log: log.attempt)


def _logs(directory: Path) -> list[LocalLog]:
    try:
        names = [entry.name for entry in os.scandir(directory)]
    except FileNotFoundError:
        return []  # no supervisor has ever begun here
    matches = filter(None, map(_NAME.match, names))
    return [LocalLog(match[1], int(match[2]), directory / match[0]) for match in matches]
