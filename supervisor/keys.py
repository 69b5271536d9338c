"""Every setting once: how it is written, its default, what it means, who reads it.

The options of both programs, the variables, the keys of chong.toml, `chong config` and the reference come from this
table. A setting that is called `max_parallel` here is the option `--max-parallel`, the variable `CHONG_MAX_PARALLEL`
and the key `max_parallel`.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from chong.supervisor.kinds import (
    BUCKETS,
    COUNT,
    DAYS,
    GIB,
    NAMES,
    PATH,
    SECONDS,
    STORE,
    TEXT,
    WHOLE,
    Kind,
    choice,
    told,
)
from chong.supervisor.nearest import suggestion
from chong.worker.options import Options

NODE_LIMIT = 100
MOST_SECONDS = 86_400
MOST_RUNS = 100_000
MOST_DAYS = 36_500
MOST_GIB = 1_000_000
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
_VARIABLE = re.compile(r"[A-Za-z_*?[][A-Za-z0-9_*?[\]!-]*\Z")


@dataclass(frozen=True, slots=True)
class Bounds:
    """A check that a number is from `least` to `most`, or with `above` more than `least`; NaN is refused, too."""

    least: int
    most: int
    above: bool = False

    def __call__(self, value: float) -> None:
        if not self.least <= value <= self.most or (self.above and value == self.least):
            raise ValueError(f"expected {self}, got {told(value)}")

    def __str__(self) -> str:
        return f"more than {self.least} and at most {self.most}" if self.above else f"{self.least} to {self.most}"


class Key(NamedTuple):
    """`default`: the value without a word on it; `absent`: what None, or nothing, then means.

    `check` raises ValueError for a value out of bounds. `everywhere`: `chong` reads it too, not the supervisor alone.
    `field`: its name in `Settings`, where that is not `name`; "" for what is no part of them.
    """

    name: str
    kind: Kind
    meaning: str
    default: Any = None
    absent: str = ""
    check: Callable[[Any], None] = lambda _: None
    everywhere: bool = False
    alias: str | None = None

    @property
    def field(self) -> str:
        return self.name if self.alias is None else self.alias

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "CHONG_" + self.name.upper()

    def show(self, value: Any) -> str:
        """The value as a person writes it; what it means to have none, where there is none."""
        return self.absent if self.absent and value in (None, ()) else self.kind.show(value)


def _check_node(name: object) -> None:
    from chong.supervisor.submission import fault_of_text  # noqa: PLC0415 - `chong --help` loads no store

    fault = fault_of_text(name, NODE_LIMIT)
    if fault is not None:
        raise ValueError(fault)
    if "/" in str(name) or name in {".", ".."}:  # it names a directory below the runtime root
        raise ValueError(f"expected a name without a slash, got {told(name)}")


def _check_num_buckets(number: int) -> None:
    from chong.store.buckets import MAX_NUM_BUCKETS  # noqa: PLC0415

    Bounds(1, MAX_NUM_BUCKETS)(number)


def _check_modules(names: tuple[str, ...]) -> None:
    for name in names:
        if not _MODULE.match(name):
            raise ValueError(f"expected modules like acme.tasks, got {told(name)}")


def _check_variables(names: tuple[str, ...]) -> None:
    for name in names:
        if not _VARIABLE.match(name) or name.startswith("CHONG_"):
            raise ValueError(f"expected variables like LANG or AWS_*, none of chong's own, got {told(name)}")


def _check_command(command: str) -> None:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(
            f"expected a command with its words quoted as in a shell, got {told(command)}: {error}"
        ) from None
    if not words:
        raise ValueError(f"expected a command, got {told(command)}")


def _check_cgroup(place: str) -> None:
    if place not in {"auto", "none"} and not place.startswith("/"):
        advice = suggestion(place, ("auto", "none"), "")
        raise ValueError(f"expected auto, none or an absolute path, got {told(place)}{advice and ', '}{advice}")


CONFIG = Key(
    "config",
    Kind("FILE", "a path", PATH.read),
    "The configuration file",
    absent="/etc/chong/chong.toml for root and for who may write to /var/lib/chong, else chong/chong.toml in the XDG "
    "configuration directory, if it is there",
)
"""Where the keys below may be read from; not one of them."""

_TABLE = (
    Key(
        "db", STORE, "The store: a file, sqlite:///PATH or postgresql://USER@HOST/DATABASE", everywhere=True, alias="",
        absent="chong.db in the state directory",
    ),
    Key(
        "node", TEXT, "Name of this node", everywhere=True, check=_check_node,
        absent="the one pinned in the state directory, else the host's name",
    ),
    Key("owned_buckets", BUCKETS, "Buckets of this node, like 0-15,20", absent="all", everywhere=True),
    Key(
        "num_buckets", WHOLE, "Number of buckets of the deployment", everywhere=True, check=_check_num_buckets,
        absent="the store's, 64 in a new one",
    ),
    Key(
        "state_dir", PATH, "State directory", everywhere=True,
        absent="/var/lib/chong, else chong in the XDG state directory",
    ),
    Key(
        "runtime_dir", PATH, "Directory of the sockets", everywhere=True,
        absent="/run/chong/NODE, or run in a state directory of one's own",
    ),
    Key(
        "tasks", NAMES, "Modules with tasks beside the installed ones, separated by commas", (), "none",
        _check_modules, alias="modules",
    ),
    Key("max_parallel", WHOLE, "Runs at one time on this node", 16, check=Bounds(1, MOST_RUNS)),
    Key(
        "max_parallel_per_bucket", WHOLE, "Runs at one time in each bucket", absent="no limit",
        check=Bounds(1, MOST_RUNS),
    ),
    Key("breaker_crashes", COUNT, "How many crashes in 10 minutes hold a task's name", 5, check=Bounds(1, MOST_RUNS)),
    Key(
        "lease_seconds", SECONDS, "How long a lease lasts without renewal", 30.0,
        check=Bounds(0, MOST_SECONDS, above=True),
    ),
    Key(
        "renew_seconds", SECONDS, "How often leases are renewed; at most a third of their length",
        absent="a sixth of the lease", check=Bounds(0, MOST_SECONDS, above=True),
    ),
    Key(
        "poll_seconds", SECONDS, "How often commands are looked for", 1.0,
        check=Bounds(0, MOST_SECONDS, above=True),
    ),
    Key(
        "import_seconds", SECONDS, "How long the task modules may take to be imported", 60.0,
        check=Bounds(0, MOST_SECONDS, above=True),
    ),
    Key(
        "drain", SECONDS, "How long running tasks may go on after SIGTERM", 30.0, alias="drain_seconds",
        check=Bounds(0, MOST_SECONDS),
    ),
    Key(
        "pass_env", NAMES, "Variables that tasks see beside the basic ones, like AWS_*, separated by commas", (),
        "none", _check_variables,
    ),
    Key(
        "cgroup", TEXT, "Where each run gets a cgroup: a cgroup v2 directory of our own, auto for the one that "
        "systemd has delegated, or none", "auto", check=_check_cgroup,
    ),
    Key(
        "keep_logs", DAYS, "How long logs are kept", 30.0, check=Bounds(0, MOST_DAYS, above=True),
    ),
    Key(
        "keep_logs_gib", GIB, "How much all logs may take; the oldest go first", 10.0, check=Bounds(0, MOST_GIB),
    ),
    Key(
        "keep_tasks", DAYS, "How long finished tasks stay in the store", check=Bounds(0, MOST_DAYS, above=True),
    ),
    Key(
        "keep_spool", DAYS, "How long what was set aside because it cannot be read is kept", 30.0,
        check=Bounds(0, MOST_DAYS, above=True),
    ),
    Key(
        "keep_submissions", DAYS, "How long parameters of finished tasks are kept on the node, for chong rerun", 7.0,
        check=Bounds(0, MOST_DAYS, above=True),
    ),
    Key(
        "alert_command", TEXT, "Command that is given each alert as JSON on its standard input", absent="none",
        check=_check_command,
    ),
    Key(
        "alert_seconds", SECONDS, "How often the deployment is looked over; the same on all nodes", 60.0,
        check=Bounds(0, MOST_SECONDS, above=True),
    ),
    Key(
        "orphan_after", SECONDS, "How long a task must not have changed to count as left alone, or as stuck", 600.0,
        check=Bounds(0, MOST_SECONDS, above=True),
    ),
    Key("log_format", choice("auto", "console", "json"), "How the log looks", "auto", alias=""),
)  # fmt: skip

KEYS = {key.name: key for key in _TABLE}
SHARED = {key.name: key for key in _TABLE if key.everywhere}
FIELDS = {key.field: key for key in _TABLE if key.field}
DEFAULTS = {field: key.default for field, key in FIELDS.items()}
"""By field of `Settings`."""


def unknown(word: str) -> str:
    """How an error goes on about a word that is no key."""
    elsewhere = "it is an option of @task" if word in Options.__dataclass_fields__ else "chong config show lists them"
    return f"unknown key, {suggestion(word, KEYS, elsewhere)}"
