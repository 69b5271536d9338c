"""The one row that says what all nodes agree on."""

from typing import TypeVar

from chong.store.errors import StoreUnavailable

Row = TypeVar("Row")


def sole_row(row: Row | None) -> Row:
    """StoreUnavailable when it is gone: nothing can be done with the store until somebody has restored it."""
    if row is None:
        raise StoreUnavailable("store: expected the one row of the table deployment, got none: restore the store")
    return row
