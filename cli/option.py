"""Options that several commands of `chong` share."""

from collections.abc import Callable
from typing import Any

import click

from chong.cli import candidates


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)


def issuer_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--as",
        "issued_by",
        metavar="WHO",
        shell_complete=candidates.values(candidates.issuers),
        help="Who asks; default USER@HOST.",
    )(function)
