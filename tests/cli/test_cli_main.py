"""The command line as a whole: help, options and their variables, errors in one line, exit codes, speed."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from cli_world import World, call, clean_environment
from waiting import wait_until

from chong.cli import reach
from chong.cli.lazy import LazyGroup
from chong.cli.main import COMMANDS, chong, run
from chong.store.errors import StoreUnavailable
from chong.store.model import Deployment
from chong.store.sqlite import SqliteTaskStore
from chong.supervisor.keys import CONFIG, SHARED

BAD = [
    (["pss"], "unknown command 'pss'; did you mean ps?"),
    (["frobnicate"], "unknown command 'frobnicate'; see chong --help"),
    (["ps", "--jso"], "unknown option --jso; did you mean --json?"),
    (["ps", "--JSON"], "unknown option --JSON; did you mean --json?"),
    (["ps", "--full"], "unknown option --full; did you mean --full-id?"),
    (["ps", "--hepl"], "unknown option --hepl; did you mean --help?"),
    (["ps", "--logs"], "unknown option --logs; see chong ps --help"),
    (["ps", "--drain", "1"], "unknown option --drain; it is one of chong-supervisor, and a key of chong.toml"),
    (["--json", "ps"], "unknown option --json; it belongs after a command: chong COMMAND --json"),
    (["hist", "x"], "unknown command 'hist'; did you mean history?"),
    (["stop-all"], "unknown command 'stop-all'; see chong --help"),
    (["ps", "--zzz"], "unknown option --zzz; see chong ps --help"),
    (["ps", "--db", "x"], "unknown option --db; it belongs before the command: chong --db … ps"),
    (
        ["hold", "--node", "node-a"],
        (
            "unknown option --node; it belongs before the command: chong --node … hold, for a NAME there; "
            "chong drain NODE holds all of a node"
        ),
    ),
    (["ps", "--status", "runing"], "invalid value for '--status': unknown status 'runing'; did you mean running?"),
    (["ps", "--bucket", "9-2"], "invalid value for '--bucket': bucket list: '9-2' runs backwards, did you mean 2-9?"),
    (["ps", "--bucket", "63,64"], "--bucket: expected 0 to 63, got 64"),
    (["ps", "--mine"], "--mine: expected --owned-buckets, or owned_buckets in chong.toml, to say what is mine"),
    (["ps", "--limit", "0"], "invalid value for '--limit': 0 is not in the range 1<=x<=10000"),
    (
        ["ps", "--since", "soon"],
        "invalid value for '--since': expected a length of time like \"2h\" or an ISO 8601 time, got 'soon'",
    ),
    (["show"], "missing argument 'ID'"),
    (["show", "ffff"], "no task has an id that begins or ends with 'ffff'"),
    (["show", "%"], "no task has an id that begins or ends with '%'"),
    (["stop"], "expected ids, or at least one filter like --name or --bucket"),
    (["stop", "ab", "--name", "x"], "expected either ids or filters, got both"),
    (["stop", "--name", "x"], "no task that could be asked to stop fits these filters"),
    (["stop", "ab", "--timeout", "x"], None),
    (["stop", "ab", "--timeout", "5s"], "--timeout: expected it beside --wait, got it alone"),
    (["drain", "node-a", "--timeout", "0s"], "--timeout: expected it beside --wait, got it alone"),
    (["hold", "--name", "x", "--timeout", "5s"], "--timeout: expected it beside --wait, got it alone"),
    (["submit", "x", "-p", "a"], "-p: expected name=value, got 'a'"),
    (["submit", "x", "-p", "a=1", "-p", "a=2"], "-p: expected each name once and a list as a=[...], got 'a' twice"),
    (["submit", "x", "--params", "[1]"], "--params: expected a JSON object, got list"),
    (["submit", "x", "--params", "{"], None),
    (["submit", "x", "--params", '{"a": NaN}'], None),
    (["submit", "x\n"], r"task name: expected no control characters, got '\n'"),
    (["--owned-buckets", "5-2", "ps"], "--owned-buckets: bucket list: '5-2' runs backwards, did you mean 2-5?"),
    (["--owned-buckets", "64", "ps"], "owned buckets: expected 0 to 63, got 64"),
    (["--num-buckets", "8", "ps"], "--num-buckets: expected 64, as this store has recorded, got 8"),
    (["--num-buckets", "0", "ps"], "--num-buckets: expected 1 to 65536, got 0"),
    (["--num-buckets", "x", "ps"], "--num-buckets: expected a whole number, got 'x'"),
    (["--node", "a/b", "ps"], "--node: expected a name without a slash, got 'a/b'"),
]
REFUSED = {"no task has", "no task that"}


@pytest.mark.parametrize(("args", "line"), BAD)
def test_bad_input_is_told_in_one_line(chong, args, line):
    """Nothing on stdout, one line on stderr, and 2 for wrong usage or 1 for what cannot be granted."""
    answer = chong(*args)
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    assert answer.err.startswith("chong: ")
    if line is not None:
        assert answer.err == f"chong: {line}\n"
    assert answer.code == (1 if any(word in answer.err for word in REFUSED) else 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_ownership_is_judged_before_anything_else(tmp_path: Path, capsys, command):
    """Syntax and range are refused by every command, before its own options and before the store is looked for."""
    args = ["--db", str(tmp_path / "no.db"), "--num-buckets", "8", "--owned-buckets", "8", command, "--bogus"]
    assert run(args) == 2
    assert capsys.readouterr().err == "chong: owned buckets: expected 0 to 7, got 8\n"


@pytest.mark.parametrize(
    "args",
    [["ps"], ["show", "a"], ["history", "a"], ["logs", "a"], ["stop", "a"], ["pause", "a"], ["resume", "a"],
     ["buckets"], ["nodes"], ["tasks"], ["stats"], ["reconcile"], ["submit", "x"], ["submit", "x", "--wait"]],
)  # fmt: skip
def test_every_command_compares_the_number_of_buckets(chong, args):
    """A number that is not the store's is refused with both, before anything is read or asked."""
    answer = chong("--num-buckets", "8", *args)
    assert (answer.code, answer.err) == (2, "chong: --num-buckets: expected 64, as this store has recorded, got 8\n")


