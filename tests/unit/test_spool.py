"""A node's spool: what it has taken is there again, whatever has become of the process, the disk or the file."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from chong.store.errors import ConfigurationError
from chong.store.specimens import task_id
from chong.supervisor import spool as spool_module
from chong.supervisor.paths import Paths
from chong.supervisor.spool import MemberEnd, Spool, UnreadableState
from chong.supervisor.spool_file import VERSION, SpoolError, SpoolFile
from chong.supervisor.submission import Submission


class Place:
    """A state directory whose spool is opened again and again, as by one term after the other."""

    def __init__(self, root: Path) -> None:
        self.paths = Paths(root, root / "run")
        self.faults: list[tuple[str, str]] = []
        self.told: SimpleQueue[SpoolError | None] = SimpleQueue()
        self._opened: list[Spool] = []
        self._terms = 0

    def open(self) -> Spool:
        self.close()
        self._terms += 1
        loop = SimpleNamespace(call=lambda act: act(), fail=self._fail)
        spool = Spool(self.paths, loop, self._complain)
        spool.open(f"term-{self._terms}")
        self._opened.append(spool)
        return spool

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close(20)

    def keep(self, spool: Spool, number: int, **params: object) -> Submission:
        """As `kept`, without waiting."""
        submission = Submission(name="n", id=task_id(number), params=params)
        spool.keep(submission, self.told.put)
        return submission

    def kept(self, spool: Spool, number: int, **params: object) -> Submission:
        submission = self.keep(spool, number, **params)
        assert self.told.get(timeout=20) is None
        return submission

    def rows(self, query: str) -> list[tuple[object, ...]]:
        self.close()
        with contextlib.closing(sqlite3.connect(self.paths.spool, isolation_level=None)) as file:
            return file.execute(query).fetchall()

    def _complain(self, event: str, error: Exception | None) -> None:
        if error is not None:
            self.faults.append((event, str(error)))

    def _fail(self, error: BaseException) -> None:
        raise error


@pytest.fixture
def place(tmp_path: Path):
    made = Place(tmp_path)
    yield made
    made.close()


def test_what_was_accepted_is_there_until_it_is_over(place: Place):
    """In the order in which it came, and with the word whether the store has had it; what is over stays for a rerun."""
    spool = place.open()
    kept = [place.kept(spool, number, since=number) for number in (3, 1, 2, 4, 5)]
    spool.mark_stored(task_id(1))
    spool.drop(task_id(4), 1)
    spool.forget(task_id(5))
    found = place.open().replay()
    assert (list(found.submissions.values()), found.stored) == (kept[:3], {task_id(1)})
    spool = place.open()
    assert [spool.submission(task_id(number)) for number in (4, 5)] == [kept[3], None]


def test_an_answer_is_given_after_the_disk_has_it(place: Place):
    """A process that ends in the very moment of the answer leaves the submission behind."""
    code = f"""
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
from chong.supervisor.paths import Paths
from chong.supervisor.spool import Spool
from chong.supervisor.submission import Submission
root = Path(sys.argv[1])
spool = Spool(Paths(root, root / "run"), SimpleNamespace(call=lambda act: act()), print)
spool.open("term-0")
spool.keep(Submission(name="n", id={task_id(1)!r}), lambda error: os._exit(7 if error is None else 1))
time.sleep(60)
"""
    child = subprocess.run([sys.executable, "-c", code, str(place.paths.state)], timeout=60, check=False)
    assert child.returncode == 7
    found = place.open().replay()
    assert (list(found.submissions), found.terms) == ([task_id(1)], {"term-0"})


def test_what_has_gathered_goes_to_the_disk_at_once(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Two hundred submissions that came while the disk was busy cost one more wait for it, not two hundred."""
    spool = place.open()
    gate, waits, write = threading.Event(), [], SpoolFile.write

    def write_slowly(file: SpoolFile, statements: object) -> None:
        waits.append(1)
        gate.wait(20)
        write(file, statements)

    monkeypatch.setattr(SpoolFile, "write", write_slowly)
    place.keep(spool, 0)
    while not waits:
        assert not gate.wait(0.001)
    for number in range(1, 201):
        place.keep(spool, number)
    gate.set()
    assert [place.told.get(timeout=20) for _ in range(201)] == [None] * 201
    assert len(waits) == 2


