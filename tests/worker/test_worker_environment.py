"""What a run is given: a pristine process, and what its definition says."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from needs import as_root
from worker_bench import Node, is_alive, wait_until

from chong.worker.account import account_of
from chong.worker.runfile import write_file

GAMES = account_of("games") if os.geteuid() == 0 else None


def snapshot(connection, run):
    found = connection.start(run, "place.snapshot").wait_for("result")["value"]
    connection.release(run)
    return found


def restart(node: Node, *modules: str):
    node.kill()
    node.path.unlink()
    (node.root / "lock").unlink()
    return node.start(modules).attach()


def test_what_modules_change_at_import_is_put_back(node):
    """Every worker is a copy of the process that imported them: one module would change the tasks of all."""
    reference = snapshot(node.start(("place_tasks",)).attach(), "r.1")
    connection = restart(node, "spoiling_module", "place_tasks")
    assert [entry["name"] for entry in node.catalogue()["tasks"]].count("place.snapshot") == 1
    assert snapshot(connection, "r.2") == reference
    assert reference["fds"] == [0, 1, 2, 3, 4]
    assert (reference["threads"], reference["oom"], reference["gc"]) == (1, 500, True)


def test_what_one_run_changes_the_next_one_does_not_see(node):
    """A run that leaves nothing of its process as it was, and then the same task once more."""
    connection = node.start(("place_tasks",)).attach()
    reference = snapshot(connection, "r.1")
    spoilt = connection.start("r.2", "place.spoil").wait_for("result")["value"]
    connection.release("r.2")
    assert [name for name in reference if spoilt[name] == reference[name]] == ["pending", "oom", "threads"]
    assert snapshot(connection, "r.3") == reference


def test_a_limit_that_a_module_lowered_for_good_costs_no_run(node):
    """Only the privileged may raise a hard limit again: workers get what is left, and the log says so."""
    (node.root / "lowering.py").write_text("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (512, 600))\n")
    connection = node.start(("lowering", "place_tasks"), open_files=1024).attach()
    limits = snapshot(connection, "r.1")["limits"]
    assert limits["RLIMIT_NOFILE"] in ([600, 600], [1024, 1024])
    assert ("RLIMIT_NOFILE, and it cannot be put back" in node.output()) == (limits["RLIMIT_NOFILE"] == [600, 600])


def test_random_numbers_differ_between_runs(node):
    """Two runs that draw the same would choose the same file name, the same sample, the same key."""
    (node.root / "numpy").mkdir()
    (node.root / "numpy" / "__init__.py").write_text("")
    text = "import os\nstate = 1\ndef seed():\n    global state\n    state = int.from_bytes(os.urandom(4), 'big')\n"
    (node.root / "numpy" / "random.py").write_text(text)
    (node.root / "seeded.py").write_text("import random\nimport numpy.random\nrandom.seed(7)\n")
    connection = node.start(("seeded", "place_tasks")).attach()
    drawn = [connection.start(f"r.{n}", "place.random").wait_for("result")["value"] for n in range(3)]
    assert len({first for first, _ in drawn}) == 3
    assert len({state for _, state in drawn}) == 3


def test_a_definition_sets_niceness_directory_environment_and_umask(node):
    """Also for what the run starts; the marker, by which a run's processes are known, stays."""
    connection = node.start(("place_tasks",)).attach()
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert connection.start("r.1", "place.terms").wait_for("result")["value"] == {
        "said": ["one", "r.1", "/usr", "0027"],
        "nice": min(19, ours + 5),
        "home": "/mine",
    }


def test_a_directory_that_is_not_there_fails_the_run_before_its_code(node):
    """It must not run elsewhere, where it would read and write other files."""
    connection = node.start(("place_tasks",)).attach()
    run = connection.start("r.1", "place.nowhere", {"mark": str(node.root / "mark")})
    failure = run.wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", "FileNotFoundError")
    expected = "cwd: expected a directory that the run may enter, got '/nonexistent/chong': No such file or directory"
    assert failure["message"] == expected
    assert connection.release("r.1")["code"] == 1
    assert not (node.root / "mark").exists()


def test_more_memory_than_the_definition_gives_is_a_memory_error(node):
    """The task may clean up, its traceback says where, and nothing else is ended for it."""
    connection = node.start(("place_tasks",)).attach()
    assert connection.start("r.1", "place.hog", {"mib": 64}).wait_for("result")["value"] == 64 << 20
    failure = connection.start("r.2", "place.hog", {"mib": 400}).wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", "MemoryError")


