"""Where each setting comes from: the command line, the environment, the node's share of chong.toml, its top."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chong.store.errors import ConfigurationError
from chong.store.few import few
from chong.supervisor.configfile import ConfigFile, load
from chong.supervisor.identity import read_identity
from chong.supervisor.keys import CONFIG, KEYS, Key
from chong.supervisor.kinds import PATH, STORE, told
from chong.supervisor.paths import Paths
from chong.worker.nearest import nearest
from chong.worker.whereabouts import default_config, default_node, default_state_dir

DEFAULT = "default"
HOST = "the host's name"
_RELATIVE = re.compile(r"(?:sqlite:///)?(?![A-Za-z][A-Za-z0-9+.-]*:|/)")
NODES_SHOWN = 20
"""So many nodes are named in one line."""


@dataclass(frozen=True, slots=True)
class Found:
    """A value, and where it comes from."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Config:
    """`options`: what the command line says, by key, as text. `share`: the node whose part of the file counts.

    What a node is was settled before its part was looked at: a state directory named there does not change it.
    """

    options: Mapping[str, Any]
    environ: Mapping[str, str]
    file: ConfigFile | None = None
    share: Found | None = None

    def find(self, name: str) -> Found | None:
        """The value of a key, None when nobody names one; ConfigurationError says where a bad one stands."""
        key = KEYS[name]
        said = self._said(key)
        if said is not None:
            return read(key, *said)
        written = self.file.lookup(name, self.share.value if self.share else None) if self.file else None
        if written is None:
            return None
        found = read(key, *written)
        if key.kind in {PATH, STORE} and _RELATIVE.match(str(found.value)):
            # One file serves every process, and each has another working directory.
            got = told(written[1]) if key.kind is PATH else "a relative one"  # it may be an address with a password
            raise ConfigurationError(f"{found.origin}: expected an absolute path, got {got}")
        return found

    def value(self, name: str) -> Any:
        found = self.find(name)
        return None if found is None else found.value

    def node(self) -> Found:
        """The node that is named, else the one pinned in the state directory, else what a first start would pin."""
        named = self.share or self.find("node")
        if named is not None:
            return named
        pinned = read_identity(Paths(self.state_dir, self.state_dir).identity)
        return Found(pinned.node, "the state directory") if pinned else Found(default_node(), HOST)

    @property
    def state_dir(self) -> Path:
        return self.value("state_dir") or default_state_dir()

    def chosen_file(self) -> ConfigFile | None:
        """The file that is named, which must be there, or the one in its usual place, if it is there."""
        said = self._said(CONFIG)
        if said is not None:
            return load(read(CONFIG, *said).value)
        usual = default_config()
        try:
            usual.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # nobody knows what stands there
            raise ConfigurationError(f"{usual}: the configuration cannot be read: {error.strerror}") from None
        return load(usual)

    def with_share(self, *, is_node: bool) -> "Config":
        """With the part of the file that is the node's own; ConfigurationError when the file does not know the node.

        A command on a machine that is no node, not `is_node` and nobody has named one, does with the top alone.
        """
        if self.file is None or not self.file.nodes:
            return self
        found = self.node()
        if found.value in self.file.nodes:
            return replace(self, share=found)
        if not is_node and found.origin == HOST:
            return self
        raise ConfigurationError(_stranger(self.file, found))

    def remarks(self) -> Iterator[str]:
        """What is easily overlooked: variables that nobody reads, and a file that does not know the node."""
        known = {key.variable for key in (CONFIG, *KEYS.values())}
        for variable in sorted(set(self.environ) - known):
            guess = nearest(variable, known) if variable.startswith("CHONG_") else None
            if guess is not None:
                yield f"the variable {variable} is not known, did you mean {guess}?"
        if self.file is not None and self.file.nodes and self.share is None:
            yield f"{self.file.path} does not name node {self.node().value}: no supervisor would start here"

    @property
    def file_origin(self) -> str:
        said = self._said(CONFIG)
        return said[0] if said else DEFAULT

    def _said(self, key: Key) -> tuple[str, Any] | None:
        if self.options.get(key.name) not in (None, ()):
            return key.option, self.options[key.name]
        # An empty variable says nothing: that is how a unit or a shell script unsets one.
        return (key.variable, self.environ[key.variable]) if self.environ.get(key.variable) else None


def read(key: Key, origin: str, raw: Any) -> Found:
    """What `raw` says for the key; ConfigurationError with where it stands."""
    try:
        value = key.kind.read(raw)
        if value is not None:
            key.check(value)
    except (ValueError, ConfigurationError) as error:
        raise ConfigurationError(f"{origin}: {error}") from None
    return Found(value, origin)


def configured(options: Mapping[str, Any], environ: Mapping[str, str] | None = None, *, is_node: bool) -> Config:
    """Everything that is said, with the file that is named or lies in its usual place, and the node's share of it."""
    config = Config(options, os.environ if environ is None else environ)
    file = config.chosen_file()
    for fault in file.faults() if file else ():
        raise ConfigurationError(fault)
    return replace(config, file=file).with_share(is_node=is_node)


def listed(nodes: Collection[str]) -> str:
    """Names in their order, as many as one line bears."""
    return few(sorted(nodes), NODES_SHOWN)


def _stranger(file: ConfigFile, found: Found) -> str:
    guess = nearest(found.value, sorted(file.nodes))
    return (
        f"{file.path}: expected one of the nodes {listed(file.nodes)}, "
        f"got {told(found.value)} from {found.origin}{f', did you mean {guess}?' if guess else ''}"
    )
