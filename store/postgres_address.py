"""The address of a PostgreSQL database: what it says, and how it is shown without its secrets."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import conninfo

from chong.store.errors import ConfigurationError

_HIGHEST_PORT = 65_535

# The address may say otherwise.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 3,
    "application_name": "chong",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def parsed(address: str) -> dict[str, Any]:
    """The parts of an address; what is wrong with one is told without showing it: a password may be anywhere in it."""
    try:
        parts = _DEFAULTS | conninfo.conninfo_to_dict(address)
        ports = [int(port) for port in str(parts.get("port") or "").split(",") if port]
        if "@" in f"{parts.get('host', '')}{parts.get('dbname', '')}":
            raise ValueError("an @ or / of the password was taken for its end")
    except (psycopg.ProgrammingError, ValueError) as error:
        raise ConfigurationError(
            "store postgresql:...: expected postgresql://user@host:5432/database?option=value, got something else; "
            "a / @ : or ? within a name or password is written as %2F %40 %3A %3F"
        ) from error
    wrong = [port for port in ports if not 1 <= port <= _HIGHEST_PORT]
    if wrong:
        # Without a user before it, what stands behind the colon may be a password.
        got = wrong[0] if parts.get("user") else "something else"
        raise ConfigurationError(f"store postgresql:...: expected a port from 1 to {_HIGHEST_PORT}, got {got}")
    return parts


def label_of(parts: Mapping[str, Any]) -> str:
    """The address without anything secret, for people."""
    user = f"{quote(str(parts['user']), safe='')}@" if parts.get("user") else ""
    hosts = str(parts.get("host") or parts.get("hostaddr") or "").split(",")
    ports = str(parts.get("port") or "").split(",")
    if len(ports) < len(hosts):
        ports = ports[:1] * len(hosts)
    places = [
        f"{quote(host, safe='')}:{port}" if port else quote(host, safe="")
        for host, port in zip(hosts, ports, strict=False)
    ]
    return f"postgresql://{user}{','.join(places)}/{quote(str(parts.get('dbname') or ''), safe='')}"
