"""Alerts that this supervisor raised or cleared, on their way to the log and to the operator's command."""

from collections.abc import Sequence
from functools import partial

import structlog

from chong.store.alert import Alert, AlertChanges, Finding
from chong.store.view import as_json
from chong.supervisor.advice import ADVICE, GRAVE
from chong.supervisor.alert_hook import AlertHook
from chong.supervisor.loop import Loop


def tell_alerts(
    changes: AlertChanges,
    found: Sequence[Finding],
    *,
    node: str,
    hook: AlertHook,
    loop: Loop,
    log: structlog.typing.FilteringBoundLogger,
) -> None:
    """To the log and to the operator's command, each change once: the store gives it to one supervisor alone."""
    advice = {(finding.kind, finding.subject): finding.advice for finding in found}
    for alert in changes.raised:
        loop.call(partial(_log_raised, log, alert))
        hook.put(_message("raised", node, alert, advice.get((alert.kind, alert.subject)) or ADVICE.get(alert.kind)))
    for alert in changes.cleared:
        loop.call(partial(log.info, "alert_cleared", **_fields(alert)))
        hook.put(_message("cleared", node, alert, None))


def _log_raised(log: structlog.typing.FilteringBoundLogger, alert: Alert) -> None:
    say = log.error if alert.kind in GRAVE else log.warning
    say("alert_raised", **_fields(alert))


def _fields(alert: Alert) -> dict[str, object]:
    return {"alert": alert.id, "kind": alert.kind, "subject": alert.subject, "detail": alert.detail}


def _message(event: str, node: str, alert: Alert, advice: str | None) -> dict[str, object]:
    return {"event": event, "reported_by": node, **as_json(alert), "advice": advice}
