"""All stores of this package keep the contract."""

from pathlib import Path

import pytest

from chong.store.conformance import StoreContract
from chong.store.memory import InMemoryTaskStore
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import SetClock
from chong.store.sqlite import SqliteTaskStore


class TestInMemory(StoreContract):
    def make_store(self, clock: SetClock) -> InMemoryTaskStore:
        return InMemoryTaskStore(clock)


class TestSqlite(StoreContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path):
        self.path = tmp_path / "chong.db"

    def make_store(self, clock: SetClock) -> SqliteTaskStore:
        return SqliteTaskStore(self.path, clock=clock, checkpoints=True)


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, emptied: str):
        self.address = emptied

    def make_store(self, clock: SetClock) -> PostgresTaskStore:
        return PostgresTaskStore(self.address, clock=clock)
