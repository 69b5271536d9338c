"""What shells complete of tasks: real shells ask a real store, and are told nothing when it does not answer."""

import importlib
import os
import pty
import re
import select
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from cli_world import S, World, clean_environment
from needs import program
from waiting import LIMIT, wait_until

from chong.cli import candidates
from chong.cli.completion import SHELLS
from chong.cli.find import TAIL
from chong.store import open as open_module
from chong.store.errors import StoreUnavailable
from chong.store.model import CatalogueEntry, HoldScope, SharedHold
from chong.worker.issuer import default_issuer

ASK = {
    "bash": 'eval "$(chong completion bash)"; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
    'COMP_LINE="${{COMP_WORDS[*]}}"; COMP_POINT=${{#COMP_LINE}}; '
    '_chong_completion chong; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$(chong completion zsh)"; '
    'compadd() {{ print -l -- "${{(P@)@[-1]}}" }}; _describe() {{ print -l -- "${{(P@)3}}" }}; '
    "words=({words}); CURRENT=$#words; _chong_completion",
    "fish": "chong completion fish | source; complete -C {line}",
}
FLAGS = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}


BROKEN = CatalogueEntry(node="node-a", name="(billing_broken)", module="billing_broken", error="SyntaxError")


def entry(name: str, hold: str | None = None, tags: Sequence[str] = ()) -> CatalogueEntry:
    return CatalogueEntry(
        node="node-a", name=name, module="m", options={"parameters": "(to=1)", "tags": tags}, hold=hold
    )


@pytest.fixture
def node(world: World) -> World:
    """A node with three definitions, one of them held, and a module that did not import."""
    world.store.publish_catalogue(
        "node-a",
        [
            entry("billing.sync", tags=["io"]),
            entry("billing.charge", "by olga", tags=["night", "io"]),
            entry("report"),
            BROKEN,
        ],
    )
    return world


def shell(state: Path, kind: str, *words: str, **env: str) -> list[str]:
    """What this shell offers for the last of the words: without the descriptions, where it shows some."""
    (state / "chong").write_text(f'#!/bin/sh\nexec {sys.executable} -m chong.cli "$@"\n')
    (state / "chong").chmod(0o755)
    said = [f"'{word}'" for word in ("chong", *words)]
    text = ASK[kind].format(words=" ".join(said), line=f"'{' '.join(('chong', *words))}'")
    where = clean_environment(state, {"CHONG_NODE": "node-a", **env}) | {"PATH": f"{state}:/usr/bin:/bin"}
    command = [program(kind), FLAGS[kind], "-c", text]
    done = subprocess.run(command, env=where, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return [line.partition("\t")[0].partition(":")[0] for line in done.stdout.splitlines() if line]


def offered(world: World, *words: str, **env: str) -> list[str]:
    return shell(world.state, "bash", *words, **env)


def test_one_task_that_cannot_be_read_hides_no_other(node: World):
    """There is no place to tell of it either."""
    first, second = (node.add("report").id for _ in range(2))
    with closing(sqlite3.connect(node.path, isolation_level=None)) as other:
        other.execute("UPDATE tasks SET flags = '{}' WHERE id = ?", [first])
    assert offered(node, "show", second) == [second]
    assert offered(node, "show", first) == []


@pytest.fixture
def typed(node: World) -> Iterator[Callable[[str], str]]:
    """The words of `chong` when somebody types a line, a tab and a return into a bash."""
    names = ("report", "acme:mail", "acme:mail:night")
    node.store.publish_catalogue("node-a", [entry(name) for name in names])
    program = node.state / "chong"
    program.write_text(
        "#!/bin/sh\n"
        'case "$_CHONG_COMPLETE$1" in completion|bash_complete*) ;; *) echo "WORDS<$*>"; exit ;; esac\n'
        f'exec {sys.executable} -m chong.cli "$@"\n'
    )
    program.chmod(0o755)
    where = clean_environment(node.state, {"CHONG_NODE": "node-a", "TERM": "dumb"})
    child, terminal = pty.fork()
    if child == 0:
        os.execve("/bin/bash", ["bash", "--norc", "-i"], where | {"PATH": f"{node.state}:/usr/bin:/bin"})
    seen = bytearray()

    def read_on(pattern: bytes) -> str:
        while not (found := re.search(pattern, seen)):
            assert select.select([terminal], [], [], LIMIT)[0], f"no {pattern!r} in {seen!r}"
            seen.extend(os.read(terminal, 4096))
        text = found[1].decode()
        del seen[: found.end()]
        return text

    def type_in(line: str) -> str:
        os.write(terminal, f"{line}\t\n".encode())
        return read_on(rb"WORDS<(.*)>")

    os.write(terminal, b'eval "$(chong completion bash)"; echo rea""dy\n')
    read_on(rb"(ready)\r\n")
    yield type_in
    os.close(terminal)
    os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("chong submit acme:m", "submit acme:mail"),
        ("chong submit acme:mail:n", "submit acme:mail:night"),
        ("chong submit acme:", "submit acme:mail"),
        ('chong submit "acme:mail:n', "submit acme:mail:night"),
        ("chong ps --name=acme:m", "ps --name=acme:mail"),
        ("chong ps --status=runn", "ps --status=running"),
        ("chong ps --status runn", "ps --status running"),
        ("chong  ps  --nam", "ps --name"),
        ("chong --node=node-a  submit rep", "--node=node-a submit report"),
    ],
)
def test_bash_completes_words_that_it_cuts_itself(typed: Callable[[str], str], line: str, words: str):
    """It cuts at ":" and "=", and names of tasks and values of options have them."""
    assert typed(line) == words


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["ps", "--status", "s"], ["starting", "stopping", "succeeded", "stopped"]),
        (["ps", "--node", ""], ["node-a", "node-b"]),
        (["--node", ""], ["node-a", "node-b"]),
        (["tasks", "--node", "node-b"], ["node-b"]),
        (["stop", "--name", "bill"], ["billing.sync", "billing.charge"]),
        (["ps", "--tag", ""], ["io", "night"]),
        (["ps", "--key", ""], ["acme", "globex"]),
        (["submit", "report", "--key", "g"], ["globex"]),
        (["stop", "--as", ""], [default_issuer()]),
        (["hold", "report", "--as", default_issuer()[:2]], [default_issuer()]),
        (["rebucket", "96", "--as", ""], [default_issuer()]),
        (["ps", "--since", ""], []),
    ],
)
@pytest.mark.parametrize("kind", SHELLS)
def test_values_of_options_are_offered(node: World, kind: str, words: list[str], values: list[str]):
    """Of those whose values are known: words of chong's own, or what the store has."""
    node.add_node("node-b", None)
    node.add(bucket=1, bucket_key="acme")
    node.add(bucket=26, bucket_key="globex")
    node.add(bucket=1, bucket_key="acme", status=S.SUCCEEDED)
    assert sorted(shell(node.state, kind, *words)) == sorted(values)