def test_a_number_said_by_a_variable_is_refused_by_its_name(chong, monkeypatch):
    """Nobody is told of an option that was not used."""
    monkeypatch.setenv("CHONG_NUM_BUCKETS", "8")
    line = "chong: CHONG_NUM_BUCKETS: expected 64, as this store has recorded, got 8\n"
    assert (chong("ps").code, chong("ps").err) == (2, line)


def test_the_files_number_is_about_another_store(world: World, chong, tmp_path: Path, monkeypatch):
    """What this store has recorded counts, for its buckets and for those that are ours; only `migrate` records."""
    file = tmp_path / "chong.toml"
    file.write_text('num_buckets = 128\nowned_buckets = "100-127"\n')
    monkeypatch.setenv("CHONG_CONFIG", str(file))
    world.add(bucket=3, bucket_key="k")
    for words in ("ps", "stats", "buckets", "hold --bucket 63"):
        answer = chong(*words.split())
        assert (answer.code, answer.err) == (0, ""), words
    assert [row["mine"] for row in chong("buckets", "--json").json] == [False] * 64
    assert chong("hold", "--bucket", "64").err == "chong: --bucket: expected 0 to 63, got 64\n"
    refused = chong("migrate")
    line = f"chong: {file}:1: num_buckets: expected 64, as this store has recorded, got 128\n"
    assert (refused.code, refused.err) == (2, line)


