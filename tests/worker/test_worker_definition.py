import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from datetime import timedelta

import pytest

from chong.supervisor.memo import memo_of
from chong.worker.definition import Definition, task
from chong.worker.options import Backoff, DefinitionError, Options, options_from_json
from chong.worker.schedules import Cron
from chong.worker.spawn import MEMO_LIMIT


def test_options_are_in_seconds_and_tags_sorted():
    """However they were written, so that two declarations of the same thing are equal in the catalogue."""
    declared = task("a.b", timeout="1h30m", stop_grace=timedelta(seconds=2), tags={"b", "a"}, retries=3)(lambda ctx: 1)
    assert declared.options == Options(timeout=5400.0, stop_grace=2.0, tags=("a", "b"), retries=3)


def test_without_an_option_everything_has_its_default():
    """What `task` shows as defaults are those of `Options`."""
    assert task("x")(lambda: None).options == Options()


def test_options_of_every_kind_are_read():
    """Sizes, names of exceptions and a plain first wait are what the supervisor and the tables need, not objects."""
    declared = task(
        "a",
        backoff="10s",
        retry_on=["timeout", ConnectionError],
        no_retry_on=(kind for kind in [BrokenPipeError]),
        memory="64M",
        log_max="1M",
        env={"A": "b"},
        every="30s",
        keys=["x", "y"],
    )(lambda ctx: 1)
    assert declared.options == Options(
        backoff=Backoff(first=10.0),
        retry_on=("timeout", "ConnectionError"),
        no_retry_on=("BrokenPipeError",),
        memory=64 * 1024**2,
        log_max=1024**2,
        env={"A": "b"},
        every=30.0,
        keys=("x", "y"),
    )
    assert declared.retry_on == (ConnectionError,)
    assert declared.no_retry_on == (BrokenPipeError,)


def test_options_survive_json():
    """A memo gives them back to the next term, which may lack the code that declared them."""
    options = task("a", retry_on=["timeout"], backoff=Backoff(first=2), env={"A": "b"}, tags={"x"})(print).options
    assert options_from_json(json.loads(json.dumps(asdict(options)))) == options


def test_the_largest_options_fit_a_memo():
    """It travels with each spawn, and a frame has a bound; keys and variables have no business in it."""
    error = type("E" * 500, (Exception,), {})
    keys = (f"{number:0500}" for number in range(10_000))
    many = [Cron("0 3 * * *", tz="America/Argentina/ComodRivadavia", start="2026-01-01", jitter=n) for n in range(100)]
    largest = task(
        "a", every=1, schedule=many, keys=keys, retry_on=[error] * 50, no_retry_on=[error] * 50, env={"A": "b" * 8000}
    )
    assert len(json.dumps(memo_of(largest(print).options))) < MEMO_LIMIT / 2


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
        ({"tags": ["a\n"]}, "task 'a': tags: expected printable strings of 1 to 200 characters, got 'a\\n'"),
        ({"nice": 20}, "task 'a': nice: expected a whole number from 0 to 19, got 20"),
        ({"memory": "lots"}, "task 'a': memory: expected a size like 4096, \"64M\" or \"2G\", got 'lots'"),
        ({"memory": 1000}, "task 'a': memory: expected at least 1048576 bytes, got 1000"),
        ({"log_max": "1K"}, "task 'a': log_max: expected at least 65536 bytes, got '1K'"),
        ({"cwd": "work"}, "task 'a': cwd: expected an absolute path, got 'work'"),
        ({"umask": 0o1000}, "task 'a': umask: expected a whole number from 0 to 511, got 512"),
        ({"env": {"CHONG_DB": "x"}}, "task 'a': env: expected names of letters, digits and _, none with CHONG_"),
        ({"env": {"A": "b\0"}}, "task 'a': env: expected texts without NUL"),
        ({"env": {"A": "b" * 9000}}, "task 'a': env: expected at most 8192 characters in all, got 9001"),
        ({"env": "A=b"}, "task 'a': env: expected a mapping of names to texts, got 'A=b'"),
        ({"user": ""}, "task 'a': user: expected a name, got ''"),
        ({"interruptible": 1}, "task 'a': interruptible: expected True or False, got 1"),
        ({"backoff": "soon"}, "task 'a': backoff: expected a length of time like 30"),
        ({"backoff": Backoff(factor=0.5)}, "task 'a': backoff: expected first <= most, factor >= 1"),
        ({"retry_on": ["lost"]}, "task 'a': retry_on: expected exception, timeout, crashed, start_timeout or an"),
        ({"retry_on": "timeout"}, "task 'a': retry_on: expected a list of exception, timeout"),
        ({"no_retry_on": [7]}, "task 'a': no_retry_on: expected exception, timeout, crashed, start_timeout or an"),
        ({"every": "500ms"}, "task 'a': every: expected at least 1s, got '500ms'"),
        ({"every": 1, "keys": map(str, range(100_001))}, "task 'a': keys: expected at most 100000, got 100001"),
        ({"tags": map(str, range(101))}, "task 'a': tags: expected at most 100, got 101"),
        ({"retry_on": ["timeout"] * 51}, "task 'a': retry_on: expected at most 50, got 51"),
        ({"keys": ["a"]}, "task 'a': keys: expected them beside every or schedule, got keys alone"),
        (
            {"every": 1, "misfire": "al"},
            "task 'a': misfire: expected 'once' or 'skip' or 'all', got 'al', did you mean 'all'?",
        ),
        ({"every": 1, "overlap": True}, "task 'a': overlap: expected 'skip' or 'queue', got True"),
        ({"every": 1, "misfire_limit": 0}, "task 'a': misfire_limit: expected a whole number from 1 to 10000, got 0"),
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


