"""Commands that look at tasks: order, filters, ids, JSON shapes, hostile text."""

import json
import os
import pty
import re
import sys
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from cli_world import S, World, clean_environment

from chong.cli.times import stamp
from chong.store.model import Beat, CatalogueEntry, Failure, FailureKind, Note, Progress, TaskSnapshot, Usage
from chong.supervisor.identity import pin_identity

FIELDS = {field.name for field in fields(TaskSnapshot)}
ROW = FIELDS | {"lease_is_past", "node_is_live", "resolved"}
HOSTILE = "日本\x1b[31mred\x07\n\u202ex"


def ids(answer):
    return [row["id"] for row in answer.json]


def test_ps_shows_running_then_waiting_and_hides_final(world: World, chong):
    """Newest first within each group; what has ended comes last, and only when asked for."""
    queued = world.add(status=S.QUEUED)
    done = world.add(status=S.SUCCEEDED)
    running = world.add()
    retrying = world.add(status=S.RETRYING)
    starting = world.add(status=S.STARTING)
    expected = [starting.id, running.id, retrying.id, queued.id]
    assert ids(chong("ps", "--json")) == expected
    assert ids(chong("ps", "--all", "--json")) == [*expected, done.id]
    assert ids(chong("ps", "--status", "succeeded", "--json")) == [done.id]
    assert ids(chong("ps", "--all", "--limit", "3", "--json")) == expected[:3]
    assert "only the first 3 are shown" in chong("ps", "--limit", "3").err
    assert chong("ps", "--limit", "4").err == ""


def test_ps_rows_are_snapshots(world: World, chong):
    """The JSON names are the snapshot's, beside three for what else the store says of it; times are ISO 8601 in UTC."""
    world.add()
    row = chong("ps", "--json").json[0]
    assert set(row) == ROW
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", row["created_at"])


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--name", "a"], {"a"}),
        (["--name", "a", "--name", "b"], {"a", "b"}),
        (["--bucket", "1,9"], {"a"}),
        (["--status", "queued"], {"b"}),
        (["--tag", "io", "--tag", "slow"], {"b"}),
        (["--node", "node-b"], {"c"}),
        (["--key", "k2"], {"b"}),
        (["--since", "1h"], {"a", "b", "c"}),
        (["--since", "2999-01-01"], set()),
        (["--since", "2024-01-01T00:00:00+02:00", "--name", "a"], {"a"}),
    ],
)
def test_ps_filters(world: World, chong, args, expected):
    """All conditions have to hold."""
    world.add("a", bucket=1, bucket_key="k1", tags=frozenset({"io"}))
    world.add("b", S.QUEUED, bucket=2, bucket_key="k2", tags=frozenset({"io", "slow"}))
    world.add("c", node="node-b")
    assert {row["name"] for row in chong("ps", "--json", *args).json} == expected


def test_mine_is_what_is_owned(world: World, chong):
    """A partition leaves out other buckets and keyless work; owning all is no partition."""
    ours = world.add(bucket=3, bucket_key="k")
    theirs = world.add(bucket=20, bucket_key="l")
    keyless = world.add()
    assert ids(chong("--owned-buckets", "0-15", "ps", "--mine", "--json")) == [ours.id]
    assert ids(chong("--owned-buckets", "0-15", "ps", "--mine", "--bucket", "20", "--json")) == []
    assert ids(chong("--owned-buckets", "0-63", "ps", "--mine", "--json")) == [keyless.id, theirs.id, ours.id]
    assert chong("--owned-buckets", "0-15", "stats", "--mine", "--json").json["running"] == 1