def test_a_migrate_that_was_overtaken_says_which_number_stands(chong, tmp_path: Path, monkeypatch):
    """Of two that record a number at one time the second one has not got what it asked for."""
    db = tmp_path / "new.db"
    record = SqliteTaskStore.record_num_buckets

    def overtaken(store: SqliteTaskStore, number: int) -> Deployment:
        record(store, 64)
        return record(store, number)

    monkeypatch.setattr(SqliteTaskStore, "record_num_buckets", overtaken)
    answer = chong("--db", str(db), "--num-buckets", "32", "migrate")
    assert (answer.code, answer.err) == (2, "chong: --num-buckets: expected 64, as this store has recorded, got 32\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    """Its first line is what the list of commands says."""
    ctx = click.Context(chong, info_name="chong")
    found = chong.get_command(ctx, command)
    assert found is not None
    assert found.help is not None
    assert found.help.splitlines()[0] == COMMANDS[command].summary
    assert all(option.help for option in found.params if isinstance(option, click.Option))


def test_every_option_of_the_group_names_its_variable(capsys):
    """An operator sees in `chong --help` what to put into an environment file."""
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    options = [option for option in chong.params if option.name != "version"]
    assert {option.opts[0] for option in options} == {key.option for key in (CONFIG, *SHARED.values())}
    assert [key.variable for key in (CONFIG, *SHARED.values()) if f"[{key.variable}]" not in text] == []


def test_the_group_without_a_command_explains_itself(capsys):
    """`chong` alone is a question, not a mistake."""
    assert run([]) == 0
    assert "reconcile" in capsys.readouterr().out
    assert isinstance(chong, LazyGroup)


def test_variables_stand_for_options(world: World, tmp_path: Path):
    """Each option may come from the environment; an empty variable says nothing."""
    elsewhere = tmp_path / "empty"
    env = {"CHONG_STATE_DIR": str(elsewhere), "CHONG_DB": str(world.path), "CHONG_NODE": "node-a",
           "CHONG_OWNED_BUCKETS": "3", "CHONG_NUM_BUCKETS": "64", "CHONG_RUNTIME_DIR": ""}  # fmt: skip
    task = world.add(bucket=3, bucket_key="k")
    world.add(bucket=4, bucket_key="l")
    assert [row["id"] for row in call(elsewhere, "ps", "--mine", "--json", env=env).json] == [task.id]
    empty = dict.fromkeys(("CHONG_DB", "CHONG_NUM_BUCKETS", "CHONG_OWNED_BUCKETS", "CHONG_NODE"), "")
    assert len(call(world.state, "ps", "--json", env=empty).json) == 2


def test_a_missing_store_is_not_created(tmp_path: Path):
    """The default store belongs to the supervisor: the command line only names it."""
    answer = call(tmp_path, "ps")
    assert answer.code == 2
    assert answer.err.startswith(f"chong: store {tmp_path / 'chong.db'}: there is no such file")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_no_store(tmp_path: Path, capsys):
    """Some other file is a wrong configuration, told in one line."""
    other = tmp_path / "notes.txt"
    other.write_text("hello" * 1000)
    assert run(["--db", str(other), "ps"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("url", ["postgresql://u:s3cret@127.0.0.1:1/x", "postgresql://u@h/x?password=s3cret"])
def test_a_password_is_never_shown(tmp_path: Path, url: str):
    """Neither in the error about the store nor in one about the words of the command."""
    for args in (["--db", url, "ps"], [url, "ps"]):
        answer = call(tmp_path, *args)
        assert answer.code != 0
        assert "s3cret" not in answer.out + answer.err


def test_an_outage_is_3(chong, monkeypatch):
    """The store being out of reach has its own exit code."""

    def away(*_, **__):
        raise StoreUnavailable("store at postgresql://u:s3cret@h/x does not answer")

    monkeypatch.setattr(reach, "open_store", away)
    answer = chong("ps")
    assert (answer.code, answer.err) == (3, "chong: store at postgresql://u:***@h/x does not answer\n")


def test_a_mistake_of_our_own_shows_no_traceback(chong, monkeypatch):
    """It names the place, for a report."""
    monkeypatch.setattr(reach, "open_store", lambda *_, **__: 1 / 0)
    answer = chong("ps")
    assert answer.code == 1
    assert answer.err.startswith("chong: internal error in test_cli_main:")
    assert answer.err.endswith("ZeroDivisionError: division by zero\n")


def test_a_closed_pipe_is_quiet(world: World):
    """`chong ps | head` says nothing about the pipe."""
    for _ in range(3):
        world.add(name="x" * 200)
    command = f"{sys.executable} -m chong.cli ps | true"
    env = clean_environment(world.state)
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"], env=env, capture_output=True, check=False
    )
    assert done.stderr == b""
    assert done.stdout.strip() in (b"0", b"141")


@pytest.mark.parametrize(("target", "code", "said"), [("/dev/full", 1, 1), ("&-", 0, 0)])
def test_output_that_cannot_be_written(world: World, target, code, said):
    """A full disk is told in one line, a closed output is a wish."""
    command = f"{sys.executable} -m chong.cli ps >{target}"
    env = clean_environment(world.state)
    done = subprocess.run(["bash", "-c", command], env=env, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, said)


def test_ctrl_c_is_130(world: World):
    """An interrupted wait ends quietly."""
    task = world.add()
    command = [sys.executable, "-m", "chong.cli", "stop", task.id, "--wait"]
    waiting = subprocess.Popen(command, env=clean_environment(world.state), stderr=subprocess.PIPE)
    wait_until(lambda: world.store.commands(task.id), "its request")
    waiting.send_signal(2)
    _, err = waiting.communicate(timeout=10)
    assert (waiting.returncode, err) == (130, b"")


def test_version_is_the_distributions(capsys):
    """`chong --version` asks the installed package."""
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("chong 0.")


def test_reading_loads_nothing_heavy(world: World):
    """`chong ps` is run by hand and by loops: it imports neither the logging nor the process library,
    nor what a supervisor decides by.
    """
    unwanted = {"structlog", "psutil", "asyncio", "setproctitle", "chong.supervisor.events"}
    code = (
        "import sys; from chong.cli.main import run; code = run(['ps']);"
        f"print(code, sorted({unwanted} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(world.state), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"


def test_help_loads_no_command_and_no_store(tmp_path: Path):
    """Not even SQLite."""
    code = (
        "import sys; from chong.cli.main import run; run(['--help']);"
        "print(sorted(m for m in sys.modules if m.startswith(('chong.store', 'chong.cli.ps', 'sqlite3'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(tmp_path), capture_output=True, check=True
    )
    assert done.stdout.splitlines()[-1] == b"[]"
