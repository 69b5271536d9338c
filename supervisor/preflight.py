"""`chong-supervisor --check`: what can be judged of a node without starting it or making anything."""

import os
from pathlib import Path

from chong.store.buckets import format_buckets
from chong.store.errors import ConfigurationError, TablesMissing
from chong.store.open import file_of, open_store
from chong.supervisor.containment import check_setting
from chong.supervisor.files import check_private
from chong.supervisor.identity import check_identity
from chong.supervisor.settings import Settings


def preflight(settings: Settings, url: str) -> str:
    """One line that says what is right; ConfigurationError, or StoreUnavailable, for the first thing that is not.

    Task modules are not imported: their code may do anything, and belongs into a forkserver.
    """
    check_setting(settings.cgroup)
    paths = settings.paths
    for directory in (paths.state, paths.runtime):
        check_private(directory)
    settings.check_files()
    check_identity(paths.identity, settings.node)
    is_new, recorded = _new_file(url, paths.state) is not None, None
    if not is_new:
        try:
            recorded = _recorded_buckets(url)
        except TablesMissing:
            is_new = True
    policy = settings.agreed_policy(recorded)
    owned = "all" if settings.owned_buckets is None else format_buckets(settings.owned_buckets)
    return (
        f"ok: node {settings.node}, {owned} of {policy.num_buckets} buckets, state directory {paths.state}, "
        f"store {'to be made' if is_new else 'found'}; task modules are not tried"
    )


def _new_file(url: str, state: Path) -> Path | None:
    """The store's file, where the supervisor will have to make it and can."""
    file = file_of(url)
    if file is None or file.exists():
        return None
    above = file.absolute().parent
    if above != state.absolute() and not os.access(above, os.W_OK | os.X_OK):
        raise ConfigurationError(f"store {file}: expected a directory {above} that can be written to, got none")
    return file


def _recorded_buckets(url: str) -> int | None:
    with open_store(url, create=False) as store:
        store.check_serving()
        return store.deployment().num_buckets