def test_an_exec_run_has_the_memory_of_its_definition(node):
    """A new interpreter begins with none: its import counts, and what its forkserver holds does not."""
    text = """
import resource, threading
from chong.worker import task
threading.Thread(target=threading.Event().wait, daemon=True).start()
@task("exec.hog", memory="192M")
def hog(ctx, mib):
    return [len(bytearray(mib << 20)), *resource.getrlimit(resource.RLIMIT_DATA)]
"""
    (node.root / "exec_hog.py").write_text(text)
    (node.root / "fills.py").write_text("BLOCK = bytearray(256 << 20)\n")
    connection = node.start(("exec_hog", "fills")).attach()
    value = connection.start("r.1", "exec.hog", {"mib": 16}).wait_for("result")["value"]
    assert value == [16 << 20, 192 << 20, 192 << 20]
    failure = connection.start("r.2", "exec.hog", {"mib": 256}).wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", "MemoryError")


def test_memory_that_the_modules_fill_already_fails_the_run_before_its_code(node):
    """Without a word of it the run would die at some allocation of its own beginning."""
    connection = node.start(("place_tasks",)).attach()
    run = connection.start("r.1", "place.cramped", {"mark": str(node.root / "mark")})
    failure = run.wait_for("failure")["failure"]
    assert (failure["cause"], failure["message"].split("bytes")[0][:24]) == ("MemoryError", "memory: expected more th")
    assert not (node.root / "mark").exists()


@as_root
def test_a_run_of_a_user_has_its_ids_and_names_and_no_way_back(node):
    """Real, effective and saved ids, its groups alone, and the variables that say who one is."""
    connection = node.start(("place_tasks",)).attach()
    seen = connection.start("r.1", "place.games").wait_for("result")["value"]
    uid, gid = GAMES.pw_uid, GAMES.pw_gid
    assert seen["ids"] == [[uid] * 3, [gid] * 3, os.getgrouplist("games", gid)]
    assert seen["environment"] == {
        "HOME": GAMES.pw_dir,
        "USER": "games",
        "LOGNAME": "games",
        "SHELL": GAMES.pw_shell,
        "CHONG_RUN": "r.1",
    }
    assert seen["shell"] == 0
    assert "from the shell" in node.log("r.1").read_text()
    assert connection.release("r.1")["code"] == 0


@as_root
def test_a_run_of_a_user_hands_over_what_is_too_long_for_a_frame(node):
    """Parameters, `state` and result go through files of a directory that the user cannot even find."""
    connection = node.start(("place_tasks",)).attach()
    run = connection.spawn("r.1", task="place.games")
    assert run.next()["kind"] == "ready"
    write_file(f"{run.run_dir}/params.json", json.dumps({"size": 200_000, "word": "w" * 100_000}).encode())
    task = {"id": "0190ab", "name": "place.games", "key": None, "bucket": None, "attempt": 1, "deadline": None}
    run.down("go", task=task, params_file="params.json", run_dir=str(run.run_dir), last_checkpoint=None)
    result = run.wait_for("result")
    state = json.loads((run.run_dir / run.last("checkpoint")["state_file"]).read_text())
    value = json.loads((run.run_dir / result["file"]).read_text())
    assert (len(state["big"]), len(value["big"]), value["word"]) == (200_000, 200_000, 100_000)


@as_root
def test_a_run_of_a_user_reads_nothing_of_the_node(node):
    """Neither by path nor through what the forkserver has open."""
    connection = node.start(("place_tasks",)).attach()
    node.root.chmod(0o700)
    secret = node.root / "secret"
    secret.write_text("geheim")
    parent = f"/proc/{node.pid}"
    paths = [str(secret), str(node.log("r.1")), f"{parent}/environ", f"{parent}/mem", f"{parent}/fd/0", "/etc/passwd"]
    paths.append("/proc/self/fd/5/../../secret")  # by way of the run's own directory
    run = connection.start("r.1", "place.games.reach", {"paths": paths})
    assert run.wait_for("result")["value"] == ["/etc/passwd"]


@as_root
@pytest.mark.usefixtures("subreaper")
def test_the_leash_still_ends_a_run_that_became_another_user(node):
    """It is armed before the change, so the kernel signals with our right, not with the user's."""
    connection = node.start(("place_tasks",)).attach()
    run = connection.start("r.1", "place.games.spin")
    run.wait_for("checkpoint")
    assert Path(f"/proc/{run.pid}").stat().st_uid in (0, GAMES.pw_uid)
    node.kill()
    assert is_alive(run.pid)
    os.close(connection.leash)
    connection.leash = -1
    wait_until(lambda: not is_alive(run.pid), "the leash's kill")


@as_root
def test_what_is_left_of_a_users_run_follows_no_link_of_the_user(node):
    """The forkserver writes as root into a directory of the user's: a link there would overwrite any file."""
    precious = node.root / "precious"
    precious.write_text("precious")
    connection = node.start(("place_tasks",), hold=0.3, ladder=0.6).attach()
    connection.start("r.1", "place.games.link", {"target": str(precious)}).wait_for("checkpoint")
    connection.close()
    node.connections.clear()
    assert node.wait_end() == 0
    assert precious.read_text() == "precious"
    remains = json.loads((node.runs / "r.1" / "remains.json").read_text())
    assert (remains["signal"], remains["oom"]) == (signal.SIGTERM, False)
    assert remains["max_rss_bytes"] > 1 << 20


