"""What a chong.toml says of every node's buckets, for a comparison with what they have declared."""

from chong.store.errors import ConfigurationError
from chong.supervisor.checks import ConfiguredBuckets
from chong.supervisor.config import Config, Found
from chong.supervisor.configfile import ConfigFile


def configured_buckets(file: ConfigFile | None) -> ConfiguredBuckets:
    """Empty without a file that names nodes; what is wrong with another node's table is not the reader's end."""
    return {} if file is None else {node: _owned(file, node) for node in file.nodes}


def _owned(file: ConfigFile, node: str) -> frozenset[int] | str | None:
    try:
        found = Config({}, {}, file, Found(node, "")).find("owned_buckets")
    except ConfigurationError as error:
        return str(error)
    owned: frozenset[int] | None = None if found is None else found.value
    return owned
