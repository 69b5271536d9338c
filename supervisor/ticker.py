"""A thread that does one thing again and again, and never dies without a word."""

import threading
from collections.abc import Callable


class Ticker:
    """Calls `act`, which returns the seconds until its next time.

    What `act` does not handle itself ends the thread and goes to `on_fault`: a loop that has silently stopped is
    worse than a supervisor that ends, because the next term would take over.
    """

    def __init__(self, name: str, act: Callable[[], float], *, on_fault: Callable[[BaseException], None]) -> None:
        self._act = act
        self._on_fault = on_fault
        self._is_ended = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        """Act now, not only when the pause is over; from any thread."""
        self._woken.set()

    def close(self, timeout: float) -> None:
        self._is_ended = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        pause = 0.0
        while True:
            self._woken.wait(pause)
            self._woken.clear()
            if self._is_ended:
                return
            try:
                pause = self._act()
            except BaseException as error:  # noqa: BLE001 - it is passed on, whatever it is
                self._on_fault(error)
                return
