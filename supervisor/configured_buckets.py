"""What a chong.toml says of every node's buckets, for a comparison with what they have declared."""

from dataclasses import replace

from chong.store.errors import ConfigurationError
from chong.store.open import file_of
from chong.supervisor.config import Config, Found
from chong.supervisor.configfile import ConfigFile
from chong.supervisor.share import ConfiguredBuckets, Share


def configured_buckets(config: Config) -> ConfiguredBuckets:
    """Empty without a file that names nodes, and where another store is used than the file's: its nodes are others.

    What is wrong with another node's table is not the reader's end.
    """
    file = config.file
    if file is None or _uses_another_store(config):
        return {}
    return {node: _share(file, node) for node in file.nodes}


def _uses_another_store(config: Config) -> bool:
    used = config.value("db")
    try:
        named = replace(config, options={}, environ={}).value("db")
    except ConfigurationError:
        return True  # only where another address goes before it: the file's is none
    return used is not None and named is not None and _place(used) != _place(named)


def _place(url: str) -> str:
    """The same for each way to write a file's path."""
    file = file_of(url)
    return url if file is None else str(file.resolve())


def _share(file: ConfigFile, node: str) -> Share:
    config = Config({}, {}, file, Found(node, ""))
    try:
        owned, number = config.find("owned_buckets"), config.find("num_buckets")
    except ConfigurationError as error:
        return Share(fault=str(error), origin=str(file.path))
    return Share(
        owned=None if owned is None else owned.value,
        num_buckets=None if number is None else number.value,
        origin=f"{file.path}: nodes.{node}" if owned is None else owned.origin,
        number_origin=str(file.path) if number is None else number.origin,
    )
