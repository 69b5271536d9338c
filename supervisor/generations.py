"""The lives of a node's forkservers: one generation forks new runs, older ones go with their last run.

One may be *coming*: it imports the task modules. With its hello it becomes the *live* one, and the one before is
*replaced*: no new start is claimed for it, and it is retired once the last one that was is settled. What forkservers
report of runs is passed on; see `processes`.
"""

from collections.abc import Collection
from functools import partial
from pathlib import Path

from chong.store.errors import Refused
from chong.supervisor import reports
from chong.supervisor.catalogue import Catalogue, read_catalogue
from chong.supervisor.child import Child
from chong.supervisor.containment import Containment
from chong.supervisor.doubts import Doubts
from chong.supervisor.forkservers import drop_trials, keep_trials, next_number, start_forkserver
from chong.supervisor.generation import Generation
from chong.supervisor.listeners import ForkserverListener, RunKeeper
from chong.supervisor.loop import Loop
from chong.supervisor.reloads import Reloaded, Reloads, ReloadSettled
from chong.supervisor.settings import Settings
from chong.worker.wire import PROTOCOL_VERSION, Order, ProtocolError

RESTART_FIRST = 0.1
RESTART_MOST = 30.0
DEATH_POLL = 0.02
MOST_GENERATIONS = 4
"""So many may live at one time; a reload waits until there are fewer. Each holds all task modules in memory."""


