"""Which variables of the supervisor's environment its tasks see."""

import re
from pathlib import Path

import pytest

from chong.store.errors import ConfigurationError
from chong.supervisor.environment import BASIC, environment_of_tasks
from chong.supervisor.settings import Settings

OWN = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "PYTHONPATH": "/lib",
    "PATHS": "no",
    "AWS_REGION": "eu",
    "AWSX": "no",
    "aws_key": "no",
    "CHONG_DB": "secret",
    "DATABASE_URL": "secret",
}


@pytest.mark.parametrize(
    ("named", "seen"),
    [
        ((), {"PATH", "LC_ALL", "PYTHONPATH"}),
        (("AWS_*",), {"PATH", "LC_ALL", "PYTHONPATH", "AWS_REGION"}),
        (("AWS?",), {"PATH", "LC_ALL", "PYTHONPATH", "AWSX"}),
        (("[Aa]*", "NONE"), {"PATH", "LC_ALL", "PYTHONPATH", "AWS_REGION", "AWSX", "aws_key"}),
        (("*",), set(OWN) - {"CHONG_DB"}),
    ],
)
def test_tasks_see_the_basic_variables_and_the_named_ones(named, seen):
    """Names count with their case, and no pattern lets chong's own through."""
    assert environment_of_tasks(OWN, named) == {name: OWN[name] for name in seen}


@pytest.mark.parametrize("name", ["", "A=1", "CHONG_DB", "CHONG_*", "A\n"])
def test_what_can_never_name_a_variable_is_refused(name):
    """A mistake in a list of names would else be found by the task that misses its variable."""
    with pytest.raises(ConfigurationError, match="pass env: expected variables"):
        Settings(pass_env=("HOME", name))


def test_every_basic_variable_says_what_it_is_for():
    """The list is short because each name has to have a reason."""
    assert Settings(pass_env=tuple(BASIC)).pass_env == tuple(BASIC)
    assert all(BASIC.values())


def test_the_page_lists_the_basic_variables():
    """Whoever misses a variable in a task finds out there which ones are passed."""
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    named = re.search(r"where they are set:\n\n`([^`]+)`", page)
    assert named is not None
    assert named[1].split() == list(BASIC)
