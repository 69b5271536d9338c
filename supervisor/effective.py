"""What the configuration comes to: the node's settings, and for a person every value with where it comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from chong.supervisor.config import DEFAULT, Config, Found
from chong.supervisor.configured_buckets import configured_buckets
from chong.supervisor.keys import CONFIG, FIELDS, KEYS
from chong.supervisor.oneline import without_secret
from chong.supervisor.settings import Settings


def settings_of(config: Config) -> Settings:
    found = {field: config.find(key.name) for field, key in FIELDS.items()}
    said = {field: one.value for field, one in found.items() if one is not None}
    settled = {
        "node": config.node().value,
        "state_dir": config.state_dir,
        "configured": configured_buckets(config),
    }
    return Settings(**said | settled)


def url_of(config: Config, settings: Settings) -> str:
    return config.value("db") or str(settings.paths.default_store)


class Effective(NamedTuple):
    """`value` for machines, without a secret; `shown` as a person writes it."""

    key: str
    value: Any
    shown: str
    origin: str


def effective(config: Config) -> Iterator[Effective]:
    """The file, and every setting in the table's order; what follows from others is worked out."""
    settings = settings_of(config)
    file = str(config.file.path) if config.file else None
    yield Effective(CONFIG.name, file, file or "none", config.file_origin)
    derived: dict[str, Found] = {
        "node": config.node(),
        "db": Found(url_of(config, settings), DEFAULT),
        "state_dir": Found(settings.paths.state, DEFAULT),
        "runtime_dir": Found(settings.paths.runtime, DEFAULT),
        "renew_seconds": Found(settings.renewal, DEFAULT),
    }
    for name, key in KEYS.items():
        found = config.find(name) or derived.get(name) or Found(key.default, DEFAULT)
        shown = without_secret(key.show(found.value))
        value = shown if isinstance(found.value, str | Path | frozenset) else found.value
        yield Effective(name, value, shown, found.origin)
