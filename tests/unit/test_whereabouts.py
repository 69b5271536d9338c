"""Clients find the node that the command line would ask."""

import json

import pytest

from chong.cli.invocation import read_invocation
from chong.worker import whereabouts
from chong.worker.client import Client, RequestInvalid


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A user's own, with nothing set yet."""
    for name in ("CHONG_NODE", "CHONG_STATE_DIR", "CHONG_RUNTIME_DIR", "CHONG_CONFIG", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(whereabouts, "_is_system", lambda: False)
    (tmp_path / "config" / "chong").mkdir(parents=True)
    return tmp_path


FLEET = """\
node = "b"
state_dir = "{at}/top"
[nodes.a]
state_dir = "{at}/a"
[nodes.b]
runtime_dir = "{at}/b-run"
[nodes.pinned]
state_dir = "{at}/pinned-share"
"""


@pytest.mark.parametrize("pinned", [None, "pinned"])
@pytest.mark.parametrize(
    "file",
    [
        "",
        'runtime_dir = "{at}/r"',
        'state_dir = "{at}/s"',
        FLEET,
        FLEET.replace('node = "b"\n', ""),
        'node = "c"\nmax_parallel = 3',
    ],
)
@pytest.mark.parametrize(
    "environ",
    [{}, {"CHONG_NODE": "a"}, {"CHONG_STATE_DIR": "{at}/e"}, {"CHONG_RUNTIME_DIR": "{at}/er"}, {"CHONG_NODE": ""}],
)
def test_a_client_asks_the_node_that_chong_would_ask(machine, monkeypatch, pinned, file, environ):
    """By variables, the file, the node's share of it, the name in the state directory, and the usual places."""
    if pinned:
        for state in ("top", "e", "s", ".local/state/chong"):
            path = machine / state / "node.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"node": pinned, "node_id": "n"}))
    (machine / "config" / "chong" / "chong.toml").write_text(file.format(at=machine))
    for name, value in environ.items():
        monkeypatch.setenv(name, value.format(at=machine))
    assert whereabouts.control_socket() == read_invocation({}).paths.control


def test_what_a_program_says_goes_before_everything(machine):
    """Each by its name, as an option of `chong` does."""
    (machine / "config" / "chong" / "chong.toml").write_text(FLEET.format(at=machine))
    for said in ({"runtime_dir": machine / "r"}, {"state_dir": machine / "s"}, {"node": "a"}):
        words = {name: str(value) for name, value in said.items()}
        assert whereabouts.control_socket(**said) == read_invocation(words).paths.control


@pytest.mark.parametrize(("name", "words"), [("chong.toml", "expected TOML"), ("none.toml", "expected a file")])
def test_a_file_that_cannot_be_read_is_told(machine, monkeypatch, name, words):
    """It might have named another node."""
    (machine / "chong.toml").write_text("node = ")
    monkeypatch.setenv("CHONG_CONFIG", str(machine / name))
    with pytest.raises(RequestInvalid, match=words):
        Client()
