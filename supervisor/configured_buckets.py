"""What a chong.toml says of every node's buckets, for a comparison with what they have declared."""

from chong.store.errors import ConfigurationError
from chong.supervisor.config import Config, Found
from chong.supervisor.configfile import ConfigFile
from chong.supervisor.share import ConfiguredBuckets, Share


def configured_buckets(file: ConfigFile | None) -> ConfiguredBuckets:
    """Empty without a file that names nodes; what is wrong with another node's table is not the reader's end."""
    return {} if file is None else {node: _share(file, node) for node in file.nodes}


def _share(file: ConfigFile, node: str) -> Share:
    config = Config({}, {}, file, Found(node, ""))
    try:
        owned, number = config.find("owned_buckets"), config.find("num_buckets")
    except ConfigurationError as error:
        return Share(fault=str(error), place=str(file.path))
    return Share(
        owned=None if owned is None else owned.value,
        num_buckets=None if number is None else number.value,
        place=f"{file.path}: nodes.{node}" if owned is None else owned.origin,
        number_place=str(file.path) if number is None else number.origin,
    )
