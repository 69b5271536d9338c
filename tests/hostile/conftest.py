import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from needs import unavailable

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "process")]
pytest.register_assert_rewrite("node_bench", "witness", "judge")

import node_places  # noqa: E402
from node_bench import Supervised  # noqa: E402

place = node_places.place


@pytest.fixture
def small_disk(place: Supervised) -> Iterator[Callable[..., Path]]:
    """Makes a file system of a few MiB at a path within the node's root, with so many inodes, or any number."""
    mounts: list[Path] = []

    def make(name: str, size: str = "1M", inodes: int = 0) -> Path:
        path = place.root / name
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes},mode=700", "chong-test", str(path)],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            unavailable("no file system can be mounted here")
        mounts.append(path)
        return path

    yield make
    for path in reversed(mounts):
        subprocess.run(["umount", "--lazy", str(path)], check=True)
