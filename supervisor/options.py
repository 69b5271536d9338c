"""The settings as options of the two programs: each names its default and its variable in its help.

The options carry no default and no variable of their own: what was said where is found out in one place, `config`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import click

from chong.supervisor.keys import CONFIG, Key
from chong.supervisor.kinds import NAMES

AnyCommand = Callable[..., Any]


def configured_by(keys: Iterable[Key]) -> Callable[[AnyCommand], AnyCommand]:
    """Add `--config`, and the option of each key."""

    def add(command: AnyCommand) -> AnyCommand:
        for key in reversed((CONFIG, *keys)):
            command = option_of(key)(command)
        return command

    return add


def help_of(key: Key) -> str:
    return f"{key.meaning}; default {key.show(key.default)}. [{key.variable}]"


def option_of(key: Key) -> Callable[[AnyCommand], AnyCommand]:
    return click.option(key.option, key.name, metavar=key.kind.metavar, multiple=key.kind is NAMES, help=help_of(key))
