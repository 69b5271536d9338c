"""What a supervisor tells a forkserver at its start: one JSON object, its only argument."""

from dataclasses import dataclass, fields
from json import loads

_OPTIONAL = frozenset({"import_timeout", "open_files", "trials", "cgroup"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkserverSettings:
    """Lengths of time are in seconds.

    listen_fd: an inherited socket that listens, AF_UNIX and SOCK_SEQPACKET.
    lock: held for life; as long as it is held, nobody claims this generation's workers dead.
    runs: where each run has its directory, for what remains of it when no supervisor comes back.
    modules: task modules beside those of the entry-point group `chong.tasks`.
    cgroup: the directory in which each run gets a cgroup of its own, None for none.
    open_files: the workers' soft limit of open files; None for what the forkserver inherits.
    trials: a catalogue of the same modules; what it knows of them is not tried out again. The file is taken away.
    hold: how long the workers of a lost supervisor go on. ladder: how long their end may take after that.
    """

    generation: int
    listen_fd: int
    lock: str
    runs: str
    catalogue: str
    modules: tuple[str, ...]
    hold: float
    ladder: float
    import_timeout: float = 60.0
    open_files: int | None = None
    trials: str | None = None
    cgroup: str | None = None

    @classmethod
    def parse(cls, text: str) -> "ForkserverSettings":
        """ValueError says what was expected and what was got."""
        given = loads(text)
        names = {field.name for field in fields(cls)}
        if not isinstance(given, dict) or not names - _OPTIONAL <= set(given) <= names:
            raise ValueError(f"forkserver: expected an object with {sorted(names)}, got {text[:200]}")
        return cls(**(given | {"modules": tuple(given["modules"])}))
