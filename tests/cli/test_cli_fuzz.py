"""Whatever is typed after `chong`: it ends, and what it has to say of it is one line."""

import click
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chong.cli.main import COMMANDS
from chong.cli.main import chong as program
from chong.supervisor.exits import Exit

LOOKING = ("ps", "show", "history", "buckets", "nodes", "tasks", "stats")
"""Commands that wait for nothing, and change nothing."""
VALUES = [
    "",
    "0",
    "-1",
    "3",
    "9" * 30,
    "1e400",
    "nan",
    "0-15",
    "5-2",
    "64",
    "2h",
    "running",
    "a=1",
    "{",
    "[" * 2000,
    "%",
]
VALUES += ["é\u202e", "\udcff", "\x1b[31m", "a\nb", "x" * 5000, "~nobodyhere", "/dev/null", "--", "-"]
words = st.sampled_from(VALUES) | st.text(st.characters(exclude_characters="\0"), max_size=12)
anything = settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])


def options_of(command: click.Command) -> list[str]:
    """`--help` is left out: it has much to say."""
    return [name for param in command.params for name in param.opts if name.startswith("-")] or ["--json"]


def tail(command: click.Command) -> st.SearchStrategy[list[str]]:
    """Options with and without a value, and stray words."""
    option = st.sampled_from(options_of(command))
    item = st.tuples(option, words) | st.tuples(option) | st.tuples(words)
    return st.lists(item, max_size=4).map(lambda items: [word for item in items for word in item])


def command_of(name: str) -> click.Command:
    found = program.get_command(click.Context(program), name)
    assert found is not None
    return found


# Before any example: a command is imported when it is looked up, and an import that draws random numbers, as
# `tempfile` does, must not happen within a strategy.
TAILS = {name: tail(command_of(name)) for name in COMMANDS}


def lines(commands):
    return st.sampled_from(sorted(commands)).flatmap(lambda name: st.tuples(st.just(name), TAILS[name]))


def assert_tame(answer) -> None:
    assert answer.code in {Exit.DONE, Exit.REFUSED, Exit.USAGE, Exit.UNREACHABLE}
    assert "internal error" not in answer.err
    assert "Traceback" not in answer.err
    if answer.code == Exit.USAGE:
        assert answer.err.count("\n") == 1 or answer.out  # `config check` prints what it found
        assert answer.err[:-1].isprintable()


@anything
@given(lines(COMMANDS))
def test_words_after_a_command_where_there_is_no_store(chong, tmp_path, line):
    """Of every command; nothing is found to work on, so none of them waits."""
    name, rest = line
    assert_tame(chong("--state-dir", str(tmp_path / "none"), name, *rest))


@anything
@given(lines(LOOKING))
def test_words_after_a_command_that_looks(chong, world, line):
    """On a store with a task in it."""
    name, rest = line
    if world.last_id == "":
        world.add(bucket=3, bucket_key="k")
    assert_tame(chong(name, *rest))


@anything
@given(tail(program))
def test_words_before_a_command(chong, line):
    """Settings of all kinds, and words that are none."""
    assert_tame(chong(*line, "stats"))