def test_ps_text_has_what_an_operator_asks_first(world: World, chong):
    """Tail of the id, name, key, bucket, status, attempts, times, node, progress, end."""
    task = world.add(bucket=3, bucket_key="acme")
    world.store.touch("node-a.1", [Beat(task.id, progress=Progress(1234567, 2000000, "page 7"))])
    failed = world.add(status=S.FAILED)
    head, running, ended = chong("ps", "--all").lines
    assert " ".join(head.split()) == "ID NAME KEY BUCKET STATUS ATTEMPT AGE RAN CPU MEM NODE PROGRESS END"
    assert running.split()[:6] == [task.id[-8:], "billing.sync", "acme", "3", "running", "1/4"]
    assert "1234567/2000000 page 7" in running
    assert ended.startswith(failed.id[-8:])
    assert "exception ValueError: no such page" in ended
    assert task.id in chong("ps", "--full-id").out


def test_ps_shows_what_living_runs_use(world: World, chong):
    """What has ended uses nothing any more, whatever its last sample said."""
    task = world.add()
    world.store.touch("node-a.1", [Beat(task.id, usage=Usage(61.5, 300 << 20, 3 << 30))])
    assert chong("ps").lines[1].split()[8:10] == ["1m01s", "300M"]
    world.move(task, S.FAILED)
    head, ended = chong("ps", "--all").lines
    assert ended[head.index("CPU") :].split()[:2] == ["-", "-"]
    text = chong("show", task.id).out
    assert "61.5 s CPU, 3072.0 MiB at most" in text


def test_ids_match_by_beginning_or_end(world: World, chong):
    """Either, as long as one task fits."""
    task = world.add(id="01900000-0000-7000-8000-00000000000a")
    world.add(id="01910000-0000-7000-8000-00000000000b")
    for part in (task.id, task.id.upper(), "0190", "000a", "A"):
        assert chong("show", part, "--json").json["id"] == task.id


def test_an_ambiguous_id_lists_candidates(world: World, chong):
    """Up to ten, to choose from; nothing is done."""
    for number in range(12):
        world.add(status=S.QUEUED, id=f"01900000-0000-7000-8000-0000000000{number:02x}")
    answer = chong("show", "0190")
    first, *candidates = answer.err.splitlines()
    assert (answer.code, answer.out) == (1, "")
    assert first == "chong: '0190' fits more than 10 tasks; type more of the id:"
    assert len(candidates) == 10
    assert "01900000-0000-7000-8000-00000000000b" in candidates[0]


def test_show_tells_all(world: World, chong):
    """Stop moments, commands, usage, outcome and failure; JSON is the snapshot and its commands."""
    stopped = world.add(status=S.STOPPED, bucket=3, bucket_key="acme", tags=frozenset({"io"}))
    text = chong("show", stopped.id).out
    for fact in ("asked", "delivered", "effective", "olga@desk", "too slow", "io", "acme", f"{stopped.id}.1"):
        assert fact in text
    running = world.add()
    assert chong("pause", running.id, "--as", "eve", "--reason", "lunch").code == 0
    world.store.touch("node-a.1", [Beat(running.id, usage=Usage(1.5, 2 << 20, 3 << 20))])
    text = chong("show", running.id).out
    (command,) = world.store.commands(running.id)
    assert f"{stamp(command.issued_at)} (stored {stamp(command.stored_at)}) by eve (lunch): not yet taken up" in text
    assert "1.5 s CPU, 2.0 MiB in memory now, 3.0 MiB at most" in text
    failed = chong("show", world.add(status=S.FAILED).id).out
    assert "    Traceback:\n      boom\n" in failed
    assert '"pages": 3' in chong("show", world.add(status=S.SUCCEEDED).id).out
    found = chong("show", running.id, "--json").json
    assert set(found) == ROW | {"commands", "hold", "attempts"}
    assert found["commands"][0]["issued_by"] == "eve"


@pytest.fixture
def held(world: World) -> World:
    """`mail` is held on node-a, and not on node-b."""
    entry = CatalogueEntry(node="node-a", name="mail", module="m", hold="spam; by olga@desk since today")
    world.store.publish_catalogue("node-a", [entry])
    world.store.publish_catalogue("node-b", [replace(entry, node="node-b", hold=None)])
    return world


