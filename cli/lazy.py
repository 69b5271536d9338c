"""A group whose commands are imported when they are called: `chong --help` loads none of them."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chong.supervisor.nearest import suggestion

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """Where a command is defined, and the one line that `chong --help` says about it."""

    module: str
    function: str
    summary: str


class LazyGroup(click.Group):
    def __init__(self, *args: Any, table: Mapping[str, Entry], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.function)
        assert isinstance(command, click.Command)
        command.help = command.help or entry.summary  # an optimised interpreter has no docstrings
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """As click's, but from the table: to name the commands none of them is imported."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell asks for it

        fitting = (name for name in self.table if name.startswith(incomplete))
        named = [CompletionItem(name, help=self.table[name].summary) for name in fitting]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.table:
            advice = suggestion(args[0], self.table, f"see {ctx.command_path} --help")
            raise click.UsageError(f"unknown command {args[0]!r}; {advice}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.table.items()])
