"""Writes that the store has not got, as they lie in the spool: saves and notes, each whole and unchanged.

Their event ids are in them: one that the store turns out to have is found in place.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from chong.store.model import Note, Save


@dataclass(frozen=True, slots=True)
class Unsent:
    """One of the two. `id` names its place: a save that joins another one that still waits has the same."""

    id: str
    write: Save | Note


def unsent_of(write: Save | Note) -> Unsent:
    if isinstance(write, Note):
        return Unsent(f"{write.task_id} note {write.event_id}", write)
    return Unsent(f"{write.snapshot.id} save {write.expect_version}", write)


def to_text(unsent: Unsent) -> str:
    return json.dumps({type(unsent.write).__name__.lower(): msgspec.to_builtins(unsent.write)}, separators=(",", ":"))


def from_text(id_: str, text: str) -> Unsent:
    """ValueError when it is not what `to_text` gives."""
    try:
        ((kind, content),) = json.loads(text).items()
        return Unsent(id_, msgspec.convert(content, _KINDS[kind]))
    except (AttributeError, KeyError, TypeError, RecursionError, msgspec.ValidationError) as error:
        raise ValueError(f"expected a save or a note, got {error!r}") from error


_KINDS: dict[str, type[Save] | type[Note]] = {"save": Save, "note": Note}


def in_rounds(saves: Iterable[Save]) -> list[list[Save]]:
    """For one call each: a task's saves follow one another."""
    rounds: list[list[Save]] = []
    turns: dict[str, int] = {}
    for save in saves:
        turn = turns[save.snapshot.id] = turns.get(save.snapshot.id, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(save)
    return rounds
