"""`chong` beside a live node."""

import json
import re

from node_bench import S, Supervised, key_of, wait_until


def release(node: Supervised, name: str) -> None:
    (node.root / name).touch()


def hold(node: Supervised, name: str) -> str:
    """Submit by the command line a task that runs until `name` is released."""
    task_id = node.cli("submit", "until", "-p", f"path={node.root / name}").out.strip()
    node.wait_for(task_id, S.RUNNING)
    node.wait_for_word(task_id)
    return task_id


def test_submit_and_wait_tells_how_it_ended(shared: Supervised):
    """0 only when it succeeded."""
    good = shared.cli("submit", "noop", "--wait", "--json")
    assert (good.code, good.json["status"], good.json["outcome"]) == (0, "succeeded", 1)
    bad = shared.cli("submit", "end", "-p", "how=os._exit(7)", "--wait")
    assert bad.code == 1
    assert "failed" in bad.err


def test_ps_shows_what_runs(shared: Supervised):
    """And no longer when it has ended, but for --all."""
    task_id = hold(shared, "ps")
    assert task_id[-8:] in shared.cli("ps").out
    assert [row["status"] for row in shared.cli("ps", "--json").json if row["id"] == task_id] == ["running"]
    release(shared, "ps")
    shared.end_of(task_id)
    assert task_id not in shared.cli("ps", "--json").out
    assert task_id in shared.cli("ps", "--all", "--json").out


def test_show_and_history_tell_one_story(shared: Supervised):
    """By the end of the id."""
    task_id = shared.submit("noop")
    shared.end_of(task_id)
    shown = shared.cli("show", task_id[-8:], "--json").json
    assert (shown["id"], shown["status"], shown["version"]) == (task_id, "succeeded", 4)
    rows = shared.cli("history", task_id[-8:], "--json").json
    assert [row["to"] for row in rows] == ["queued", "starting", "running", "succeeded"]


def test_logs_prints_what_the_task_wrote(shared: Supervised):
    """On the node where it ran."""
    task_id = shared.submit("writes", count=10)
    shared.end_of(task_id)
    assert "oooooooooo\n" in shared.cli("logs", task_id).out


def test_logs_follows_to_the_end_of_a_task(shared: Supervised):
    """With all that it wrote."""
    task_id = shared.submit("writes", count=100)
    answer = shared.cli("logs", task_id, "--follow")
    assert (answer.code, answer.out) == (0, "o" * 100 + "\nto stderr\n")
    assert shared.task(task_id).status is S.SUCCEEDED


def test_stop_waits_for_its_effect(shared: Supervised):
    """With its reason and who asked."""
    task_id = hold(shared, "never")
    answer = shared.cli("stop", task_id, "--wait", "--reason", "too slow", "--as", "olga")
    assert answer.code == 0
    task = shared.task(task_id)
    assert (task.status, task.stop.by, task.stop.reason) == (S.STOPPED, "olga", "too slow")
    assert shared.cli("stop", task_id).code == 1


def test_pause_and_resume_wait_for_their_effect(shared: Supervised):
    """Each in turn."""
    task_id = hold(shared, "pause")
    assert shared.cli("pause", task_id, "--wait").code == 0
    assert shared.task(task_id).status is S.PAUSED
    assert shared.cli("resume", task_id, "--wait").code == 0
    assert shared.task(task_id).status is S.RUNNING
    release(shared, "pause")
    assert shared.end_of(task_id).status is S.SUCCEEDED


def test_the_moments_of_a_pause_and_its_resume_are_those_of_the_node(shared: Supervised):
    """In their order, told by --wait, by show and in JSON, with who asked."""
    task_id = hold(shared, "moments")
    after = r"after \d+\.\ds"
    paused = shared.cli("pause", task_id, "--wait", "--as", "olga", "--reason", "lunch").out
    moments = f"delivered {after}, acknowledged {after}, effective {after}"
    assert re.fullmatch(rf"{task_id[-8:]} until: paused, asked by olga: lunch, {moments}\n", paused)
    resumed = shared.cli("resume", task_id, "--wait", "--as", "eve").out
    assert re.fullmatch(
        rf"{task_id[-8:]} until: running, asked by eve, delivered {after}, effective {after}\n", resumed
    )
    pause, resume = shared.cli("show", task_id, "--json").json["commands"]
    known = [pause[f"{name}_at"] for name in ("stored", "delivered", "acknowledged", "effective")]
    assert known == sorted(known)
    assert (
        known[2]
        == known[3]
        == shared.moment(task_id, S.PAUSED).at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    )
    assert (resume["acknowledged_at"], resume["effective_at"]) == (None, resume["delivered_at"])
    shown = shared.cli("show", task_id).out
    assert re.search(r"\n\npause\n  asked .*\n  by +olga\n  reason +lunch\n  delivered ", shown)
    assert re.search(r"\n\nresume\n  asked .*\n  by +eve\n  delivered .*\n  effective ", shown)
    release(shared, "moments")
    assert shared.end_of(task_id).status is S.SUCCEEDED


