"""The tasks of the demo: archives of the standard library's packages, and three that misbehave or wait.

A package is a key. So each package has its bucket, and on several nodes each node would archive its own packages.
"""

import ctypes
import os
import signal
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from chong.worker import TaskContext, task

LIBRARY = Path(sysconfig.get_path("stdlib"))


def packages() -> list[str]:
    """The names of the library's packages, the largest first: they take longest, so they start first."""
    found = [folder.name for folder in LIBRARY.iterdir() if (folder / "__init__.py").is_file()]
    return sorted(found, key=lambda name: (-sum(file.stat().st_size for file in files_of(name)), name))


def files_of(package: str) -> list[Path]:
    """The package's files without what Python compiled from them."""
    everything = sorted((LIBRARY / package).rglob("*"))
    return [file for file in everything if file.is_file() and "__pycache__" not in file.parts]


def archive_of(package: str, output: Path) -> Path:
    return output / f"{package}.tar.xz"


def manifest_of(package: str, output: Path) -> Path:
    """One line per file, in the form that `sha256sum --check` reads."""
    return output / f"{package}.sha256"


@task("archive.package", timeout="5m", max_parallel=3, tags={"archive"})
def archive_package(ctx: TaskContext, output: str, seconds: float = 0.0) -> dict[str, Any]:
    """Write the archive and the manifest of the package that the key names into the directory `output`.

    To spare the disk it may be told to rest between files, for so many seconds in all.
    """
    package = _package(ctx)
    files = files_of(package)
    sums: list[str] = []
    archive = archive_of(package, Path(output))
    draft = archive.with_suffix(".draft")
    try:
        with tarfile.open(draft, "w:xz", preset=2) as tar:
            for done, file in enumerate(files, start=1):
                name = str(file.relative_to(LIBRARY))
                sums.append(f"{_sum_of_file(file)}  {name}\n")
                tar.add(file, arcname=name)
                ctx.checkpoint(done=done, total=len(files), message=file.name)
                ctx.sleep(seconds / len(files))
        manifest_of(package, Path(output)).write_text("".join(sums), encoding="utf-8")
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
    return {"files": len(files), "bytes": sum(f.stat().st_size for f in files), "packed": archive.stat().st_size}


@task("archive.verify", timeout="5m", tags={"archive"})
def archive_verify(ctx: TaskContext, output: str) -> dict[str, Any]:
    """Read the archive of the package that the key names, and compare each file with the manifest."""
    package = _package(ctx)
    lines = manifest_of(package, Path(output)).read_text(encoding="utf-8").splitlines()
    expected = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    size = 0
    for done, (name, digest, length) in enumerate(_contents(archive_of(package, Path(output))), start=1):
        if expected.pop(name, None) != digest:
            raise ValueError(f"{name} is not what the manifest of {package} says")
        size += length
        ctx.checkpoint(done=done, total=len(lines), message=Path(name).name)
    if expected:
        raise ValueError(f"the archive of {package} lacks {', '.join(sorted(expected)[:3])}")
    return {"files": len(lines), "bytes": size}


def _package(ctx: TaskContext) -> str:
    if ctx.key is None or not (LIBRARY / ctx.key / "__init__.py").is_file():
        raise ValueError(f"expected a package of {LIBRARY} as the key, got {ctx.key!r}")
    return ctx.key


def _sum_of_file(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _contents(archive: Path) -> Iterator[tuple[str, str, int]]:
    """Name, SHA-256 and length of each file in the archive."""
    with tarfile.open(archive, "r:xz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                yield member.name, sha256(content.read()).hexdigest(), member.size


@task("demo.segfault")
def segfault(ctx: TaskContext) -> None:
    """Read address 0, as a broken extension module would."""
    ctx.checkpoint(message="about to read address 0")
    ctypes.string_at(0)


@task("demo.stubborn", stop_grace="500ms", kill_grace="500ms")
def stubborn(ctx: TaskContext) -> None:
    """Refuse to end: SIGTERM is ignored, and whatever a checkpoint raises is swallowed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            ctx.checkpoint(message="not listening")
            time.sleep(0.05)
        except BaseException:  # noqa: BLE001, S110 - being deaf is what this task is for
            pass


@task("demo.patient")
def patient(ctx: TaskContext, rounds: int = 1_000_000) -> int:
    """Count slowly, with a checkpoint per round; the message says which process it is."""
    for done in range(1, rounds + 1):
        ctx.checkpoint(done=done, message=f"pid {os.getpid()}")
        ctx.sleep(0.1)
    return rounds
