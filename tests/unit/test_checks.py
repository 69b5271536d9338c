"""What is wrong with a deployment, from one look at it."""

from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from chong.store.buckets import parse_buckets
from chong.store.model import BucketDeclaration, CatalogueEntry, Deployment, HoldScope, SharedHold
from chong.store.specimens import START, node_record, task_id
from chong.store.states import Status
from chong.store.survey import OpenCommands, OpenWork, Survey
from chong.supervisor.advice import ADVICE, GRAVE, Kind, to_close, to_replace
from chong.supervisor.checks import LONGEST, findings
from chong.supervisor.share import Share

LONG_AGO = START - timedelta(hours=1)
CALM = Survey(
    now=START,
    engine="postgresql",
    engine_version="16.2",
    deployment=Deployment(8, 4, 1),
    nodes=(),
    declarations=(),
    loads=(),
    catalogue=(),
    work=(),
    commands=(),
    holds=(),
)


def node(name, **facts):
    return node_record(f"{name}.1", name, **({"is_live": True, "seen_at": START, "limits": {"node": 2}} | facts))


def survey(nodes, declared=None, **more):
    """`declared`: bucket lists by node."""
    claims = [BucketDeclaration(b, name, START) for name, text in (declared or {}).items() for b in parse_buckets(text)]
    return replace(CALM, nodes=tuple(nodes), declarations=tuple(claims), **more)


def work(**facts):
    plain = {"node": "a", "bucket": 1, "name": "t", "status": Status.QUEUED, "tasks": 1, "still": 1}
    return OpenWork(**(plain | {"since": LONG_AGO, "task_id": task_id(1)} | facts))


def found(seen, configured=None):
    return [(one.kind, one.subject) for one in findings(seen, configured)]


def test_moments_are_told_in_utc():
    """Whatever zone they came in."""
    since = LONG_AGO.astimezone(timezone(timedelta(hours=2)))
    commands = (OpenCommands(node="a", commands=1, since=since, task_id=task_id(1)),)
    seen = survey([node("a"), node("b", **DEAD)], work=(work(node="b", since=since),), commands=commands)
    told = {one.kind: one.detail for one in findings(seen)}
    assert "since 2026-03-01 11:00:00Z" in told["orphan"]
    assert "since 2026-03-01 11:00:00Z" in told["unclaimed"]


PAIR = {"a": "0-3", "b": "4-7"}
DEAD = {"is_live": False, "seen_at": LONG_AGO}


@pytest.mark.parametrize(
    "seen",
    [
        CALM,
        survey([node("a")]),
        survey([node("a"), node("b")], PAIR),
        survey([node("a"), node("b")], {"a": "0-3"}),
        survey([node("a"), node("b")], {"a": "0-7", "b": "0-7"}),
        survey([node("a"), node("b", is_live=False, ended_at=START - timedelta(seconds=30))], PAIR),
    ],
    ids=["empty", "one", "parted", "one without partition", "two without partition", "restarting"],
)
def test_a_sound_deployment_has_no_findings(seen):
    """A node without partition covers all, and doubles nobody; a node that has just ended may be restarting."""
    assert found(seen) == []


def test_buckets_that_two_nodes_declare_are_one_finding():
    """By who shares them; that one of them is not alive is told."""
    (one,) = findings(
        survey([node("a"), node("b", **DEAD)], {"a": "0-7", "b": "2-3,5"}, deployment=Deployment(9, 4, 1))
    )[:1]
    assert (one.kind, one.subject, one.detail) == ("duplicate", "buckets 2-3,5", "declared by a, b (not alive)")


def test_buckets_without_a_living_owner_are_uncovered():
    """Whether nobody has declared them or who has is gone."""
    seen = survey([node("a", started_at=LONG_AGO), node("b", **DEAD)], {"a": "0-3", "b": "4-5"})
    assert [(one.subject, one.detail) for one in findings(seen)] == [
        ("buckets 4-5", "of b, which is not alive"),
        ("buckets 6-7", "no node has declared them"),
    ]