def test_ps_marks_what_waits_because_its_name_is_held(held: World, chong):
    """On that node, of that name, and only while it waits; JSON has the same fields for each."""
    for status in (S.QUEUED, S.RETRYING, S.RUNNING):
        held.add("mail", status)
    held.add("mail", S.QUEUED, node="node-b")
    held.add("post", S.QUEUED)
    shown = [line.split("  ") for line in chong("ps").lines[1:]]
    marked = sorted(word.strip() for words in shown for word in words if "(held)" in word)
    assert marked == ["queued (held)", "retrying (held)"]
    assert all(set(row) == ROW for row in chong("ps", "--json").json)


def test_show_says_why_a_task_is_held(held: World, chong):
    """In JSON beside the snapshot; null when it is not."""
    waiting, running = held.add("mail", S.QUEUED), held.add("mail", S.RUNNING)
    assert "spam; by olga@desk since today" in chong("show", waiting.id).out
    assert chong("show", waiting.id, "--json").json["hold"] == "spam; by olga@desk since today"
    assert chong("show", running.id, "--json").json["hold"] is None
    assert "olga@desk" not in chong("show", running.id).out


def test_a_hold_of_everything_marks_every_waiting_task(world: World, chong):
    """Whether its name is defined or not."""
    everything = CatalogueEntry(node="node-a", name="*", module="", hold="by eve since today")
    world.store.publish_catalogue("node-a", [everything])
    world.add("whatever", S.QUEUED)
    assert "queued (held)" in chong("ps").out


def test_history_has_rows_and_merged_notes(world: World, chong):
    """JSON: transitions only, with exactly these keys; text: notes between them by time."""
    task = world.add(status=S.SUCCEEDED)
    note = Note(task_id=task.id, kind="odd_exit", at=datetime.now(UTC), actor="node-a.1", event_id="n", detail="code 3")
    early = Note(task_id=task.id, kind="early", at=task.created_at - timedelta(1), actor="x", event_id="e")
    world.store.append([note, early])
    rows = chong("history", task.id, "--json").json
    assert [row["to"] for row in rows] == ["queued", "starting", "running", "succeeded"]
    assert {tuple(row) for row in rows} == {("version", "from", "to", "at", "stored_at", "actor", "reason", "ended")}
    assert rows[0]["from"] is None
    lines = chong("history", task.id).lines
    assert "early" in lines[1]
    assert "odd_exit code 3" in lines[-1]


def test_a_signal_is_positive_and_leaves_no_code(world: World, chong):
    """As design and model say."""
    task = world.move(world.add(), S.FAILED, exit_signal=9, ended_at=datetime.now(UTC))
    found = chong("show", task.id, "--json").json
    assert (found["exit_signal"], found["exit_code"]) == (9, None)


def test_logs_are_read_on_their_node_only(world: World, chong):
    """The latest attempt by default; elsewhere, before the start and without a file it says so and exits 1."""
    task = world.add()
    answer = chong("--node", "node-b", "logs", task.id)
    assert answer.code == 1
    assert answer.err == f"chong: task {task.id} belongs to node node-a, its log is there; this is node node-b\n"
    pin_identity(world.state / "node.json", "node-a")
    assert "there is no file" in chong("logs", task.id).err
    (world.state / "logs").mkdir()
    (world.state / "logs" / f"{task.id}.1.log").write_bytes(b"page 1\n\xff\x1b[2J\n")
    assert world.run("logs", task.id, binary=True).out == "page 1\n\xff\x1b[2J\n"
    found = chong("logs", task.id[-9:], "--json").json
    assert set(found) == {"id", "attempt", "node", "path", "bytes_gone", "text"}
    assert found["text"] == "page 1\n\\xff\x1b[2J\n"
    assert chong("logs", task.id, "--attempt", "2").err == "chong: --attempt: expected 1 to 1, got 2\n"
    assert "has not been started yet" in chong("logs", world.add(status=S.QUEUED).id).err


