"""What `chong schedule` shows, out of what nodes have published."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from chong.store.buckets import BucketPolicy
from chong.store.model import BucketDeclaration, CatalogueEntry
from chong.supervisor.forecast import scheduled, spots_of
from chong.worker.options import Options, read_options
from chong.worker.schedules import Every

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
POLICY = BucketPolicy(64)


def entry(name="t", node="node-a", error=None, **options):
    shown = asdict(read_options(name, options)) | {"env": ["A"], "parameters": "()"}
    return CatalogueEntry(node=node, name=name, module="m", options=shown, error=error)


def found(*entries, owned=()):
    declared = [BucketDeclaration(bucket, "node-b", NOW) for bucket in owned]
    return list(scheduled(entries, declared, POLICY))


def test_each_node_has_the_keys_that_it_owns():
    """acme falls into bucket 1, globex into 26; a node that has declared nothing owns all."""
    keys = {"schedule": "0 3 * * *", "keys": ["acme", "globex"]}
    shown = found(entry(**keys), entry(node="node-b", **keys), entry("by hand"), owned=range(16))
    assert [(each.entry.node, each.keys) for each in shown] == [("node-a", ["acme", "globex"]), ("node-b", ["acme"])]
    assert spots_of(shown) == [("t", "acme"), ("t", "globex")]


def test_the_next_firings_of_all_schedules_come_in_order():
    """An instant of two of them is one firing, at the sooner of its times."""
    (each,) = found(entry(every="20s", schedule=Every("30s", jitter="29s")))
    rows = each.forecasts(None, None, NOW, 4)
    planned = [(row.planned - NOW).total_seconds() for row in rows]
    assert [row.due for row in rows] == sorted(row.due for row in rows)
    assert len(planned) == len(set(planned)) == 4
    assert {row.due - row.planned for row in rows if (row.planned - NOW).total_seconds() % 60 == 30} == {timedelta()}


def test_what_was_missed_is_counted_by_the_rule():
    """As the node will find it when it starts."""
    last = NOW.replace(second=0) - timedelta(minutes=5)
    for rule, count in (("once", 1), ("skip", 0), ("all", 5)):
        (each,) = found(entry(every="1m", misfire=rule))
        assert [row.missed for row in each.forecasts(None, last, NOW, 1)] == [count]


def test_what_cannot_be_scheduled_says_why():
    """By the node's own word, or because it is not understood here."""
    broken = CatalogueEntry(
        node="n", name="t", module="m", options=asdict(Options()) | {"schedule": [{"cron": "0 0 * * *", "tz": "Mars"}]}
    )
    (told,) = found(entry(every="1m", error="every: expected keys"))
    (row,) = told.forecasts(None, None, NOW, 3)
    assert (row.planned, row.error) == (None, "every: expected keys")
    (strange,) = found(broken)
    assert "expected a time zone" in strange.forecasts(None, None, NOW, 1)[0].error
