"""The lives of a node's forkservers: one generation forks new runs, older ones go with their last run.

What they report of runs is passed on; see `processes`.
"""

from collections.abc import Collection
from functools import partial
from typing import Protocol

from chong.supervisor.catalogue import Catalogue, read_catalogue
from chong.supervisor.child import Child
from chong.supervisor.forkservers import next_number, start_forkserver
from chong.supervisor.generation import Generation, Message
from chong.supervisor.loop import Loop
from chong.supervisor.settings import Settings
from chong.worker.wire import PROTOCOL_VERSION, Order, ProtocolError, Report

RESTART_FIRST = 0.1
RESTART_MOST = 30.0
DEATH_POLL = 0.02


class Listener(Protocol):
    """Who is told what becomes of forkservers; called in the loop's thread."""

    def catalogue_ready(self, generation: int, catalogue: Catalogue) -> None:
        """A new generation can fork; its catalogue is the one that counts from now on."""

    def forkserver_not_understood(self, generation: int, error: Exception) -> None:
        """It could not be started, or said something that makes no sense; it is ended."""

    def forkserver_gone(self, generation: int, *, expected: bool, restart_in: float | None) -> None:
        """A forkserver ended."""


class Runs(Protocol):
    """Who has the runs that forkservers hold."""

    def reported(self, generation: Generation, message: Message) -> None:
        """Something about a run; ProtocolError when it makes no sense."""

    def lose_home(self, generation: Generation) -> bool:
        """The forkserver is dead; whether runs of it live on, which then need its leash."""