def test_buckets_that_nobody_has_declared_are_not_missed_at_the_first_start():
    """The other nodes may be about to come; but not for long, and not where work waits."""
    first = survey([node("a", started_at=START - timedelta(seconds=59))], {"a": "0-3"})
    assert found(first) == []
    named = {"a": Share(frozenset(range(4))), "b": Share(frozenset(range(4, 8)))}
    assert found(first, named) == []
    assert ("config", "unknown node b") in found(replace(first, now=START + timedelta(seconds=2)), named)
    assert found(replace(first, work=(work(node="a", bucket=5, still=0),))) == [("outside", "node a")]
    assert found(replace(first, now=START + timedelta(seconds=2))) == [("uncovered", "buckets 4-7")]
    later = replace(first, nodes=(*first.nodes, node("b", started_at=LONG_AGO)), declarations=first.declarations)
    assert found(replace(later, declarations=(*first.declarations, BucketDeclaration(4, "b", START)))) == [
        ("uncovered", "buckets 5-7")
    ]


def test_after_a_rebucket_nobody_owns_anything_until_it_starts():
    """What was declared is dropped; a node without partition that has not been here since is as unknown."""
    seen = survey([node("a", is_live=False, ended_at=START, started_at=LONG_AGO)], now=START + timedelta(seconds=1))
    assert found(seen) == []
    changed = replace(seen, rebucketed_at=START)
    assert [(one.subject, one.detail) for one in findings(changed)] == [("buckets 0-7", "no node has declared them")]
    assert found(replace(changed, nodes=(node("a", started_at=LONG_AGO),))) == []


def test_a_node_that_ended_by_itself_long_ago_covers_nothing():
    """It is not about to come back."""
    seen = survey([node("a", is_live=False, ended_at=LONG_AGO)])
    assert found(seen) == [("uncovered", "buckets 0-7")]


def test_the_tasks_of_a_dead_node_are_one_orphan():
    """With how many, and which has waited for the longest; what has changed lately is left out."""
    works = (
        work(node="b", bucket=4, still=3),
        work(node="b", bucket=5, status=Status.RUNNING, since=LONG_AGO - timedelta(hours=1), task_id=task_id(7)),
        work(node="b", bucket=6, still=0),
    )
    seen = survey([node("a"), node("b", **DEAD)], {"a": "0-3", "b": "4-7"}, work=works)
    (one,) = [one for one in findings(seen) if one.kind == Kind.ORPHAN]
    assert one.subject == "node b"
    assert one.detail.startswith(f"4 tasks without change, {task_id(7)} since 2026-03-01 10:00:00Z")


def test_waiting_work_in_a_bucket_that_nobody_runs_is_an_orphan():
    """Its node lives, and owns other buckets by now; what runs is in the node's hands."""
    seen = survey([node("a")], {"a": "0-3"}, work=(work(bucket=6), work(bucket=7, status=Status.RUNNING)))
    assert ("orphan", "bucket 6") in found(seen)
    assert ("orphan", "bucket 7") not in found(seen)


def test_work_of_buckets_that_its_node_has_given_away_is_told():
    """However lately it was accepted, and whoever owns them now; a node without partition owns all, a dead one none."""
    works = (work(bucket=6, still=0, tasks=3), work(bucket=5, status=Status.RUNNING), work(bucket=2), work(bucket=None))
    seen = survey([node("a"), node("b")], PAIR, work=works)
    (one,) = [one for one in findings(seen) if one.kind == Kind.OUTSIDE]
    assert (one.subject, one.detail) == ("node a", "4 tasks in buckets 5-6, which it does not own any more")
    for nodes, owned in (([node("a"), node("b")], {"b": "4-7"}), ([node("a", **DEAD), node("b")], PAIR)):
        assert Kind.OUTSIDE not in {kind for kind, _ in found(survey(nodes, owned, work=works))}


