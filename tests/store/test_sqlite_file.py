"""The file of a SQLite store: whose it is, where it lies, and who may use it."""

import contextlib
import random
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path, PurePath

import pytest

from chong.store import schema
from chong.store.alert import Finding
from chong.store.errors import ChongError, ConfigurationError, StoreUnavailable
from chong.store.model import HoldScope, SharedHold
from chong.store.mounts import network_file_system
from chong.store.query import TaskQuery
from chong.store.specimens import (
    NODE,
    START,
    TERM,
    node_record,
    read,
    request,
    stored_queued,
    stored_run,
    term_record,
)
from chong.store.sqlite import SqliteTaskStore

SCHEMA_6_REGISTERS = """
INSERT INTO nodes
    (node, node_id, term, host, boot_id, pid, version, ttl, limits, containment, generation, started_at, seen_at)
VALUES ('old', 'old-id', 'old.1', 'host', 'boot', 1, '0.1', 30000000, '{}', '', 0, 0, 0)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chong.db"


@pytest.fixture
def store(path):
    with SqliteTaskStore(path, deadline=0.2) as store:
        yield store


def changed(path: Path, *statements: str) -> None:
    """Another program writes to a file that no store of this process has open."""
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


class TestFile:
    @pytest.mark.parametrize("name", ["missing/chong.db", "missing/deeper/chong.db"])
    def test_a_missing_directory_is_told(self, tmp_path, name):
        """The store makes no directories."""
        with pytest.raises(ConfigurationError, match="there is no directory"):
            SqliteTaskStore(tmp_path / name)

    def test_a_missing_file_is_not_made_unless_asked(self, path):
        """A command that only looks leaves no file behind."""
        with pytest.raises(ConfigurationError, match=f"{path}: there is no such file"):
            SqliteTaskStore(path, create=False)
        assert not path.exists()

    def test_a_directory_is_no_store(self, tmp_path):
        """It says what it expected."""
        with pytest.raises(ConfigurationError, match="expected a file, got a directory"):
            SqliteTaskStore(tmp_path)

    @pytest.mark.parametrize("create", [True, False])
    def test_a_file_that_is_no_database_is_told(self, path, create):
        """And left as it is."""
        path.write_bytes(b"something else entirely " * 100)
        with pytest.raises(ConfigurationError, match="no SQLite database") as refused:
            SqliteTaskStore(path, create=create)
        assert "\n" not in str(refused.value)
        assert path.read_bytes().startswith(b"something else")

    def test_another_programs_database_is_left_alone(self, path):
        """Our tables do not go into it."""
        changed(path, "CREATE TABLE theirs (x)")
        with pytest.raises(ConfigurationError, match="another SQLite database"):
            SqliteTaskStore(path)
        db = sqlite3.connect(path)
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
        db.close()

    def test_an_empty_file_is_made_a_store_only_by_who_may_make_one(self, path):
        """As a missing one is."""
        path.touch()
        with pytest.raises(ConfigurationError, match="empty file"):
            SqliteTaskStore(path, create=False)
        SqliteTaskStore(path).close()

    def test_a_schema_that_is_too_new_is_refused(self, path):
        """It says which code is needed."""
        SqliteTaskStore(path).close()
        changed(path, "UPDATE deployment SET oldest_code = 9, schema_version = 9")
        with pytest.raises(ConfigurationError, match="schema 9, for code that knows schema 9 or newer"):
            SqliteTaskStore(path)

    def test_a_newer_schema_that_still_admits_this_code_is_used(self, path):
        """Nodes are upgraded one by one."""
        SqliteTaskStore(path).close()
        changed(path, "UPDATE deployment SET schema_version = 9", "ALTER TABLE tasks ADD COLUMN later TEXT")
        with SqliteTaskStore(path) as store:
            run = stored_run(store)
        with SqliteTaskStore(path) as store:
            found = read(store, run)
        assert (run.status, run.version, run.attempt) == (found.status, found.version, found.attempt)

    def test_an_older_database_gets_the_columns_and_tables_that_are_new(self, path):
        """An upgraded node finds its old tasks, and says what the old code could not."""
        with SqliteTaskStore(path) as store:
            run = stored_run(store)
            store.submit_command(request(1, run))
        changed(
            path,
            "ALTER TABLE nodes DROP COLUMN containment",
            "ALTER TABLE nodes DROP COLUMN ended_at",
            "ALTER TABLE catalogue DROP COLUMN hold",
            "ALTER TABLE deployment DROP COLUMN holds_revision",
            "ALTER TABLE nodes DROP COLUMN holds_seen",
            "DROP TABLE holds",
            "ALTER TABLE nodes DROP COLUMN clock_ahead",
            "ALTER TABLE commands DROP COLUMN stored_at",
            "ALTER TABLE nodes DROP COLUMN machine_id",
            "DROP TABLE alerts",
            "DROP TABLE rebucketings",
            "DROP INDEX firings_by_claim",
            "UPDATE deployment SET schema_version = 1",
        )
        for _ in range(2):
            with SqliteTaskStore(path, create=False) as store:
                assert read(store, run).version == run.version
                assert store.commands(run.id) == [request(1, run)]
                store.register_term(term_record(), node_record(containment="cgroup", machine_id="m"))
                assert [(node.containment, node.machine_id, node.ended_at) for node in store.nodes()] == [
                    ("cgroup", "m", None)
                ]
                store.report_clock(TERM, timedelta(seconds=1))
                store.report_findings([Finding("clock", NODE, "")], quiet=timedelta(days=1), event_id="1")
                assert [alert.subject for alert in store.alerts()] == [NODE]
                assert store.deployment().schema_version == schema.SCHEMA_VERSION
                store.place_hold(SharedHold(scope=HoldScope.NAME, target="mail", by="olga"))
                assert [hold.by for hold in store.holds().holds] == ["olga"]
                assert store.rebucketings() == []

    @pytest.mark.parametrize("tables", ["new", "upgraded"])
    def test_code_that_tells_no_machine_goes_on_in_the_tables_of_code_that_does(self, path, tables):
        """As code of schema 6 registers and looks; its machine is unknown."""
        SqliteTaskStore(path).close()
        if tables == "upgraded":
            to_6 = "UPDATE deployment SET schema_version = 6"
            changed(path, "ALTER TABLE nodes DROP COLUMN machine_id", to_6)
            SqliteTaskStore(path).close()
        changed(path, SCHEMA_6_REGISTERS)
        with SqliteTaskStore(path) as store:
            assert store.deployment().oldest_code == 1
            assert [(node.node, node.boot_id, node.machine_id) for node in store.nodes()] == [("old", "boot", "")]

    def test_a_write_takes_its_time_when_the_others_are_done(self, tmp_path):
        """Who registers while it waits is live by it: it takes its time when nobody else can write any more."""
        path = tmp_path / "chong.db"
        with SqliteTaskStore(path), contextlib.closing(sqlite3.connect(path, timeout=0)) as other:

            def clock() -> datetime:
                with contextlib.suppress(sqlite3.OperationalError):
                    other.execute("BEGIN IMMEDIATE")
                    other.rollback()
                    early.append("somebody could still write")
                return START

            early: list[str] = []
            with SqliteTaskStore(path, clock=clock) as store:
                store.record_num_buckets(64)
                store.register_term(term_record(), node_record(ttl=timedelta(0)))
                (finding,) = store.report_findings(
                    [Finding("clock", NODE, "")], quiet=timedelta(days=1), event_id="1"
                ).raised
                store.acknowledge_alert(finding.id, "olga")
                store.place_hold(SharedHold(scope=HoldScope.NODE, target=NODE, by="olga"))
                store.complete_command("1", "done")
                store.rebucket(96, "rebucket.1", actor="olga")
                store.end_term(TERM)
        assert early == []

    @pytest.mark.parametrize("name", ["with space.db", "what?.db", "100%#.db", "名.db"])
    def test_a_file_may_have_any_name(self, tmp_path, name):
        """Nothing in it is taken for an option."""
        SqliteTaskStore(tmp_path / name).close()
        assert (tmp_path / name).is_file()

    def test_a_damaged_file_is_told_and_kept(self, path):
        """Never made anew: what can be saved of it must stay."""
        with SqliteTaskStore(path) as store:
            stored_queued(store)
        whole = path.read_bytes()
        path.write_bytes(whole[:4096] + random.Random(7).randbytes(len(whole) - 4096))
        with pytest.raises(ChongError) as refused, SqliteTaskStore(path) as store:
            store.query(TaskQuery())
        assert "\n" not in str(refused.value)
        assert whole[:4096] == path.read_bytes()[:4096]

    def test_a_directory_that_cannot_be_written_is_told(self):
        """As a matter of configuration; nobody can make a file in /proc, not even root."""
        with pytest.raises(ConfigurationError, match="check the rights"):
            SqliteTaskStore(Path("/proc/chong.db"))


MOUNTS = r"""
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:26 / /home rw - nfs4 server:/home rw
31 30 0:27 / /home/local rw shared:5 master:1 - xfs /dev/sdb rw
32 22 0:28 / /mnt/with\040space rw - cifs //server/share rw
33 22 0:29 / /mnt/ssh rw - fuse.sshfs host: rw
34 22 0:30 / /mnt/block rw - fuseblk /dev/sdc rw
35 22 0:31 / /mnt/twice rw - nfs server:/a rw
36 22 0:32 / /mnt/twice rw - tmpfs tmpfs rw
""".strip()


class TestNetwork:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/var/lib/chong/chong.db", None),
            ("/home/ann/chong.db", "nfs4"),
            ("/homeless/chong.db", None),
            ("/home/local/chong.db", None),
            ("/mnt/with space/chong.db", "cifs"),
            ("/mnt/ssh/chong.db", "fuse.sshfs"),
            ("/mnt/block/chong.db", None),
            ("/mnt/twice/chong.db", None),
        ],
    )
    def test_the_deepest_and_latest_mount_decides(self, path, kind):
        """Spaces are escaped in the table."""
        assert kind == network_file_system(MOUNTS, PurePath(path))

    def test_a_store_on_a_network_is_refused(self, path, monkeypatch, tmp_path):
        """In one line that names the file system and the way out."""
        table = tmp_path / "mountinfo"
        table.write_text(f"1 0 0:1 / {tmp_path.resolve()} rw - nfs4 server:/x rw\n")
        monkeypatch.setattr("chong.store.sqlite._MOUNTINFO", table)
        with pytest.raises(ConfigurationError, match="expected a local file system, got nfs4"):
            SqliteTaskStore(path)


class TestReplacement:
    @pytest.mark.parametrize("how", ["removed", "replaced"])
    def test_a_file_that_is_not_the_one_we_opened_is_no_store(self, path, how):
        """It would take writes that nobody ever reads; everything goes on once it is put back."""
        with SqliteTaskStore(path) as store:
            stored_queued(store)
            away = path.rename(path.with_name("away.db"))
            if how == "replaced":
                path.touch()
            with pytest.raises(StoreUnavailable, match="was removed or replaced"):
                stored_run(store, 2)
            away.rename(path)
            stored_run(store, 2)


@pytest.mark.parametrize("table", ["deployment", "tasks", "task_tags", "holds"])
def test_a_table_that_was_dropped_is_named(path, table):
    """As something that is waited for, until a copy is restored; nothing is made in its place."""
    SqliteTaskStore(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"DROP TABLE {table}")
    for create in (True, False):
        with pytest.raises(StoreUnavailable, match=table):
            SqliteTaskStore(path, create=create)
