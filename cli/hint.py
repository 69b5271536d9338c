"""What may be behind an error that the error itself cannot know: each in a line of its own, below it."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from chong.cli.candidates import ANSWER_SECONDS
from chong.cli.invocation import Invocation
from chong.cli.standing import state_of
from chong.store.contract import ignore
from chong.store.errors import StoreMissing
from chong.store.few import few
from chong.store.model import NodeRecord
from chong.store.open import open_store
from chong.supervisor.control_client import SupervisorUnreachable
from chong.supervisor.machine import host_name
from chong.supervisor.nearest import suggestion
from chong.worker import whereabouts


def hints(error: Exception, call: object) -> Iterator[str]:
    """`call`: what stood before the command, where that was read at all."""
    if not isinstance(call, Invocation):
        return
    if isinstance(error, SupervisorUnreachable):
        yield from _of_node(call)
        yield from _of_user(call)
    elif isinstance(error, StoreMissing):
        yield from _of_file(call, "db", "state_dir")


def _of_node(call: Invocation) -> Iterator[str]:
    """That there is none of that name, or that it is not there now, where the store knows."""
    known = {node.node: node for node in _known_nodes(call)}
    found = known.get(call.node)
    if found is not None and not found.is_live:
        yield f"node {call.node} is {state_of(found)}, it was last on {found.host}; chong nodes shows which are live"
    elif found is None and known:
        guess = suggestion(call.node, known, f"there are {few(sorted(known))}")
        yield f"no node is called {call.node!r}; {guess.rstrip('?')}; chong nodes shows them"
    elif found is not None and found.host != host_name():
        yield f"node {call.node} is live on {found.host}, and this is {host_name()}; what is asked of it is asked there"


def _known_nodes(call: Invocation) -> list[NodeRecord]:
    """Empty where the store does not say so at once: it may be what is wrong, too."""
    found: list[NodeRecord] = []

    def ask() -> None:
        with suppress(Exception), open_store(call.url, create=False, on_unreadable=ignore) as store:
            found.extend(store.nodes())

    # As for completion: a call of the store may wait in C, and nobody waits for a hint.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    return [] if asking.is_alive() else found


def _of_user(call: Invocation) -> Iterator[str]:
    """That this machine's supervisor is spoken to by its own user, where that is not who asks."""
    state = whereabouts.SYSTEM_STATE
    is_named = any(call.config.find(place) for place in ("state_dir", "runtime_dir"))
    if not is_named and call.config.state_dir != state and _may_be_there(state):
        yield f"{state} is another user's: ask its supervisor as that user, or as root; user {os.geteuid()} may not"


def _of_file(call: Invocation, *places: str) -> Iterator[str]:
    """That the system's chong.toml was passed over, where it might have named one of the `places`."""
    system, state = whereabouts.SYSTEM_CONFIG, whereabouts.SYSTEM_STATE
    is_named = call.config.file is not None or any(call.config.find(place) for place in places)
    if is_named or whereabouts.default_config() == system or not _may_be_there(system):
        return
    why = f"{system} was not read: it is for root and for who may write to {state}, and user {os.geteuid()} may not"
    if os.access(system, os.R_OK):
        yield f"{why}; --config {system} reads it"
    else:
        yield f"{why}, nor read the file; become a user who may, or name the store by --db or CHONG_DB"


def _may_be_there(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass  # its directory is shut
    return True
