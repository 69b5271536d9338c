"""The pages name everything that a reader may look up in them."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from chong.store.model import FailureKind
from chong.supervisor import main as supervisor
from chong.supervisor.configcheck import FileCheck
from chong.supervisor.configfile import load
from chong.supervisor.exits import OF_SUPERVISOR
from chong.worker import TaskContext, client, definition, testing

ROOT = Path(__file__).resolve().parents[2]
TASKS = (ROOT / "docs" / "tasks.md").read_text()
OPERATING = (ROOT / "docs" / "operating.md").read_text()


def attributes() -> list[str]:
    """The public names of a context, those that its constructor sets among them."""
    listener = SimpleNamespace(channel=None, progress=None)
    go = {"task": {"id": "1", "name": "a.b", "attempt": 1}, "run_dir": "."}
    names = {*dir(TaskContext), *vars(TaskContext(listener, go, {}, None))}  # type: ignore[arg-type]
    return sorted(name for name in names if not name.startswith("_"))


def rows(page: str, heading: str) -> dict[str, str]:
    """First and second cell of each row of the tables below a heading."""
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|", section, re.MULTILINE))


def events() -> set[str]:
    """The names of the supervisor's log events, from its source."""
    folder = Path(inspect.getfile(supervisor)).parent
    text = "\n".join(file.read_text() for file in folder.glob("*.py"))
    called = re.findall(r"""\blog\.(?:info|warning|error|critical)[(,]\s*"([a-z_]+)\"""", text.replace("_log.", "log."))
    named = re.findall(r"""\"event\": "([a-z_]+)\"""", text)
    said = re.findall(r"""\b_?say\(\s*"([a-z_]+)\"""", text)
    recurring = re.findall(r"""\bRecurring\((?:self\._)?log, "([a-z_]+)", "([a-z_]+)"[,)]""", text)
    return {*called, *said, *named, *(event for pair in recurring for event in pair)}


@pytest.mark.parametrize("option", [name for name in inspect.signature(definition.task).parameters if name != "name"])
def test_every_option_has_its_row(option: str) -> None:
    """An option that is not explained might as well not exist."""
    assert f"`{option}`" in rows(TASKS, "Options")


@pytest.mark.parametrize("attribute", attributes())
def test_every_attribute_of_the_context_is_named(attribute: str) -> None:
    """Attributes by their name, methods by their call."""
    named = " ".join(rows(TASKS, "The context"))
    assert re.search(rf"`{attribute}[`(]", named)


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_is_named(kind: FailureKind) -> None:
    """Whatever `chong show` says of a failure can be looked up."""
    assert f"`{kind}`" in rows(TASKS, "How an end is judged")


def test_the_example_of_a_file_has_nothing_to_complain_about(tmp_path: Path) -> None:
    """It is what people copy."""
    examples = re.findall(r"```toml\n(.*?)```", OPERATING, re.DOTALL)
    (tmp_path / "chong.toml").write_text(examples[0])
    file = load(tmp_path / "chong.toml")
    assert (len(file.nodes), [*FileCheck(file).faults(), *FileCheck(file).alarms()]) == (3, [])


def test_the_exit_codes_of_the_supervisor_are_those_of_its_help() -> None:
    """Word for word: systemd acts on one of them."""
    said = rows(OPERATING.split("| exit code of `chong` |")[0], "The end of a node")
    said = {code: text.replace("`", "") for code, text in said.items() if code.isdecimal()}
    assert said == {f"{code:d}": text for code, text in OF_SUPERVISOR.items()}


def test_every_event_of_the_log_is_named_and_no_other() -> None:
    """A line of the log can be looked up, and what can be looked up is logged."""
    named = set(re.findall(r"`([a-z_]+)`", " ".join(rows(OPERATING, "The supervisor's log"))))
    assert named == events()


def test_the_page_of_clients_has_every_call_and_error() -> None:
    """What a program may call, what it gets, and what it may have to catch."""
    page = (ROOT / "docs" / "clients.md").read_text()
    calls = [name for name in vars(client.Client) if not name.startswith("_")]
    assert [name for name in calls if f"| `{name}(" not in page] == []
    assert [name for name in calls if name not in vars(client.AsyncClient)] == []
    fields = [*client.Outcome.__dataclass_fields__, *client.Failure.__dataclass_fields__, *client.Wish.__annotations__]
    assert [name for name in fields if not re.search(rf"\b{name}\b", page)] == []
    errors = [name for name in client.__all__ if name not in {"Client", "AsyncClient", "Outcome", "Failure", "Wish"}]
    assert [name for name in errors if f"`{name}`" not in page] == []


def test_what_tests_of_tasks_get_has_its_rows() -> None:
    """Arguments, and what comes back."""
    section = TASKS.split("\n## Testing your tasks\n", 1)[1].split("\n## ", 1)[0]
    arguments = [name for name in inspect.signature(testing.run_task).parameters if name != "definition"]
    told = [name for name in dir(testing.Rehearsal) if not name.startswith("_")]
    moment = testing.Moment.__dataclass_fields__
    assert [name for name in [*arguments, *told] if f"`{name}`" not in section] == []
    assert [name for name in moment if not re.search(rf"\b{name}\b", section)] == []
