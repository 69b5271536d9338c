"""Three nodes on one PostgreSQL, looked at and controlled from a machine that is none of them.

Tasks are paused, resumed and stopped, a bucket and a name are held, one node is killed for good, and another one takes
buckets that are somebody's already. Run it from the repository's root: `make demo-cluster`. Exit code 0 means that
everything came out as it has to.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

import psutil
from pg_server import Server

from chong.store.buckets import BucketPolicy, parse_buckets
from docs.examples.cluster_tasks import CITIES
from docs.examples.shell import Shell, UnexpectedError, expect, expect_in, interrupt_by_signals, say, wait_until

OWNED = {"north": "0-15", "south": "16-31", "west": "32-63"}
BUCKETS = BucketPolicy(64)
SHORT = {
    "CHONG_LEASE_SECONDS": "4s",
    "CHONG_ALERT_SECONDS": "1s",
    "CHONG_ORPHAN_AFTER": "3s",
    "CHONG_DRAIN": "5s",
    "CHONG_TASKS": "docs.examples.cluster_tasks",
}
"""So that nobody has to wait: by default a lease is 30 s, and an orphan has stood still for ten minutes."""
FIRINGS = 8
"""Instants with two owners that are enough to look at."""


def city_of(buckets: str) -> str:
    """A key whose bucket is one of these."""
    return next(city for city in CITIES if BUCKETS.bucket_of(city) in parse_buckets(buckets))


def short(task_id: str) -> str:
    """The end of an id, as `chong ps` shows it."""
    return task_id[-8:]


@dataclass
class Cluster:
    """The story, told step by step; every step checks what it caused."""

    shell: Shell
    place: Path
    nodes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    watches: dict[str, str] = field(default_factory=dict)
    """One task of each node, by node."""
    waiting: list[str] = field(default_factory=list)
    """What waits on the south when it is killed."""

    def run(self) -> None:
        self.shell.run("chong --num-buckets 64 migrate")
        self.start_three_nodes()
        self.see_a_task_on_each()
        self.pause_resume_and_stop_from_outside()
        self.hold_a_bucket()
        self.hold_a_name()
        self.fill_the_south()
        self.kill_the_south()
        self.look_at_what_is_left()
        self.judge_the_runs()
        self.ask_the_dead_for_a_stop()
        self.double_the_north()
        self.forget_the_south()
        self.see_that_all_is_well()
        self.stop_all_nodes()

    # --- nodes -------------------------------------------------------------------------------------------------

    def start_node(self, node: str, buckets: str, more: str = "") -> None:
        log = self.place / f"{node}.log"
        line = f"chong-supervisor --node {node} --owned-buckets {buckets} --state-dir {self.place / node}{more}"
        self.nodes[node] = self.shell.start(line, log)

    def wait_for(self, *nodes: str) -> None:
        wait_until(f"{' '.join(nodes)} take work", lambda: set(nodes) <= self._at_work())

    def _at_work(self) -> set[str]:
        """The nodes that are live and have told their tasks."""
        for node, supervisor in self.nodes.items():
            if supervisor.poll() is not None:
                said = (self.place / f"{node}.log").read_text(errors="replace")
                raise UnexpectedError(f"the supervisor of {node} ended with {supervisor.returncode}: {said[-2000:]}")
        live = {node["node"] for node in self.shell.look("chong nodes") or () if node["is_live"]}
        return live & {entry["node"] for entry in self.shell.look("chong tasks") or ()}

    def start_three_nodes(self) -> None:
        say("\n# Three nodes. In life each has a machine of its own; here each has a state directory of its own.")
        say("# Each fires city.chime for every city of its buckets by itself, once a second (every=).")
        say("# Leases, looks and alerts go by seconds here; in life they take their time.")
        for node, buckets in OWNED.items():
            self.start_node(node, buckets, " --max-parallel 1" if node == "south" else "")
        self.wait_for(*OWNED)
        self.shell.run("chong nodes")
        self.shell.run("chong buckets")

    # --- control from outside ----------------------------------------------------------------------------------

    def submit(self, node: str, name: str, key: str) -> str:
        """On the node, because parameters never leave it."""
        return self.shell.run(f"chong --state-dir {self.place / node} submit {name} --key {key}").split()[-1]

    def see_a_task_on_each(self) -> None:
        for node, buckets in OWNED.items():
            self.watches[node] = self.submit(node, "city.watch", city_of(buckets))
        wait_until("all three run", lambda: all(task["progress"] for task in self._watched().values()))
        say("\n# What follows is said on a machine that runs no node; but for submit, which each node is told itself.")
        self.shell.run("chong ps --name city.watch")
        expect(
            "the tasks' nodes", {node: task["node"] for node, task in self._watched().items()}, {n: n for n in OWNED}
        )

    def pause_resume_and_stop_from_outside(self) -> None:
        ids = " ".join(map(short, self.watches.values()))
        for action, status in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
            self.shell.run(f"chong {action} {ids} --wait --as olga --reason demo")
            for node, task in self._watched().items():
                expect(f"the task of {node}", task["status"], status)
        self.shell.run(f"chong show {short(self.watches['west'])}")
        for node, task in self._watched().items():
            stop = task["stop"]
            moments = [stop[f"{moment}_at"] for moment in ("asked", "delivered", "acknowledged", "effective")]
            if None in moments or any(later < earlier for earlier, later in pairwise(moments)):
                raise UnexpectedError(f"the stop on {node}: expected four moments in their order, got {moments}")
            expect(f"who asked for the stop on {node}", stop["by"], "olga")

    # --- holds -------------------------------------------------------------------------------------------------

    def hold_a_bucket(self) -> None:
        city = city_of(OWNED["west"])
        bucket = BUCKETS.bucket_of(city)
        self.shell.run(f"chong hold --bucket {bucket} --reason '{city} moves house' --wait")
        held = self.submit("west", "city.greet", city)
        free = self.submit("north", "city.greet", city_of(OWNED["north"]))
        self._wait_for_status(free, "succeeded")
        expect("what is held", self._task(held)["status"], "queued")
        self.shell.run("chong ps --name city.greet")
        self.shell.run(f"chong unhold --bucket {bucket} --wait")
        self._wait_for_status(held, "succeeded")

    def hold_a_name(self) -> None:
        self.shell.run("chong hold --name city.greet --wait")
        held = [self.submit(node, "city.greet", city_of(OWNED[node])) for node in ("north", "west")]
        said = self.shell.run("chong unhold --name city.greet --wait")
        expect_in("the release", "2 tasks", said)
        for each in held:
            self._wait_for_status(each, "succeeded")

    # --- the death of a node -----------------------------------------------------------------------------------

    def fill_the_south(self) -> None:
        say("\n# The south runs one task at a time: the first one runs, the others wait.")
        say("# Its schedule is held for the moment, so that the place is free.")
        city = city_of(OWNED["south"])
        self.shell.run("chong hold --name city.chime --wait")
        wait_until("the south has room", lambda: not self._tasks("--node south --status starting --status running"))
        self.watches["south"] = self.submit("south", "city.watch", city)
        self._wait_for_status(self.watches["south"], "running")
        self.waiting = [self.submit("south", "city.greet", city) for _ in range(2)]
        self.shell.run("chong unhold --name city.chime --wait")

    def kill_the_south(self) -> None:
        supervisor = psutil.Process(self.nodes["south"].pid)
        forkservers = [child for child in supervisor.children() if "forkserver" in " ".join(child.cmdline())]
        expect("forkservers of the south", len(forkservers), 1)
        pids = [supervisor.pid, forkservers[0].pid]
        say(f"\n$ kill -9 {' '.join(map(str, pids))}    # south: its supervisor and its forkserver, as if it had burnt")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.nodes.pop("south").wait()
        wait_until("the south is silent", lambda: not self._node("south")["is_live"])
        self.shell.run("chong nodes")

    def look_at_what_is_left(self) -> None:
        left = {status: len(self._tasks(f"--node south --status {status}")) for status in ("running", "queued")}
        expect("what runs on the south", left["running"], 1)
        expect("whether all that was submitted waits", left["queued"] >= len(self.waiting), True)
        self._wait_for_orphans(sum(left.values()))
        self.shell.run("chong doctor", code=1)
        expect_in("what doctor finds", ("uncovered", "buckets 16-31"), self._findings())
        self.shell.run("chong buckets")
        states = {row["state"] for row in self.shell.look("chong buckets") if row["bucket"] in range(16, 32)}
        expect("the buckets of the south", states, {"UNCOVERED"})

    def judge_the_runs(self) -> None:
        self.shell.run("chong reconcile")
        expect("what ran on the south", self._task(self.watches["south"])["status"], "lost")
        self.shell.run(f"chong history {short(self.watches['south'])}")
        for task in self.waiting:
            expect("what waits on the south", self._task(task)["status"], "queued")
        queued = len(self._tasks("--node south --status queued"))
        self._wait_for_orphans(queued)
        say(f"\n# What ran is lost, so nobody misses it any more. {queued} queued tasks are orphans all the same.")

    def ask_the_dead_for_a_stop(self) -> None:
        said = self.shell.run(f"chong stop {short(self.waiting[0])}")
        expect_in("the answer", "acts on it when it is back", said)

    # --- two owners --------------------------------------------------------------------------------------------

    def double_the_north(self) -> None:
        say("\n# A mistake: another node is started with buckets that the north has.")
        self.start_node("east", OWNED["north"])
        self.wait_for("east")
        self.shell.run("chong buckets")
        states = {row["state"] for row in self.shell.look("chong buckets") if row["bucket"] in range(16)}
        expect("the buckets of the north", states, {"DUPLICATE"})
        expect_in("what doctor finds", ("duplicate", "buckets 0-15"), self._findings())
        self.watch_the_firings()

    def watch_the_firings(self) -> None:
        """The id of a scheduled task begins with its instant, in milliseconds."""
        options = f"--all --name city.chime --bucket {OWNED['north']}"
        wait_until("the east has accepted work", lambda: self._tasks(f"{options} --node east"))
        began = min(task["id"] for task in self._tasks(f"{options} --node east"))

        def since() -> list[dict[str, Any]]:
            return [task for task in self._tasks(options) if task["id"] >= began]

        wait_until(f"{FIRINGS} instants", lambda: len({task["id"][:13] for task in since()}) >= FIRINGS)
        seen = since()  # one look: the schedule goes on, and a second one would see more
        firings = Counter((task["id"][:13], task["bucket_key"]) for task in seen)
        expect("firings that ran twice", [firing for firing, count in firings.items() if count > 1], [])
        nodes = Counter(task["node"] for task in seen)
        shared = ", ".join(f"{count} on {node}" for node, count in sorted(nodes.items()))
        say(f"\n# {len(firings)} firings since then, each once, though two nodes own them: {shared}.")

    # --- the end -----------------------------------------------------------------------------------------------

    def forget_the_south(self) -> None:
        say("\n# The south is gone for good. Its work is closed, and the east takes its buckets.")
        self.shell.run("chong forget south --yes --as olga --reason 'it has burnt'")
        for task in self.waiting:
            expect("what waited on the south", self._task(task)["status"], "lost")
        self.stop_node("east")
        self.start_node("east", OWNED["south"])
        self.wait_for("east")

    def see_that_all_is_well(self) -> None:
        wait_until("every alert is over", lambda: self.shell.look("chong alerts") == [])
        self.shell.run("chong alerts --all")
        raised = {(alert["kind"], alert["subject"]) for alert in self.shell.look("chong alerts --all")}
        told = {("duplicate", "buckets 0-15"), ("uncovered", "buckets 16-31"), ("orphan", "node south")}
        expect("alerts that were raised", raised & told, told)
        self.shell.run("chong doctor")

    def stop_node(self, node: str) -> None:
        process = self.nodes.pop(node)
        say(f"\n$ kill {process.pid}; wait    # {node}")
        process.terminate()
        expect(f"the exit code of {node}", process.wait(timeout=30), 0)

    def stop_all_nodes(self) -> None:
        for node in list(self.nodes):
            self.stop_node(node)

    # --- looks -------------------------------------------------------------------------------------------------

    def _node(self, name: str) -> dict[str, Any]:
        return next((node for node in self.shell.look("chong nodes") or () if node["node"] == name), {})

    def _task(self, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] | None = self.shell.look(f"chong show {task_id}")
        if found is None:
            raise UnexpectedError(f"chong show does not know {task_id}")
        return found

    def _watched(self) -> dict[str, dict[str, Any]]:
        """The tasks of `watches`, by node."""
        found = {task["id"]: task for task in self._tasks("--all --name city.watch")}
        return {node: found[task] for node, task in self.watches.items()}

    def _tasks(self, options: str) -> list[dict[str, Any]]:
        return self.shell.look(f"chong ps --limit 500 {options}") or []

    def _findings(self) -> dict[tuple[str, str], str]:
        found = self.shell.look("chong doctor", 1) or ()
        return {(each["kind"], each["subject"]): each["detail"] for each in found}

    def _wait_for_orphans(self, count: int) -> None:
        """What doctor finds on the south: each task there counts, whatever it waits for."""
        told = f"{count} tasks without change, "
        wait_until(
            f"{count} tasks of the south are orphans",
            lambda: self._findings().get(("orphan", "node south"), "").startswith(told),
        )

    def _wait_for_status(self, task_id: str, status: str) -> None:
        wait_until(f"{task_id} is {status}", lambda: self._task(task_id)["status"] == status)


def main() -> int:
    interrupt_by_signals()
    with tempfile.TemporaryDirectory(prefix="chong-cluster-", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        place.chmod(0o711)  # the server may have to run as another user
        root = place / "postgres"
        root.mkdir(mode=0o700)
        server = Server(root=root)
        shell = Shell(CHONG_DB=server.address, CHONG_STATE_DIR=str(place / "outside"), **SHORT)
        try:
            server.start()
            say("# A PostgreSQL server listens in this directory; it lives as long as the demo.")
            Cluster(shell, place).run()
            server.stop()
            wait_until("every process is gone", lambda: not shell.processes(), 10)
        except UnexpectedError as error:
            say(f"\nunexpected: {error}")
            return 1
        finally:
            shell.end_everything()
    say("\nEverything is as expected.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
