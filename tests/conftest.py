"""Settings of the whole suite, and the PostgreSQL server that its tests share."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pg_server import Databases, Server

# Random input is drawn the same way on every run, and no example is too slow on a machine that is busy: what fails,
# fails for what it found.
settings.register_profile("chong", derandomize=True, deadline=None, database=None)
settings.load_profile("chong")


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """Databases on the server of CHONG_TEST_POSTGRES, or else on one that is started here."""
    address = os.environ.get("CHONG_TEST_POSTGRES")
    if address:
        made = Databases(address)
        yield made
        made.close()
        return
    with Server() as server:
        yield Databases(server.address)


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """The address of an empty store."""
    name = databases.new()
    yield databases.of(name)
    databases.drop(name)


@pytest.fixture(scope="session")
def one_database(databases: Databases) -> Iterator[str]:
    name = databases.new()
    yield name
    databases.drop(name)


@pytest.fixture
def emptied(databases: Databases, one_database: str) -> str:
    """As `database`, but the same one again and again: for hundreds of tests that leave nothing but rows."""
    databases.empty(one_database)
    return databases.of(one_database)
