"""Every error that chong raises, in one tree.

    ChongError
    ├── ConfigurationError      wrong usage or settings: nothing was done
    │   ├── StoreMissing        the file of the store is not there, nor is anybody to make it
    │   ├── TablesMissing       the database is there, and has no tables of chong yet
    │   │   └── TablesOutdated  it has them, and they are older than this code
    │   └── Rebucketed          the number of buckets was changed behind the back of who asks
    ├── Refused                 a well-formed request that cannot be granted now
    │   ├── UniqueKeyTaken      an unfinished task already has this unique key
    │   └── UnknownId           no task has this id
    └── StoreError
        ├── StoreUnavailable    the store is out of reach or did not answer in time: try again later
        │   └── RightsMissing   the role may not do this: until somebody grants it
        ├── ConcurrencyConflict a second writer exists: never retried
        └── UnreadableRow       a row says what chong never writes: somebody has to look at it

Drivers' own errors are translated inside `store/`; callers see only these.
"""

_SHOWN = 60
"""Characters of a value that an error quotes."""


class ChongError(Exception):
    """Base of everything chong raises on purpose; its text is one line for a person."""


class ConfigurationError(ChongError):
    """The usage or the configuration is wrong; says what was expected and what was got."""


class StoreMissing(ConfigurationError):  # noqa: N818
    """There is no file where the store should be, and who asks makes none."""


class TablesMissing(ConfigurationError):  # noqa: N818
    """A database without tables of chong, or with older ones, was opened by somebody who does not make them."""


class TablesOutdated(TablesMissing):
    """They are there, and older than this code."""


class Rebucketed(ConfigurationError):  # noqa: N818
    """The deployment has another number of buckets than the caller counts by: who counts by the old one must end."""

    def __init__(self, recorded: int, ours: int) -> None:
        super().__init__(f"number of buckets: expected {recorded} since a rebucket, got {ours}")


class Refused(ChongError):  # noqa: N818 - it reads as what happened
    """The request is well-formed but cannot be granted."""


class UniqueKeyTaken(Refused):
    """An unfinished task already holds the unique key."""

    def __init__(self, unique_key: str, holder: str) -> None:
        super().__init__(f"unique key {unique_key!r} is held by unfinished task {holder}")
        self.unique_key = unique_key
        self.holder = holder


class UnknownId(Refused):
    """No task has the id."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"no task has the id {task_id}")
        self.task_id = task_id


class StoreError(ChongError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The store is out of reach, busy beyond its time-out, or full; what was asked may or may not have happened."""


class RightsMissing(StoreUnavailable):
    """The role may not do what was asked, and nothing of it has happened.

    For a supervisor that is an outage: rights that were taken away may be given back, and until then tasks go on.
    """


class ConcurrencyConflict(StoreError):  # noqa: N818
    """The stored row is not the one the writer last stored: somebody else wrote it. Never retried."""

    def __init__(self, task_id: str, detail: str) -> None:
        super().__init__(f"task {task_id}: {detail}")
        self.task_id = task_id
        self.detail = detail


class UnreadableRow(StoreError):  # noqa: N818
    """A stored row has a value that chong never writes; names it, so that it can be mended by hand."""

    def __init__(self, table: str, key: str, column: str, expected: str, got: object) -> None:
        # The key is the row's own, and as little to be trusted as the value; the text is one line, and may be stored.
        key = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in key[:_SHOWN])
        where = f"{table} {key}".rstrip()
        super().__init__(f"store: {where}, column {column}: expected {expected}, got {str(got)[:_SHOWN]!r}")
        self.table = table
        self.key = key
        self.column = column
