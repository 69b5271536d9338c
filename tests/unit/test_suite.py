"""The suite itself, run on a test file of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HANGS = """
import os, sys
sys.modules["conftest"].TEST_SECONDS = 1
def test_it(): os.read(os.pipe()[0], 1)
def test_another(): pass
"""
HEARS = """
import subprocess, sys
LOOK = "import signal; print([signal.getsignal(each) is signal.SIG_IGN for each in (signal.SIGINT, signal.SIGHUP)])"
def test_it(): assert subprocess.check_output([sys.executable, "-c", LOOK]) == b"[False, False]\\n"
"""


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """As a background job under nohup, which has SIGINT and SIGHUP ignored."""
    suite = Path(__file__).parents[1]
    shutil.copy(suite / "conftest.py", folder)
    (folder / "test_one.py").write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(suite)}
    return subprocess.run(
        ["sh", "-c", 'trap "" INT HUP; exec "$0" "$@"', *words],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_test_that_hangs_fails_and_the_others_run(tmp_path: Path):
    """Also in a call that has no limit of its own."""
    done = run(tmp_path, HANGS)
    assert "1 failed, 1 passed" in done.stdout
    assert "it has not ended within 1 s" in done.stdout


def test_what_tests_start_hears_ctrl_c_wherever_the_suite_runs(tmp_path: Path):
    """In a terminal, in a script's background, under nohup."""
    done = run(tmp_path, HEARS)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout
