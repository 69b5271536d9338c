"""No room around a node: on its disks, in its tables. What runs goes on, leases hold, and it recovers with the room."""

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from judge import RENEWAL, start
from needs import unavailable
from node_bench import S, Supervised, wait_until, whole_lines
from witness import Witness

from chong.store.errors import Refused

Disk = Callable[..., Path]
INODES = 200
NOBODY = 65533
MANY = 4096


def fill(directory: Path) -> Path:
    """A file that takes all that is left."""
    ballast = directory / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return ballast


def use_up_inodes(directory: Path) -> list[Path]:
    """Empty files that take all that are left."""
    taken = []
    with suppress(OSError):
        while True:
            path = directory / f"taken-{len(taken)}"
            path.touch()
            taken.append(path)
    return taken


def outcome_of(node: Supervised, name: str, **params: Any) -> Any:
    return node.end_of(node.submit(name, **params)).outcome


def test_a_full_log_disk_costs_output_only(place: Supervised, small_disk: Disk):
    """A task that prints hears of it as it would anywhere; who does not print does not notice."""
    logs = small_disk("state/logs", "1M")
    node = start(place)
    with Witness(node, RENEWAL):
        ballast = fill(logs)
        assert outcome_of(node, "echo", text="quiet")["length"] == 5
        shouting = node.end_of(node.submit("writes", count=100_000))
        assert (shouting.failure.kind, shouting.failure.cause) == ("exception", "OSError")
        crashed = node.end_of(node.submit("end", how="segfault"))
        assert (crashed.failure.kind, crashed.exit_signal) == ("crashed", signal.SIGSEGV)
        ballast.unlink()
        assert node.end_of(node.submit("writes", count=100_000)).status is S.SUCCEEDED


def test_a_full_state_disk_refuses_work_and_goes_on(place: Supervised, small_disk: Disk):
    """Its store lies elsewhere: leases hold, what runs ends well, and new work is taken when there is room again."""
    state = small_disk("state", "2M")
    node = start(place, "--db", str(place.elsewhere()))
    with Witness(node, RENEWAL):
        running = node.begun("until", path=str(node.root / "open"))
        ballast = fill(state)
        with pytest.raises(Refused, match=r"cannot be kept on disk: .*disk is full"):
            node.submit("echo", text="x" * 90_000)
        (node.root / "open").touch()
        assert node.end_of(running).outcome == "released"
        ballast.unlink()
        assert outcome_of(node, "echo", text="again")["length"] == 5


def test_a_log_disk_without_inodes_delays_starts_and_nothing_else(place: Supervised, small_disk: Disk):
    """A run that can have no log does not start; what runs goes on, and the start comes with the room."""
    logs = small_disk("state/logs", inodes=INODES)
    node = start(place)
    with Witness(node, RENEWAL):
        running = node.begun("until", path=str(node.root / "open"))
        taken = use_up_inodes(logs)
        waiting = node.submit("noop")
        refused = wait_until(
            lambda: [m for m in node.store.history(waiting) if m.reason and "refused" in m.reason], "it"
        )
        assert "No space left" in refused[0].reason
        (node.root / "open").touch()
        assert node.end_of(running).outcome == "released"
        for path in taken:
            path.unlink()
        task = node.end_of(waiting)
        assert (task.status, task.attempt - task.unstarted) == (S.SUCCEEDED, 1)


def test_a_state_disk_without_inodes_delays_starts_and_nothing_else(place: Supervised, small_disk: Disk):
    """Work is taken, as that needs no file of its own; what runs ends well, and the start comes with the room."""
    state = small_disk("state", "4M", inodes=INODES)
    node = start(place, "--db", str(place.elsewhere()))
    with Witness(node, RENEWAL):
        running = node.begun("until", path=str(node.root / "open"))
        taken = use_up_inodes(state)
        waiting = node.submit("noop")
        (node.root / "open").touch()
        assert node.end_of(running).outcome == "released"
        for path in taken:
            path.unlink()
        task = node.end_of(waiting)
        assert (task.status, task.attempt - task.unstarted) == (S.SUCCEEDED, 1)


@contextmanager
def reading(database: Path) -> Iterator[None]:
    """What is written meanwhile takes new room: the store's log, whose own room is used again else, has a reader."""
    with closing(sqlite3.connect(database)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        yield


def test_a_full_disk_under_the_store_is_an_outage(place: Supervised, small_disk: Disk):
    """What happened meanwhile is stored when there is room again, and nothing is desynced by it."""
    state = small_disk("state", "6M")
    node = start(place)
    running = node.begun("until", path=str(node.root / "open"))
    with reading(node.paths.default_store):
        ballast = fill(state)
        wait_until(lambda: node.events("renewal_failed") or node.events("store_away"), "a store without room")
    (node.root / "open").touch()
    node.wait_for_word(running, "end")
    ballast.unlink()
    assert node.end_of(running).outcome == "released"
    assert outcome_of(node, "echo", text="again")["length"] == 5
    assert node.events("task_desynced") == []
    assert node.events("main_loop_failed") == []


@pytest.fixture
def counted(place: Supervised) -> Supervised:
    """A node of a user of its own, whose processes are counted; root's are not."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        unavailable("needs root and setpriv, to become a user whose processes are counted")
    shutil.chown(place.root, NOBODY, NOBODY)
    place.root.chmod(0o755)
    # The interpreter may lie where only root may look.
    reads = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search")
    return start(place, within=("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reads))


def allow_processes(node: Supervised, most: int) -> None:
    """By the user itself: root may lack the right to change others' limits."""
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "prlimit"]
    subprocess.run([*words, f"--pid={node.forkserver()}", f"--nproc={most}:"], check=True)


def test_no_room_for_processes_delays_starts_and_nothing_else(counted: Supervised):
    """As a user of its own, whose processes are counted: the fork is refused, tried again, and works with the room."""
    node = counted
    with Witness(node, RENEWAL):
        allow_processes(node, 1)
        waiting = node.submit("noop")
        refused = wait_until(lambda: [m for m in node.store.history(waiting) if "refused" in (m.reason or "")], "it")
        assert "fork refused" in refused[0].reason
        assert node.task(waiting).status in {S.QUEUED, S.STARTING}
        allow_processes(node, MANY)
        task = node.end_of(waiting)
        assert (task.status, task.attempt - task.unstarted) == (S.SUCCEEDED, 1)


def test_no_room_for_processes_for_long_fails_the_start(counted: Supervised):
    """After five refusals, by the name of `spawn_failed`; the next task is none the worse for it."""
    node = counted
    allow_processes(node, 1)
    task = node.end_of(node.submit("noop"))
    assert (task.status, task.failure.kind, task.attempt - task.unstarted) == (S.FAILED, "spawn_failed", 0)
    allow_processes(node, MANY)
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED


def test_few_descriptors_delay_starts_and_no_renewal(place: Supervised):
    """Room for a dozen runs, forty wanted."""
    node = start(place, "--max-parallel", "40", files=70)
    with Witness(node, RENEWAL):
        ids = [node.submit("span", seconds=0.3) for _ in range(60)]
        assert {task.status for task in node.ends_of(ids, limit=90)} == {S.SUCCEEDED}
    assert node.events("main_loop_failed") == []


def test_without_any_descriptor_it_renews_and_says_what_it_cannot_do(place: Supervised):
    """After a reload, so it reaps, too; its forkserver dies, and comes again when there are descriptors."""
    node = start(place)
    held = node.begun("until", path=str(node.root / "open"))
    assert node.cli("reload").code == 0
    pid = node.supervisor.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with Witness(node, RENEWAL) as witness:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        os.kill(node.forkserver(), signal.SIGKILL)
        wait_until(lambda: node.events("forkserver_not_understood"), "the word on what it cannot start")
        seen = witness.renewals
        wait_until(lambda: witness.renewals > seen + 5, "renewals")
        (node.root / "open").touch()
        assert node.end_of(held).status is S.SUCCEEDED
        with ThreadPoolExecutor(1) as caller:
            asked = caller.submit(node.submit, "noop")
            wait_until(lambda: witness.renewals > seen + 8, "renewals")
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            assert node.end_of(asked.result()).status is S.SUCCEEDED


def moved(log: Path) -> set[str]:
    """The tasks of whose changes it tells."""
    return {row["task"] for row in map(json.loads, whole_lines(log)) if row["event"] == "task_moved"}


def test_a_frozen_reader_of_its_log_costs_nothing(place: Supervised):
    """The pipe is full and the node works on; up to 10,000 lines wait, and come when the reader goes on."""
    kept = place.root / "read"
    with kept.open("wb") as file:
        reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file)
    assert reader.stdin is not None
    try:
        node = start(place, output=reader.stdin.fileno(), wait=False)
        reader.stdin.close()
        wait_until(lambda: b'"generation_ready"' in kept.read_bytes(), "a node that takes work")
        with Witness(node, RENEWAL):
            reader.send_signal(signal.SIGSTOP)
            ids = [node.submit("end", how="os._exit(7)") for _ in range(300)]
            assert {task.status for task in node.ends_of(ids)} == {S.FAILED}
            reader.send_signal(signal.SIGCONT)
            last = node.end_of(node.submit("end", how="os._exit(7)")).id
            wait_until(lambda: last in moved(kept), "the last line")
        assert {*ids, last} <= moved(kept)
    finally:
        reader.send_signal(signal.SIGCONT)
        assert node.terminate() == 0
        assert reader.wait(20) == 0


def test_a_log_directory_that_was_removed_is_made_again(place: Supervised):
    """Whoever cleared it wanted the old logs gone; the next runs have theirs."""
    node = start(place)
    with Witness(node, RENEWAL):
        shutil.rmtree(node.paths.logs)
        wait_until(node.paths.logs.exists, "a directory for logs")
        task = node.end_of(node.submit("writes", count=10))
        assert node.paths.log_of(task.run).exists()


def test_a_runtime_directory_that_was_removed_delays_no_renewal(place: Supervised):
    """The control socket is there again, and running tasks have not noticed."""
    node = start(place)
    with Witness(node, RENEWAL):
        shutil.rmtree(node.paths.runtime)
        wait_until(node.paths.control.exists, "the control socket")
        assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
        assert len(node.events("runtime_directory_lost")) == 1
