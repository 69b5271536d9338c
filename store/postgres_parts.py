"""Which part of a PostgreSQL address is wrong.

The driver tells it by quoting the rest of the address from there on, and so perhaps a password. Here the address is
cut as the driver cuts it, and only what cannot be a part of a password is shown: nothing, where a name and password may
have been cut in the wrong place.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from psycopg import pq

ADVICE = "a / @ : # % or a space within a name or password is written as %2F %40 %3A %23 %25 or %20"
_HIGHEST_PORT = 65_535
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_HOST = re.compile(r"(?P<name>\[[^\]]*\]|[^:\[\]]*)(?P<port>:.*)?\Z", re.DOTALL)
_OTHERS = frozenset({"ssl"})
"""What the driver takes beside its own list of options."""


@dataclass(frozen=True, slots=True)
class Cut:
    """`user` is None where none stands before the hosts, and then what is taken for a port may be a password."""

    user: str | None
    hosts: str
    database: str
    options: str


def cut(address: str) -> Cut:
    """As the driver does: name and password end at the first @, unless a / comes before it."""
    rest = address.partition("://")[2]
    user: str | None = None
    found = re.search(r"[@/]", rest)
    if found is not None and found[0] == "@":
        user, rest = rest[: found.start()], rest[found.end() :]
    before, _, options = rest.partition("?")
    hosts, _, database = before.partition("/")
    return Cut(user, hosts, database, options)


def doubts_of(address: str, ports: str) -> Iterator[str]:
    """What cannot be meant in an address that the driver takes; `ports` as the driver has read them.

    An @ or / in a name or password cuts it in the wrong place, and the rest is taken for a host, port or database.
    """
    parts = cut(address)
    if _is_cut_wrong(parts):
        yield _cut_fault(parts)
        return
    yield from port_faults(ports, is_shown=parts.user is not None and "@" not in parts.options)


def _is_cut_wrong(parts: Cut) -> bool:
    return "@" in f"{parts.hosts}{parts.database}"


def _cut_fault(parts: Cut) -> str:
    sign, escape = ("an @", "%40") if parts.user is not None else ("a /", "%2F")
    return f"user or password: expected {sign} in it as {escape}, got it as it is; {ADVICE}"


def faults_of(address: str) -> Iterator[str]:
    """What is wrong with an address that the driver refuses, part by part."""
    if not address.startswith(("postgresql://", "postgres://")):
        yield "expected postgresql:// at its beginning, got it without // or in capital letters"
        return
    parts = cut(address)
    # An @ in the value of an option that the driver knows may well be meant: there it need not be written as %.
    strange = (option for option in parts.options.split("&") if option.partition("=")[0] not in _known())
    if _is_cut_wrong(parts) or (parts.user is None and ":" in parts.hosts and any("@" in option for option in strange)):
        yield _cut_fault(parts)
        return
    # Nor where an @ comes late: the name and password may have been meant to end there.
    is_clear = "@" not in parts.options
    named = {"user or password": parts.user or "", "host": parts.hosts, "database": parts.database}
    for part, text in (named | {"option": parts.options}).items():
        if _PERCENT.search(text):
            yield f"{part}: expected two hexadecimal digits, not 00, after each %, got something else; {ADVICE}"
    yield from _host_faults(parts.hosts, is_shown=is_clear and parts.user is not None)
    is_shown = is_clear and (parts.user is not None or ":" not in parts.hosts)
    yield from _option_faults(parts.options, is_shown=is_shown)


def _host_faults(hosts: str, *, is_shown: bool) -> Iterator[str]:
    for host in hosts.split(","):
        found = _HOST.match(host)
        if found is None:
            yield "host: expected a name, an address, or an IPv6 address in [ ], got something else"
        elif found["port"] not in {None, ":"}:
            yield from port_faults(found["port"][1:], is_shown=is_shown)


def port_faults(ports: str, *, is_shown: bool) -> Iterator[str]:
    """Of the ports of several hosts, with commas between them; none stands for the usual one."""
    yield from filter(None, (_port_fault(port, is_shown=is_shown) for port in ports.split(",") if port))


def _port_fault(port: str, *, is_shown: bool) -> str | None:
    if port.isdecimal() and port.isascii():
        if 1 <= int(port[:9]) <= _HIGHEST_PORT and len(port) < len("1000000000"):
            return None
        got = port[:9] if is_shown else "another one"
    else:
        got = "text that is no number"
    # Whoever has forgotten the host, or has a # in the password, finds it taken for the port.
    advice = "" if is_shown else "; if it was meant as a password, user:password@ stands before the host"
    return f"port: expected a number from 1 to {_HIGHEST_PORT}, got {got}{advice}"


def _known() -> set[str]:
    return {option.keyword.decode() for option in pq.Conninfo.get_defaults()}


def _option_faults(options: str, *, is_shown: bool) -> Iterator[str]:
    known = _known()
    # The driver takes one & behind the last option.
    for option in options.removesuffix("&").split("&") if options else ():
        name, equals, _ = option.partition("=")
        if not equals:
            yield "option: expected name=value after the ?, got it without ="
        elif name not in known | _OTHERS and "%" not in name:
            near = difflib.get_close_matches(name, known, 1)
            advice = f", did you mean {near[0]}?" if near and is_shown else ""
            got = name[:40] if is_shown else "another one"
            yield f"option: expected one that PostgreSQL's driver knows, got {got}{advice}"
