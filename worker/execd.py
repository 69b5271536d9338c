"""Workers whose module does not bear a fork: the fork execs a new interpreter, which imports it by itself.

Channel, leash, log, process, session and marker stay as they were. The import counts into `start_timeout`, and
`ready` follows it; so a start that is given up meanwhile ends with the import, or by SIGKILL.
"""

import os
import sys
import threading
import traceback
from os import _exit
from typing import NoReturn

from setproctitle import setproctitle

from chong.worker.conditions import Conditions
from chong.worker.definition import Definition
from chong.worker.dispositions import reset_signals
from chong.worker.plain import encode_plain
from chong.worker.pristine import Pristine
from chong.worker.run import run_task
from chong.worker.trial import load_module
from chong.worker.usercode import replaced_builtins
from chong.worker.wire import CHANNEL_FD, LEASH_FD

_PYTHON = sys.executable
_BEGIN = (
    "import json, sys; order = json.loads(sys.argv.pop()); sys.path[:] = order.pop('path'); "
    "from chong.worker.execd import main; main(**order)"
)
"""The path first: with it chong is found wherever the forkserver had found it, whatever the run's environment is."""


def exec_worker(module: str, title: str, conditions: Conditions) -> NoReturn:
    """In the fork, when all else is settled; OSError when the interpreter is not there any more."""
    kept = [CHANNEL_FD, LEASH_FD]
    if conditions.directory is not None:
        kept.append(conditions.directory)
    for descriptor in kept:
        os.set_inheritable(descriptor, True)
    path = [place for place in sys.path if isinstance(place, str)]
    order = encode_plain({"module": module, "title": title, "run_dir": conditions.run_dir, "kept": kept, "path": path})
    os.execv(_PYTHON, [_PYTHON, "-P", "-c", _BEGIN, order])  # noqa: S606 -- there is no shell to be had


def main(module: str, title: str, run_dir: str, kept: list[int]) -> NoReturn:
    try:
        for descriptor in kept:
            os.set_inheritable(descriptor, False)
        setproctitle(title)
        definitions, error = _load(module)
        elders = frozenset(threading.enumerate()) - {threading.main_thread()}
        run_task(definitions, run_dir, error, elders, replaced_builtins())
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        _exit(70)


def _load(module: str) -> tuple[dict[str, Definition], BaseException | None]:
    """The module's definitions, or what it raised. It changes nothing of what a worker is given."""
    reset_signals()
    pristine = Pristine()
    found, error = load_module(module)
    pristine.restore()
    pristine.close()
    reset_signals()
    return {item.name: item for item in reversed(found)}, error
