"""What must not start is known to the next term too, and an unreadable list lets nothing start."""

from datetime import UTC, datetime

import pytest

from chong.store.errors import ConfigurationError
from chong.supervisor.holds import EVERYTHING, Hold, Holds

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLGA = Hold(by="olga@desk", since=NOW, reason="too many mails")
TRIPPED = Hold(by="node-a.1", since=NOW, reason="breaker: …", by_breaker=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "holds.json"


def read(path):
    holds = Holds(path)
    return holds, holds.load("node-a.2")


def test_a_hold_survives(path):
    """With who, why, since, and whether the breaker made it."""
    Holds(path).put({"mail": OLGA, "crash": TRIPPED})
    holds, readable = read(path)
    assert readable
    assert {name: holds.get(name) for name in holds} == {"mail": OLGA, "crash": TRIPPED}


def test_a_release_survives(path):
    """The others stay."""
    first = Holds(path)
    first.put({"mail": OLGA, "crash": TRIPPED})
    first.drop(["mail", "stranger"])
    assert list(read(path)[0]) == ["crash"]


def test_a_first_start_holds_nothing(path):
    """There is no file, and none is written for it."""
    holds, readable = read(path)
    assert (list(holds), readable, path.exists()) == ([], True, False)


def test_its_own_hold_comes_before_the_one_on_everything(path):
    """Each name is kept by something then."""
    holds = Holds(path)
    everything = Hold(by="eve", since=NOW)
    holds.put({"mail": OLGA, EVERYTHING: everything})
    assert (holds.on("mail"), holds.on("other")) == (OLGA, everything)


def test_its_text_says_why_by_whom_and_since_when():
    """For `chong tasks` and `chong show`; a reason is not needed."""
    assert OLGA.text == "too many mails; by olga@desk since 2026-03-01 12:00:00Z"
    assert Hold(by="eve", since=NOW).text == "by eve since 2026-03-01 12:00:00Z"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b"\xff\xfe",
        b'{"mail": {}}',
        b'{"mail": null}',
        b'{"mail": {"by": "x", "since": "noon"}}',
        b'{"mail": {"by": "", "since": "2026-03-01T12:00:00+00:00"}}',
        b'{"mail": {"by": "x", "since": "2026-03-01T12:00:00+00:00", "colour": 1}}',
        b"[" * 100_000,
    ],
)
def test_an_unreadable_file_holds_everything(path, content):
    """Nobody knows what it held; what it was is kept, and the term after this one goes on holding."""
    path.write_bytes(content)
    holds, readable = read(path)
    assert not readable
    assert "could not be read" in holds.on("whatever").reason
    assert holds.set_aside().read_bytes() == content
    again, readable = read(path)
    assert (readable, list(again)) == (True, [EVERYTHING])


def test_until_it_is_set_aside_each_start_finds_it_unreadable(path):
    """A disk that is full in this very moment must not let everything start later."""
    path.write_bytes(b"{")
    assert read(path)[1] is False
    assert read(path)[1] is False


def test_a_change_counts_though_the_disk_did_not_take_it(path):
    """Whoever made it is told so."""
    holds = Holds(path / "nowhere" / "holds.json")
    with pytest.raises(OSError):
        holds.put({"mail": OLGA})
    assert holds.get("mail") == OLGA


@pytest.mark.parametrize("bad", [{"by": ""}, {"by": "x" * 201}, {"reason": ""}, {"reason": "x" * 501}, {"by": "a\nb"}])
def test_odd_words_are_refused(bad):
    """They are printed on terminals."""
    with pytest.raises(ConfigurationError):
        Hold(**{"by": "x", "since": NOW, **bad})
