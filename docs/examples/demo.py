"""chong's main job on real input: archives of this Python's standard library, made and verified by task processes.

Meanwhile one task segfaults, one ignores every stop, one is paused, resumed and stopped, and the supervisor is
killed with SIGKILL. Run it from the repository's root: `make demo`. Exit code 0 means that everything came out as
it has to.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docs.examples.archive_tasks import LIBRARY, packages
from docs.examples.shell import Shell, UnexpectedError, expect, interrupt_by_signals, say, wait_until

OUTPUT = Path.cwd() / "demo-output"
ARCHIVES = OUTPUT / "archives"
SUPERVISOR = (
    "chong-supervisor --node demo --num-buckets 64 --owned-buckets 0-63"
    " --tasks docs.examples.archive_tasks --max-parallel 8 --drain 5"
)
BEFORE_THE_KILL = 10
RESTS = 3
"""Seconds that each of them rests: even a small library on a quick machine is not archived before the kill."""


@dataclass
class Demo:
    """The story, told step by step; every step checks what it caused."""

    shell: Shell
    supervisor: subprocess.Popen[str] | None = None
    ids: dict[str, str] = field(default_factory=dict)
    patient_before: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        names = packages()
        say(f"\n# {len(names)} packages in {LIBRARY}, one task each.")
        self.start_supervisor()
        self.submit_the_difficult_ones()
        self.pause_the_patient_one()
        self.archive(names[:BEFORE_THE_KILL], f" -p seconds={RESTS}")
        self.kill_the_supervisor()
        self.start_supervisor()
        self.check_that_nothing_was_lost()
        self.resume_the_patient_one()
        self.archive(names[BEFORE_THE_KILL:])
        self.stop_the_endless_ones()
        self.verify(names)
        self.look_at_the_result()
        self.check_everything(names)
        self.stop_supervisor()

    def start_supervisor(self) -> None:
        self.supervisor = self.shell.start(SUPERVISOR, OUTPUT / "supervisor.log")
        wait_until("the supervisor answers", self._supervisor_answers)

    def _supervisor_answers(self) -> bool:
        if self.supervisor is not None and self.supervisor.poll() is not None:
            raise UnexpectedError(
                f"the supervisor ended with {self.supervisor.returncode}, see {OUTPUT}/supervisor.log"
            )
        return "archive.package" in {entry["name"] for entry in self.shell.look("chong tasks") or ()}

    def submit_the_difficult_ones(self) -> None:
        self.shell.run("chong tasks")
        for name in ("patient", "stubborn", "segfault"):
            self.ids[name] = self.shell.run(f"chong submit demo.{name} --key {name}").split()[-1]
        self._wait_for_status("segfault", "failed")
        self._wait_for_status("stubborn", "running")

    def pause_the_patient_one(self) -> None:
        wait_until("the patient task says who it is", lambda: self._task("patient")["progress"])
        self.shell.run(f"chong pause {self.ids['patient']} --wait --reason 'the kill comes'")
        self.patient_before = self._task("patient")
        expect("the patient task", self.patient_before["status"], "paused")

    def archive(self, names: list[str], more: str = "") -> None:
        self.shell.run_each(f"chong submit archive.package --key $it -p output={ARCHIVES}{more}", names)

    def kill_the_supervisor(self) -> None:
        wait_until("archives are being written", lambda: self._tasks("--name archive.package --status running"))
        self.shell.run("chong ps")
        self.shell.run("chong buckets")
        assert self.supervisor is not None
        say(f"\n$ kill -9 {self.supervisor.pid}    # the supervisor, in the middle of its work")
        os.kill(self.supervisor.pid, signal.SIGKILL)
        self.supervisor.wait()

    def check_that_nothing_was_lost(self) -> None:
        before = self.patient_before
        wait_until("the new term holds the task", lambda: self._task("patient")["lease_owner"] != before["lease_owner"])
        now = self._task("patient")
        facts = ("status", "attempt", "started_at")
        expect("the patient task after the kill", [now[fact] for fact in facts], [before[fact] for fact in facts])
        self.shell.run("chong ps")

    def resume_the_patient_one(self) -> None:
        self.shell.run(f"chong resume {self.ids['patient']} --wait")
        before = self.patient_before["progress"]
        wait_until("the patient task counts on", lambda: self._task("patient")["progress"]["done"] > before["done"])
        now = self._task("patient")
        expect("the patient task's process", now["progress"]["message"], before["message"])
        say(f"# still {now['progress']['message']}, attempt {now['attempt']}: it never noticed.")

    def stop_the_endless_ones(self) -> None:
        self.shell.run(f"chong stop {self.ids['patient']} {self.ids['stubborn']} --wait --reason 'enough'")

    def verify(self, names: list[str]) -> None:
        wait_until("every archive is written", lambda: len(self._ended("archive.package")) == len(names))
        self.shell.run_each(f"chong submit archive.verify --key $it -p output={ARCHIVES}", names)
        wait_until("every archive is verified", lambda: len(self._ended("archive.verify")) == len(names))

    def look_at_the_result(self) -> None:
        self.shell.run("chong stats")
        self.shell.run("chong ps --all --name archive.verify --limit 8")
        self.shell.run("chong ps --all --name demo.patient --name demo.stubborn --name demo.segfault")
        self.shell.run(f"chong history {self.ids['patient']}")
        self.shell.run(f"chong history {self.ids['stubborn']}")
        self.shell.run(f"chong show {self.ids['segfault']}")

    def check_everything(self, names: list[str]) -> None:
        self._check_the_difficult_ones()
        written, verified = self._outcomes("archive.package"), self._outcomes("archive.verify")
        expect("the archived packages", sorted(written), sorted(names))
        for facts in ("files", "bytes"):
            sums = [sum(outcome[facts] for outcome in outcomes.values()) for outcomes in (written, verified)]
            expect(f"{facts} read back", sums[1], sums[0])
            say(f"# {facts}: {sums[0]:,} archived, {sums[1]:,} verified")

    def _check_the_difficult_ones(self) -> None:
        segfault, stubborn, patient = (self._task(name) for name in ("segfault", "stubborn", "patient"))
        expect("the segfault", (segfault["status"], segfault["failure"]["kind"]), ("failed", "crashed"))
        expect("the segfault's signal", segfault["exit_signal"], signal.SIGSEGV)
        expect("the stubborn task", (stubborn["status"], stubborn["forced"]), ("stopped", True))
        expect("the patient task", (patient["status"], patient["forced"]), ("stopped", False))
        expect("the patient task's attempts", patient["attempt"], 1)
        path = [row["to"] for row in self.shell.look(f"chong history {self.ids['patient']}")]
        whole = "queued starting running pausing paused running stopping stopping stopped"
        expect("the patient task's history", " ".join(path), whole)

    def _outcomes(self, name: str) -> dict[str, Any]:
        tasks = self._tasks(f"--all --name {name}")
        for task in tasks:
            expect(f"{name} of {task['bucket_key']}", (task["status"], task["attempt"]), ("succeeded", 1))
        return {task["bucket_key"]: task["outcome"] for task in tasks}

    def stop_supervisor(self) -> None:
        assert self.supervisor is not None
        say(f"\n$ kill {self.supervisor.pid}; wait")
        self.supervisor.terminate()
        expect("the supervisor's exit code", self.supervisor.wait(timeout=20), 0)
        wait_until("every process is gone", lambda: not self.shell.processes(), 10)

    def _task(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] | None = self.shell.look(f"chong show {self.ids[name]}")
        if found is None:
            raise UnexpectedError(f"chong show does not know demo.{name} any more")
        return found

    def _tasks(self, options: str) -> list[dict[str, Any]]:
        return self.shell.look(f"chong ps --limit 500 {options}") or []

    def _ended(self, name: str) -> list[dict[str, Any]]:
        return [task for task in self._tasks(f"--all --name {name}") if task["ended_at"]]

    def _wait_for_status(self, name: str, status: str) -> None:
        wait_until(f"demo.{name} is {status}", lambda: self._task(name)["status"] == status)


def main() -> int:
    interrupt_by_signals()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    ARCHIVES.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="chong-demo-", ignore_cleanup_errors=True) as state:
        shell = Shell(CHONG_STATE_DIR=state)
        try:
            Demo(shell).run()
        except UnexpectedError as error:
            say(f"\nunexpected: {error}\nThe supervisor's log is {OUTPUT / 'supervisor.log'}")
            return 1
        finally:
            shell.end_everything()
    say(f"\nEverything is as expected. The archives and manifests are in {ARCHIVES.relative_to(Path.cwd())}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
