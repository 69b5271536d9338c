"""`doctor`, `alerts` and `ack` on a small deployment."""

from datetime import timedelta

import pytest
from cli_world import S, World

from chong.cli.times import stamp
from chong.store.alert import Finding
from chong.supervisor.advice import Kind
from chong.supervisor.config import configured
from chong.supervisor.configured_buckets import configured_buckets
from chong.supervisor.effective import settings_of


@pytest.fixture
def raised(world: World):
    findings = [Finding("duplicate", "buckets 1-3", "by a, b"), Finding("clock", "node a", "2.5 s ahead")]
    changes = world.store.report_findings(findings, quiet=timedelta(hours=1), event_id="1")
    return {alert.kind: alert for alert in changes.raised}


def kinds(answer):
    return {row["kind"] for row in answer.json} - {Kind.LIBRARY}


def test_doctor_tells_each_thing_in_one_line_with_what_to_do(world: World, chong):
    """Exit 1; JSON has the same, by names."""
    world.store.declare_buckets("node-a", frozenset(range(60)))
    world.add_node("node-b", frozenset(range(59, 64)))
    answer = chong("doctor")
    line = next(line for line in answer.lines if line.startswith("duplicate"))
    assert line.startswith("duplicate: buckets 59: declared by node-a, node-b; give each bucket to one node")
    assert (answer.code, answer.err) == (1, "")
    row = next(row for row in chong("doctor", "--json").json if row["kind"] == "duplicate")
    assert set(row) == {"kind", "subject", "detail", "advice"}


def test_doctor_says_how_to_begin_where_no_node_has_been(chong, tmp_path):
    """As after `chong migrate`: that is nothing wrong, and yet nothing would run."""
    new = ("--db", str(tmp_path / "new.db"))
    assert chong(*new, "--num-buckets", "8", "migrate").code == 0
    said = "chong: no node is known to this store, so nothing runs: start one with chong-supervisor --node NAME\n"
    for words in ("doctor", "doctor --json"):
        answer = chong(*new, *words.split())
        assert answer.err == said
        if "library" in answer.out:  # by the SQLite of this machine
            assert answer.code == 1
        else:
            assert (answer.code, answer.out) in {(0, "nothing found\n"), (0, "[]\n")}
    file = tmp_path / "chong.toml"
    file.write_text("[nodes.north]\n")
    answer = chong(*new, "--config", str(file), "--node", "north", "doctor")
    assert answer.err == said
    assert "unknown node north" not in answer.out


def test_doctor_counts_what_has_not_changed_for_as_long_as_it_is_asked(world: World, chong, tmp_path):
    """By the option, by chong.toml, else ten minutes."""
    with world.ago(120):
        world.add_node("node-b", None, ttl=1)
        world.add(node="node-b", status=S.QUEUED)
    assert "orphan" not in kinds(chong("doctor", "--json"))
    assert "orphan" in kinds(chong("doctor", "--orphan-after", "1m", "--json"))
    (tmp_path / "chong.toml").write_text('orphan_after = "90s"\n')
    assert "orphan" in kinds(chong("--config", str(tmp_path / "chong.toml"), "doctor", "--json"))


def test_doctor_compares_the_nodes_of_the_configuration(world: World, chong, tmp_path):
    """With what they have declared; another node's bad value ends nothing."""
    file = tmp_path / "chong.toml"
    file.write_text('[nodes.node-a]\nowned_buckets = "0-5"\n[nodes.other]\nowned_buckets = "x"\n')
    rows = chong("--config", str(file), "--node", "node-a", "doctor", "--json").json
    told = {row["subject"]: row["detail"] for row in rows if row["kind"] == "config"}
    assert told["buckets of node node-a"] == "owns 0-5 by chong.toml, all by its own declaration"
    assert f"{file}:4" in told["table of node other"]


@pytest.mark.parametrize("written", ["{}", "sqlite:///{}", "{}/../chong.db"])
@pytest.mark.parametrize("is_same", [True, False])
def test_another_store_s_nodes_are_not_the_file_s(tmp_path, written, is_same):
    """By one rule for commands and supervisors, however the path of the file is spelt."""
    used = tmp_path / "chong.db"
    (tmp_path / "chong.db.d").mkdir()
    named = written.format(used).replace("chong.db/..", "chong.db.d/..")
    file = tmp_path / "chong.toml"
    file.write_text(f'db = "{named if is_same else tmp_path / "other.db"}"\n[nodes.node-a]\nowned_buckets = "0-5"\n')
    config = configured({"config": str(file), "db": str(used), "node": "node-a"}, {}, is_node=True)
    assert (set(configured_buckets(config)), set(settings_of(config).configured)) == (
        ({"node-a"}, {"node-a"}) if is_same else (set(), set())
    )


def test_alerts_are_listed_and_taken_on(world: World, chong, raised):
    """By id, or by kind and subject; the first one who does so stands."""
    del world
    assert chong("ack", str(raised["clock"].id), "--as", "olga").code == 0
    assert chong("ack", "duplicate", "buckets 1-3", "--as", "ann").out.endswith("acknowledged by ann\n")
    rows = {row["kind"]: row for row in chong("alerts", "--json").json}
    assert {kind: row["acknowledged_by"] for kind, row in rows.items()} == {"clock": "olga", "duplicate": "ann"}
    assert len(chong("alerts").lines) == 3


@pytest.mark.parametrize("who", ["olga", "ann"])
def test_who_takes_on_an_alert_that_is_taken_hears_by_whom_and_since_when(world: World, chong, raised, who):
    """Nothing is changed, also where it is the same person; what was wanted is so, and exit 0 says it."""
    chong("ack", "duplicate", "buckets 1-3", "--as", "ann")
    before = world.store.alerts()
    answer = chong("ack", "duplicate", "buckets", "1-3", "--as", who)
    (since,) = [stamp(alert.acknowledged_at) for alert in before if alert.kind == "duplicate"]
    line = f"{raised['duplicate'].id} duplicate buckets 1-3: acknowledged already by ann at {since}\n"
    assert (answer.code, answer.out, answer.err) == (0, line, "")
    assert world.store.alerts() == before


def test_alerts_that_are_over_are_shown_on_demand(world: World, chong, raised):
    """They cannot be taken on any more."""
    world.store.report_findings([], quiet=timedelta(0), event_id="2")
    assert chong("alerts", "--json").json == []
    assert len(chong("alerts", "--all", "--json").json) == 2
    assert chong("ack", str(raised["clock"].id)).code == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("duplicat", "x"), 2, "did you mean duplicate?"),
        (("what",), 2, "expected the ID of an alert, or a KIND and a SUBJECT"),
        (("999",), 1, "no open alert 999"),
        (("duplicate", "buckets 1-4"), 1, "did you mean buckets 1-3?"),
        ((), 2, "ID | KIND SUBJECT"),
    ],
)
def test_an_alert_that_is_not_there_is_told_in_one_line(world: World, chong, raised, words, code, said):
    """With the nearest one."""
    del world, raised
    answer = chong("ack", *words)
    assert (answer.code, answer.err.count("\n")) == (code, 1)
    assert said in answer.err
