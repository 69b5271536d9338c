"""What could stand where a command wants a task's id or name: asked of the store when a shell completes a word.

A shell shows whatever is written to it, and its user waits: so what goes wrong is no answer, and so is what takes long.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from chong.cli.invocation import Invocation
    from chong.store.contract import TaskStore
    from chong.store.model import NodeRecord
    from chong.store.states import Status

ANSWER_SECONDS = 1.0
"""Seconds after which the store counts as away."""
MOST = 100
"""So many of the newest are more than anybody reads."""
_WORD = re.compile(r"[\w.:@-]+\Z", re.ASCII)
"""What no shell takes for anything but a word."""

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
Look = Callable[["Invocation", "TaskStore", str], "Iterable[CompletionItem]"]


def _asked(look: Look) -> Complete:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        given = ctx.params.get(parameter.name or "")
        taken = set(given) if parameter.nargs == -1 and given else set()
        return [item for item in _found(look, ctx.find_root(), incomplete) if item.value not in taken]

    return complete


def _found(look: Look, root: click.Context, incomplete: str) -> "list[CompletionItem]":
    found: list[CompletionItem] = []
    # A thread, because a call of the store may wait in C, where no signal ends it; the process does not wait for it.
    asking = threading.Thread(target=_ask, args=(look, root, incomplete, found), daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    return [] if asking.is_alive() else found


def _ask(look: Look, root: click.Context, incomplete: str, found: "list[CompletionItem]") -> None:
    from chong.cli.invocation import read_invocation  # noqa: PLC0415 - only a shell asks for it
    from chong.store.contract import ignore  # noqa: PLC0415
    from chong.store.open import open_store  # noqa: PLC0415

    with suppress(Exception):  # wherever the store is, and whatever the configuration says, this is no place to tell
        call = read_invocation({name: value for name, value in root.params.items() if value is not None})
        with open_store(call.url, create=False, on_unreadable=ignore) as store:
            found += [item for item in look(call, store, incomplete) if _WORD.match(item.value)]


def ids(choose: "Callable[[], Iterable[Status]] | None" = None) -> Complete:
    """Of the newest tasks in one of these statuses, all without: the end of the id as `chong ps` shows it.

    Whoever has begun to type the id from its beginning gets it whole.
    """

    def look(_: "Invocation", store: "TaskStore", incomplete: str) -> "Iterator[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        from chong.cli.find import TAIL  # noqa: PLC0415
        from chong.cli.render import escape  # noqa: PLC0415
        from chong.store.query import TaskQuery  # noqa: PLC0415

        statuses = None if choose is None else frozenset(choose())
        for task in store.query(TaskQuery(statuses=statuses, limit=MOST)):
            tail = task.id[-TAIL:]
            value = tail if tail.startswith(incomplete) else task.id
            if value.startswith(incomplete):
                yield CompletionItem(value, help=escape(f"{task.status} {task.name}"))

    return _asked(look)


def open_ids() -> Complete:
    def choose() -> "Iterable[Status]":
        from chong.store.states import RUNS, WAITING  # noqa: PLC0415

        return RUNS | WAITING

    return ids(choose)


def values(found: "Callable[[], Iterable[str]]") -> Complete:
    """Of words that need no store."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        return [CompletionItem(word) for word in found() if word.startswith(incomplete)]

    return complete


def statuses() -> "Iterable[str]":
    from chong.store.states import Status  # noqa: PLC0415

    return Status


def issuers() -> "Iterable[str]":
    from chong.worker.issuer import default_issuer  # noqa: PLC0415

    return [default_issuer()]


def kept(found: "Callable[[TaskStore], Iterable[str | None]]") -> Complete:
    """Of words that stand in the store, each once."""

    def look(_: "Invocation", store: "TaskStore", incomplete: str) -> "Iterator[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        for word in dict.fromkeys(found(store)):
            if word is not None and word.startswith(incomplete):
                yield CompletionItem(word)

    return _asked(look)


def nodes(choose: "Callable[[NodeRecord], bool] | None" = None) -> Complete:
    """Those that the store knows; `choose`: only some of them."""

    def look(_: "Invocation", store: "TaskStore", incomplete: str) -> "Iterator[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        from chong.cli.render import escape  # noqa: PLC0415
        from chong.cli.standing import state_of  # noqa: PLC0415

        for node in store.nodes():
            if node.node.startswith(incomplete) and (choose is None or choose(node)):
                yield CompletionItem(node.node, help=escape(f"{state_of(node)} on {node.host}"))

    return _asked(look)


def tags(store: "TaskStore") -> "Iterable[str]":
    return (tag for entry in store.catalogue() for tag in entry.options.get("tags", ()))


def keys(store: "TaskStore") -> "Iterable[str | None]":
    from chong.store.query import TaskQuery  # noqa: PLC0415

    return (task.bucket_key for task in store.query(TaskQuery(limit=MOST)))


def gone_nodes() -> Complete:
    """Those that can be forgotten."""
    return nodes(lambda node: not node.is_live)


def held_targets(scope: str) -> Complete:
    """Buckets, names or nodes that the store holds."""

    def look(_: "Invocation", store: "TaskStore", incomplete: str) -> "Iterator[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        from chong.cli.render import escape  # noqa: PLC0415

        for hold in store.holds().holds:
            if hold.scope == scope and hold.target.startswith(incomplete):
                yield CompletionItem(hold.target, help=escape(hold.text))

    return _asked(look)


def names_everywhere() -> Complete:
    """Of the tasks that any node defines."""

    def look(_: "Invocation", store: "TaskStore", incomplete: str) -> "Iterator[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        known = {entry.name for entry in store.catalogue() if entry.options}
        return (CompletionItem(name) for name in sorted(known) if name.startswith(incomplete))

    return _asked(look)


def names(*, held: bool = False) -> Complete:
    """Of this node's tasks; `held`: of what does not start there."""

    def look(call: "Invocation", store: "TaskStore", incomplete: str) -> "Iterator[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        from chong.cli.render import escape  # noqa: PLC0415

        for entry in store.catalogue(call.node):
            is_wanted = entry.hold is not None if held else bool(entry.options)
            if is_wanted and entry.name.startswith(incomplete):
                told = entry.hold or str(entry.options.get("parameters", ""))
                yield CompletionItem(entry.name, help=escape(told))

    return _asked(look)
