"""A later version of chong: a copy of the packages whose tables have more, for a process's own PYTHONPATH."""

import shutil
from pathlib import Path

import chong.cli
import chong.store
import chong.supervisor
import chong.worker
from chong.store.schema import SCHEMA_VERSION

PACKAGES = {name: getattr(chong, name) for name in ("store", "worker", "supervisor", "cli")}
SQLITE = """
CREATE TABLE IF NOT EXISTS things_{version} (name TEXT NOT NULL PRIMARY KEY);
CREATE INDEX IF NOT EXISTS tasks_by_thing_{version} ON tasks (thing_{version});
"""
POSTGRES = """
ALTER TABLE tasks ADD COLUMN thing_{version} text;
ALTER TABLE nodes ADD COLUMN thing_{version} text NOT NULL DEFAULT '';
ALTER TABLE transitions ADD COLUMN thing_{version} text;
CREATE TABLE things_{version} (name text PRIMARY KEY);
CREATE INDEX tasks_by_thing_{version} ON tasks (thing_{version});
"""


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new))


def later_code(root: Path, *, steps: int = 1, oldest_code: int | None = None) -> tuple[Path, int]:
    """The folder for PYTHONPATH, and the schema that this version writes: so many steps further than ours.

    oldest_code: which code may still use its tables, if that is another than ours.
    """
    for name, package in PACKAGES.items():
        shutil.copytree(package.__path__[0], root / "chong" / name, ignore=shutil.ignore_patterns("__pycache__"))
    info = root / f"chong-0.{steps + 1}.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: chong\nVersion: 0.{steps + 1}.0\n")
    store = root / "chong" / "store"
    version = SCHEMA_VERSION + steps
    schema = store / "schema.py"
    changed(schema, f"SCHEMA_VERSION = {SCHEMA_VERSION}", f"SCHEMA_VERSION = {version}")
    if oldest_code is not None:
        changed(schema, "OLDEST_CODE = 1\n", f"OLDEST_CODE = {oldest_code}\n")
    for number in range(SCHEMA_VERSION + 1, version + 1):
        columns = "".join(
            f'    ("{table}", "thing_{number}", "TEXT NOT NULL DEFAULT \'\'"),\n'
            for table in ("tasks", "nodes", "transitions")
        )
        changed(schema, "ADDED = (\n", f"ADDED = (\n{columns}")
        with (store / "sql" / "sqlite_schema.sql").open("a") as tables:
            tables.write(SQLITE.format(version=number))
        (store / "sql" / f"postgres_schema_{number}.sql").write_text(POSTGRES.format(version=number))
        changed(store / "postgres_schema.py", "STEPS = {", f'STEPS = {{{number}: "postgres_schema_{number}", ')
    return root, version
