"""`chong-supervisor`: runs one node until it is told to end."""

import os
import resource
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NoReturn

import click
import structlog

from chong.store.errors import ChongError, ConfigurationError, RightsMissing, StoreUnavailable
from chong.store.open import open_store
from chong.supervisor.config import configured
from chong.supervisor.containment import check_setting
from chong.supervisor.controller import Controller
from chong.supervisor.effective import settings_of, url_of
from chong.supervisor.exits import OF_SUPERVISOR, Exit, told
from chong.supervisor.keys import KEYS
from chong.supervisor.logs import set_up_logging
from chong.supervisor.oneline import one_line, sentence
from chong.supervisor.options import configured_by, unknown_option
from chong.supervisor.preflight import preflight
from chong.supervisor.row_faults import RowFaults
from chong.supervisor.settings import Settings

END = (signal.SIGTERM, signal.SIGINT)
SIGNALS = (*END, signal.SIGHUP)
LOOK_SECONDS = 0.1
LOG_SECONDS = 2.0
LAST_WORDS_SECONDS = 0.5
"""For the log after a fault: until the process is gone nobody renews its leases."""


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}, epilog=told(OF_SUPERVISOR)
)
@configured_by(KEYS.values())
@click.option("--check", is_flag=True, help="Start nothing: say whether settings, directories and store allow it.")
@click.version_option(package_name="chong", message="chong %(version)s")
def supervise(*, check: bool, **said: Any) -> None:
    """Run the tasks of this node until SIGTERM or SIGINT; a second one shortens the drain.

    SIGHUP loads new task code.
    """
    config = configured(said, is_node=True)
    settings = settings_of(config)
    if check:
        print(preflight(settings, url_of(config, settings)))
        for line in config.remarks():
            _tell(line)
        return
    _supervise(settings, url_of(config, settings), config.value("log_format") or KEYS["log_format"].default)


def _supervise(settings: Settings, url: str, log_format: str) -> None:
    # Blocked before the first thread starts, which inherits it, and taken by sigtimedwait below: no handler runs
    # between two bytecodes, and no other thread takes a signal with its default action.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    writer = set_up_logging(log_format)
    fault: BaseException | None = None
    try:
        fault = _run_node(settings, url)
    finally:
        writer.close(LOG_SECONDS if fault is None else LAST_WORDS_SECONDS)
    if fault is not None:
        refused = isinstance(fault, ConfigurationError)
        if refused:
            _tell(str(fault))  # as a start that is refused does
        # At once: the next term takes the runs over, and what this one's memory says cannot be trusted.
        os._exit(Exit.USAGE if refused else Exit.REFUSED)


def _run_node(settings: Settings, url: str) -> BaseException | None:
    """Run until a signal comes or the node fails; returns what it failed of."""
    check_setting(settings.cgroup)
    settings.make_directories()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a run takes two descriptors here
    settings = replace(settings, worker_open_files=soft)
    with ExitStack() as closing:
        faults = RowFaults(structlog.get_logger().bind(node=settings.node))
        store = closing.enter_context(open_store(url, serving=True, on_unreadable=faults.tell))
        controller = Controller(store=store, settings=settings)
        fault = _serve(controller)
        if fault is not None:
            closing.pop_all()  # a store may take seconds to close, and the process ends at once
        return fault


def _serve(controller: Controller) -> BaseException | None:
    while (number := _next_signal()) not in END:
        if controller.fault is not None:
            return controller.fault
        if number == signal.SIGHUP:
            controller.begin_reload()
        else:
            time.sleep(LOOK_SECONDS)
    controller.close_in_thread()
    while not controller.wait(LOOK_SECONDS):
        if _next_signal() in END:
            controller.hurry()
    return controller.fault


def _next_signal() -> int | None:
    # Never with a time to wait: interrupted by a SIGCONT past it, CPython's sigtimedwait returns uninitialised memory
    # for a signal (3.11), and a supervisor that was only frozen for a while would end.
    taken = signal.sigtimedwait(SIGNALS, 0)
    return None if taken is None else taken.si_signo


def run() -> None:
    """The console script: errors are one line, never a traceback."""
    try:
        supervise.main(standalone_mode=False)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(Exit.INTERRUPTED)
    except click.NoSuchOption as error:
        _complain(unknown_option(error), Exit.USAGE)
    except click.ClickException as error:
        _complain(sentence(error.format_message()), Exit.USAGE)
    except (ConfigurationError, RightsMissing) as error:  # a node that lacks a right from the start is set up wrongly
        _complain(str(error), Exit.USAGE)
    except StoreUnavailable as error:
        _complain(str(error), Exit.UNREACHABLE)
    except (ChongError, OSError) as error:
        _complain(str(error), Exit.REFUSED)


def _complain(text: str, code: Exit) -> NoReturn:
    _tell(text)
    sys.exit(code)


def _tell(text: str) -> None:
    print(f"chong-supervisor: {one_line(text)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run()
