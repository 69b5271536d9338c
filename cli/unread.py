"""Rows of the store that a command could not read, and went without."""

from chong.cli.screen import remark
from chong.store.errors import UnreadableRow
from chong.supervisor.exits import Exit
from chong.supervisor.oneline import counted, one_line

MOST_TOLD = 10


class Unread:
    """Tells each of them once, on standard error: the first by themselves, the others as a number."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, fault: UnreadableRow) -> None:
        text = str(fault)
        if text in self._told:
            return
        self._told.add(text)
        if len(self._told) <= MOST_TOLD:
            remark(f"chong: {one_line(text)}")

    def end(self, code: int) -> int:
        """The exit code of a command that would have had this one: what it has shown is not all that there is."""
        if len(self._told) > MOST_TOLD:
            remark(f"chong: {counted(len(self._told) - MOST_TOLD, 'more row')} of the store cannot be read")
        return code or (Exit.REFUSED if self._told else Exit.DONE)
