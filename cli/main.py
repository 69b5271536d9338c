"""`chong`: the group of all commands. Commands parse, call and print; they are imported when they are called."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from chong.cli.candidates import nodes
from chong.cli.lazy import Entry, LazyGroup
from chong.supervisor.exits import Exit
from chong.supervisor.keys import SHARED
from chong.supervisor.options import configured_by

COMMANDS = {
    "ps": Entry("chong.cli.ps", "ps", "List tasks: running first, then waiting, with --all final ones."),
    "show": Entry("chong.cli.show", "show", "Show one task with all that is known about it, or a group."),
    "history": Entry("chong.cli.show", "history", "Show the audit trail of one task."),
    "logs": Entry("chong.cli.logs", "logs", "Print the output of one attempt, on the node where it ran."),
    "submit": Entry("chong.cli.act", "submit", "Hand a task to this node's supervisor."),
    "submit-group": Entry(
        "chong.cli.submit_group", "submit_group", "Hand a group or a pipeline to this node's supervisor."
    ),
    "rerun": Entry("chong.cli.rerun", "rerun", "Run a task that is over once more, with its parameters."),
    "run": Entry("chong.cli.foreground", "run", "Run one task here and now, for development."),
    "stop": Entry("chong.cli.act", "stop", "Ask tasks to stop."),
    "pause": Entry("chong.cli.act", "pause", "Ask running tasks to pause at their next checkpoint."),
    "resume": Entry("chong.cli.act", "resume", "Ask paused tasks to go on."),
    "hold": Entry("chong.cli.hold", "hold", "Let tasks wait: of a name on this node, of a bucket or a name on all."),
    "unhold": Entry("chong.cli.hold", "unhold", "Let what was held start again."),
    "buckets": Entry("chong.cli.buckets", "buckets", "Show who owns each bucket and what is open there."),
    "nodes": Entry("chong.cli.nodes", "nodes", "Show the nodes and which of them are alive."),
    "tasks": Entry("chong.cli.tasks", "tasks", "Show the task definitions of each node, with holds and errors."),
    "schedule": Entry("chong.cli.schedule", "schedule", "Show when scheduled tasks run next, soonest first."),
    "stats": Entry("chong.cli.stats", "stats", "Count the tasks in each status."),
    "doctor": Entry("chong.cli.doctor", "doctor", "Say what is wrong with the deployment, and what to do about it."),
    "alerts": Entry("chong.cli.alerts", "alerts", "Show the alerts that the supervisors have raised."),
    "ack": Entry("chong.cli.alerts", "ack", "Take an open alert on."),
    "reload": Entry("chong.cli.reload", "reload", "Let this node's supervisor load the task modules anew."),
    "prune": Entry("chong.cli.prune", "prune", "Remove tasks that ended long ago, with all that is kept of them."),
    "migrate": Entry("chong.cli.migrate", "migrate", "Make the store's tables, or bring them up to this version."),
    "reconcile": Entry("chong.cli.reconcile", "reconcile", "Call runs lost whose supervisor is dead."),
    "resolve": Entry("chong.cli.resolve", "resolve", "Say what became of a lost task."),
    "drain": Entry("chong.cli.drain", "drain", "Let a node start nothing more; what runs there goes on."),
    "rebucket": Entry(
        "chong.cli.rebucket", "rebucket", "Change the number of buckets; without NUMBER show each change of it."
    ),
    "forget": Entry("chong.cli.forget", "forget", "Close the waiting work of a node that is gone for good."),
    "config": Entry("chong.cli.config", "config", "Check the configuration file, or show what each setting comes to."),
    "completion": Entry(
        "chong.cli.completion",
        "completion",
        "Print the script that completes commands, options, ids and names.",
    ),
}
WITHOUT_FILE = {"config", "completion"}
"""Commands that work with a broken configuration file, too: one is about it, one stands in people's shell start-up."""

COMPLETION_VARIABLE = "_CHONG_COMPLETE"
"""By it a shell asks what could come next on the command line."""


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from importlib.metadata import version  # noqa: PLC0415 - slow, and only needed here

        click.echo(f"chong {version('chong')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    no_args_is_help=False,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@configured_by(SHARED.values(), {"node": nodes()})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
@click.pass_context
def chong(ctx: click.Context, /, **said: Any) -> None:
    """Look at and control the tasks of all nodes that share one store.

    Exit codes: 0 done; 1 refused, failed or found something; 2 wrong usage or configuration; 3 store out of reach.
    """
    from chong.cli.invocation import check_said, read_invocation  # noqa: PLC0415 - `chong --help` needs none of it

    ctx.obj = check_said(said, os.environ) if ctx.invoked_subcommand in WITHOUT_FILE else read_invocation(said)


def run(args: Sequence[str] | None = None) -> int:
    """Run `chong` and return its exit code; whatever goes wrong is told in one line."""
    _print_anything()
    try:
        code = (
            _complete() if COMPLETION_VARIABLE in os.environ else _invoke(list(sys.argv[1:] if args is None else args))
        )
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _give_up_output()
        return Exit.PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last place before a traceback
        return _complain(error)
    return code


def _invoke(args: list[str]) -> int:
    # Not click's main(): it would answer a closed pipe and Ctrl-C with codes of its own.
    try:
        with chong.make_context("chong", args or ["--help"]) as ctx:
            code = int(_called(ctx) or Exit.DONE)
            unread = getattr(ctx.obj, "unread", None)  # not where a command went without a store
            return code if unread is None else int(unread.end(code))
    except click.exceptions.Exit as end:
        return end.exit_code


def _called(ctx: click.Context) -> Any:
    """What the command returns; an error takes along what may be behind it."""
    try:
        return chong.invoke(ctx)
    except Exception as error:
        from chong.cli.hint import hints  # noqa: PLC0415 - only needed when something is wrong

        for hint in hints(error, ctx.obj):
            error.add_note(hint)
        raise


def _complete() -> int:
    from chong.cli.completion import complete  # noqa: PLC0415 - only a shell asks for it

    return complete(chong, os.environ[COMPLETION_VARIABLE])


def _print_anything() -> None:
    """Text that the locale cannot encode is escaped instead of ending the command; a closed output takes nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - it lasts as long as we do
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _give_up_output() -> None:
    """What cannot be written is dropped: the interpreter flushes once more at its end and would complain again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: Exception) -> int:
    from chong.cli.complaint import complaint  # noqa: PLC0415 - only needed when something is wrong

    code, lines = complaint(error)
    print("\n".join(lines), file=sys.stderr)
    _give_up_output()
    return code
