"""Options that several commands of `chong` share."""

import functools
from collections.abc import Callable
from typing import Any

import click

from chong.cli import candidates
from chong.cli.values import read_duration, reads
from chong.store.errors import ConfigurationError
from chong.supervisor.submission import REASON_LIMIT, check_text
from chong.worker.issuer import default_issuer
from chong.worker.options import NAME_LIMIT

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

WAIT_SECONDS = 60.0
"""Seconds that --wait lasts when nobody says how many."""


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)


def params_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The parameters of a task: `assignments` as they were typed, and `params`, a JSON object."""
    assigned = click.option(
        "-p",
        "assignments",
        metavar="NAME=VALUE",
        multiple=True,
        help="A parameter, read by its annotation: 5, true, 2026-12-31, [1, 2].",
    )
    return assigned(
        click.option("--params", metavar="JSON", help="All parameters as a JSON object; -p adds to it.")(function)
    )


def _who(name: str) -> Decorator:
    """`issued_by` is always somebody: whoever is named, else the user of this process."""
    return click.option(
        name,
        "issued_by",
        metavar="WHO",
        callback=_issuer,
        shell_complete=candidates.values(candidates.issuers),
        help="Who says so; default USER@HOST." if name == "--by" else "Who asks; default USER@HOST.",
    )


def issuer_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return _who("--as")(function)


def resolver_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `issuer_option`, where --as says something else."""
    return _who("--by")(function)


def reason_option(use: str) -> Decorator:
    """`use`: what becomes of the reason."""
    return click.option("--reason", callback=_reason, help=f"Why; {use}.")


def wait_options(use: str) -> Decorator:
    """The command gets one `timeout`: the seconds to wait, None for not waiting. `use`: what --wait is for."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def waiting(*given: Any, wait: bool, timeout: float | None, **said: Any) -> Any:
            if timeout is not None and not wait:
                raise ConfigurationError("--timeout: expected it beside --wait, got it alone")
            return function(*given, timeout=(WAIT_SECONDS if timeout is None else timeout) if wait else None, **said)

        lasting = f"How long --wait lasts; default {WAIT_SECONDS:.0f}s."
        option = click.option("--timeout", metavar="DURATION", callback=reads(read_duration), help=lasting)
        return click.option("--wait", is_flag=True, help=use)(option(waiting))

    return add


def _issuer(_: click.Context, option: click.Parameter, said: str | None) -> str:
    if said is None:
        return default_issuer()
    # An empty one is no wish for the default: mostly it is a variable of a script that is not set.
    check_text(option.opts[0], said, NAME_LIMIT)
    return said


def _reason(_: click.Context, __: click.Parameter, said: str | None) -> str | None:
    if said is not None:
        check_text("--reason", said, REASON_LIMIT)
    return said
