"""What is wrong with a chong.toml, and what is only alarming, for all nodes that it names."""

from collections import defaultdict
from collections.abc import Iterator

from chong.store.buckets import DEFAULT_NUM_BUCKETS, format_buckets
from chong.store.errors import ConfigurationError
from chong.store.open import check_address
from chong.supervisor.config import Config, Found
from chong.supervisor.configfile import ConfigFile
from chong.supervisor.effective import settings_of
from chong.supervisor.keys import KEYS
from chong.supervisor.kinds import told
from chong.supervisor.settings import Settings

SHOWN = 20
"""So many nodes are named in one line."""
MOST = 100
"""So many lines say enough of one file."""


def faults(file: ConfigFile) -> Iterator[str]:
    """One line for each thing that keeps the file, or one node's part of it, from being used."""
    yield from _first(MOST, _faults(file))


def _faults(file: ConfigFile) -> Iterator[str]:
    said = set()
    for fault in (*_first(MOST, file.faults()), *_value_faults(file)):
        if fault not in said:  # what stands at the top is read once for each node
            said.add(fault)
            yield fault
    if not said:
        yield from _joint_faults(file)


def _first(count: int, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == count:
            yield f"and more; the first {count} are named"
            return
        yield line


def _value_faults(file: ConfigFile) -> Iterator[str]:
    for node in ("", *file.nodes):
        config = Config({}, {}, file, Found(node, ""))
        for name in KEYS:
            try:
                config.find(name)
            except ConfigurationError as error:
                yield str(error)


def _joint_faults(file: ConfigFile) -> Iterator[str]:
    """Values that do not go together."""
    yield from _strange_node(file)
    numbers = set()
    for node in file.nodes or ("any",):
        where = f"{file.path}: nodes.{node}" if file.nodes else file.path
        try:
            numbers.add(_settings(file, node).num_buckets)
            check_address(Config({}, {}, file, Found(node, "")).value("db") or "")
        except ConfigurationError as error:
            yield f"{where}: {error}"
    if len(numbers) > 1:
        got = ", ".join(sorted("none" if number is None else str(number) for number in numbers))
        yield f"{file.path}: num_buckets: expected one number for all nodes, got {got}"


def _strange_node(file: ConfigFile) -> Iterator[str]:
    """A name at the top that is none of the nodes': no supervisor would start by it."""
    named = Config({}, {}, file).find("node") if file.nodes else None
    if named is not None and named.value not in file.nodes:
        known = ", ".join(sorted(file.nodes)[:MOST])
        yield f"{named.origin}: expected one of the nodes {known}, got {told(named.value)}"


def alarms(file: ConfigFile) -> Iterator[str]:
    """One line for each set of buckets that several nodes own, or none, in a file without faults."""
    nodes = {node: _settings(file, node) for node in file.nodes}
    if not nodes:
        return
    named = next(iter(nodes.values())).num_buckets
    number = named or DEFAULT_NUM_BUCKETS
    by_owners: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for bucket in range(number):
        by_owners[_owners(nodes, bucket)].append(bucket)
    for owners, buckets in by_owners.items():
        which = f"{file.path}: buckets {format_buckets(buckets)} of {number}"
        if not owners:
            yield f"{which} belong to no node" + (
                "" if named else f"; num_buckets is not named, {number} is the default"
            )
        elif len(owners) > 1:
            more = f" and {len(owners) - SHOWN} more" if len(owners) > SHOWN else ""
            yield f"{which} belong to {', '.join(owners[:SHOWN])}{more}: expected one node each"


def _owners(nodes: dict[str, Settings], bucket: int) -> tuple[str, ...]:
    return tuple(node for node, one in nodes.items() if one.owned_buckets is None or bucket in one.owned_buckets)


def _settings(file: ConfigFile, node: str) -> Settings:
    return settings_of(Config({}, {}, file, Found(node, "")))