@pytest.mark.parametrize("kind", SHELLS)
def test_a_value_behind_an_equals_sign_is_completed(node: World, kind: str):
    """zsh and fish replace the whole word, so they are given it."""
    (found,) = shell(node.state, kind, "ps", "--status=runn")
    assert found.removeprefix("--status=") == "running"
    assert kind == "bash" or found == "--status=running"


@pytest.mark.parametrize("kind", SHELLS)
def test_every_shell_offers_ids_and_names(node: World, kind: str):
    """Open tasks to stop, by the end of their ids, and this node's definitions to submit."""
    running, waiting = node.add(), node.add(status=S.QUEUED)
    node.add(status=S.SUCCEEDED)
    assert sorted(shell(node.state, kind, "stop", "")) == sorted(task.id[-TAIL:] for task in (running, waiting))
    assert shell(node.state, kind, "submit", "billing.s") == ["billing.sync"]


@pytest.mark.parametrize("command", ["pause", "resume", "stop"])
def test_what_asks_is_offered_open_tasks_once(node: World, command: str):
    """Not those that stand on the line already."""
    first, second = node.add(), node.add()
    assert offered(node, command, first.id[-TAIL:], "") == [second.id[-TAIL:]]


@pytest.mark.parametrize("command", ["show", "history", "logs"])
def test_what_looks_is_offered_tasks_that_are_over_too(node: World, command: str):
    """Those are what one wants to look at."""
    tasks = [node.add(), node.add(status=S.FAILED)]
    assert offered(node, command, "") == [task.id[-TAIL:] for task in reversed(tasks)]


def test_an_id_may_be_begun_at_its_beginning_or_at_its_end(node: World):
    """As commands take it."""
    task = node.add()
    assert offered(node, "show", task.id[:9]) == [task.id]
    assert offered(node, "show", task.id[-TAIL:-2]) == [task.id[-TAIL:]]
    assert offered(node, "show", "zz") == []