def test_each_commit_waits_for_the_disk(place: Place):
    """Else a loss of power would take what was promised."""
    spool = place.open()
    assert spool._file._writing.execute("PRAGMA synchronous").fetchone() == (2,)
    assert spool._file._writing.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_disk_that_is_full_costs_what_does_not_fit(place: Place):
    """The others of the same moment are kept; who has asked hears it, and there is room again later."""
    spool = place.open()
    pages = spool._file._writing.execute("PRAGMA page_count").fetchone()[0]
    spool._file._writing.execute(f"PRAGMA max_page_count = {pages + 4}")
    with spool._writer._changed:  # nothing is taken meanwhile: they go together
        for number, size in ((1, 10), (2, 100_000), (3, 10)):
            place.keep(spool, number, text="x" * size)
    told = [place.told.get(timeout=20) for _ in range(3)]
    assert [error is None for error in told] == [True, False, True]
    assert str(told[1]) == f"{place.paths.spool}: database or disk is full"
    spool._file._writing.execute(f"PRAGMA max_page_count = {pages + 1000}")
    place.kept(spool, 4, text="x" * 100_000)
    assert list(place.open().replay().submissions) == [task_id(number) for number in (1, 3, 4)]


def test_the_newest_state_is_given_back(place: Place):
    """At once, and to the next term; what is over has none."""
    spool = place.open()
    place.kept(spool, 1)
    for text in ("[1]", "[2]"):
        spool.keep_state(task_id(1), text, place.told.put)
    assert spool.last_state(task_id(1)) == [2]
    assert [place.told.get(timeout=20) for _ in range(2)] == [None, None]
    assert (spool._states, spool.last_state(task_id(1)), spool.last_state(task_id(2))) == ({}, [2], None)
    spool = place.open()
    assert spool.last_state(task_id(1)) == [2]
    spool.drop(task_id(1), 1)
    assert place.open().last_state(task_id(1)) is None


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, '"\\ud800"', "[" * 200 + "]" * 200, b"\xff"])
def test_a_state_that_cannot_be_read_is_told_of_once(place: Place, content):
    """And set aside: the attempt after it finds none."""
    place.open()
    place.close()
    with contextlib.closing(sqlite3.connect(place.paths.spool, isolation_level=None)) as file:
        file.execute("INSERT INTO states VALUES (?, ?)", (task_id(1), content))
    spool = place.open()
    with pytest.raises(UnreadableState):
        spool.last_state(task_id(1))
    assert place.open().last_state(task_id(1)) is None
    assert place.rows("SELECT kind, id, content FROM unreadable") == [("state", task_id(1), content)]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"name": 1}', "[" * 100_000, '{"name": "n", "of": "later"}', b"\xff"]
)
def test_a_submission_that_cannot_be_read_is_set_aside(place: Place, content):
    """The others are replayed, and it is told of once."""
    spool = place.open()
    place.kept(spool, 2)
    place.close()
    with contextlib.closing(sqlite3.connect(place.paths.spool, isolation_level=None)) as file:
        file.execute("INSERT INTO submissions (id, content, accepted_at) VALUES (?, ?, 1)", (task_id(1), content))
    found = place.open().replay()
    assert (list(found.submissions), found.unreadable) == ([task_id(2)], [f"submission {task_id(1)}"])
    assert place.open().replay().unreadable == []
    assert place.rows("SELECT kind, id, content FROM unreadable") == [("submission", task_id(1), content)]


def test_a_later_version_s_spool_is_refused_and_left_alone(place: Place):
    """What it holds only that version knows how to take over."""
    place.kept(place.open(), 1)
    place.rows(f"PRAGMA user_version = {VERSION + 1}")
    before = place.paths.spool.read_bytes()
    with pytest.raises(ConfigurationError) as refused:
        place.open()
    assert f"{place.paths.spool}: expected a spool of version {VERSION}, got {VERSION + 1}: a later chong" in str(
        refused.value
    )
    assert place.paths.spool.read_bytes() == before


def test_an_older_version_s_spool_gets_what_it_lacks(place: Place):
    """And keeps what it has."""
    place.kept(place.open(), 1)
    place.rows("DROP TABLE groups")
    place.rows("PRAGMA user_version = 1")
    spool = place.open()
    spool.keep_group(task_id(9), "{}", [Submission(name="n", id=task_id(2), group_id=task_id(9))], place.told.put)
    assert place.told.get(timeout=20) is None
    assert list(place.open().replay().submissions) == [task_id(1), task_id(2)]
    assert place.rows("SELECT id, content FROM groups") == [(task_id(9), "{}")]


def test_a_group_is_kept_with_all_its_members_or_not_at_all(place: Place):
    """A member that cannot be written takes the others and the group along."""
    spool = place.open()
    members = [Submission(name="n", id=task_id(n), group_id=task_id(9)) for n in (1, 2)]
    place.rows(
        "CREATE TRIGGER full BEFORE INSERT ON submissions WHEN new.id LIKE '%2-%' BEGIN SELECT RAISE(FAIL, 'full'); END"
    )
    spool = place.open()
    spool.keep_group(task_id(9), "{}", members, place.told.put)
    assert "full" in str(place.told.get(timeout=20))
    assert (spool.open_groups(), place.open().replay().submissions) == ([], {})


