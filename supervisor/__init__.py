"""A node: the supervisor as an object, and the client that asks it for things through the store."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chong.supervisor.client import Client
    from chong.supervisor.controller import Controller
    from chong.supervisor.settings import Settings

__all__ = ["Client", "Controller", "Settings"]


def __getattr__(name: str) -> object:
    # Loaded on demand: the command line needs single modules of this package, and no supervisor.
    if name == "Client":
        from chong.supervisor.client import Client  # noqa: PLC0415

        return Client
    if name == "Controller":
        from chong.supervisor.controller import Controller  # noqa: PLC0415

        return Controller
    if name == "Settings":
        from chong.supervisor.settings import Settings  # noqa: PLC0415

        return Settings
    raise AttributeError(f"module 'chong.supervisor' has no attribute {name!r}")
