"""The settings as options of the two programs: each names its default and its variable in its help.

The options carry no default and no variable of their own: what was said where is found out in one place, `config`.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import click

from chong.supervisor.keys import CONFIG, Key
from chong.supervisor.kinds import NAMES
from chong.supervisor.nearest import suggestion

AnyCommand = Callable[..., Any]
NOTHING: Mapping[str, AnyCommand] = MappingProxyType({})


def configured_by(
    keys: Iterable[Key], completions: Mapping[str, AnyCommand] = NOTHING
) -> Callable[[AnyCommand], AnyCommand]:
    """Add `--config`, and the option of each key; `completions`: by key what a shell may offer as its value."""

    def add(command: AnyCommand) -> AnyCommand:
        for key in reversed((CONFIG, *keys)):
            command = option_of(key, completions.get(key.name))(command)
        return command

    return add


def help_of(key: Key) -> str:
    return f"{key.meaning}; default {key.show(key.default)}. [{key.variable}]"


def unknown_option(error: click.NoSuchOption) -> str:
    """What to say of an option that the command does not have."""
    ctx = error.ctx
    if ctx is None:
        return f"unknown option {error.option_name}; see --help"
    known = [name for parameter in ctx.command.get_params(ctx) for name in parameter.opts if name.startswith("--")]
    return (
        f"unknown option {error.option_name}; {suggestion(error.option_name, known, f'see {ctx.command_path} --help')}"
    )


def option_of(key: Key, completion: AnyCommand | None = None) -> Callable[[AnyCommand], AnyCommand]:
    return click.option(
        key.option,
        key.name,
        metavar=key.kind.metavar,
        multiple=key.kind is NAMES,
        help=help_of(key),
        shell_complete=completion,
    )