def test_the_end_of_a_member_is_known_as_long_as_its_group(place: Place):
    """And goes with it."""
    spool = place.open()
    spool.keep_group(task_id(9), "{}", [Submission(name="n", id=task_id(1), group_id=task_id(9))], place.told.put)
    assert place.told.get(timeout=20) is None
    spool.drop(task_id(1), 1, MemberEnd(task_id(9), "lost"))
    spool.prune(0, None)
    spool = place.open()
    assert spool.member_ends(task_id(9)) == {task_id(1): "lost"}
    spool.end_group(task_id(9))
    spool = place.open()
    assert (spool.open_groups(), [row.id for row in spool.groups_by_part("0000", 5)]) == ([], [task_id(9)])
    spool.prune(float("inf"), None)
    spool = place.open()
    assert (spool.groups_by_part(task_id(9), 5), spool.member_ends(task_id(9))) == ([], {})


@pytest.mark.parametrize("junk", [b"junk" * 5000, b"SQLite format 3\0" + b"\xff" * 5000], ids=["other", "spoilt"])
def test_a_file_that_is_no_database_is_set_aside(place: Place, junk):
    """The node begins with an empty one, and what was there is not thrown away."""
    place.paths.spool.write_bytes(junk)
    spool = place.open()
    assert Path(spool.damaged).read_bytes() == junk
    place.kept(spool, 1)
    spool = place.open()
    assert (spool.damaged, list(spool.replay().submissions)) == (None, [task_id(1)])


def test_a_spoilt_page_costs_what_lay_on_it(place: Place):
    """Everything else that can be read is taken over."""
    spool = place.open()
    for number in range(200):
        place.kept(spool, number, text="x" * 500)
    place.close()
    pages = place.paths.spool.stat().st_size // 4096
    with place.paths.spool.open("r+b") as file:
        file.seek((pages // 2) * 4096)
        file.write(b"\xa5" * 4096)
    spool = place.open()
    found = spool.replay()
    assert Path(spool.damaged).exists()
    assert 100 < len(found.submissions) < 200
    assert all(submission.params == {"text": "x" * 500} for submission in found.submissions.values())


def test_an_empty_file_is_a_new_spool(place: Place):
    """As a disk may leave one behind that was full."""
    place.paths.spool.touch()
    assert place.open().replay().submissions == {}


def test_a_directory_in_its_place_is_refused(place: Place):
    """In one line."""
    place.paths.spool.mkdir()
    with pytest.raises(ConfigurationError, match=r"spool\.db: cannot be used as a spool"):
        place.open()


def test_it_is_for_its_owner_alone(place: Place):
    """Parameters may be secret, whatever the umask says."""
    before = os.umask(0)
    try:
        place.kept(place.open(), 1)
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in place.paths.state.glob("spool.db*")} == {
        "spool.db": 0o600,
        "spool.db-wal": 0o600,
        "spool.db-shm": 0o600,
    }


def test_terms_that_never_met_the_store_are_remembered(place: Place):
    """Until one has: by them the next one knows that the spool is not older than the store."""
    for terms in ([], ["term-1"], ["term-1", "term-2"]):
        spool = place.open()
        assert spool.replay().terms == frozenset(terms)
    spool.meet_store("term-3")
    assert place.open().replay().terms == {"term-3"}


def test_what_is_over_is_kept_for_its_time_and_within_bounds(place: Place, monkeypatch: pytest.MonkeyPatch):
    """By age, and the oldest first when all take too much; what is open stays."""
    spool = place.open()
    for number in range(5):
        place.kept(spool, number, text="x" * 1000)
    place.rows(f"UPDATE submissions SET ended_at = substr(id, -1) * 100 WHERE id <> '{task_id(0)}'")
    left = "SELECT id FROM submissions ORDER BY id"
    place.open().prune(150, None)
    assert place.rows(left) == [(task_id(number),) for number in (0, 2, 3, 4)]
    monkeypatch.setattr(spool_module, "KEPT_BYTES", 2500)
    place.open().prune(None, None)
    assert place.rows(left) == [(task_id(number),) for number in (0, 3, 4)]


def test_what_was_set_aside_goes_after_its_time(place: Place):
    """And not before."""
    place.open()
    place.rows(
        f"INSERT INTO unreadable (kind, id, content, found_at) "
        f"VALUES ('state', '{task_id(1)}', 'x', 100), ('state', '{task_id(2)}', 'x', 300)"
    )
    place.open().prune(None, 200)
    assert place.rows("SELECT id FROM unreadable") == [(task_id(2),)]


def test_a_run_s_own_files_go_with_its_task(place: Place):
    """What it has left in its directory, and the state; the submission stays."""
    spool = place.open()
    submission = place.kept(spool, 1)
    left = place.paths.run_dir(f"{submission.id}.2")
    left.mkdir(parents=True)
    (left / "remains.json").write_text("{}")
    spool.drop(submission.id, 2)
    assert (left.exists(), spool.is_open(submission.id)) == (False, False)
    (content,) = place.rows("SELECT content FROM submissions")[0]
    assert json.loads(str(content))["name"] == "n"
