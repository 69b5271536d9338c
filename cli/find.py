"""One task by the part of its id that a person typed."""

import re

from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.ids import is_id
from chong.store.model import TaskSnapshot

TAIL = 8
"""As much of an id as tables show: its end, since ids of one second share their beginning."""

CANDIDATES = 10

_PART = re.compile(r"[0-9a-f-]{1,36}\Z")


class AmbiguousId(Refused):
    """Several tasks fit; `candidates` are the newest of them."""

    def __init__(self, part: str, candidates: list[TaskSnapshot], *, more: bool) -> None:
        super().__init__(ambiguity(part, len(candidates), more=more))
        self.candidates = candidates


def ambiguity(part: str, number: int, *, more: bool) -> str:
    """The sentence before those that fit; more: there are others beside the `number` that are told."""
    return f"{part[:40]!r} fits {'more than ' if more else ''}{number} tasks; type more of the id:"


def find_one(store: TaskStore, part: str) -> TaskSnapshot:
    """The one task whose id is, begins or ends with `part`; Refused when there is none or more than one."""
    found = _fitting(store, part.lower())
    if not found:
        raise Refused(f"no task has an id that begins or ends with {part[:40]!r}")
    if len(found) > 1:
        raise AmbiguousId(part, found[:CANDIDATES], more=len(found) > CANDIDATES)
    return found[0]


def _fitting(store: TaskStore, part: str) -> list[TaskSnapshot]:
    if not _PART.match(part):
        return []
    if is_id(part):
        whole = store.get(part)
        return [whole] if whole else []
    return store.find(part, limit=CANDIDATES + 1)
