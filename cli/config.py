"""`chong config`: whether chong.toml is right, and what each setting comes to."""

import click

from chong.cli.lazy import Entry, LazyGroup
from chong.cli.option import json_option
from chong.cli.render import Column
from chong.cli.screen import print_json, print_lines, print_table, remark
from chong.store.errors import ConfigurationError
from chong.supervisor.config import Config, configured, read
from chong.supervisor.configcheck import FileCheck
from chong.supervisor.configfile import ConfigFile, load
from chong.supervisor.effective import effective
from chong.supervisor.exits import Exit
from chong.supervisor.keys import CONFIG
from chong.supervisor.oneline import one_line

COLUMNS = (Column("KEY"), Column("VALUE", 20), Column("FROM", 20))


COMMANDS = {
    "check": Entry("chong.cli.config", "check", "Check the configuration for every node that it names."),
    "show": Entry(
        "chong.cli.config", "show", "Show what every setting comes to on this node, and where it comes from."
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS, no_args_is_help=False)
def config() -> None:
    """Check the configuration file, or show what each setting comes to."""


@click.command()
@click.argument("file", required=False)
@click.pass_obj
def check(call: Config, file: str | None) -> Exit:
    """Check the configuration for every node that it names.

    Looks at FILE, else at the file that would be used, and at nothing else: no store, no directory. Prints one line
    for each problem. Exit 1 when it can be used, but buckets belong to several nodes or to none, or others may read the
    password of its db; 2 when it cannot.
    """
    found = call.chosen_file() if file is None else load(read(CONFIG, "FILE", file).value)
    if found is None:
        raise ConfigurationError(f"expected a FILE, --config or {CONFIG.variable}: no file lies in its usual place")
    look = FileCheck(found)
    wrong, alarming = list(look.faults()), list(look.alarms())
    print_lines(map(one_line, [*wrong, *alarming] or [_praise(found)]))
    if wrong:
        return Exit.USAGE
    return Exit.REFUSED if alarming else Exit.DONE


def _praise(file: ConfigFile) -> str:
    return f"{file.path}: ok" + (f", nodes {', '.join(sorted(file.nodes))}" if file.nodes else "")


@click.command()
@json_option
@click.pass_obj
def show(call: Config, *, as_json: bool) -> None:
    """Show what every setting comes to on this node, and where it comes from.

    So would chong-supervisor have it with the same variables and without options of its own.
    """
    found = configured(call.options, call.environ, is_node=False)
    rows = list(effective(found))
    if as_json:
        print_json([{"key": row.key, "value": row.value, "origin": row.origin} for row in rows])
    else:
        print_table(COLUMNS, [(row.key, row.shown, row.origin) for row in rows])
    for line in found.remarks():
        remark(f"chong: {one_line(line)}")