def test_keyless_work_among_partitions_is_an_orphan():
    """Only nodes without partition take it."""
    seen = survey([node("a"), node("b")], PAIR, work=(work(bucket=None),))
    assert ("orphan", "keyless work") in found(seen)


@pytest.mark.parametrize(
    ("more", "is_stuck"),
    [
        ({}, True),
        ({"work": (work(still=0),)}, False),
        ({"work": (work(status=Status.RETRYING),)}, False),
        ({"work": (work(), work(name="u", status=Status.RUNNING))}, False),
        ({"work": (work(), work(bucket=2, status=Status.PAUSED))}, False),
        ({"work": (work(), work(bucket=2, name="u", status=Status.RUNNING))}, True),
        ({"work": (work(), work(bucket=2, name="u", status=Status.RUNNING, tasks=2))}, False),
        ({"catalogue": (CatalogueEntry(node="a", name="t", module="m", hold="why"),)}, False),
        ({"catalogue": (CatalogueEntry(node="a", name="*", module="", hold="why"),)}, False),
        ({"catalogue": (CatalogueEntry(node="b", name="t", module="m", hold="why"),)}, True),
        ({"holds": (SharedHold(scope=HoldScope.NAME, target="t", by="olga"),)}, False),
        ({"holds": (SharedHold(scope=HoldScope.BUCKET, target="1", by="olga"),)}, False),
        ({"holds": (SharedHold(scope=HoldScope.NODE, target="a", by="olga"),)}, False),
        ({"holds": (SharedHold(scope=HoldScope.NODE, target="b", by="olga"),)}, True),
    ],
)
def test_a_queue_is_stuck_when_nothing_explains_its_rest(more, is_stuck):
    """A run in its bucket or of its name, a full node, a hold, and a back-off explain it."""
    assert (("stuck", "t in bucket 1 on a") in found(survey([node("a")], **({"work": (work(),)} | more)))) is is_stuck


def test_commands_that_nobody_takes_up_are_told_after_a_minute():
    """By the node whose they are."""
    for age, expected in ((59, []), (61, [("unclaimed", "node a")])):
        commands = (OpenCommands(node="a", commands=2, since=START - timedelta(seconds=age), task_id=task_id(1)),)
        assert found(survey([node("a")], commands=commands)) == expected


@pytest.mark.parametrize(
    ("nodes", "advice"),
    [
        ([node("a")], ADVICE[Kind.UNCLAIMED]),
        ([node("a", **DEAD)], to_replace("a")),
        ([], to_close("a")),
    ],
    ids=["alive", "dead", "forgotten"],
)
def test_the_advice_on_commands_and_orphans_is_what_can_be_done(nodes, advice):
    """A dead node cannot be looked at, a forgotten one cannot be forgotten again."""
    commands = (OpenCommands(node="a", commands=1, since=LONG_AGO, task_id=task_id(1)),)
    seen = survey(nodes, commands=commands, work=(work(status=Status.RUNNING),))
    is_live = bool(nodes) and nodes[0].is_live
    told = {one.kind: one.advice for one in findings(seen) if one.kind in {"unclaimed", "orphan"}}
    assert told == {"unclaimed": advice} | ({} if is_live else {"orphan": advice})


def test_what_is_held_on_every_node_is_told():
    holds = (
        SharedHold(scope=HoldScope.BUCKET, target="7", by="olga", reason="why"),
        SharedHold(scope=HoldScope.NAME, target="t", by="olga"),
        SharedHold(scope=HoldScope.NAME, target="-two words", by="olga"),
        SharedHold(scope=HoldScope.NODE, target="a", by="olga"),
    )
    told = {one.subject: one.advice.partition(", ")[2] for one in findings(survey([node("a")], holds=holds))}
    assert told == {
        "bucket 7": "chong unhold --bucket 7",
        "node a": "chong drain --undo a",
        "t": "chong unhold --name t",
        "-two words": "chong unhold --name '-two words'",
    }