def test_names_are_those_that_the_command_could_take(node: World):
    """A module that did not import has none; only what is held can be released."""
    names = ["billing.charge", "billing.sync", "report"]
    assert [sorted(offered(node, command, "")) for command in ("submit", "run", "hold")] == [names] * 3
    assert offered(node, "hold", "report", "r") == []
    assert offered(node, "unhold", "") == ["billing.charge"]
    assert offered(node, "submit", "", CHONG_NODE="node-b") == []


def test_nodes_and_what_is_held_are_offered(node: World):
    """What can be drained, forgotten, filtered by; and of holds in the store those that there are."""
    node.add_node("node-a", None, ttl=3600)
    with node.ago(120):
        node.add_node("node-c", None)
    lines = (["drain", ""], ["ps", "--node", ""], ["tasks", "--node", ""])
    assert [sorted(offered(node, *line)) for line in lines] == [["node-a", "node-c"]] * 3
    assert offered(node, "forget", "") == ["node-c"]
    assert offered(node, "unhold", "--bucket", "") == offered(node, "unhold", "--name", "") == []
    for scope, target in ((HoldScope.BUCKET, "7"), (HoldScope.NAME, "report"), (HoldScope.NODE, "node-c")):
        node.store.place_hold(SharedHold(scope=scope, target=target, by="olga"))
    assert (offered(node, "unhold", "--bucket", ""), offered(node, "unhold", "--name", "")) == (["7"], ["report"])
    assert offered(node, "hold", "--name", "bill") == ["billing.charge", "billing.sync"]


def test_the_store_is_the_one_that_stands_on_the_line(node: World, tmp_path: Path):
    """Not what would be the default."""
    task = node.add()
    state = tmp_path / "other"
    state.mkdir()
    assert shell(state, "bash", "stop", "") == []
    assert shell(state, "bash", "--db", str(node.path), "stop", "") == [task.id[-TAIL:]]


@pytest.mark.parametrize("kind", ["none", "fifo", "no store", "bad address", "bad file", "bad value"])
def test_without_a_store_nothing_is_offered_and_nothing_said(tmp_path: Path, kind: str):
    """A shell would print it into the line that somebody types."""
    env = {"CHONG_CONFIG": str(tmp_path / "bad.toml")}
    if kind == "fifo":
        os.mkfifo(tmp_path / "chong.db")
    elif kind == "no store":
        (tmp_path / "chong.db").write_text("hello" * 1000)
    bad = {"bad file": "drain 1", "bad value": "owned_buckets = '9-2'", "bad address": "db = 'mysql:x'"}
    (tmp_path / "bad.toml").write_text(bad.get(kind, ""))
    assert shell(tmp_path, "bash", "stop", "", **env) == []
    assert shell(tmp_path, "bash", "submit", "", **env) == []


def test_a_store_that_keeps_everybody_waiting_is_not_waited_for(chong, monkeypatch: pytest.MonkeyPatch):
    """Whoever has pressed a key gets no answer then."""
    back, waited = threading.Event(), []

    def away(*_: object, **__: object) -> None:
        waited.append(back.wait(LIMIT))
        raise StoreUnavailable("away")

    importlib.import_module("chong.cli.reach")  # at its first import it would keep what it finds here
    monkeypatch.setattr(open_module, "open_store", away)
    monkeypatch.setattr(candidates, "ANSWER_SECONDS", 0.05)
    for name, value in {"_CHONG_COMPLETE": "bash_complete", "COMP_WORDS": "chong stop ", "COMP_CWORD": "2"}.items():
        monkeypatch.setenv(name, value)
    answer = chong()
    assert (answer.code, answer.out.strip(), answer.err, waited) == (0, "", "", [])
    back.set()
    wait_until(lambda: waited, "its end")


def test_descriptions_cannot_command_a_terminal(node: World, monkeypatch: pytest.MonkeyPatch, chong):
    """They are printed as they come; a default may show itself as anything."""
    odd = CatalogueEntry(node="node-a", name="odd", module="m", options={"parameters": "(a=\x1b[2J)"})
    node.store.publish_catalogue("node-a", [odd])
    for name, value in {
        "CHONG_NODE": "node-a",
        "_CHONG_COMPLETE": "fish_complete",
        "COMP_WORDS": "chong submit ",
        "COMP_CWORD": "o",
    }.items():
        monkeypatch.setenv(name, value)
    assert chong().out == "plain,odd\t(a=\\x1b[2J)\n"
