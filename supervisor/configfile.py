"""chong.toml: keys for every node at the top, and in `[nodes.NAME]` what one node has of its own.

Reading never waits and never reads more than a bound, whatever the path leads to.
"""

import codecs
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chong.store.errors import ConfigurationError
from chong.supervisor.keys import KEYS, unknown
from chong.supervisor.kinds import told
from chong.supervisor.nearest import suggestion
from chong.worker.nearest import nearest

LIMIT = 256 * 1024
SHOWN = 60
MOST_DOTS = 200
MOST_NODES = 200
"""Each may own every bucket: the check of a fleet takes nodes times buckets."""
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
)
_MARKS = (
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
    (codecs.BOM_UTF8, "a byte order mark before it"),
)
_ASSIGNMENT = re.compile(r"""\s*["']?([^"'\s=.]+)["']?\s*=""")
_HEADER = re.compile(r"\s*\[\s*(.*?)\s*\]\s*(?:#.*)?\Z")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What the file says, not yet read as settings.

    lines: where a key stands, by table and key. nodes: what stands in `[nodes.NAME]`, by node. mode: who may read it.
    """

    path: Path
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    top: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, Any] = field(default_factory=dict)
    mode: int = 0

    def lookup(self, name: str, node: str | None) -> tuple[str, Any] | None:
        """Where a key's value stands, and the value; a node's share goes before the top."""
        share = None if node is None else self.nodes.get(node)
        if isinstance(share, dict) and name in share:
            return self.origin(name, node), share[name]
        return (self.origin(name), self.top[name]) if name in self.top else None

    def origin(self, name: str, node: str | None = None) -> str:
        """A key as an error names it: file, line where that is certain, and table."""
        line = self.lines.get(("" if node is None else f"nodes.{node}", name))
        where = f"{self.path}:{line}" if line else str(self.path)
        return f"{where}: {_short(name)}" if node is None else f"{where}: nodes.{_short(node)}.{_short(name)}"

    def faults(self) -> Iterator[str]:
        """Words that are no keys, and tables that are none."""
        for name in self.top:
            if name == "nodes":
                yield f"{self.origin(name)}: expected tables like [nodes.NAME], got {told(self.top[name])}"
            elif isinstance(self.top[name], dict) and (name not in KEYS or nearest(name, ["nodes"])):
                yield f"{self.origin(name)}: {_unknown_table(name)}"
            elif name not in KEYS:
                yield f"{self.origin(name)}: {unknown(name)}"
        for node, share in self.nodes.items():
            yield from self._share_faults(node, share)

    def _share_faults(self, node: str, share: object) -> Iterator[str]:
        where = f"{self.path}: nodes.{_short(node)}"
        try:
            KEYS["node"].check(node)
        except ValueError as error:
            yield f"{where}: {error}"
        if not isinstance(share, dict):
            yield f"{where}: expected a table, got {told(share)}"
            return
        for name in share:
            if name == "node":
                yield f"{self.origin(name, node)}: expected no name in here, the table has it"
            elif name not in KEYS and isinstance(share[name], dict):
                yield f"{self.origin(name, node)}: expected a key, got a table; {_quoted(node, name, share[name])}"
            elif name not in KEYS:
                yield f"{self.origin(name, node)}: {unknown(name)}"


def load(path: Path) -> ConfigFile:
    """The file's content; ConfigurationError when it cannot be read, or is not TOML."""
    if str(path) == os.devnull:
        return ConfigFile(path)  # the usual way to say "none", and no file
    data, mode = _bytes_of(path)
    text = _text_of(path, data)
    top = _parsed(path, text)
    nodes = top.pop("nodes") if isinstance(top.get("nodes"), dict) else {}
    if len(nodes) > MOST_NODES:
        raise ConfigurationError(f"{path}: expected at most {MOST_NODES} nodes, got {len(nodes)}")
    return ConfigFile(path, _lines_of(text), top, nodes, stat.S_IMODE(mode))


def _bytes_of(path: Path) -> tuple[bytes, int]:
    try:
        mode = path.stat().st_mode  # before it is opened: to open a device may do something
        if not stat.S_ISREG(mode):
            kind = next((word for is_kind, word in _KINDS if is_kind(mode)), "a device")
            raise ConfigurationError(f"{path}: expected a TOML file, it is {kind}")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(LIMIT + 1)
            if data is None:  # a file by name, but reading it would wait, as some of /proc
                raise ConfigurationError(f"{path}: expected a TOML file, it has nothing to read")
    except OSError as error:
        raise ConfigurationError(f"{path}: the configuration cannot be read: {error.strerror}") from None
    except ValueError:  # a NUL
        raise ConfigurationError(f"configuration: expected a path, got {told(str(path))}") from None
    if len(data) > LIMIT:
        raise ConfigurationError(f"{path}: expected at most {LIMIT} bytes of configuration, it has more")
    return data, mode


def _text_of(path: Path, data: bytes) -> str:
    for mark, got in _MARKS:
        if data.startswith(mark):
            raise ConfigurationError(f"{path}: expected UTF-8, got {got}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}: expected UTF-8, got byte 0x{data[error.start]:02x}") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most commands never meet a file

    for number, line in enumerate(text.split("\n"), start=1):
        if (
            line.count(".") > MOST_DOTS
        ):  # tomllib takes a key apart in quadratic time: minutes for a file of the largest size
            raise ConfigurationError(f"{path}:{number}: expected at most {MOST_DOTS} dots in a line, it has more")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigurationError(f"{path}: expected TOML, got values that are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: expected TOML: {error}") from None
    except ValueError:
        raise ConfigurationError(f"{path}: expected TOML, got a number with too many digits") from None


def _unknown_table(name: str) -> str:
    return f"unknown table, {suggestion(name, ['nodes'], 'expected keys at the top or in [nodes.NAME]')}"


def _quoted(node: str, name: str, table: Mapping[str, Any]) -> str:
    """A name with dots that was not quoted is a table in a table to TOML."""
    parts = [node, name]
    while len(table) == 1 and isinstance(inner := next(iter(table.values())), dict):
        parts.append(next(iter(table)))
        table = inner
    return f"a name with a dot is written as [nodes.'{_short('.'.join(parts))}']"


def _short(name: str) -> str:
    return name if len(name) <= SHOWN else f"{name[:SHOWN]}…"


def _lines_of(text: str) -> dict[tuple[str, str], int]:
    """By table and key the line on which it is given a value, where that is plain to see: tomllib does not tell."""
    table = ""
    lines: dict[tuple[str, str], int] = {}
    doubtful: set[tuple[str, str]] = set()
    for number, line in enumerate(text.split("\n"), start=1):
        header, assignment = _HEADER.match(line), _ASSIGNMENT.match(line)
        if header:
            table = re.sub("[\"']", "", header[1])
            lines.setdefault(("", table.partition(".")[0]), number)
        elif assignment:
            key = (table, assignment[1])
            doubtful.update({key} & lines.keys())  # one of them lies within a text
            lines[key] = number
    return {key: number for key, number in lines.items() if key not in doubtful}
