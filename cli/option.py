"""Options that several commands of `chong` share."""

from collections.abc import Callable
from typing import Any

import click

from chong.supervisor.options import AnyCommand, option, variable_of

__all__ = ["json_option", "option", "variable_of"]


def json_option(function: AnyCommand) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)
