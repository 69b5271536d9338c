"""How an error is told: one line without a traceback or a secret, and an exit code."""

from collections.abc import Iterator

import click

from chong.cli.find import AmbiguousId
from chong.cli.render import escape
from chong.store.errors import ChongError, ConfigurationError, RightsMissing, StoreUnavailable
from chong.supervisor.exits import Exit
from chong.supervisor.keys import KEYS
from chong.supervisor.oneline import one_line, sentence
from chong.supervisor.options import unknown_option


def complaint(error: BaseException) -> tuple[Exit, list[str]]:
    """The exit code for `error`, and the one line that tells it; below that, hints and candidates to choose from."""
    code, text = _told(error)
    notes = getattr(error, "__notes__", []) if isinstance(error, ChongError) else []
    candidates = error.candidates if isinstance(error, AmbiguousId) else []
    return code, [
        *(f"chong: {one_line(line)}" for line in (text, *notes)),
        *(f"  {task.id}  {task.status:<9}  {escape(task.name)}" for task in candidates),
    ]


def _told(error: BaseException) -> tuple[Exit, str]:
    match error:
        case click.ClickException():
            return Exit.USAGE, _told_by_click(error)
        case ConfigurationError():
            return Exit.USAGE, str(error)
        case RightsMissing():
            return Exit.REFUSED, str(error)
        case StoreUnavailable():
            return Exit.UNREACHABLE, str(error)
        case ChongError():
            return Exit.REFUSED, str(error)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return Exit.REFUSED, f"{where}{error.strerror or error}"
        case _:
            return Exit.REFUSED, f"internal error in {_place(error)}: {type(error).__name__}: {error}"


def _told_by_click(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        elsewhere = _home_of(error.option_name, error.ctx) if error.ctx else None
        return f"unknown option {error.option_name}; {elsewhere}" if elsewhere else unknown_option(error)
    return sentence(error.format_message())


def _home_of(option: str, ctx: click.Context) -> str | None:
    """Where an option that stands in the wrong place belongs."""
    if ctx.parent is not None and option in _options_of(ctx.parent.command):
        place = f"it belongs before the command: {ctx.parent.info_name} {option} … {ctx.info_name}"
        return place + _INSTEAD.get((ctx.info_name or "", option), "")
    if ctx.parent is None and any(option in _options_of(command) for command in _commands(ctx)):
        return f"it belongs after a command: {ctx.info_name} COMMAND {option}"
    if option in {key.option for key in KEYS.values()}:
        return "it is one of chong-supervisor, and a key of chong.toml"
    return None


_INSTEAD = {
    ("hold", "--node"): ", for a NAME there; chong drain NODE holds all of a node",
    ("unhold", "--node"): ", for a NAME there; chong drain NODE --undo releases a node",
}
"""What was meant as probably, by command and option."""


def _commands(ctx: click.Context) -> Iterator[click.Command]:
    group = ctx.command
    if isinstance(group, click.Group):
        yield from filter(None, (group.get_command(ctx, name) for name in group.list_commands(ctx)))


def _options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace else "chong"
