"""From an address to a store, and what the package shows."""

import subprocess
import sys
from pathlib import Path

import pytest

import chong.store
from chong.store.address import EXPECTED
from chong.store.errors import ConfigurationError, StoreUnavailable
from chong.store.memory import InMemoryTaskStore
from chong.store.open import check_address, file_of, open_store
from chong.store.queries import load_queries
from chong.store.specimens import SetClock, stored_run
from chong.store.sqlite import SqliteTaskStore

STRAYED = [
    " postgresql://ann:s3cret@host/db",
    '"postgresql://ann:s3cret@host/db"',
    "CHONG_DB=postgresql://ann:s3cret@host/db",
    "//ann:s3cret@host/db",
    "postgresql//ann:s3cret@host/db",
    "ann:s3cret@host/db",
]
"""As variables and files come to have them."""


def refusal(address: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        open_store(address)
    assert "\n" not in str(refused.value)
    return str(refused.value)


class TestAddress:
    @pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "SQLite:///{}"])
    def test_a_path_opens_a_file(self, tmp_path, form):
        """Bare, or as a URL; absolute here, so four slashes."""
        with open_store(form.format(tmp_path / "chong.db")) as store:
            assert isinstance(store, SqliteTaskStore)
        assert (tmp_path / "chong.db").is_file()

    def test_three_slashes_are_a_relative_path(self, tmp_path, monkeypatch):
        """It stays where it was when the process moves on."""
        monkeypatch.chdir(tmp_path)
        with open_store("sqlite:///chong.db") as store:
            monkeypatch.chdir("/")
            stored_run(store)
        assert (tmp_path / "chong.db").is_file()

    def test_memory_opens_a_store_in_memory(self):
        """On the clock that was given."""
        clock = SetClock()
        with open_store("memory:", clock=clock) as store:
            assert isinstance(store, InMemoryTaskStore)
            stored_run(store)
            clock.advance(31)
            assert store.leases()[0].is_past

    def test_a_path_object_opens_a_file(self, tmp_path):
        """As its text does."""
        open_store(tmp_path / "chong.db").close()
        assert (tmp_path / "chong.db").is_file()

    def test_a_missing_file_can_be_refused(self, tmp_path):
        """For commands that only look."""
        with pytest.raises(ConfigurationError, match=str(tmp_path)):
            open_store(f"sqlite:///{tmp_path}/chong.db", create=False)

    @pytest.mark.parametrize("scheme", ["sqlit", "mysql", "sqlite3"])
    def test_an_unknown_scheme_names_all_there_are(self, scheme):
        """And guesses at none: they are few."""
        assert refusal(f"{scheme}:///x") == f"store: {EXPECTED}, got {scheme}:"

    @pytest.mark.parametrize("address", ["", "  ", "sqlite:", "sqlite://", "sqlite:///", "sqlite://x"])
    def test_an_address_without_a_path_is_told(self, address):
        """With the form that was expected."""
        assert "expected sqlite:///path" in refusal(address)

    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://ann:s3cret@host/db",
            "postgresql://ann:s3cr@s3cret@host/db",
            "postgresql://ann:/s3cret@host/db",
            "postgresql://host/db?password=s3cret",
            "mysql://ann:s3cret@host/db",
            "postgresql:host=h password=s3cret",
            "postgresql:host=h password='s3cret x'",
            "sqlite:ann:s3cret@host",
            *STRAYED,
        ],
    )
    def test_a_password_is_never_shown(self, address):
        """Whatever is wrong with the rest, and whatever of it is taken for something else."""
        with pytest.raises((ConfigurationError, StoreUnavailable)) as refused:
            open_store(address)
        assert "s3cr" not in str(refused.value)

    @pytest.mark.parametrize("address", STRAYED)
    def test_an_address_that_does_not_begin_as_one_is_no_path(self, address):
        """Nor anywhere else: a file would be made, with the password in its name."""
        for use in (open_store, check_address, file_of):
            with pytest.raises(ConfigurationError, match=EXPECTED):
                use(address)


class TestPackage:
    def test_every_public_name_is_there(self):
        """Also those that are loaded on demand."""
        assert all(getattr(chong.store, name) for name in chong.store.__all__)

    def test_other_names_are_not(self):
        """A misspelt one is an AttributeError."""
        with pytest.raises(AttributeError):
            _ = chong.store.NoSuchStore

    def test_importing_the_package_loads_no_database(self):
        """A command has to answer at once."""
        program = "import sys, chong.store; print('sqlite3' in sys.modules, 'pytest' in sys.modules)"
        answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert answer.stdout == "False False\n"


class TestQueries:
    def test_every_query_has_a_purpose(self):
        """One line each; a query without one would be swallowed by the one before."""
        for dialect in ("sqlite", "postgres"):
            files = (Path(chong.store.__file__).parent / "sql" / dialect).glob("*.sql")
            assert sum(file.read_text().count("-- name: ") for file in files) == len(load_queries(dialect))

    def test_no_blank_is_left_but_the_conditions(self):
        """A misspelt name would reach the database."""
        left = {name for name, text in load_queries("sqlite").items() if "{" in text}
        assert left == {"query"}

    def test_a_query_is_named_after_the_method_that_runs_it(self):
        """One search finds all layers."""
        methods = {name for name in vars(chong.store.TaskStore) if not name.startswith("_")}
        shared = {"snapshot", "past", "live", "unclaimed", "get_many", "deployment_create", "firing_of_key"}
        strangers = {name for name in set(load_queries("sqlite")) - shared if not any(map(name.startswith, methods))}
        assert strangers == set()


@pytest.mark.parametrize(
    ("address", "file"),
    [("a.db", "a.db"), ("/x/a.db", "/x/a.db"), ("sqlite:////x/a.db", "/x/a.db"), ("sqlite:///a.db", "a.db")],
)
def test_the_file_of_an_address_is_known_without_opening_it(address, file):
    """Whoever only asks whether there is one must not make it; other stores have none."""
    assert (str(file_of(address)), file_of("memory:"), file_of("postgresql://h/x")) == (file, None, None)