def test_a_hold_of_everything_is_one_thing_to_know():
    """It is shown with each name; one that is held by itself as well is another matter."""
    held = [("*", "by olga: all"), ("t", "by olga: all"), ("u", "by paul: u")]
    entries = tuple(CatalogueEntry(node="a", name=name, module="m", hold=hold) for name, hold in held)
    found = findings(survey([node("a")], catalogue=entries))
    assert [(one.subject, one.detail) for one in found] == [
        ("everything on a", "by olga: all"),
        ("u on a", "by paul: u"),
    ]


@pytest.mark.parametrize(("name", "words"), [("t", "t"), ("*", "'*'"), ("-t", "-- -t")])
def test_what_a_node_holds_itself_is_released_there(name, words):
    """The command is to be typed on that node as it stands, whatever the name is."""
    entries = (CatalogueEntry(node="a", name=name, module="m", hold="by olga: why"),)
    (one,) = findings(survey([node("a")], catalogue=entries))
    assert one.advice == f"when its reason is gone, on a: chong unhold {words}"


def test_an_orphan_is_told_by_what_can_be_done_about_it():
    """A dead node is started or forgotten; a bucket that a living node has lost is given back."""
    seen = survey([node("a"), node("b", **DEAD)], {"a": "0-3", "b": "4-7"}, work=(work(bucket=5), work(node="b")))
    told = {one.subject: one.advice for one in findings(seen) if one.kind == "orphan"}
    assert told["node b"].endswith("chong reconcile and then chong forget --dry-run b")
    assert told["bucket 5"] == "give the bucket back to a by owned_buckets, or chong stop --bucket 5"


def test_held_and_broken_definitions_of_living_nodes_are_told():
    """A module without a name by its own; what a dead node said counts no more."""
    entries = (
        CatalogueEntry(node="a", name="t", module="m", hold="by olga: why"),
        CatalogueEntry(node="a", name="", module="m.n", error="ImportError: no"),
        CatalogueEntry(node="b", name="t", module="m", hold="by olga", error="x"),
    )
    seen = survey([node("a"), node("b", **DEAD)], catalogue=entries)
    assert [(one.kind, one.subject, one.detail) for one in findings(seen)] == [
        ("broken", "m.n on a", "ImportError: no"),
        ("held", "t on a", "by olga: why"),
    ]


@pytest.mark.parametrize(
    ("ahead", "detail"), [(2.1, "2.1 s ahead of"), (-3600, "3600.0 s behind"), (2, None), (None, None)]
)
def test_a_clock_that_is_off_by_more_than_two_seconds_is_told(ahead, detail):
    """Both ways; of a node that has not said it yet nothing is known."""
    seen = survey([node("a", clock_ahead=None if ahead is None else timedelta(seconds=ahead))])
    assert [one.detail for one in findings(seen)] == ([] if detail is None else [f"{detail} the store's clock"])


def test_versions_apart_are_one_finding():
    """Of living nodes."""
    seen = survey([node("a"), node("b", version="0.2"), node("c", version="0.3", **DEAD), node("d")])
    assert [(one.kind, one.detail) for one in findings(seen)] == [("versions", "0.1 on a, d; 0.2 on b")]


