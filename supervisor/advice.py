"""The kinds of trouble that a look at a deployment finds: what to do about each, and how grave it is."""

import shlex
from collections.abc import Mapping
from enum import StrEnum

from chong.store.model import HoldScope


class Kind(StrEnum):
    DUPLICATE = "duplicate"
    UNCOVERED = "uncovered"
    ORPHAN = "orphan"
    OUTSIDE = "outside"
    STUCK = "stuck"
    UNCLAIMED = "unclaimed"
    HELD = "held"
    BROKEN = "broken"
    CLOCK = "clock"
    VERSIONS = "versions"
    CONFIG = "config"
    HOSTS = "hosts"
    LIBRARY = "library"


GRAVE = frozenset({Kind.DUPLICATE, Kind.UNCOVERED, Kind.ORPHAN, Kind.STUCK, Kind.UNCLAIMED, Kind.BROKEN, Kind.HOSTS})
"""Work does not run and nobody wants that, or the store is in danger: an error in the log, the others are a warning."""

ADVICE: Mapping[str, str] = {
    Kind.DUPLICATE: "give each bucket to one node by owned_buckets, and restart the nodes that are to give it up; "
    "chong forget for a node that is gone for good",
    Kind.UNCOVERED: "start a node that owns them; what a dead node has accepted nobody else can run: "
    "chong reconcile and then chong forget close it, if that node is gone for good",
    Kind.ORPHAN: "start the node again; if it is gone for good, chong reconcile and then chong forget",
    Kind.OUTSIDE: "nothing, if the node has given these buckets away: it alone has the parameters, and runs what it "
    "had accepted; else give them back to it by owned_buckets",
    Kind.STUCK: "look at the node's log and at chong tasks",
    Kind.UNCLAIMED: "look at the node's log: it is alive, and does not look for commands",
    Kind.HELD: "when its reason is gone, chong unhold, or chong drain --undo for a node",
    Kind.BROKEN: "mend the module, then chong reload on the node",
    Kind.CLOCK: "set the clock of its machine, and keep it by NTP",
    Kind.VERSIONS: "install one version of chong on all nodes",
    Kind.CONFIG: "put the same chong.toml on every machine, and restart the supervisors that have read another one",
    Kind.HOSTS: "one SQLite file is for one machine: use a PostgreSQL store for several",
    Kind.LIBRARY: "upgrade SQLite to 3.51.3 or newer, and restart what uses it",
}
"""What to do about each kind, where nothing more exact is known of the single case."""


def to_release(scope: HoldScope, target: str) -> str:
    """The command that undoes a hold in the store."""
    words = {
        HoldScope.BUCKET: ("unhold", "--bucket"),
        HoldScope.NAME: ("unhold", "--name"),
        HoldScope.NODE: ("drain", "--undo"),
    }[scope]
    return f"when its reason is gone, {_command(*words, target)}"


def to_release_here(name: str, node: str) -> str:
    """The command that undoes a node's own hold; it belongs to that node's machine."""
    return f"when its reason is gone, on {node}: {_command('unhold', name)}"


def to_replace(node: str) -> str:
    """For a node that is not alive, and has work."""
    gone = f"chong reconcile and then {_command('forget', '--dry-run', node)}"
    return f"start the node again; if it is gone for good, {gone}"


def to_close(node: str) -> str:
    """For a node that the store does not know any more, and has work: it cannot be forgotten once more."""
    return f"chong reconcile calls its runs lost, which ends requests for them; what waits needs {node} to start again"


def _command(*words: str) -> str:
    """To be typed as it is; the last word may be any name."""
    *options, name = words
    last = options[-1] if options else ""
    # A name that begins with a dash would be taken for an option, but for the value of one.
    divider = ["--"] if name.startswith("-") and last in {"unhold", "--undo", "--dry-run"} else []
    return shlex.join(["chong", *options, *divider, name])
