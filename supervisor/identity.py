"""A node's name and random id, pinned together in its state directory at the first start."""

import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from chong.store.errors import ConfigurationError
from chong.supervisor.files import read_json, write_json


@dataclass(frozen=True, slots=True)
class Identity:
    node: str
    node_id: str


def read_identity(path: Path) -> Identity | None:
    """The pinned identity; None where no supervisor has run yet."""
    try:
        content = read_json(path)
        return Identity(str(content["node"]), str(content["node_id"]))
    except (FileNotFoundError, NotADirectoryError):
        return None  # where nothing can be, the directories' own check says why
    except IsADirectoryError as error:
        raise ConfigurationError(f"{path}: expected a file, got a directory") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{path}: expected a node's name and id, it is not readable ({error})") from error


def check_identity(path: Path, node: str) -> Identity | None:
    """The pinned identity, None where there is none yet; ConfigurationError when it is another node's."""
    pinned = read_identity(path)
    if pinned is not None and pinned.node != node:
        raise ConfigurationError(
            f"state directory {path.parent} belongs to node {pinned.node!r}: expected --node {pinned.node}, got {node}"
        )
    return pinned


def pin_identity(path: Path, node: str) -> Identity:
    """The identity of this state directory, made at the first start; refused when it is another node's."""
    pinned = check_identity(path, node)
    if pinned is None:
        pinned = Identity(node, uuid.uuid4().hex)
        write_json(path, asdict(pinned))
    return pinned