def test_hostile_text_is_inert(world: World, chong):
    """Nothing that a task or caller wrote reaches the terminal as a command, in any form of output."""
    task = world.add(HOSTILE, bucket=1, bucket_key=HOSTILE)
    world.store.touch("node-a.1", [Beat(task.id, progress=Progress(message=HOSTILE))])
    for args in (["ps"], ["show", task.id], ["ps", "--json"], ["history", task.id], ["stop", task.id]):
        answer = chong(*args)
        assert answer.code == 0
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", answer.out + answer.err)
    assert len(chong("ps").lines) == 2
    assert json.loads(chong("ps", "--json").out)[0]["bucket_key"] == HOSTILE


def test_a_table_fits_a_narrow_terminal(world: World, chong, monkeypatch):
    """Names, keys and messages give way first; no line is wider than the terminal, wide characters counted as two."""
    world.add("n" * 100, bucket=1, bucket_key="日本語" * 40)
    for width in (20, 60, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = chong("ps").lines
        assert all(sum(2 if ord(char) > 0x2E80 else 1 for char in line) <= width for line in lines)
    assert "running" in lines[1]


def on_terminal(world: World, *args: str, **env: str) -> bytes:
    """What `chong` writes when its output is a terminal of 100 columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        said = clean_environment(world.state, {"TERM": "xterm", "COLUMNS": "100", **env})
        os.execve(sys.executable, [sys.executable, "-W", "ignore", "-m", "chong.cli", *args], said)
    written = b""
    try:
        while chunk := os.read(terminal, 65_536):
            written += chunk
    except OSError:
        pass
    os.close(terminal)
    os.waitpid(pid, 0)
    return written


def test_colour_is_for_terminals_without_no_color(world: World, chong):
    """A pipe never gets any; NO_COLOR and a dumb terminal are honoured."""
    world.add()
    assert b"\x1b[" in on_terminal(world, "ps")
    assert b"\x1b[" not in on_terminal(world, "ps", NO_COLOR="1")
    assert b"\x1b[" not in on_terminal(world, "ps", TERM="dumb")
    assert "\x1b[" not in chong("ps").out


def test_a_log_on_a_terminal_is_tame(world: World):
    """Lines and tabs stay, what could command the terminal is escaped."""
    task = world.add()
    (world.state / "logs").mkdir()
    (world.state / "logs" / f"{task.id}.1.log").write_text("a\tb\n\x1b]0;own3d\x07\n")
    written = on_terminal(world, "--node", "node-a", "logs", task.id)
    assert b"\x1b" not in written
    assert rb"\x1b]0;own3d\x07" in written


def test_a_locale_without_the_characters_does_not_end_the_command(world: World):
    """What cannot be encoded is escaped."""
    world.add("é日")
    answer = world.run("ps", env={"PYTHONIOENCODING": "ascii"})
    assert answer.code == 0
    assert r"\xe9\u65e5" in answer.out


@pytest.mark.parametrize(
    ("cause", "memory", "told"),
    [
        ("MemoryError", 256 << 20, "256MiB (as the task is defined now)"),
        ("numpy._ArrayMemoryError", 3 << 30, "3GiB (as the task is defined now)"),
        ("oom", 1_000_001, "1000001 bytes (as the task is defined now)"),
        ("MemoryError", None, None),
        ("ValueError", 256 << 20, None),
    ],
)
def test_want_of_memory_is_told_beside_its_limit(world: World, chong, cause, memory, told):
    """Whoever reads MemoryError asks how much there was; without a limit of the task there is nothing to name."""
    world.store.publish_catalogue(
        "node-a", [CatalogueEntry(node="node-a", name="billing.sync", module="m", options={"memory": memory})]
    )
    task = world.add()
    world.move(task, S.FAILED, failure=Failure(FailureKind.EXCEPTION, cause, ""))
    lines = [line.split(maxsplit=2) for line in chong("show", task.id).lines]
    assert next((words[2] for words in lines if words[:2] == ["memory", "limit"]), None) == told
