"""What is wrong with a chong.toml, and what is only alarming, for all nodes that it names.

All of it is told at once, but nothing of which a fault may be the only cause. Buckets are looked at as ranges: 200
nodes may own 65,536 each.
"""

import stat
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from chong.store.buckets import DEFAULT_NUM_BUCKETS, BucketPolicy, format_ranges
from chong.store.errors import ConfigurationError
from chong.store.few import few
from chong.store.open import check_address
from chong.supervisor.config import NODES_SHOWN, Config, Found, read
from chong.supervisor.configfile import ConfigFile
from chong.supervisor.keys import FIELDS, KEYS
from chong.supervisor.kinds import read_ranges, told
from chong.supervisor.oneline import without_secret
from chong.supervisor.settings import Settings

MOST = 100
"""So many lines say enough of one file."""

_OWNED = KEYS["owned_buckets"]
_RANGES = _OWNED._replace(kind=_OWNED.kind._replace(read=read_ranges))


class _Share(NamedTuple):
    """What a node reads of the file: by key the values, and why others cannot be read."""

    values: dict[str, Any]
    wrong: dict[str, str]


class FileCheck:
    """One look at a file, for its `faults` and its `alarms`."""

    def __init__(self, file: ConfigFile) -> None:
        self._file = file
        self._shape = list(_first(MOST, file.faults()))
        self._top = _share(file, "")
        self._nodes = {node: _share(file, node) for node in file.nodes}

    def faults(self) -> Iterator[str]:
        """One line for each thing that keeps the file, or one node's part of it, from being used."""
        yield from _first(MOST, iter(dict.fromkeys(self._faults())))  # the top is read once for each node

    def alarms(self) -> Iterator[str]:
        """A password that everybody may read; one line for each set of buckets that several nodes own, or none."""
        yield from _first(MOST, self._alarms())

    def _alarms(self) -> Iterator[str]:
        addresses = [str(share.values["db"]) for share in (self._top, *self._nodes.values()) if "db" in share.values]
        if self._file.mode & stat.S_IROTH and any(without_secret(address) != address for address in addresses):
            yield (
                f"{self._file.path}: db has a password: expected a file that others may not read, like mode 0600, "
                f"got {self._file.mode:04o}"
            )
        for owners, ranges in self._ranges_by_owners().items():
            which = f"{self._file.path}: buckets {format_ranges(ranges)} of {self._number}"
            if owners:
                yield f"{which} belong to {few(owners, NODES_SHOWN)}: expected one node each"
            else:
                yield f"{which} belong to no node" + (
                    "" if self._numbers != {None} else f"; num_buckets is not named, {self._number} is the default"
                )

    def _faults(self) -> Iterator[str]:
        yield from self._shape
        for share in (self._top, *self._nodes.values()):
            yield from share.wrong.values()
        yield from self._strange_node()
        for node, share in self._nodes.items() or [("any", self._top)]:
            where = f"{self._file.path}: nodes.{node}" if self._nodes else self._file.path
            yield from (f"{where}: {fault}" for fault in _joint_faults(node, share))
        if len(self._numbers) > 1:
            got = ", ".join(sorted("none" if number is None else str(number) for number in self._numbers))
            yield f"{self._file.path}: num_buckets: expected one number for all nodes, got {got}"

    def _strange_node(self) -> Iterator[str]:
        """A name at the top that is none of the nodes': no supervisor would start by it."""
        named = self._top.values.get("node")
        if self._nodes and named is not None and named not in self._nodes:
            known = ", ".join(sorted(self._nodes)[:MOST])
            yield f"{self._file.origin('node')}: expected one of the nodes {known}, got {told(named)}"

    @cached_property
    def _numbers(self) -> set[int | None]:
        """The numbers of buckets that nodes go by, None for one that is not named."""
        shares = self._nodes.values() or [self._top]
        return {share.values.get("num_buckets") for share in shares if "num_buckets" not in share.wrong}

    @property
    def _number(self) -> int:
        return max(number or DEFAULT_NUM_BUCKETS for number in self._numbers)

    @property
    def _is_sure(self) -> bool:
        """Whether it is known what each node owns, and of how many: a word that is no key may be a slip for one."""
        is_read = not any({"owned_buckets", "num_buckets"} & share.wrong.keys() for share in self._nodes.values())
        return is_read and not self._shape and len(self._numbers) == 1

    def _ranges_by_owners(self) -> dict[tuple[str, ...], list[range]]:
        """Those that nobody owns, if that is certain, and those that several nodes own; by the first bucket of each."""
        if not self._nodes or not self._numbers:
            return {}
        owned = self._owned()
        found: defaultdict[int, list[range]] = defaultdict(list)
        # Owners as bits: of 200 nodes with many ranges each, every range would else have a set of names of its own.
        for span, owners in _sweep([ranges for _, ranges in owned], self._number):
            if owners.bit_count() > 1 or (not owners and self._is_sure):
                found[owners].append(span)
        names = [node for node, _ in owned]
        return {
            tuple(name for place, name in enumerate(names) if owners >> place & 1): ranges
            for owners, ranges in found.items()
        }

    def _owned(self) -> list[tuple[str, list[range]]]:
        """By node what it owns, as far as that is known."""
        everything = [range(self._number)]
        return [
            (node, share.values.get("owned_buckets") or everything)
            for node, share in self._nodes.items()
            if "owned_buckets" in share.values or ("owned_buckets" not in share.wrong and not self._shape)
        ]


def _share(file: ConfigFile, node: str) -> _Share:
    config = Config({}, {}, file, Found(node, ""))
    share = _Share({}, {})
    for name in KEYS:
        try:
            found = _ranges(file, node) if name == _OWNED.name else config.find(name)
        except ConfigurationError as error:
            share.wrong[name] = str(error)
        else:
            if found is not None:
                share.values[name] = found.value
    return share


def _ranges(file: ConfigFile, node: str) -> Found | None:
    written = file.lookup(_OWNED.name, node)
    return None if written is None else read(_RANGES, *written)


def _joint_faults(node: str, share: _Share) -> Iterator[str]:
    """Values of one node that do not go together, or that only this version cannot do with."""
    values = share.values
    if "num_buckets" in values and "owned_buckets" in values:
        yield from _refusal(lambda: BucketPolicy(values["num_buckets"]).check_ranges(values["owned_buckets"]))
    if not {"lease_seconds", "renew_seconds"} & share.wrong.keys():
        yield from _refusal(lambda: _settings(node, values))
    yield from _refusal(lambda: check_address(values.get("db") or ""))


def _settings(node: str, values: dict[str, Any]) -> Settings:
    fields = {field: values[key.name] for field, key in FIELDS.items() if key.name in values and key is not _OWNED}
    return Settings(**fields | {"node": node})


def _refusal(use: Callable[[], object]) -> Iterator[str]:
    try:
        use()
    except ConfigurationError as error:
        yield str(error)


def _sweep(sets: list[list[range]], number: int) -> Iterator[tuple[range, int]]:
    """All buckets below `number`, in ranges that the same of the sets have; these are told by their bits."""
    changes: defaultdict[int, int] = defaultdict(int, {0: 0, number: 0})
    for place, ranges in enumerate(sets):
        for span in ranges:
            changes[min(span.start, number)] ^= 1 << place
            changes[min(span.stop, number)] ^= 1 << place
    owners = 0
    for start, stop in pairwise(sorted(changes)):
        owners ^= changes[start]
        yield range(start, stop), owners


def _first(count: int, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == count:
            yield f"and more; the first {count} are named"
            return
        yield line
