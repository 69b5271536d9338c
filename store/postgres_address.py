"""The address of a PostgreSQL database: what it says, and how it is shown without its secrets."""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import conninfo

from chong.store.errors import ConfigurationError
from chong.store.postgres_parts import ADVICE, doubts_of, faults_of, port_faults

_SCHEME = re.compile("postgres(ql)?:", re.IGNORECASE)
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
    """The parts of an address; ConfigurationError names the first that is wrong, and shows nothing of a password."""
    is_url = _SCHEME.match(address) is not None
    try:
        parts = _DEFAULTS | conninfo.conninfo_to_dict(address)
    except (psycopg.ProgrammingError, ValueError) as error:
        general = f"expected postgresql://user@host:5432/database?option=value, got something else; {ADVICE}"
        fault = next(faults_of(address), general) if is_url else general
        raise ConfigurationError(f"store postgresql:...: {fault}") from error
    ports = str(parts.get("port") or "")
    for doubt in doubts_of(address, ports) if is_url else port_faults(ports, is_shown=False):
        raise ConfigurationError(f"store postgresql:...: {doubt}")
    for name, part in (("host", "host"), ("hostaddr", "host"), ("dbname", "database")):
        if any("@" in place and not place.startswith("/") for place in str(parts.get(name) or "").split(",")):
            # No name has one, though a socket's directory may. Each error shows it, and it may be a password's place.
            raise ConfigurationError(f"store postgresql:...: {part}: expected none with an @ in it, got one; {ADVICE}")
    if not any((parts.get("dbname"), parts.get("service"), os.environ.get("PGDATABASE"), os.environ.get("PGSERVICE"))):
        # The driver would take the user's name for it, and chong might make its tables in a stranger's database.
        raise ConfigurationError(
            "store postgresql:...: database: expected its name, as in postgresql://user@host:5432/database, got none"
        )
    return parts


def label_of(parts: Mapping[str, Any]) -> str:
    """The address without anything secret, for people."""
    # What stands behind a colon was meant as a password.
    user = f"{quote(str(parts['user']).partition(':')[0], safe='')}@" if parts.get("user") else ""
    hosts = str(parts.get("host") or parts.get("hostaddr") or "").split(",")
    ports = str(parts.get("port") or "").split(",")
    if len(ports) < len(hosts):
        ports = ports[:1] * len(hosts)
    places = [
        f"{quote(host, safe='')}:{port}" if port else quote(host, safe="")
        for host, port in zip(hosts, ports, strict=False)
    ]
    return f"postgresql://{user}{','.join(places)}/{quote(str(parts.get('dbname') or ''), safe='')}"
