"""Settings of the whole suite, and the PostgreSQL server that its tests share."""

import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings
from pg_server import Databases, Server

pytest.register_assert_rewrite("waiting")

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


@pytest.fixture
def server() -> Iterator[Server]:
    """One of the test's own, which may be stopped, frozen and killed."""
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def crashing() -> Iterator[Server]:
    """One of the module's own, which may crash and is there again after each test."""
    with Server() as server:
        yield server


@pytest.fixture
def own_database(crashing: Server) -> Iterator[str]:
    """The address of an empty store on `crashing`."""
    databases = Databases(crashing.address)
    name = databases.new()
    yield databases.of(name)
    databases.drop(name)
    databases.close()


TEST_SECONDS = 300
"""A test that hangs, in a read without a limit of its own, fails by its name and does not hold up the whole suite."""
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL, signal.SIGQUIT: signal.SIG_DFL}


@pytest.fixture(scope="session", autouse=True)
def own_signals() -> Iterator[None]:
    """Heard, although a script's background jobs ignore SIGINT, and nohup SIGHUP: what tests start inherits that, keeps
    to it, and is sent these signals."""
    ignored = [number for number in DEFAULTS if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, DEFAULTS[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def bounded() -> Generator[None, None, None]:
    def give_up(*_: object) -> None:
        pytest.fail(f"it has not ended within {TEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TEST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    yield from bounded()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    yield from bounded()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    yield from bounded()
