"""The valid word that a mistyped one is closest to, for commands."""

from chong.supervisor.nearest import nearest, suggestion

__all__ = ["nearest", "suggestion"]
