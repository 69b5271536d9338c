"""A real forkserver and real workers under words that make no sense."""

import json
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worker_bench import is_alive, wait_until

UNMOVED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
"""One forkserver for all examples is what is wanted."""
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
ANY = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))
OPS = st.sampled_from(["spawn", "release", "attach", "list", "hello", "exited"]) | ANY
LOGS = st.sampled_from(["/dev/null", "/no/such/place", "", "/", "a\0b", "/dev/null/below", "/proc/self/mem"])
FIELDS = {
    "run": st.sampled_from(["f.1", "f.2", "../f", "", "x" * 300]) | ANY,
    "term": ANY,
    "task": ANY | st.just("sample.quick"),
    "log": LOGS,
    "title": ANY | st.just("t"),
    "memo": ANY,
}
ORDERS = st.fixed_dictionaries({"op": OPS}, optional=FIELDS)


def makes_no_sense(order: Any) -> bool:
    """Not `retire`, which ends a forkserver rightly: Hypothesis draws words that the code itself knows."""
    return not (isinstance(order, dict) and order.get("op") == "retire")


JUNK = st.binary(min_size=1, max_size=400) | (ORDERS | ANY).filter(makes_no_sense).map(
    lambda value: json.dumps(value).encode()
)


@settings(max_examples=50, suppress_health_check=UNMOVED)
@given(st.lists(JUNK, min_size=1, max_size=12))
def test_orders_that_make_no_sense_do_not_end_a_forkserver(connection, node, orders):
    """What it can, it does; the next one that makes sense is answered."""
    for order in orders:
        connection.socket.send(order)
    connection.reports.clear()
    connection.order("attach", term="after")
    connection.wait_for("attached")
    wait_for_calm(connection)
    assert is_alive(node.pid)


def wait_for_calm(connection: Any) -> None:
    """Runs that were started on the way are given up, and released: each example begins with none."""
    for run in list(connection.runs.values()):
        run.socket.shutdown(2)
        connection.release(run.run)
        wait_until(lambda run=run: not is_alive(run.pid), "its end")
        run.close()
        del connection.runs[run.run]
    connection.reports.clear()


def test_after_all_that_it_still_forks(connection, node):
    """Half of a thousand messages at random, and then a run as any other."""
    dice = random.Random(7)
    for number in range(500):
        connection.socket.send(dice.randbytes(1 + number % 200))
    assert connection.start("r.1", "sample.quick").finish()[-1] == "result"


GO = st.fixed_dictionaries(
    {"kind": st.just("go"), "n": st.just([1, 1])},
    optional={
        "task": ANY
        | st.fixed_dictionaries(
            {}, optional={"id": ANY, "name": ANY | st.just("sample.quick"), "attempt": ANY, "deadline": ANY}
        ),
        "params": ANY,
        "params_file": ANY,
        "run_dir": ANY,
        "last_checkpoint": ANY,
        "last_checkpoint_file": ANY,
    },
)


@settings(max_examples=40, suppress_health_check=UNMOVED)
@given(st.lists(JUNK, max_size=5), GO)
def test_a_go_that_makes_no_sense_fails_its_run(connection, node, junk, go):
    """The worker says so, or says nothing; it ends, and its parent does not notice."""
    run = connection.spawn("r.1")
    for each in junk:
        run.socket.send(each)
    run.socket.send(json.dumps(go).encode())
    said = run.finish()
    end = connection.release("r.1")
    assert said[:2] == ["ready", "started"]
    assert said[-1] in {"failure", "result"}
    assert end["code"] == (1 if said[-1] == "failure" else 0)
    wait_for_calm(connection)
    assert is_alive(node.pid)


@settings(max_examples=40, suppress_health_check=UNMOVED)
@given(st.lists(st.binary(min_size=1, max_size=300) | ANY.map(lambda value: json.dumps(value).encode()), max_size=20))
def test_words_that_make_no_sense_do_not_end_a_worker(connection, node, junk):
    """Whatever a supervisor of another version says, its stop is still obeyed."""
    run = connection.start("r.1", "sample.loop")
    run.wait_for("started")
    for each in junk:
        run.socket.send(each)
    run.down("stop", n=[2, 1])
    run.wait_for("stopping")
    assert connection.release("r.1")["code"] == 0
    run.close()
    del connection.runs["r.1"]
    connection.reports.clear()
