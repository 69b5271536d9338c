"""`chong-supervisor --check`: what can be judged of a node without starting it or making anything."""

import os
from pathlib import Path

from chong.store.buckets import BucketPolicy, format_buckets
from chong.store.errors import ConfigurationError, TablesMissing, TablesOutdated, UnreadableRow
from chong.store.open import file_of, open_store
from chong.supervisor.containment import check_setting
from chong.supervisor.holds import Holds
from chong.supervisor.identity import check_identity
from chong.supervisor.namesake import refuse_namesake
from chong.supervisor.rivals import rivals
from chong.supervisor.row_faults import bear
from chong.supervisor.settings import Settings


def preflight(settings: Settings, url: str) -> str:
    """One line that says what is right; ConfigurationError, or StoreUnavailable, for the first thing that is not.

    A supervisor that runs on this state directory is none of it: this may be tried before its restart. Task modules are
    not imported: their code may do anything, and belongs into a forkserver.
    """
    check_setting(settings.cgroup)
    paths = settings.paths
    settings.check_directories()
    settings.check_files()
    pinned = check_identity(paths.identity, settings.node)
    met, store = None, "to be made"
    if _new_file(url, paths.state) is None:
        try:
            met, store = _meet(settings, url, None if pinned is None else pinned.node_id), "found"
        except TablesOutdated:
            store = "to be upgraded"
        except TablesMissing:
            pass
    policy, doubts = (settings.agreed_policy(None), []) if met is None else met
    if not Holds(paths.holds).load(settings.node):
        doubts.append(f"{paths.holds} cannot be read, so every task will be held")
    owned = "all" if settings.owned_buckets is None else format_buckets(settings.owned_buckets)
    node = f"ok: node {settings.node}, {owned} of {policy.num_buckets} buckets, state directory {paths.state}"
    return f"{node}, {'; '.join((f'store {store}', *doubts, 'task modules are not tried'))}"


def _new_file(url: str, state: Path) -> Path | None:
    """The store's file, where the supervisor will have to make it and can."""
    file = file_of(url)
    if file is None or file.exists():
        return None
    above = file.absolute().parent
    if above != state.absolute() and not os.access(above, os.W_OK | os.X_OK):
        raise ConfigurationError(f"store {file}: expected a directory {above} that can be written to, got none")
    return file


def _meet(settings: Settings, url: str, node_id: str | None) -> tuple[BucketPolicy, list[str]]:
    """What a first contact with the store would find: how it counts, and what a start would only warn of."""
    doubts: list[str] = []

    def note(fault: UnreadableRow) -> None:
        bear(fault)
        doubts.append(str(fault))

    with open_store(url, create=False, on_unreadable=note) as store:
        store.check_serving()
        policy = settings.agreed_policy(store.deployment().num_buckets)
        refuse_namesake(store, settings.node, node_id)
        owned = settings.owned_buckets
        shared = [] if owned is None or policy.covers_all(owned) else rivals(store, settings.node, owned)
    doubts += (
        f"node {rival.node} is {'live' if rival.is_live else 'not alive'} and declares buckets "
        f"{format_buckets(rival.buckets)}, too"
        for rival in shared
    )
    return policy, doubts