class Generations:
    """Forkservers of one node; `begin` starts a generation for new runs."""

    def __init__(self, loop: Loop, settings: Settings, term: str, runs: Runs, listener: Listener) -> None:
        self._loop = loop
        self._settings = settings
        self._paths = settings.paths
        self._term = term
        self._runs = runs
        self._listener = listener
        self._current: Generation | None = None
        self._is_ready = False
        self._failures = 0
        self._has_lost_one = False
        self._last = 0
        """The last generation's number; none is used twice in one term, also when its files are gone."""
        self._children: dict[int, Child] = {}
        self._generations: dict[int, Generation] = {}
        self._ending = False

    def __contains__(self, generation: Generation) -> bool:
        return self._generations.get(generation.number) is generation

    @property
    def ready(self) -> Generation | None:
        """The one that can be asked for a worker."""
        return self._current if self._is_ready else None

    @property
    def is_empty(self) -> bool:
        return not self._generations

    def begin(self) -> None:
        """Start a forkserver for new runs."""
        number = self._last = max(next_number(self._paths), self._last + 1)
        try:
            child, generation = start_forkserver(self._paths, number, self._settings)
        except OSError as error:
            self._listener.forkserver_not_understood(number, error)
            self._restart(number, was_ready=False)
            return
        self._children[number] = child
        self._current = generation
        self.host(generation)
        self._loop.later(self._settings.import_seconds, partial(self._check_hello, generation))

    def host(self, generation: Generation) -> None:
        self._generations[generation.number] = generation
        generation.watch(self._loop, partial(self._receive, generation))

    def retire_old(self) -> None:
        """Let former terms' forkservers go when their runs are done: what they know was heard and stored."""
        for generation in self._generations.values():
            if generation is not self._current:
                generation.order(Order.RETIRE)

    def end(self) -> None:
        """Let every forkserver go once nothing of it is unreleased; no new one is started."""
        self._ending = True
        self._is_ready = False
        for generation in self._generations.values():
            generation.order(Order.RETIRE)

    def kill_current(self) -> None:
        """The forkserver is stuck: its workers live on without it."""
        if self._current is not None:
            self._kill(self._current)

    def close(self, keepers: Collection[int]) -> None:
        """Let go of what is left, at once; those of `keepers` are only left alone."""
        self._ending = True
        for generation in list(self._generations.values()):
            if generation.number not in keepers:
                self._kill(generation)
                self._forget(generation)
            generation.close()
            generation.let_leash_go()
        for number, child in self._children.items():
            if number in keepers:
                child.let_go()
            else:
                child.end()

    # --- what they say -----------------------------------------------------------------------------------------

    def _receive(self, generation: Generation) -> None:
        messages: list[Message] = []
        trouble: Exception | None = None
        try:
            for message in generation.receive():
                messages.append(message)  # noqa: PERF402 - what came before a failure has to be kept
        except (EOFError, OSError, ProtocolError) as error:
            trouble = error
        # All of it first: what it said before it died or talked nonsense still counts.
        for message in messages:
            try:
                self._on_report(generation, message)
            except ProtocolError as error:
                trouble = error
        if trouble is not None:
            if not isinstance(trouble, EOFError):
                self._listener.forkserver_not_understood(generation.number, trouble)
            self._kill(generation)
            self._await_death(generation)

    def _on_report(self, generation: Generation, message: Message) -> None:
        if message.op is Report.HELLO:
            self._on_hello(generation, message)
        else:
            self._runs.reported(generation, message)

    def _on_hello(self, generation: Generation, hello: Message) -> None:
        # A term that has lost a forkserver cannot prove by the next one that a run was never forked.
        generation.greet(hello, None if self._has_lost_one else self._term)
        if generation.protocol != PROTOCOL_VERSION:
            raise ProtocolError(f"expected protocol {PROTOCOL_VERSION} of a new forkserver, got {generation.protocol}")
        self._is_ready = generation is self._current and not self._ending
        if generation.catalogue is not None:
            self._listener.catalogue_ready(generation.number, read_catalogue(generation.catalogue))

    def _check_hello(self, generation: Generation) -> None:
        """An import that never ends must not keep the node waiting without a word."""
        if generation is self._current and not self._is_ready and not self._ending:
            self._kill(generation)

    # --- their deaths --------------------------------------------------------------------------------------------

    def _kill(self, generation: Generation) -> None:
        child = self._children.get(generation.number)
        if child is not None:
            child.kill()
        else:
            generation.kill()

    def _await_death(self, generation: Generation) -> None:
        """Its workers come to us only when it is gone, and its lock is free only then."""
        child = self._children.get(generation.number)
        if not (child.has_ended() if child is not None else not generation.is_alive()):
            self._loop.later(DEATH_POLL, partial(self._await_death, generation))
            return
        self._children.pop(generation.number, None)
        if generation.number in self._generations:
            self._bury(generation)

    def _bury(self, generation: Generation) -> None:
        self._forget(generation)
        was_current = generation is self._current
        self._has_lost_one = self._has_lost_one or (was_current and not self._ending)
        was_ready = self._is_ready
        if was_current:
            self._current = None
            self._is_ready = False
        if not self._runs.lose_home(generation):
            generation.let_leash_go()
        if was_current and not self._ending:
            self._restart(generation.number, was_ready=was_ready)
        else:
            self._listener.forkserver_gone(generation.number, expected=True, restart_in=None)

    def _forget(self, generation: Generation) -> None:
        generation.close()
        self._generations.pop(generation.number, None)
        for path in (generation.path, self._paths.catalogue(generation.number)):
            path.unlink(missing_ok=True)
        self._paths.generation_lock(generation.number).unlink(missing_ok=True)

    def _restart(self, number: int, *, was_ready: bool) -> None:
        """At once when it was killed; with a backoff when it could not even begin, as its imports then fail again."""
        self._failures = 0 if was_ready else self._failures + 1
        delay = min(RESTART_MOST, RESTART_FIRST * 2.0 ** min(self._failures, 12))
        self._listener.forkserver_gone(number, expected=False, restart_in=delay)
        self._loop.later(delay, self._begin_again)

    def _begin_again(self) -> None:
        if self._current is None and not self._ending:
            self.begin()
