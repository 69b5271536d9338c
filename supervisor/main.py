"""`chong-supervisor`: runs one node until it is told to end."""

import os
import resource
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from chong.store.buckets import parse_buckets
from chong.store.errors import ChongError, ConfigurationError
from chong.store.open import open_store
from chong.supervisor import options
from chong.supervisor.controller import Controller
from chong.supervisor.exits import Exit
from chong.supervisor.identity import read_identity
from chong.supervisor.logs import FORMATS, set_up_logging
from chong.supervisor.options import option, read_duration
from chong.supervisor.paths import Paths, default_node, default_state_dir
from chong.supervisor.settings import Settings

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_SECONDS = 0.1
LOG_SECONDS = 2.0


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@option("--db", options.STORE)
@option("--node", options.NODE)
@option("--owned-buckets", options.OWNED_BUCKETS)
@option("--num-buckets", options.NUM_BUCKETS, type=int)
@option("--tasks", "Modules with tasks beside the installed ones, separated by commas.", multiple=True)
@option("--max-parallel", "Runs at one time on this node.", type=int, default=16, show_default=True)
@option("--max-parallel-per-bucket", "Runs at one time in each bucket; default no limit.", type=int)
@option(
    "--lease-seconds",
    "How long a lease lasts without renewal.",
    callback=read_duration,
    default="30",
    show_default=True,
)
@option("--poll-seconds", "How often commands are looked for.", callback=read_duration, default="1", show_default=True)
@option(
    "--drain",
    "How long running tasks may go on after SIGTERM.",
    callback=read_duration,
    default="30",
    show_default=True,
)
@option("--pass-env", "Variables that tasks see beside the basic ones, like AWS_*.", multiple=True)
@option(
    "--cgroup", "Where runs get a cgroup each: a cgroup v2 directory, auto or none.", default="auto", show_default=True
)
@option("--state-dir", options.STATE_DIR)
@option("--runtime-dir", options.RUNTIME_DIR)
@option("--log-format", "How the log looks.", type=click.Choice(FORMATS), default="auto", show_default=True)
@click.version_option(package_name="chong", message="chong %(version)s")
def supervise(
    *,
    db: str | None,
    node: str | None,
    owned_buckets: str | None,
    num_buckets: int | None,
    tasks: tuple[str, ...],
    max_parallel: int,
    max_parallel_per_bucket: int | None,
    lease_seconds: float,
    poll_seconds: float,
    drain: float,
    pass_env: tuple[str, ...],
    cgroup: str,
    state_dir: str | None,
    runtime_dir: str | None,
    log_format: str,
) -> None:
    """Run the tasks of this node until SIGTERM or SIGINT; a second one shortens the drain.

    Exit codes: 0 ended as asked; 1 failed; 2 wrong usage or configuration, nothing was started.
    """
    state = Path(state_dir).expanduser() if state_dir else default_state_dir()
    pinned = read_identity(Paths(state, state).identity)
    settings = Settings(
        node=node or (pinned.node if pinned else default_node()),
        owned_buckets=None if owned_buckets is None else parse_buckets(owned_buckets),
        num_buckets=num_buckets,
        max_parallel=max_parallel,
        max_parallel_per_bucket=max_parallel_per_bucket,
        lease_seconds=lease_seconds,
        poll_seconds=poll_seconds,
        drain_seconds=drain,
        modules=tuple(name for names in tasks for name in names.replace(" ", "").split(",") if name),
        pass_env=tuple(name for names in pass_env for name in names.replace(" ", "").split(",") if name),
        cgroup=cgroup,
        state_dir=state,
        runtime_dir=Path(runtime_dir).expanduser() if runtime_dir else None,
    )
    # Blocked before the first thread starts, which inherits it, and taken by sigtimedwait below: no handler runs
    # between two bytecodes, and no other thread takes a signal with its default action.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    writer = set_up_logging(log_format)
    fault: BaseException | None = None
    try:
        fault = _run_node(settings, db or str(settings.paths.default_store))
    finally:
        writer.close(LOG_SECONDS)
    if fault is not None:
        # At once: the next term takes the runs over, and what this one's memory says cannot be trusted.
        os._exit(Exit.USAGE if isinstance(fault, ConfigurationError) else Exit.REFUSED)


def _run_node(settings: Settings, url: str) -> BaseException | None:
    """Run until a signal comes or the node fails; returns what it failed of."""
    settings.make_directories()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a run takes two descriptors here
    settings = replace(settings, worker_open_files=soft)
    with open_store(url, checkpoints=True) as store:
        controller = Controller(store=store, settings=settings)
        while not _is_asked_to_end():
            if controller.fault is not None:
                return controller.fault
            time.sleep(LOOK_SECONDS)
        controller.close_in_thread()
        while not controller.wait(LOOK_SECONDS):
            if _is_asked_to_end():
                controller.hurry()
        return controller.fault


def _is_asked_to_end() -> bool:
    # Never with a time to wait: interrupted by a SIGCONT past it, CPython's sigtimedwait returns uninitialised memory
    # for a signal (3.11), and a supervisor that was only frozen for a while would end.
    return signal.sigtimedwait(SIGNALS, 0) is not None


def run() -> None:
    """The console script: errors are one line, never a traceback."""
    try:
        supervise.main(standalone_mode=False)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(Exit.INTERRUPTED)
    except click.ClickException as error:
        text = " ".join(error.format_message().rstrip(".").split())
        print(f"chong-supervisor: {text[:1].lower()}{text[1:]}", file=sys.stderr)
        sys.exit(Exit.USAGE)
    except (ChongError, OSError) as error:
        print(f"chong-supervisor: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(Exit.USAGE if isinstance(error, ConfigurationError) else Exit.REFUSED)


if __name__ == "__main__":
    run()
