"""How an error is told: one line without a traceback or a secret, and an exit code."""

import click

from chong.cli.find import AmbiguousId
from chong.cli.render import escape
from chong.store.errors import ChongError, ConfigurationError, StoreUnavailable
from chong.supervisor.exits import Exit
from chong.supervisor.oneline import one_line, sentence


def complaint(error: BaseException) -> tuple[Exit, list[str]]:
    """The exit code for `error`, and the one line that tells it; below that, candidates to choose from."""
    code, text = _told(error)
    candidates = error.candidates if isinstance(error, AmbiguousId) else []
    return code, [
        f"chong: {one_line(text)}",
        *(f"  {task.id}  {task.status:<9}  {escape(task.name)}" for task in candidates),
    ]


def _told(error: BaseException) -> tuple[Exit, str]:
    match error:
        case click.ClickException():
            return Exit.USAGE, _told_by_click(error)
        case ConfigurationError():
            return Exit.USAGE, str(error)
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
        return f"unknown option {error.option_name}; {_option_advice(error)}"
    return sentence(error.format_message())


def _option_advice(error: click.NoSuchOption) -> str:
    ctx = error.ctx
    if ctx is None:
        return "see --help"
    if ctx.parent is not None and error.option_name in _options_of(ctx.parent):
        return f"it belongs before the command: {ctx.parent.info_name} {error.option_name} … {ctx.info_name}"
    guess = error.possibilities
    return f"did you mean {guess[0]}?" if guess else f"see {ctx.command_path} --help"


def _options_of(ctx: click.Context) -> set[str]:
    return {name for parameter in ctx.command.params for name in parameter.opts}


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace else "chong"
