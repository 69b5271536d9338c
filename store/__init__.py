"""What chong keeps: tasks, their trail, leases and commands, behind one contract."""

from typing import TYPE_CHECKING

from chong.store.buckets import BucketPolicy, format_buckets, parse_buckets
from chong.store.contract import TaskStore
from chong.store.errors import (
    ChongError,
    ConcurrencyConflict,
    ConfigurationError,
    Refused,
    StoreError,
    StoreUnavailable,
    UniqueKeyTaken,
)
from chong.store.ids import new_id
from chong.store.model import (
    Action,
    Beat,
    BucketDeclaration,
    BucketLoad,
    CatalogueEntry,
    Command,
    Completion,
    Deployment,
    Failure,
    FailureKind,
    HoldList,
    HoldScope,
    Lease,
    LeaseGrant,
    NodeRecord,
    Note,
    Progress,
    Save,
    SharedHold,
    StopMoments,
    TaskRecord,
    TaskSnapshot,
    TermRecord,
    Transition,
    Usage,
)
from chong.store.open import open_store
from chong.store.query import TaskQuery
from chong.store.states import FINAL, RUNS, WAITING, Status

if TYPE_CHECKING:
    from chong.store.memory import InMemoryTaskStore
    from chong.store.sqlite import SqliteTaskStore

__all__ = [
    "FINAL",
    "RUNS",
    "WAITING",
    "Action",
    "Beat",
    "BucketDeclaration",
    "BucketLoad",
    "BucketPolicy",
    "CatalogueEntry",
    "ChongError",
    "Command",
    "Completion",
    "ConcurrencyConflict",
    "ConfigurationError",
    "Deployment",
    "Failure",
    "FailureKind",
    "HoldList",
    "HoldScope",
    "InMemoryTaskStore",
    "Lease",
    "LeaseGrant",
    "NodeRecord",
    "Note",
    "Progress",
    "Refused",
    "Save",
    "SharedHold",
    "SqliteTaskStore",
    "Status",
    "StopMoments",
    "StoreError",
    "StoreUnavailable",
    "TaskQuery",
    "TaskRecord",
    "TaskSnapshot",
    "TaskStore",
    "TermRecord",
    "Transition",
    "UniqueKeyTaken",
    "Usage",
    "format_buckets",
    "new_id",
    "open_store",
    "parse_buckets",
]


def __getattr__(name: str) -> object:
    # Loaded on demand: sqlite3 is a third of what a short-lived command would otherwise import.
    if name == "InMemoryTaskStore":
        from chong.store.memory import InMemoryTaskStore  # noqa: PLC0415

        return InMemoryTaskStore
    if name == "SqliteTaskStore":
        from chong.store.sqlite import SqliteTaskStore  # noqa: PLC0415

        return SqliteTaskStore
    raise AttributeError(f"module 'chong.store' has no attribute {name!r}")
