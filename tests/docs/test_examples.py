"""What the pages show as tests of one's own tasks passes as it stands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples" / "own_tests"


def test_the_tests_of_the_example_pass_where_somebody_copies_them(tmp_path: Path) -> None:
    """Away from this repository, with nothing but chong and pytest, and warnings as errors."""
    place = shutil.copytree(FOLDER, tmp_path / "own", ignore=shutil.ignore_patterns("__pycache__"))
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("CHONG_", "PYTEST_", "PYTHON"))
    }
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    count = (place / "test_invoice_tasks.py").read_text().count("\ndef test_")
    assert f"{count} passed" in done.stdout
