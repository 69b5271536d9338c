"""Render the generated pages of the documentation, or say which of them is out of date (`--check`).

A page that repeats what a table in the code says is never written by hand: a hand-kept copy drifts.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from page_cli import cli_page
from page_configuration import configuration_page
from page_states import states_page

DOCS = Path(__file__).resolve().parent.parent / "docs"

PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "configuration.md": configuration_page,
    "states.md": states_page,
}


def stale_pages(docs: Path) -> list[str]:
    return [name for name, render in PAGES.items() if not _is_current(docs / name, render())]


def _is_current(page: Path, wanted: str) -> bool:
    return page.is_file() and page.read_text(encoding="utf-8") == wanted


def write_pages(docs: Path) -> None:
    for name, render in PAGES.items():
        (docs / name).write_text(render(), encoding="utf-8")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="write nothing; exit 1 and name the stale pages")
    options.add_argument("--docs", type=Path, default=DOCS, metavar="DIR", help="where the pages are")
    chosen = options.parse_args()
    if not chosen.check:
        write_pages(chosen.docs)
        return 0
    stale = stale_pages(chosen.docs)
    for name in stale:
        sys.stderr.write(f"{chosen.docs / name} is not what the code says; `make docs` renders it anew\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
