"""Real processes at one store, which begin together."""

import multiprocessing
import time
from collections.abc import Callable, Iterable
from threading import Barrier
from typing import Any

from chong.store.contract import TaskStore
from chong.store.errors import StoreUnavailable
from chong.store.open import open_store

LIMIT = 60.0
"""Seconds for one step of a process; whatever is longer, only a failure takes."""
ANSWER_SECONDS = 240.0
"""For all that one has to do: thousands of steps, on a machine that may be busy."""
CONTEXT = multiprocessing.get_context("forkserver")
"""Forked from a process that has loaded what all of them need, and holds neither thread nor connection."""
CONTEXT.set_forkserver_preload(["chong.store.postgres", "chong.store.specimens", "chong.store.sqlite"])

Part = Callable[[TaskStore, Barrier], Any]
"""What a process does once it has reached the store; the barrier lets all of them through at the same moment."""


class Patient:
    """A store whose calls are made again as long as it is away: a write that was done is done."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def call(*args: Any, **facts: Any) -> Any:
            end = time.monotonic() + LIMIT
            while True:
                try:
                    return method(*args, **facts)
                except StoreUnavailable:
                    if time.monotonic() > end:
                        raise

        return call


def run_part(part: Part, place: str, *, is_patient: bool, barrier: Barrier, answers: Any) -> None:
    """What a child process does: its part, and the answer."""
    try:
        with open_store(place, create=False) as store:
            answers.send(part(Patient(store) if is_patient else store, barrier))
    except BaseException as error:
        barrier.abort()
        answers.send(error)
        raise


def run_all(place: str, parts: Iterable[Part], *, meanwhile: Callable[[list[Any]], None] | None = None) -> list[Any]:
    """Every part in a process of its own, all at once; their answers in order.

    meanwhile: what is done to them and to their store, which may be away in that time; without it, a call that fails
    is a failure.
    """
    parts = list(parts)
    barrier = CONTEXT.Barrier(len(parts), timeout=LIMIT)
    pipes = [CONTEXT.Pipe(duplex=False) for _ in parts]
    children = [
        CONTEXT.Process(
            target=run_part,
            args=(part, place),
            kwargs={"is_patient": meanwhile is not None, "barrier": barrier, "answers": sender},
            daemon=True,
        )
        for part, (_, sender) in zip(parts, pipes, strict=True)
    ]
    try:
        for child in children:
            child.start()
        if meanwhile is not None:
            meanwhile(children)
        answers = [receiver.recv() if receiver.poll(ANSWER_SECONDS) else "silent" for receiver, _ in pipes]
        for child in children:
            child.join(LIMIT)
        assert [0] * len(parts) == [child.exitcode for child in children], answers
    finally:
        for child in children:
            if child.is_alive():
                child.kill()
                child.join()
    return answers
