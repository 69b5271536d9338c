"""Options that several commands of `chong` share."""

from collections.abc import Callable
from typing import Any

import click


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)
