"""What checkpoints report, coalesced: the newest progress, and the newest state."""

import contextlib
import math
from typing import Any

from chong.worker.channel import Channel
from chong.worker.clock import monotonic
from chong.worker.failure import MESSAGE_LIMIT
from chong.worker.plain import encode_plain
from chong.worker.result import INT_LIMIT, encode_state
from chong.worker.runfile import HELD_BACK, remove_file, write_file
from chong.worker.wire import INLINE_LIMIT, Up

GAP = 0.05
"""Seconds between two checkpoint frames."""
SILENCE = 1.0
"""Seconds after which a checkpoint without news is sent all the same: it is the heartbeat."""


class Progress:
    """Every frame carries the whole progress so far, so that any one of them may be left out; a state goes once."""

    def __init__(self, channel: Channel, run_dir: str) -> None:
        self.due = 0.0  # monotonic; before it nothing needs to be done
        self._channel = channel
        self._run_dir = run_dir
        self._done: float | None = None
        self._total: float | None = None
        self._message: str | None = None
        self._state: str | None = None
        self._states = 0
        self._held_back = f"{run_dir}/{HELD_BACK}"
        self._is_aside = False
        self._news = False
        self._last = -SILENCE

    def take(self, done: float | None, total: float | None, message: str | None, state: Any) -> None:
        """ValueError for what no store takes, before anything is kept."""
        text = None if state is None else encode_state(state)
        if message is not None and not isinstance(message, str):
            raise ValueError(f"message: expected text, got {type(message).__name__}")
        if done is not None:
            self._done = _finite("done", done)
        if total is not None:
            self._total = _finite("total", total)
        self._message = message if message is not None else self._message
        self._state = text or self._state
        self._news = True
        self.due = min(self.due, self._last + GAP)
        if text is not None and monotonic() < self.due:
            self._put_aside()

    def report(self) -> None:
        """Send it, unless too much is unread; then it leaves with a later call."""
        now = monotonic()
        if now < self.due:
            return
        if not self._news and now < self._last + SILENCE:
            self.due = self._last + SILENCE
        elif self._channel.has_room():
            self._send(now)
        else:
            self.due = now + GAP
            if self._state is not None:
                self._put_aside()

    def flush(self) -> None:
        """Send what is held back; before a pause or the end, it may have to wait for room."""
        if self._news:
            self._send(monotonic())

    def _send(self, now: float) -> None:
        self._last, self.due = now, now + GAP
        state = self._state
        texts = self._texts()
        if state is not None:
            self._states += 1
            texts |= self._state_texts(state, f"state-{self._states}.json")
        self._channel.send(Up.CHECKPOINT, texts)
        if self._is_aside:
            self._is_aside = False
            # What cannot be removed, by a task that has given its rights away, is known to be old by its number.
            with contextlib.suppress(OSError):
                remove_file(self._held_back)
        # Cleared only now: an interruption on the way repeats a state rather than losing it.
        self._news = False
        if self._state is state and "state_unwritten" not in texts:
            self._state = None

    def _put_aside(self) -> None:
        """A state that waits for its turn lies in the run's directory: a run may be killed before it says more."""
        state = self._state
        if state is None:
            return
        texts = self._texts() | self._state_texts(state, "state-held-back.json")
        self._is_aside = True
        # What the disk does not take is still sent with a later call.
        with contextlib.suppress(OSError):
            write_file(self._held_back, self._channel.next_frame(Up.CHECKPOINT, texts))

    def _texts(self) -> dict[str, str]:
        texts = {"done": encode_plain(self._done), "total": encode_plain(self._total)}
        return texts | {"message": encode_plain(_clean(self._message))}

    def _state_texts(self, text: str, name: str) -> dict[str, str]:
        """Within the frame, or in a file of this name."""
        data = text.encode()
        if len(data) <= INLINE_LIMIT:
            return {"state": text}
        try:
            write_file(f"{self._run_dir}/{name}", data)
        except OSError as error:
            return {"state_unwritten": encode_plain(str(error))}  # it is kept, and tried again with the next frame
        return {"state_file": encode_plain(name), "state_bytes": str(len(data))}


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, got {type(value).__name__}")
    if not -INT_LIMIT < value < INT_LIMIT:
        raise ValueError(f"{name}: expected a number of 64 bits, got a larger one")
    return int(value) if isinstance(value, int) else float(value)


def _clean(message: str | None) -> str | None:
    """Printable and short, whatever the task put in: it is shown in tables."""
    if message is None or (message.isascii() and message.isprintable() and len(message) <= MESSAGE_LIMIT):
        return message
    return "".join(letter if letter.isprintable() else " " for letter in str.__str__(message)[:MESSAGE_LIMIT])
