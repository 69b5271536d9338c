"""A task module that changes at import whatever it can."""

from place_tasks import STATE, spoil

spoil()
STATE["count"] = 0