def test_a_user_that_is_not_there_costs_the_task_at_the_import(node):
    """Nothing of it can run: it is not among the definitions, and the reason is in the catalogue."""
    connection = node.start(("place_tasks",)).attach()
    assert "place.strangers" not in [entry["name"] for entry in node.catalogue()["tasks"]]
    (error,) = node.catalogue()["errors"]
    assert (error["module"], error["task"]) == ("place_tasks", "place.strangers")
    assert re.match(r"place_tasks:\d+ \(strangers\) is refused: ", error["error"])
    assert error["error"].endswith("user: expected a user of this machine, got 'chong-nobody-has-this'")
    failure = connection.start("r.1", "place.strangers").wait_for("failure")["failure"]
    assert failure["kind"] == "import_error"


@as_root
def test_only_root_may_have_runs_of_other_users():
    """Refused with one line that says whose supervisor it would take, and one's own name is no other user."""
    os.seteuid(GAMES.pw_uid)
    try:
        assert account_of("games").pw_uid == GAMES.pw_uid
        with pytest.raises(ValueError, match="user: expected a supervisor of root or of 'daemon', got one of user 5"):
            account_of("daemon")
    finally:
        os.seteuid(0)


def test_a_name_that_is_almost_a_user_is_guessed():
    """One line with expected, got and the nearest valid choice."""
    with pytest.raises(ValueError, match="got 'rooot', did you mean 'root'"):
        account_of("rooot")


def test_the_end_of_a_run_tells_what_it_has_used(node):
    """By the kernel's own account, of a process that lives no more and is not reaped yet."""
    connection = node.start(("place_tasks",)).attach()
    connection.start("r.1", "place.spend", {"seconds": 0.3, "mib": 100})
    told = connection.wait_for("exited", "r.1")
    assert 0.3 <= told["cpu_seconds"] < 30
    assert 100 << 20 <= told["max_rss_bytes"] < 400 << 20
    assert not is_alive(connection.runs["r.1"].pid)
    connection.close()
    node.connections.clear()
    listed = node.connect().attach("term-2")  # the next supervisor hears the same
    assert [(e["run"], e["cpu_seconds"], e["max_rss_bytes"]) for e in listed] == [
        ("r.1", told["cpu_seconds"], told["max_rss_bytes"])
    ]


def stand_in(node: Node, run: str, **files: str):
    """A directory of plain files where the run's cgroup would be, as with a kernel that has the controllers."""
    group = node.root / "groups" / run
    group.mkdir(parents=True)
    for name, text in {"cgroup.procs": "", "cgroup.kill": "", **files}.items():
        (group / name).write_text(text)
    return group


def test_with_a_memory_controller_the_group_has_the_limit(node):
    """Then it holds for the run as a whole, and no single process is limited."""
    names = {"memory.max": "", "memory.swap.max": "", "memory.events": "oom_kill 0\n"}
    group = stand_in(node, "r.1", **names)
    connection = node.start(("place_tasks",), cgroup=str(node.root / "groups")).attach()
    assert connection.start("r.1", "place.hog", {"mib": 400}).wait_for("result")["value"] == 400 << 20
    assert connection.release("r.1")["oom"] is False
    assert (group / "memory.max").read_text() == str(192 << 20)
    assert ((group / "cgroup.procs").read_text(), (group / "cgroup.kill").read_text()) == ("0", "1")


def test_a_kill_for_want_of_memory_is_told_with_the_end(node):
    """The group's own counter is the evidence; the signal alone says nothing."""
    stand_in(node, "r.1", **{"memory.events": "oom 3\noom_kill 1\n"})
    connection = node.start(("place_tasks",), cgroup=str(node.root / "groups")).attach()
    run = connection.start("r.1", "place.spend", {"seconds": 600, "mib": 1})
    run.wait_for("started")
    os.kill(run.pid, signal.SIGKILL)
    told = connection.wait_for("exited", "r.1")
    assert (told["signal"], told["oom"]) == (signal.SIGKILL, True)


def test_a_group_that_cannot_be_entered_fails_the_run_before_its_code(node):
    """Outside its group nothing would hold the run together."""
    (node.root / "groups").mkdir()
    connection = node.start(("place_tasks",), cgroup=str(node.root / "groups")).attach()
    failure = connection.start("r.1", "place.snapshot").wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", "FileNotFoundError")
    assert "cgroup.procs" in failure["message"]


def test_a_run_whose_group_cannot_be_made_is_refused(node):
    """As a fork that is refused: it is tried again, and user code provably never ran."""
    connection = node.start(("place_tasks",), cgroup=str(node.root / "none")).attach()
    connection.order("spawn", run="r.1", task="place.snapshot", log=str(node.log("r.1")), title="t", memo=None)
    assert "No such file or directory" in connection.wait_for("refused", "r.1")["reason"]
