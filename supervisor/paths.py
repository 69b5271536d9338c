"""Where a node keeps its things: the state directory outlives everything, the runtime directory one boot."""

from dataclasses import dataclass
from pathlib import Path

from chong.worker.whereabouts import CONTROL, IDENTITY


@dataclass(frozen=True, slots=True)
class Paths:
    """The files of one node; nothing is created by naming them."""

    state: Path
    runtime: Path

    @property
    def identity(self) -> Path:
        """Node name and node id, pinned at the first start."""
        return self.state / IDENTITY

    @property
    def lock(self) -> Path:
        """The supervisor's flock."""
        return self.state / "supervisor.lock"

    @property
    def holds(self) -> Path:
        """The names that must not start."""
        return self.state / "holds.json"

    @property
    def default_store(self) -> Path:
        return self.state / "chong.db"

    @property
    def spool(self) -> Path:
        """The database of what was accepted, what checkpoints keep, and what the store has not got."""
        return self.state / "spool.db"

    @property
    def runs(self) -> Path:
        """One directory per run with more to say than a frame holds."""
        return self.state / "runs"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def control(self) -> Path:
        return self.runtime / CONTROL

    def own_directories(self) -> list[Path]:
        """Whatever a supervisor makes, and must be ours."""
        return [self.state, self.runtime, self.logs, self.runs]

    def own_files(self) -> list[Path]:
        """Whatever must be a file if it is there, for a supervisor to begin: everything but single tasks' files."""
        found = [*self.state.glob("generation-*.*"), *self.runtime.glob("generation-*.*")]
        return [self.lock, self.identity, self.holds, self.control, self.trials, self.spool, *sorted(found)]

    def log_of(self, run: str) -> Path:
        return self.logs / f"{run}.log"

    def run_dir(self, run: str) -> Path:
        return self.runs / run

    def generation_log(self, generation: int) -> Path:
        """What a forkserver itself has written, and the modules that it imported."""
        return self.logs / f"generation-{generation}.log"

    def generation_socket(self, generation: int) -> Path:
        return self.runtime / f"generation-{generation}.sock"

    def generation_lock(self, generation: int) -> Path:
        return self.state / f"generation-{generation}.lock"

    def catalogue(self, generation: int) -> Path:
        return self.runtime / f"generation-{generation}.json"

    @property
    def trials(self) -> Path:
        """What a forkserver that died had found out about the task modules, for the one that takes its place."""
        return self.runtime / "trials.json"
