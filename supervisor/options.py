"""Options of chong's commands: each has an environment variable, derived from its name and named in its help."""

from collections.abc import Callable, Iterable
from typing import Any

import click

from chong.worker.duration import parse_duration

AnyCommand = Callable[..., Any]


def variable_of(name: str) -> str:
    return "CHONG_" + name.lstrip("-").replace("-", "_").upper()


def option(name: str, text: str, **settings: Any) -> Callable[[AnyCommand], AnyCommand]:
    """Add the option `name`, explained by `text`, which may also be given by its variable."""
    variable = variable_of(name)
    return click.option(name, envvar=variable, help=f"{text} [{variable}]", **settings)


STORE = "The store: a file or sqlite:///PATH; default chong.db in the state directory."
NODE = "Name of this node; default the one pinned in the state directory, else the host's name."
OWNED_BUCKETS = "Buckets of this node, like 0-15,20; default all."
NUM_BUCKETS = "Number of buckets of the deployment; default the store's, 64 in a new one."
TASKS = "Modules with tasks beside the installed ones, separated by commas."
STATE_DIR = "State directory; default /var/lib/chong, else in the XDG state directory."
RUNTIME_DIR = "Directory of the sockets; default /run/chong/NODE, or run in a state directory of one's own."


def read_duration(ctx: click.Context, param: click.Parameter, value: Any) -> float:
    """The callback of an option whose value is a length of time like 30, 30s or 10m: seconds."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def read_modules(lists: Iterable[str]) -> tuple[str, ...]:
    """The names of modules out of lists with commas."""
    return tuple(name for names in lists for name in names.replace(" ", "").split(",") if name)
