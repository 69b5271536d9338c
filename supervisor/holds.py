"""Which names must not start on this node, by whom and why: in the state directory, so that it survives everything."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from chong.store.errors import ConfigurationError
from chong.store.stamp import utc_text
from chong.supervisor.files import SPOIL_SUFFIX, read_json, write_json
from chong.supervisor.submission import REASON_LIMIT, check_text
from chong.worker.options import NAME_LIMIT

EVERYTHING = "*"
"""Held, it holds every name; no task can be called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Who holds a name since when, and why; `by_breaker` when the node did so itself because of crashes.

    Raises ConfigurationError when a field is out of bounds.
    """

    by: str
    since: datetime
    reason: str | None = None
    by_breaker: bool = False

    def __post_init__(self) -> None:
        check_text("who holds", self.by, NAME_LIMIT)
        if self.reason is not None:
            check_text("reason", self.reason, REASON_LIMIT)

    @property
    def text(self) -> str:
        said = f"by {self.by} since {utc_text(self.since)}"
        return f"{self.reason}; {said}" if self.reason else said


class Holds:
    """By name. A change counts at once; OSError says that the disk did not take it, so the next term forgets it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._holds: dict[str, Hold] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._holds))

    def get(self, name: str) -> Hold | None:
        return self._holds.get(name)

    def on(self, name: str) -> Hold | None:
        """What keeps a name from starting: its own hold, or the one on everything."""
        return self._holds.get(name) or self._holds.get(EVERYTHING)

    def load(self, actor: str) -> bool:
        """Read what former terms held; False when the file is there and cannot be read.

        Nobody knows then what must not start, so nothing may until somebody has looked: everything is held.
        """
        try:
            self._holds = {name: _hold_from(content) for name, content in read_json(self._path).items()}
        except FileNotFoundError:
            return True
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, ConfigurationError):
            why = f"{self._path.name} could not be read, so what was held is unknown"
            self._holds = {EVERYTHING: Hold(by=actor, since=datetime.now(UTC), reason=why)}
            return False
        return True

    def set_aside(self) -> Path:
        """Keep the file that could not be read under another name, and what is held now in its place."""
        spoilt = self._path.with_name(self._path.name + SPOIL_SUFFIX)
        spoilt.unlink(missing_ok=True)
        # Never a moment without a file: the next term would find nothing held.
        spoilt.hardlink_to(self._path)
        self._write()
        return spoilt

    def put(self, holds: Mapping[str, Hold]) -> None:
        self._holds.update(holds)
        self._write()

    def drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._holds.pop(name, None)
        self._write()

    def _write(self) -> None:
        plain = {name: {**asdict(hold), "since": hold.since.isoformat()} for name, hold in self._holds.items()}
        write_json(self._path, plain)


def _hold_from(content: dict[str, object]) -> Hold:
    return Hold(**{**content, "since": datetime.fromisoformat(str(content["since"]))})  # type: ignore[arg-type]
