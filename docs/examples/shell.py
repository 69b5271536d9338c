"""A shell session that shows itself: commands as a person types them, what they print, and waits on conditions."""

import contextlib
import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import psutil

PR_SET_CHILD_SUBREAPER = 36
PAUSE_BETWEEN_LOOKS = 0.8
SHOWN_OF_A_LOOP = 3


class UnexpectedError(Exception):
    """Something is not as it should be; the text says what."""


def say(text: str = "") -> None:
    print(text, flush=True)


class Shell:
    """Runs commands with one environment, and knows every process that came out of them."""

    def __init__(self, **variables: str) -> None:
        # Whatever loses its parent becomes our child, so that nothing can be left behind unseen.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._started: set[int] = set()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CHONG_")}
        self._environment = {"COLUMNS": "120", **inherited, "PATH": path, **variables}
        for name, value in variables.items():
            say(f"$ export {name}={shlex.quote(value)}")

    def run(self, line: str, *, code: int = 0) -> str:
        """Show and run one command; its exit code must be `code`."""
        say(f"\n$ {_as_typed(line)}")
        text = self._output(line, code)
        say(text.rstrip())
        return text

    def run_each(self, line: str, values: list[str]) -> list[str]:
        """Show one loop over `values`, which stand for $it in `line`; the output of each turn."""
        say(f"\n$ for it in {' '.join(values)}; do {_as_typed(line)}; done")
        texts = [self._output(line.replace("$it", value), 0).strip() for value in values]
        say("\n".join(texts[:SHOWN_OF_A_LOOP]))
        if len(texts) > SHOWN_OF_A_LOOP:
            say(f"... and {len(texts) - SHOWN_OF_A_LOOP} more ids")
        return texts

    def look(self, line: str, *codes: int) -> Any:
        """What the command says as JSON, without showing it; None when it ends with another code than 0 and `codes`."""
        found = self._start([*shlex.split(line), "--json"])
        text, _ = found.communicate()
        return json.loads(text) if found.returncode in {0, *codes} else None

    def start(self, line: str, log: Path) -> subprocess.Popen[str]:
        """Show a command and leave it running in the background."""
        say(f"\n$ {_as_typed(line)} &")
        with log.open("a", encoding="utf-8") as file:
            return self._start(shlex.split(line), stdout=file, stderr=subprocess.STDOUT, start_new_session=True)

    def _output(self, line: str, code: int) -> str:
        found = self._start(shlex.split(line), stderr=subprocess.STDOUT)
        text, _ = found.communicate()
        if found.returncode != code:
            raise UnexpectedError(f"{line!r}: expected exit code {code}, got {found.returncode}: {text.strip()}")
        return text

    def _start(self, words: list[str], **options: Any) -> subprocess.Popen[str]:
        channels = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, **options}
        process = subprocess.Popen(words, env=self._environment, text=True, **channels)  # noqa: S603 - own commands
        self._started.add(process.pid)
        return process

    def processes(self) -> list[psutil.Process]:
        """Every living process that came out of this shell, however it was re-parented."""
        return [process for process in psutil.Process().children(recursive=True) if self._is_alive(process)]

    def _is_alive(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, ChildProcessError):
            if process.status() != psutil.STATUS_ZOMBIE:
                return True
            if process.pid not in self._started:  # adopted: nobody else waits for it
                os.waitpid(process.pid, os.WNOHANG)
        return False

    def end_everything(self) -> None:
        """SIGTERM, and whatever is left after that SIGKILL."""
        for number, limit in ((signal.SIGTERM, 8.0), (signal.SIGKILL, 5.0)):
            for process in self.processes():
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            with contextlib.suppress(UnexpectedError):
                wait_until("every process is gone", lambda: not self.processes(), limit)


def expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise UnexpectedError(f"{what}: expected {expected!r}, got {found!r}")


def expect_in(what: str, part: object, whole: Container[Any]) -> None:
    if part not in whole:
        raise UnexpectedError(f"{what}: expected {part!r} in it, got {whole!r}")


def interrupt_by_signals() -> None:
    """A demo that is told to end cleans up as it does after an error."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: object) -> None:
    # The next one would break the clean-up off: a terminal and `timeout` send theirs to whole process groups.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def wait_until(what: str, condition: Callable[[], Any], limit: float = 45.0) -> Any:
    """The first true value of `condition`; `limit` only bounds the wait for something that never comes."""
    deadline = time.monotonic() + limit
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise UnexpectedError(f"waited {limit:.0f} s in vain until {what}")
        time.sleep(PAUSE_BETWEEN_LOOKS)
    return found


def _as_typed(line: str) -> str:
    return line.replace(str(Path.cwd()), "$PWD")
