from datetime import timedelta

import pytest

from chong.worker.definition import Definition, DefinitionError, Options, task


def test_options_are_in_seconds_and_tags_sorted():
    """However they were written, so that two declarations of the same thing are equal in the catalogue."""
    declared = task("a.b", timeout="1h30m", stop_grace=timedelta(seconds=2), tags={"b", "a"}, retries=3)(lambda ctx: 1)
    assert declared.options == Options(timeout=5400.0, stop_grace=2.0, tags=("a", "b"), retries=3)


def test_a_definition_can_be_called_like_its_function():
    """A task is tested, and used by another one, without a supervisor."""
    assert task("a")(lambda ctx, x: x)(None, x=2) == 2


def test_a_function_without_parameters_wants_no_context():
    """Decided once from the signature, so that a plain function can be a task as it is."""
    assert not task("a")(lambda: None).wants_context
    assert task("a")(lambda ctx: None).wants_context


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "task 'a': timeout: expected more than 0, got 0"),
        ({"timeout": "soon"}, "task 'a': timeout: expected a length of time like 30"),
        ({"timeout": float("nan")}, "task 'a': timeout: expected a length of time of at least 0, got nan"),
        ({"stop_grace": -1}, "task 'a': stop_grace: expected a length of time of at least 0, got -1"),
        ({"kill_grace": True}, "task 'a': kill_grace: expected a length of time, got True"),
        ({"start_timeout": 0}, "task 'a': start_timeout: expected more than 0"),
        ({"retries": -1}, "task 'a': retries: expected a whole number of at least 0, got -1"),
        ({"retries": 1.5}, "task 'a': retries: expected a whole number of at least 0, got 1.5"),
        ({"max_parallel": 0}, "task 'a': max_parallel: expected a whole number of at least 1, got 0"),
        ({"priority": "high"}, "task 'a': priority: expected a whole number, got 'high'"),
        ({"tags": "io"}, "task 'a': tags: expected a set of strings, got the string 'io'"),
        ({"tags": ["a\n"]}, "task 'a': tags: expected printable strings, got 'a\\n'"),
    ],
)
def test_an_option_out_of_range_is_refused_at_once(options, words):
    """The line that imports it shows the mistake, not the first run at night."""
    with pytest.raises(DefinitionError) as caught:
        task("a", **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["", "with space", "x" * 201, "-dash", "new\nline", "ü", 7])
def test_a_bad_name_is_refused(name):
    """Names stand in titles, tables and file names, where none of these would be safe."""
    with pytest.raises(DefinitionError, match="task name: expected 1 to 200 letters"):
        task(name)


def test_an_async_function_is_refused():
    """Its call would return a coroutine that nobody awaits, and count as a success."""

    async def later(ctx: object) -> None: ...

    with pytest.raises(DefinitionError, match="expected a plain function, got an async one"):
        task("a")(later)


def test_a_definition_is_what_the_name_stands_for():
    """The decorator leaves an object with options behind, no bare function."""
    assert isinstance(task("a")(print), Definition)
