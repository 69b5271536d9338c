"""What chong keeps: tasks, their trail, leases and commands, behind one contract."""

import importlib
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
    TablesMissing,
    TablesOutdated,
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
    from chong.store.postgres import PostgresTaskStore
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
    "PostgresTaskStore",
    "Progress",
    "Refused",
    "Save",
    "SharedHold",
    "SqliteTaskStore",
    "Status",
    "StopMoments",
    "StoreError",
    "StoreUnavailable",
    "TablesMissing",
    "TablesOutdated",
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


_ON_DEMAND = {
    "InMemoryTaskStore": "chong.store.memory",
    "PostgresTaskStore": "chong.store.postgres",
    "SqliteTaskStore": "chong.store.sqlite",
}


def __getattr__(name: str) -> object:
    # Loaded on demand: sqlite3 is a third of what a short-lived command would otherwise import, and the driver of
    # PostgreSQL need not be there.
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'chong.store' has no attribute {name!r}")
    return getattr(importlib.import_module(_ON_DEMAND[name]), name)