class Generations:
    """Forkservers of one node; `begin` starts the first generation for new runs, `reload` each further one."""

    def __init__(
        self, loop: Loop, settings: Settings, term: str, runs: RunKeeper, listener: ForkserverListener
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._paths = settings.paths
        self._term = term
        self._runs = runs
        self._listener = listener
        self.containment = Containment()
        """Found when the term begins, and given to each new generation."""
        self._live: Generation | None = None
        self._coming: Generation | None = None
        self._replaced: list[Generation] = []
        self._trouble = ""
        """What is known to be wrong with the one that is coming."""
        self._failures = 0
        self._has_new_code = False
        """Whether the next one to be live has what a reload was asked for, and not the live one's code once more."""
        self._last = 0
        """The last generation's number; none is used twice in one term, also when its files are gone."""
        self._children: dict[int, Child] = {}
        self._generations: dict[int, Generation] = {}
        self._reloads = Reloads()
        self.doubts = Doubts(loop, listener, self.kill)
        self._ending = False

    def __contains__(self, generation: Generation) -> bool:
        return self._generations.get(generation.number) is generation

    @property
    def live(self) -> int | None:
        """The number of the generation that new runs are to be claimed for; None when there is none."""
        return None if self._live is None or self._ending else self._live.number

    @property
    def replaced(self) -> list[int]:
        """Those that may be retired once no start that was claimed for them is open."""
        return [generation.number for generation in self._replaced]

    @property
    def is_empty(self) -> bool:
        return not self._generations

    @property
    def pids(self) -> set[int]:
        """Of the forkservers that are our children."""
        return {child.pid for child in self._children.values()}

    @property
    def attached(self) -> list[int]:
        """Former terms' forkservers."""
        return sorted(self._generations.keys() - self._children.keys())

    def logs(self) -> list[Path]:
        """Of the forkservers that live; safe to call from other threads."""
        return [self._paths.generation_log(number) for number in list(self._generations)]

    def source(self, number: int) -> Generation | None:
        """The forkserver for a start that was claimed for this generation; None when it has gone."""
        sources = [] if self._ending else [*filter(None, [self._live]), *self._replaced]
        return next((generation for generation in sources if generation.number == number), None)

    def begin(self, *, again: bool = False) -> None:
        """Start a forkserver for new runs; `again` in place of a live one that has died."""
        self._trouble = ""
        try:
            number = self._last = max(next_number(self._paths), self._last + 1)
        except OSError as error:  # no descriptor to look with: which sockets are somebody's is not known
            self._not_begun(self._last + 1, error)
            return
        if not again:
            drop_trials(self._paths)
        try:
            child, generation = start_forkserver(self._paths, number, self._settings, self.containment, again=again)
        except OSError as error:
            self._paths.generation_socket(number).unlink(missing_ok=True)
            self._not_begun(number, error)
            return
        self._children[number] = child
        self._coming = generation
        self.host(generation)
        patience = self._settings.hello_seconds
        self._loop.later(patience, partial(self._check_hello, generation, patience))

    def _not_begun(self, number: int, error: OSError) -> None:
        self._listener.forkserver_not_understood(number, error)
        self._trouble = str(error)
        self._not_come(number)

    def host(self, generation: Generation) -> None:
        self._generations[generation.number] = generation
        generation.watch(self._loop, partial(self._receive, generation))

    def reload(self, settled: ReloadSettled) -> None:
        """Load the task modules anew. While a generation is coming, all that ask meanwhile get the one after it."""
        if self._ending:
            settled(Refused("the node is going down and loads no new code"))
            return
        self._reloads.ask(settled)
        self._begin_wanted()

    def retire(self, number: int) -> None:
        """Let a replaced generation go with its last run: no start of it is open any more."""
        generation = next(generation for generation in self._replaced if generation.number == number)
        self._replaced.remove(generation)
        generation.order(Order.RETIRE)

    def replace_old(self) -> None:
        """Former terms' forkservers fork nothing for this one: they are replaced, too."""
        self._replaced += [self._generations[number] for number in self.attached]

    def end(self) -> None:
        """Let every forkserver go once nothing of it is unreleased; no new one is started."""
        self._ending = True
        drop_trials(self._paths)
        self._reloads.refuse_all(Refused("the node is going down and loads no new code"))
        for generation in self._generations.values():
            if generation is self._coming:
                self.kill(generation)  # it has no runs, and might import for long
            else:
                generation.order(Order.RETIRE)

    def kill(self, generation: Generation) -> None:
        """Its workers live on without it."""
        child = self._children.get(generation.number)
        if child is not None:
            child.kill()
        else:
            generation.kill()

    def close(self, keepers: Collection[int]) -> None:
        """Let go of what is left, at once; those of `keepers` are only left alone."""
        self._ending = True
        for generation in list(self._generations.values()):
            if generation.number not in keepers:
                self.kill(generation)
                self._forget(generation)
            generation.close()
            generation.let_leash_go()
        for number, child in self._children.items():
            if number in keepers:
                child.let_go()
            else:
                child.end()

    def let_go(self, *, and_own: bool) -> list[int]:
        """Leave former terms' forkservers alone, with `and_own` this term's as well; those that were left."""
        left = sorted(self._generations) if and_own else self.attached
        self.close(left)
        return left

    # --- reloads -------------------------------------------------------------------------------------------------

    def _begin_wanted(self) -> None:
        """Begin the reload that was asked for, unless something stands in its way that will be over."""
        if not self._reloads.is_wanted or self._coming is not None or self._ending:
            return
        if len(self._generations) < MOST_GENERATIONS:
            self._reloads.begin()
            self._has_new_code = True
            self.begin()
            return
        alive = sorted(self._generations)
        numbers = ", ".join(map(str, alive))
        if self._reloads.put_off(Refused(f"the reload waits: generations {numbers} have runs, one of them has to end")):
            self._listener.reload_waits(alive)

    def _go_live(self, generation: Generation, catalogue: Catalogue) -> None:
        if self._live is not None:
            self._replaced.append(self._live)
        self._live, self._coming = generation, None
        self._failures = 0
        has_new_code, self._has_new_code = self._has_new_code, False
        self._listener.catalogue_ready(generation.number, catalogue, has_new_code=has_new_code)
        refused = {name: refusal.error for name, refusal in catalogue.refused.items()}
        self._reloads.settle(Reloaded(generation.number, len(catalogue.tasks), catalogue.errors, refused))
        self._begin_wanted()

    def _not_come(self, number: int) -> None:
        """A generation died before it was live: the one before goes on; without one it is tried again."""
        self._coming = None
        trouble = self._trouble or "it ended before it had loaded the task modules"
        why = f"{trouble}; see {self._paths.logs / f'generation-{number}.log'}"
        if self._live is not None:
            self._has_new_code = False
            self._listener.reload_failed(number, why)
        else:  # what takes its place has loaded the modules after a reload was asked for, if one was
            self._failures += 1
            self._restart(number, again=False)
        self._reloads.settle(Refused(f"generation {number} did not come to life: {why}"))
        self._begin_wanted()

    # --- what they say -----------------------------------------------------------------------------------------

    def _receive(self, generation: Generation) -> None:
        messages: list[reports.Told] = []
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
                self._trouble = str(trouble) if generation is self._coming else self._trouble
            self.kill(generation)
            self._await_death(generation)

    def _on_report(self, generation: Generation, told: reports.Told) -> None:
        if isinstance(told, reports.Hello):
            self._on_hello(generation, told)
        elif not isinstance(told, reports.Pong):  # to have come is all that it says
            self._runs.reported(generation, told)

    def _on_hello(self, generation: Generation, hello: reports.Hello) -> None:
        generation.greet(hello, self._term)
        if generation.protocol != PROTOCOL_VERSION:
            raise ProtocolError(f"expected protocol {PROTOCOL_VERSION} of a new forkserver, got {generation.protocol}")
        if generation is self._coming and not self._ending and generation.catalogue is not None:
            self._go_live(generation, read_catalogue(generation.catalogue))

    def _check_hello(self, generation: Generation, patience: float) -> None:
        """An import that never ends must not keep the node waiting without a word."""
        if generation is self._coming and not self._ending:
            self._trouble = f"it had not loaded the task modules after {patience:g} s"
            self.kill(generation)

    # --- their deaths --------------------------------------------------------------------------------------------

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
        was_live, was_coming = generation is self._live, generation is self._coming
        is_replaced_at_once = was_live and self._coming is None and not self._ending
        if is_replaced_at_once:
            keep_trials(self._paths, generation.number)
        self._forget(generation)
        self._live = None if was_live else self._live
        self._replaced = [each for each in self._replaced if each is not generation]
        has_orphans = self._runs.lose_home(generation)
        if not has_orphans:
            generation.let_leash_go()
        if was_coming and not self._ending:
            self._not_come(generation.number)
        elif is_replaced_at_once:
            self._restart(generation.number, again=True)
        else:
            expected = self._ending or not (was_live or has_orphans)
            self._listener.forkserver_gone(generation.number, expected=expected, restart_in=None)
        self._begin_wanted()

    def _forget(self, generation: Generation) -> None:
        generation.close()
        self._generations.pop(generation.number, None)
        for path in (generation.path, self._paths.catalogue(generation.number)):
            path.unlink(missing_ok=True)
        self._paths.generation_lock(generation.number).unlink(missing_ok=True)

    def _restart(self, number: int, *, again: bool) -> None:
        """At once when it was killed; with a backoff when it could not even begin, as its imports then fail again."""
        delay = min(RESTART_MOST, RESTART_FIRST * 2.0 ** min(self._failures, 12))
        self._listener.forkserver_gone(number, expected=False, restart_in=delay)
        self._loop.later(delay, partial(self._begin_again, again=again))

    def _begin_again(self, *, again: bool) -> None:
        if self._live is None and self._coming is None and not self._ending:
            self.begin(again=again)
