"""Ctrl-C and its kin while something runs in the foreground: counted, and acted on by whoever looks."""

import signal
from types import FrameType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While `raises` is set a signal raises KeyboardInterrupt, too: for a wait that nothing else would end.

    What was ignored before, as under nohup, still is.
    """

    def __init__(self) -> None:
        self.count = 0
        self.raises = False

    def __enter__(self) -> Self:
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, _: int, __: FrameType | None) -> None:
        self.count += 1
        if self.raises:
            raise KeyboardInterrupt