def test_the_configured_nodes_are_compared_with_what_is_declared():
    """Other buckets, nodes that never came, nodes that nobody named, and a table that cannot be read."""
    configured = {
        "a": Share(frozenset({0, 1}), origin="chong.toml:9: nodes.a.owned_buckets"),
        "b": Share(frozenset(range(4, 8))),
        "new": Share(origin="chong.toml: nodes.new"),
        "odd": Share(fault="chong.toml:3: no"),
    }
    seen = survey([node("a", started_at=LONG_AGO), node("b"), node("c")], PAIR)
    told = findings(seen, configured)
    assert [(one.subject, one.detail) for one in told] == [
        ("buckets of node a", "owns 0-1 by chong.toml, 0-3 by its own declaration"),
        ("table of node odd", "chong.toml:3: no"),
        ("unknown node new", "named in chong.toml, and not known here: it has never been started, or was forgotten"),
        ("unnamed node c", "alive, and not named in chong.toml"),
    ]
    places = (
        "correct chong.toml:9: nodes.a.owned_buckets",
        "correct it",
        "take new out of chong.toml",
        "add [nodes.c]",
    )
    assert all(place in one.advice for place, one in zip(places, told, strict=True))


def test_a_file_of_another_number_of_buckets_is_one_finding():
    """As after a rebucket: of the buckets of another number nothing can be compared, and all nodes are down."""
    down = [node(name, is_live=False, ended_at=LONG_AGO) for name in PAIR]
    seen = survey(down)
    old = {name: Share(frozenset({0, 1}), 4, number_origin="chong.toml:2: num_buckets") for name in PAIR}
    (one,) = (each for each in findings(seen, old) if each.kind == "config")
    assert (one.subject, one.detail) == ("num_buckets", "4 by chong.toml:2: num_buckets, 8 in the store")
    assert one.advice.startswith("set num_buckets = 8 and each node's owned_buckets there")
    new = {name: Share(frozenset(parse_buckets(text)), 8) for name, text in PAIR.items()}
    assert "config" not in {each.kind for each in findings(seen, new)}


def test_owning_everything_is_the_same_said_in_two_ways():
    """A full list of buckets is no partition."""
    assert found(survey([node("a")]), {"a": Share(frozenset(range(8)))}) == []


@pytest.mark.parametrize(
    ("version", "is_told"), [("3.51.2", True), ("3.40.1", True), ("3.51.3", False), ("3.52.0", False)]
)
def test_a_sqlite_that_may_spoil_its_log_is_named(version, is_told):
    """Of that database alone."""
    seen = survey([node("a")], engine="sqlite", engine_version=version)
    assert found(seen) == ([("library", f"SQLite {version}")] if is_told else [])
    assert found(replace(seen, engine="postgresql")) == []


def test_two_machines_on_one_sqlite_file_are_told():
    """Not by the host name: containers of one machine have several."""
    seen = survey([node("a"), node("b", host="other")], engine="sqlite", engine_version="3.52.0")
    assert found(seen) == []
    other = replace(seen, nodes=(seen.nodes[0], replace(seen.nodes[1], boot_id="else")))
    assert found(other) == [("hosts", "store")]
    assert found(replace(other, engine="postgresql")) == []


def test_a_machine_that_was_booted_between_the_starts_of_its_nodes_is_one():
    """By its machine id, as long as nobody of before the boot is seen after it."""
    before = node("a", boot_id="first", machine_id="m", started_at=LONG_AGO)
    seen = survey([before, node("b", boot_id="second", machine_id="m")], engine="sqlite", engine_version="3.52.0")
    assert found(seen) == []
    for facts in ({"machine_id": "n"}, {"machine_id": ""}, {"seen_at": START + timedelta(seconds=1)}):
        assert found(replace(seen, nodes=(replace(before, **facts), seen.nodes[1]))) == [("hosts", "store")]


def test_subjects_and_details_are_bounded():
    """65,536 buckets in a row of odd ones are not told one by one."""
    odd = ",".join(map(str, range(1, 4000, 2)))
    seen = survey([node("a"), node("b")], {"a": odd, "b": "1-3999"}, deployment=Deployment(4001, 4, 1))
    assert all(len(one.subject) <= LONGEST and len(one.detail) <= LONGEST for one in findings(seen))


def test_every_kind_has_its_advice():
    """A finding says what to do."""
    assert set(ADVICE) == set(Kind)
    assert set(Kind) > GRAVE
