"""What the exit codes of `chong` and `chong-supervisor` say."""

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
