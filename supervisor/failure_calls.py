"""`on_failure=`: tells the author's command or web address of tasks that have failed or were lost.

At least once: a notice lies in the spool from the moment at which the end does, until the call for it went well. Many
of one definition are told together, so that a night of failures is no night of mails.
"""

import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chong.supervisor.bounded_call import BoundedCall

EVENT = "task_ended_badly"
SECONDS = 60.0
"""How long one call may take."""
AGAIN_FIRST, AGAIN_MOST = 10.0, 600.0
"""Seconds between two tries of one call."""
GIVE_UP_SECONDS = 3600.0
"""For so long a call is tried again."""
MORE_SHOWN = 100
WORD_SHOWN = 200
BUSY_SECONDS = 0.1
IDLE_SECONDS = 1.0

Notice = Mapping[str, Any]
"""What is told of one task; it has at least its `id` and its `name`."""


class Wish(NamedTuple):
    """What a definition wants to be called, and how often at most, in seconds."""

    call: str | None
    every: float


@dataclass(slots=True)
class _Line:
    """What waits to be told of one definition; times by the monotonic clock."""

    notices: dict[str, Notice] = field(default_factory=dict)
    due: float = 0.0
    since: float | None = None
    """The first of the tries that have failed."""
    tries: int = 0


class FailureCalls:
    """`add` may be called from any thread; `turn` and `close` from one at a time. The others must only hand over.

    wish_of: what the definition of this name wants; None while no definitions are known. on_told: the ids of notices
    that need not be kept any more. on_trouble: a definition's name and what went wrong, with whether it was given up.
    """

    def __init__(
        self,
        node: str,
        wish_of: Callable[[str], Wish | None],
        environment: Callable[[], dict[str, str]],
        on_told: Callable[[list[str]], None],
        on_trouble: Callable[[str, str, bool], None],
    ) -> None:
        self._node = node
        self._wish_of = wish_of
        self._environment = environment
        self._on_told = on_told
        self._on_trouble = on_trouble
        self._call = BoundedCall(SECONDS)
        self._changed = threading.Lock()
        self._lines: dict[str, _Line] = {}
        self._under_way: tuple[str, list[str], Wish, int] | None = None
        """Name, ids, wish, and the descriptor of what the call says."""

    @property
    def pids(self) -> set[int]:
        """The process under way, for whoever reaps what nobody waits for."""
        return self._call.pids

    def add(self, notice: Notice) -> None:
        with self._changed:
            self._lines.setdefault(notice["name"], _Line()).notices[notice["id"]] = notice

    def turn(self) -> float:
        """Look after the call under way, begin the next one; the seconds until the next turn."""
        if self._under_way is not None:
            ended = self._call.ended()
            if ended is None:
                return BUSY_SECONDS
            self._end(ended)
        now = time.monotonic()
        with self._changed:
            due = [name for name, line in self._lines.items() if line.notices and line.due <= now]
        for name in due:
            wish = self._wish_of(name)
            if wish is None:
                continue
            if wish.call is None:
                self._told(name, list(self._lines[name].notices), now)
            else:
                self._try(name, wish)
                return BUSY_SECONDS
        return IDLE_SECONDS

    def close(self) -> None:
        """What was not told stays in the spool."""
        self._call.close()
        if self._under_way is not None:
            os.close(self._under_way[3])
            self._under_way = None

    def _try(self, name: str, wish: Wish) -> None:
        with self._changed:
            notices = dict(self._lines[name].notices)
        try:
            said = self._begin(wish, self._message(list(notices.values())))
        except OSError as error:
            self._failed(name, list(notices), wish, f"it cannot be started: {error.strerror}")
        else:
            self._under_way = name, list(notices), wish, said

    def _message(self, notices: list[Notice]) -> dict[str, Any]:
        *others, newest = notices
        more = [notice["id"] for notice in others]
        return {
            "event": EVENT,
            "node": self._node,
            "task": newest,
            "more": len(more),
            "ids": more[-MORE_SHOWN:],
        }

    def _begin(self, wish: Wish, message: dict[str, Any]) -> int:
        reading, said = os.memfd_create("chong-notice"), os.memfd_create("chong-said")
        try:
            os.write(reading, json.dumps(message).encode() + b"\n")
            os.lseek(reading, 0, os.SEEK_SET)
            self._call.begin(words_of(wish.call or ""), self._environment(), reading=reading, writing=said)
        except OSError:
            os.close(said)
            raise
        finally:
            os.close(reading)
        return said

    def _end(self, fault: str) -> None:
        assert self._under_way is not None, "one was under way"
        name, ids, wish, said = self._under_way
        self._under_way = None
        words = os.pread(said, WORD_SHOWN, 0).decode(errors="replace").split("\n")[0].strip()
        os.close(said)
        if fault:
            self._failed(name, ids, wish, f"{fault}: {words}" if words else fault)
        else:
            self._told(name, ids, time.monotonic() + wish.every)

    def _told(self, name: str, ids: list[str], due: float) -> None:
        with self._changed:
            line = self._lines[name]
            for id_ in ids:
                line.notices.pop(id_, None)
            line.due, line.since, line.tries = due, None, 0
        self._on_told(ids)

    def _failed(self, name: str, ids: list[str], wish: Wish, fault: str) -> None:
        now = time.monotonic()
        line = self._lines[name]
        line.since = now if line.since is None else line.since
        is_given_up = now - line.since >= GIVE_UP_SECONDS
        if is_given_up:
            self._told(name, ids, now + wish.every)
        else:
            line.due = now + min(AGAIN_MOST, AGAIN_FIRST * 2.0**line.tries)
            line.tries += 1
        self._on_trouble(name, fault, is_given_up)


def words_of(call: str) -> list[str]:
    """The command, without any shell; of a web address chong's own."""
    if call.startswith(("http://", "https://")):
        return [sys.executable, "-P", "-m", "chong.supervisor.webhook", call]
    return shlex.split(call)