def test_a_generator_is_refused():
    """Its call only makes it: nothing of it would ever run."""

    async def later(ctx: object) -> AsyncIterator[int]:
        yield 1

    def now(ctx: object) -> Iterator[int]:
        yield 1

    for generator in (later, now):
        with pytest.raises(DefinitionError, match="'a': expected a function that returns its result, got a generator"):
            task("a")(generator)


class Odd(type):
    """A metaclass that answers no question about its classes, and holds them equal to everything."""

    def __instancecheck__(cls, instance: object) -> bool:
        raise RuntimeError("no answer")

    def __subclasscheck__(cls, subclass: type) -> bool:
        raise RuntimeError("no answer")

    def __eq__(cls, other: object) -> bool:
        return True

    __hash__ = None


class OddError(Exception, metaclass=Odd):
    pass


class OdderError(OddError):
    pass


@pytest.mark.parametrize(
    ("options", "error", "retried"),
    [
        ({}, ValueError, True),
        ({}, KeyboardInterrupt, True),
        ({"retry_on": []}, ValueError, False),
        ({"retry_on": ["timeout"]}, ValueError, False),
        ({"retry_on": ["exception"]}, ValueError, True),
        ({"retry_on": [OSError]}, ConnectionResetError, True),
        ({"retry_on": [ConnectionResetError]}, OSError, False),
        ({"retry_on": [OSError, ValueError]}, ValueError, True),
        ({"no_retry_on": ["exception"]}, ValueError, False),
        ({"no_retry_on": [OSError]}, ConnectionResetError, False),
        ({"no_retry_on": [OSError]}, ValueError, True),
        ({"no_retry_on": ["timeout"]}, ValueError, True),
        ({"retry_on": ["exception"], "no_retry_on": [ValueError]}, ValueError, False),
        ({"retry_on": [ValueError], "no_retry_on": ["exception"]}, ValueError, False),
        ({"retry_on": [OddError]}, OdderError, True),
        ({"retry_on": [OddError]}, ValueError, False),
        ({"no_retry_on": [OddError]}, ValueError, True),
        ({"no_retry_on": [OddError]}, OdderError, False),
    ],
)
def test_exceptions_are_retried_as_the_options_say(options, error, retried):
    """By class as `except` does it, whatever a metaclass says; what must not be retried wins."""
    assert task("a", **options)(print).is_retried_after(error) is retried


def test_a_definition_is_what_the_name_stands_for():
    """The decorator leaves an object with options behind, no bare function."""
    assert isinstance(task("a")(print), Definition)


async def told_async() -> list[str]:
    return []


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (told_async, "keys: expected a plain function, got an async one"),
        (lambda shop, *, day: [], "keys: expected a function that needs no arguments, got one that needs shop, day"),
    ],
)
def test_a_function_that_cannot_tell_keys_is_refused(keys, fault):
    """When its task is declared."""
    with pytest.raises(DefinitionError, match=fault):
        task("told", every="1h", keys=keys)
    with pytest.raises(DefinitionError, match="expected them beside every or schedule"):
        task("told", keys=list)


def test_a_function_that_tells_keys_is_not_called_when_it_is_declared():
    """Nor is it among what travels as JSON."""
    declared = task("told", every="1h", keys=lambda days=1: 1 / 0)(lambda ctx: None)
    assert (declared.options.calls_keys, declared.options.keys) == (True, ())


@pytest.mark.parametrize(
    "call", ["", "   ", "mail 'ops", "ftp://a/b", "https:///x", "http://a b", 5, "a\nb", "x" * 1001]
)
def test_what_cannot_be_called_on_failure_is_refused(call):
    """With what was expected; a command and an address are kept as they are."""
    with pytest.raises(DefinitionError, match="task 'a': on_failure: expected"):
        task("a", on_failure=call)
    for good in ("mail -s 'it failed' ops", "https://hooks.example.org/T1?x=1"):
        assert task("a", on_failure=good)(lambda ctx: None).options.on_failure == good
