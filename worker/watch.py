"""What the forkserver waits for: descriptors, each with what is to be done when it can be read."""

import select
from collections.abc import Callable
from contextlib import suppress
from os import write

Callback = Callable[[], None]


class Watch:
    """A callback may run once for nothing when its descriptor's number was another's a moment ago."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._callbacks: dict[int, Callback] = {}

    def add(self, descriptor: int, callback: Callback) -> None:
        self._epoll.register(descriptor, select.EPOLLIN)
        self._callbacks[descriptor] = callback

    def drop(self, descriptor: int) -> None:
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def mute(self, descriptor: int) -> None:
        """Let it wait without a call until `unmute`; unlike to drop it and add it again, both always succeed."""
        self._epoll.modify(descriptor, 0)

    def unmute(self, descriptor: int) -> None:
        self._epoll.modify(descriptor, select.EPOLLIN)

    def want_room(self, descriptor: int, *, wanted: bool) -> None:
        """Whether room to write is waited for as well."""
        self._epoll.modify(descriptor, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def turn(self, seconds: float) -> None:
        """Wait for so long at most (for ever below 0), and call what is due."""
        for descriptor, _ in self._epoll.poll(seconds):
            if callback := self._callbacks.get(descriptor):
                attempt(callback)


def attempt(callback: Callback) -> None:
    """What the kernel refuses for want of room is tried again; what nests absurdly is dropped. Neither ends us."""
    try:
        callback()
    except (OSError, RecursionError) as error:
        complain(f"forkserver: {error}")


def complain(text: str) -> None:
    """To standard error, whatever is in the text. One that takes no more (a full disk, a reader gone) ends nobody."""
    with suppress(OSError):
        write(2, f"chong: {text}\n".encode("utf-8", "backslashreplace"))