def test_a_request_without_wait_says_requested(shared: Supervised):
    """Exit 0 means accepted."""
    task_id = hold(shared, "never")
    answer = shared.cli("stop", task_id)
    assert answer.code == 0
    assert "requested" in answer.out
    assert shared.end_of(task_id).status is S.STOPPED


def test_refusals_of_submit(shared: Supervised):
    """Exit 1 for what the node refuses, 2 for what was said wrongly, each in one line."""
    unknown = shared.cli("submit", "nop")
    assert (unknown.code, unknown.err.count("\n")) == (1, 1)
    assert "did you mean 'noop'" in unknown.err
    wrong = shared.cli("submit", "noop", "--params", "{")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def test_reconcile_of_a_living_node_finds_nothing(shared: Supervised):
    """Its leases are renewed."""
    task_id = hold(shared, "living")
    dry = shared.cli("reconcile", "--dry-run", "--json")
    assert (dry.code, json.loads(dry.out)) == (0, [])
    release(shared, "living")
    assert shared.end_of(task_id).status is S.SUCCEEDED


def test_buckets_and_tasks_show_the_node(shared: Supervised):
    """The catalogue, and who owns what."""
    names = [row["name"] for row in shared.cli("tasks", "--json").json]
    assert {"noop", "hold", "deaf"} <= set(names)
    assert shared.cli("buckets").code == 0
    assert [row["is_live"] for row in shared.cli("nodes", "--json").json] == [True]


def test_a_node_that_is_away_is_told(place: Supervised):
    """Submit needs it; stop only needs the store."""
    node = place.start()
    node.terminate()
    answer = node.cli("submit", "noop")
    error, hint = answer.err.splitlines()
    assert (answer.code, answer.out) == (1, "")
    assert error.endswith("is chong-supervisor running on this machine?")
    assert hint.startswith("chong: node node-a is down, it was last on ")


def test_work_that_is_another_nodes_is_refused(place: Supervised):
    """A partition names its buckets."""
    node = place.start("--owned-buckets", "0-3")
    assert node.cli("submit", "noop", "--key", key_of(0, 3)).code == 0
    for words in (("--key", key_of(4, 63)), ()):
        answer = node.cli("submit", "noop", *words)
        assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
        assert "0-3" in answer.err
    wait_until(lambda: node.cli("ps", "--json").json == [], "an idle node")


def test_held_work_is_seen_to_wait_until_it_is_released(shared: Supervised):
    """By whom, since when, why: in `ps`, `show` and `tasks`, from wherever the store is reached."""
    held = shared.cli("hold", "noop", "--reason", "too many mails", "--as", "olga")
    assert (held.code, held.err) == (0, "")
    assert held.out.startswith("noop: held, 0 tasks waiting: too many mails; by olga since ")
    task_id = shared.submit("noop")
    wait_until(lambda: "too many mails" in shared.cli("tasks", "--json").out, "the hold in the catalogue")
    assert "queued (held)" in shared.cli("ps").out
    assert "too many mails; by olga since " in shared.cli("show", task_id).out
    assert "held already, 1 task waiting" in shared.cli("hold", "noop", "--as", "eve").out
    assert shared.cli("unhold", "noop").out == "noop: released, 1 task waiting for a slot\n"
    assert shared.end_of(task_id).status is S.SUCCEEDED
    assert shared.cli("unhold", "noop").out == "noop: was not held\n"


def test_an_unknown_name_is_not_held(shared: Supervised):
    """One line with the nearest name, and exit 1."""
    answer = shared.cli("hold", "noob")
    assert (answer.code, answer.out) == (1, "")
    assert "did you mean 'noop'" in answer.err
    assert answer.err.count("\n") == 1


def test_everything_can_be_held(shared: Supervised):
    """Beside single names, which stay held when it is released."""
    assert shared.cli("hold", "*", "noop", "--as", "olga").code == 0
    assert "noop: released, but everything is held: by olga since " in shared.cli("unhold", "noop").out
    assert shared.cli("hold", "noop").code == 0
    task_id = shared.submit("noop")
    assert shared.cli("unhold", "*").code == 0
    assert shared.cli("submit", "end", "-p", "how=nan", "--wait").code == 1
    assert shared.task(task_id).status is S.QUEUED
    assert shared.cli("unhold", "noop").code == 0
    assert shared.end_of(task_id).status is S.SUCCEEDED
