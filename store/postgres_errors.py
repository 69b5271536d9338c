"""What PostgreSQL and its driver say, in chong's own errors: to be waited out, or for a person to put right."""

import re

import psycopg
from psycopg import errors

from chong.store.errors import ConfigurationError, Refused, RightsMissing, StoreUnavailable

LOOKS = "SELECT"
WRITES = "SELECT, INSERT, UPDATE and DELETE"
"""The rights that a role needs, for a look and for whatever changes something: the server does not name them."""
# A connection that is not made leaves nothing but text, the server's as well as libpq's own.
_REFUSED_BY_SERVER = re.compile(
    r"FATAL: .*(password|pg_hba\.conf|does not exist|is not permitted to log in|permission denied"
    r"|unrecognized configuration parameter|invalid value for parameter"
    r"|conversion between \S+ and \S+ is not supported)"
)
_REFUSED_BY_DRIVER = re.compile(
    r"no password supplied|invalid \S+ value|invalid integer value|invalid port number|could not match \d+ "
    r"|server does not support SSL|certificate verify failed|root certificate file|bad value for |service \S+ not found"
)
_LINE_END = re.compile(r"(?<![\s.:;,])\s*\n")
_ATTEMPT = "\n- host: "
"""With several hosts, or several addresses of one, the driver lists what each attempt came to."""


def translated(error: psycopg.Error, label: str, rights: str = LOOKS) -> StoreUnavailable | Refused:
    """Chong's error for a driver's; `rights`: what the call needs."""
    said = _joined(error.diag.message_primary or str(error))
    # The limit is that of an index: for so long a name no wait helps.
    if isinstance(error, errors.DataError | errors.IntegrityError | errors.ProgramLimitExceeded):
        return unfit(said, label, rights)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreUnavailable(
            f"store {label}: expected a server that can be written to, got a read-only one ({said})"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return RightsMissing(
            f"store {label}: {said}; expected a role with {rights} on chong's tables, got one without that right"
        )
    # Also what is wrong with the tables, such as one that is renamed or restored: until it is put right, tasks go on.
    return StoreUnavailable(f"store {label}: {said}")


def unfit(said: object, label: str, rights: str) -> Refused:
    """For a value that is none for the database, be it one to store or one to look for."""
    what = "what was asked for cannot be looked up" if rights == LOOKS else "a value cannot be stored"
    return Refused(f"store {label}: {what}: {said}")


def refusal(error: psycopg.Error, label: str, *, hosts: int = 1) -> StoreUnavailable | Refused | ConfigurationError:
    """As `translated`, for a connection that was not made: a wrong name or password does not cure itself.

    Nor does the want of a right, here that to connect to this database: somebody has to grant it.

    Of several hosts all have to refuse: one that is merely away may be the right one.
    """
    said = str(error)
    refused: dict[str, bool] = {}
    for attempt in said.split(_ATTEMPT)[1:] or [said]:
        host = attempt.partition(",")[0] if hosts > 1 else ""
        refused[host] = refused.get(host, False) or _is_refusal(attempt)
    if all(refused.values()):
        kind = RightsMissing if "permission denied" in said else ConfigurationError
        return kind(f"store {label}: {_joined(said)}")
    return translated(error, label)


def _joined(said: str) -> str:
    """On one line, its own lines apart from each other."""
    return " ".join(_LINE_END.sub("; ", said.strip()).split())


def _is_refusal(said: str) -> bool:
    line = " ".join(said.split())
    return _REFUSED_BY_SERVER.search(line) is not None or _REFUSED_BY_DRIVER.search(line) is not None
