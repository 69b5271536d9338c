"""What the exit codes of `chong` and `chong-supervisor` say."""

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """One meaning per number, whatever the command."""

    DONE = 0
    REFUSED = 1
    """Refused, failed, or something was found."""
    USAGE = 2
    """Wrong usage or configuration: nothing was done."""
    UNREACHABLE = 3
    """The store is out of reach."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it."""
    PIPE_CLOSED = 141
    """The reader of the output went away, as shells count it."""


OF_SUPERVISOR: Mapping[Exit, str] = {
    Exit.DONE: "ended as asked",
    Exit.REFUSED: "failed, or was told to end before it had taken over what it found; what runs is held for the next "
    "supervisor",
    Exit.USAGE: "wrong usage or configuration, rights in the store that are missing from the start, a second "
    "supervisor, or a second node of the same name: no task was ended",
    Exit.UNREACHABLE: "the store cannot be opened, or with --check does not answer",
}
"""What `chong-supervisor --help` says, and docs/operating.md word for word."""


def told(meanings: Mapping[Exit, str]) -> str:
    return f"Exit codes: {'; '.join(f'{code:d} {meaning}' for code, meaning in meanings.items())}."
