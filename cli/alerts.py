"""`chong alerts` and `chong ack`: the alerts of the deployment, and who looks after them."""

from collections.abc import Sequence

import click

from chong.cli.invocation import Invocation
from chong.cli.option import issuer_option, json_option
from chong.cli.reach import reach
from chong.cli.render import Cell, Column, escape
from chong.cli.screen import print_json, print_table
from chong.cli.times import span, stamp, utc_now
from chong.store.alert import Alert
from chong.store.errors import ConfigurationError, Refused
from chong.supervisor.advice import Kind
from chong.supervisor.nearest import suggestion

_COLUMNS = (
    Column("ID", right=True),
    Column("KIND"),
    Column("SUBJECT", floor=12),
    Column("SINCE", right=True),
    Column("STATE"),
    Column("ACKNOWLEDGED", floor=8, spare=2),
    Column("DETAIL", floor=16, spare=1),
)


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also those that are over.")
@json_option
@click.pass_obj
def alerts(call: Invocation, *, everything: bool, as_json: bool) -> None:
    """Show the alerts that the supervisors have raised.

    Newest first. An alert is over when no supervisor has found its cause for two and a half of their looks
    (alert_seconds).
    """
    with reach(call) as reached:
        found = reached.store.alerts(cleared=everything)
    return print_json(found) if as_json else print_table(_COLUMNS, [_cells(alert) for alert in found])


def _cells(alert: Alert) -> list[Cell | str]:
    return [
        str(alert.id),
        alert.kind,
        alert.subject,
        f"{span(utc_now() - alert.first_seen)} ago",
        Cell("open", "bad") if alert.cleared_at is None else Cell("over"),
        "" if alert.acknowledged_by is None else f"{alert.acknowledged_by} {stamp(alert.acknowledged_at)}",
        alert.detail,
    ]


@click.command()
@click.argument("words", metavar="ID | KIND SUBJECT", nargs=-1, required=True)
@issuer_option
@click.pass_obj
def ack(call: Invocation, *, words: tuple[str, ...], issued_by: str) -> None:
    """Take an open alert on.

    It stays open, and everybody sees who looks after it. The first one who does so stands, and a later one is told.
    What comes again after it was over is another alert.
    """
    _check(words)
    with reach(call) as reached:
        found = _named(words, reached.store.alerts())
        taken = reached.store.acknowledge_alert(found.id, issued_by)
    if taken is None or taken.acknowledged_by is None:
        raise Refused(f"alert {found.id} is over")
    is_first = found.acknowledged_by is None and taken.acknowledged_by == issued_by
    already = "" if is_first else f" already by {taken.acknowledged_by} at {stamp(taken.acknowledged_at)}"
    print(escape(f"{taken.id} {taken.kind} {taken.subject}: acknowledged{already or f' by {issued_by}'}"))


def _check(words: Sequence[str]) -> None:
    kinds = [kind.value for kind in Kind]
    if len(words) == 1 and not words[0].isdecimal():
        raise ConfigurationError(f"expected the ID of an alert, or a KIND and a SUBJECT, got {words[0][:40]!r}")
    if len(words) > 1 and words[0] not in kinds:
        advice = suggestion(words[0], kinds, f"expected one of {', '.join(kinds)}")
        raise ConfigurationError(f"unknown kind {words[0][:40]!r}; {advice}")


def _named(words: Sequence[str], found: Sequence[Alert]) -> Alert:
    """The subject may be quoted or not: its words are put together."""
    kind, subject = words[0], " ".join(words[1:])
    for alert in found:
        if (str(alert.id) == kind and not subject) or (alert.kind, alert.subject) == (kind, subject):
            return alert
    among = [alert.subject for alert in found if alert.kind == kind] if subject else [str(alert.id) for alert in found]
    advice = suggestion(subject or kind, among, "chong alerts lists them")
    raise Refused(f"no open alert {' '.join(words)}; {advice}")
