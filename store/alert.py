"""What is wrong with a deployment, and what the store remembers of it."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something is wrong now. `kind` and `subject` say what with what, and stay the same while it lasts.

    advice: what to do about it; the store does not keep it.
    """

    kind: str
    subject: str
    detail: str
    advice: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One appearance of a finding, from the first supervisor that saw it until none sees it any more."""

    id: int
    kind: str
    subject: str
    detail: str
    first_seen: datetime
    last_seen: datetime
    cleared_at: datetime | None = None
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AlertChanges:
    """What one report has changed; no other report is given the same."""

    raised: tuple[Alert, ...]
    cleared: tuple[Alert, ...]
