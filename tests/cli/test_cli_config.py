"""`chong config`, `chong completion`, and chong.toml as every command reads it."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import World, call, clean_environment
from needs import as_root

from chong.cli.completion import PROGRAMS, SHELLS, script
from chong.cli.main import COMMANDS
from chong.supervisor.keys import KEYS
from chong.worker import whereabouts

FLEET = """\
num_buckets = 64
[nodes.node-a]
owned_buckets = "0-15"
[nodes.node-b]
owned_buckets = "16-63"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "chong.toml"
    made.write_text(FLEET)
    return made


class TestCheck:
    def test_a_good_file_is_praised_in_one_line(self, chong, file):
        """With the nodes that it serves; exit 0."""
        answer = chong("config", "check", str(file))
        assert (answer.code, answer.out, answer.err) == (0, f"{file}: ok, nodes node-a, node-b\n", "")

    def test_a_bad_file_has_a_line_for_each_problem(self, chong, file):
        """Of whatever node; exit 2."""
        file.write_text(FLEET.replace("num_buckets", "num_bucket").replace("0-15", "5-0"))
        answer = chong("config", "check", str(file))
        assert (answer.code, answer.err) == (2, "")
        assert answer.lines == [
            f"{file}:1: num_bucket: unknown key, did you mean num_buckets?",
            f"{file}:3: nodes.node-a.owned_buckets: bucket list: '5-0' runs backwards, did you mean 0-5?",
        ]

    def test_an_alarming_file_is_exit_1(self, chong, file):
        """It can be used, and it is hardly what was meant."""
        file.write_text(FLEET.replace("0-15", "0-16"))
        answer = chong("config", "check", str(file))
        assert (answer.code, answer.err) == (1, "")
        assert answer.lines == [f"{file}: buckets 16 of 64 belong to node-a, node-b: expected one node each"]

    def test_alarms_stand_beside_errors(self, chong, file):
        """All that has to be done is seen at once; the errors decide the exit code."""
        file.write_text(FLEET.replace("0-15", "0-16") + "drain = 'x'\n")
        answer = chong("config", "check", str(file))
        assert (answer.code, answer.err) == (2, "")
        assert [line.partition(": ")[2][:20] for line in answer.lines] == [
            "nodes.node-b.drain: ",
            "buckets 16 of 64 bel",
        ]

    @pytest.mark.parametrize("share", ["", "[nodes.node-c]\nowned_buckets = '64'\n"])
    def test_a_password_that_others_may_read_is_alarming(self, chong, file, share):
        """At the top or in a node's part, and never shown; a group may be who is meant to read it."""
        said = 'db = "postgresql://chong:s3cret@db.example/chong"\n'
        text = FLEET.replace("64", "65").replace("16-63", "16-64") if not share else FLEET.replace("64", "65")
        file.write_text(f"{text}{share}{said}" if share else f"{said}{text}")
        file.chmod(0o644)
        answer = chong("config", "check", str(file))
        wanted = "db has a password: expected a file that others may not read, like mode 0600, got 0644"
        assert (answer.code, answer.out) == (1, f"{file}: {wanted}\n")
        file.chmod(0o640)
        assert chong("config", "check", str(file)).code == 0
        file.write_text(file.read_text().replace(":s3cret", ""))
        file.chmod(0o644)
        assert chong("config", "check", str(file)).code == 0

    def test_it_looks_at_the_file_in_use_by_default(self, chong, file, monkeypatch):
        """Also at one that no other command would take."""
        monkeypatch.setenv("CHONG_CONFIG", str(file))
        assert chong("config", "check").code == 0
        file.write_text("x")
        assert chong("config", "check").code == chong("ps").code == 2

    def test_without_any_file_it_says_so(self, chong, tmp_path, monkeypatch):
        """Nothing was checked, so nothing was found to be right; whatever files this machine has."""
        monkeypatch.setenv("CHONG_CONFIG", "")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
        monkeypatch.setattr(whereabouts, "SYSTEM_CONFIG", tmp_path / "etc" / "chong.toml")
        answer = chong("config", "check")
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == "chong: expected a FILE, --config or CHONG_CONFIG: no file lies in its usual place\n"

    def test_neither_store_nor_directory_is_touched(self, chong, file, tmp_path):
        """A file is checked where it is made, not where it is used."""
        file.write_text(FLEET + f'state_dir = "{tmp_path}/none"\n')
        assert chong("config", "check", str(file)).code == 0
        assert not (tmp_path / "none").exists()


AS_A_USER = """\
import contextlib, io, os, sys
from pathlib import Path
from chong.cli.main import run
from chong.worker import whereabouts
whereabouts.SYSTEM_STATE, whereabouts.SYSTEM_CONFIG = map(Path, sys.argv[1:3])
with contextlib.redirect_stderr(io.StringIO()):
    run(sys.argv[3:])  # loads what the user of this machine may not be able to read
os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.exit(run(sys.argv[3:]))
"""
"""A machine whose system directories lie elsewhere."""


@as_root
class TestSystemFile:
    """What a plain user hears of the file that is not his."""

    @pytest.fixture
    def machine(self) -> Iterator[Path]:
        """With the system's file, and nothing of the user's."""
        with tempfile.TemporaryDirectory(prefix="chong-") as made:
            place = Path(made)
            place.chmod(0o755)
            (place / "state").mkdir(mode=0o700)
            (place / "etc").mkdir()
            (place / "etc" / "chong.toml").write_text("")
            yield place

    def ask(self, machine: Path, *words: str, code: int | None = None) -> list[str]:
        places = (str(machine / "state"), str(machine / "etc" / "chong.toml"))
        done = subprocess.run(
            [sys.executable, "-c", AS_A_USER, *places, "--node", "n", *words],
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(machine / "home")},
            cwd="/", capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert done.returncode == code if code is not None else done.returncode != 0
        return done.stderr.splitlines()

    @pytest.mark.parametrize("words", ["submit n", "hold n", "reload"])
    def test_who_cannot_speak_to_the_supervisor_is_told_who_can(self, machine, words):
        """No file and no address would help; where another place is named, nothing is known of it."""
        state = machine / "state"
        [_, hint] = self.ask(machine, *words.split())
        assert hint == (
            f"chong: {state} is another user's: ask its supervisor as that user, or as root; user 65534 may not"
        )
        assert len(self.ask(machine, "--state-dir", str(machine / "other"), *words.split())) == 1

    @pytest.mark.parametrize("words", ["ps", "rebucket"])
    def test_an_error_names_the_file_that_was_passed_over(self, machine, words):
        """Where it might have named what is missing; with what to say instead."""
        file, state = machine / "etc" / "chong.toml", machine / "state"
        [_, hint] = self.ask(machine, *words.split())
        assert hint == (
            f"chong: {file} was not read: it is for root and for who may write to {state}, and user 65534 may not; "
            f"--config {file} reads it"
        )

    def test_a_store_that_may_not_be_read_is_wrong_usage(self, machine):
        """As a file of settings that may not be."""
        (machine / "state" / "chong.db").touch()
        [line] = self.ask(machine, "--db", str(machine / "state" / "chong.db"), "ps", code=2)
        assert line == f"chong: store {machine / 'state' / 'chong.db'}: cannot be read: Permission denied"

    @pytest.mark.parametrize("shut", ["etc", "etc/chong.toml"])
    def test_a_file_that_may_not_be_read_is_told_as_such(self, machine, shut):
        """Also where nobody knows whether it is there."""
        (machine / shut).chmod(0o600)
        [_, hint] = self.ask(machine, "ps")
        assert hint.endswith(
            "user 65534 may not, nor read the file; become a user who may, or name the store by --db or CHONG_DB"
        )

    @pytest.mark.parametrize(
        "said", [("--db", "/nowhere/x.db"), ("--state-dir", "/nowhere"), ("--config", "/dev/null"), ()]
    )
    def test_it_is_not_named_where_it_would_change_nothing(self, machine, said):
        """Who names a place has chosen it, and a machine may have no such file."""
        if not said:
            (machine / "etc" / "chong.toml").unlink()
        assert len(self.ask(machine, *said, "ps")) == 1


class TestShow:
    def test_every_setting_is_listed_with_its_origin(self, chong, file):
        """In the order of the reference."""
        rows = chong("--config", str(file), "--node", "node-a", "config", "show", "--json").json
        assert [row["key"] for row in rows] == ["config", *KEYS]
        shown = {row["key"]: (row["value"], row["origin"]) for row in rows}
        assert shown["owned_buckets"] == ("0-15", f"{file}:3: nodes.node-a.owned_buckets")
        assert shown["node"] == ("node-a", "--node")
        assert shown["state_dir"][1] == "CHONG_STATE_DIR"
        assert shown["lease_seconds"] == (30.0, "default")

    def test_a_password_is_not_shown(self, chong, monkeypatch):
        """Neither to people nor to programs."""
        monkeypatch.setenv("CHONG_DB", "postgresql://u:s3cret@h/x?password=s3cret")
        for answer in (chong("config", "show"), chong("config", "show", "--json")):
            assert "postgresql://u:***@h/x?password=***" in answer.out
            assert "s3cret" not in answer.out + answer.err

    def test_a_mistyped_variable_is_remarked_on(self, chong, monkeypatch):
        """Nobody else would ever read it."""
        monkeypatch.setenv("CHONG_MAX_PARALEL", "3")
        answer = chong("config", "show")
        assert answer.code == 0
        assert "CHONG_MAX_PARALEL is not known, did you mean CHONG_MAX_PARALLEL?" in answer.err

    def test_a_file_that_does_not_know_the_node_is_remarked_on(self, chong, file):
        """An operator's desk has the file and is no node."""
        answer = chong("--config", str(file), "config", "show")
        assert answer.code == 0
        assert "no supervisor would start here" in answer.err


class TestCommands:
    def test_a_file_says_where_the_store_is_and_what_is_mine(self, world: World, tmp_path: Path):
        """One file, and no option at all."""
        file = tmp_path / "chong.toml"
        file.write_text(FLEET + f'[nodes.desk]\nowned_buckets = "3"\ndb = "{world.path}"\n')
        task = world.add(bucket=3, bucket_key="k")
        world.add(bucket=4, bucket_key="l")
        env = {"CHONG_STATE_DIR": str(tmp_path), "CHONG_CONFIG": str(file), "CHONG_NODE": "desk"}
        assert [row["id"] for row in call(tmp_path, "ps", "--mine", "--json", env=env).json] == [task.id]

    @pytest.mark.parametrize("command", sorted({*COMMANDS} - {"config", "completion"}))
    def test_a_bad_file_stops_every_command(self, chong, file, command):
        """Before its own words are looked at; nothing is done by half of a configuration."""
        file.write_text("drain = [\n")
        answer = chong("--config", str(file), command, "--bogus")
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"chong: {file}: expected TOML: ")
        assert answer.err.count("\n") == 1

    def test_a_setting_of_supervisors_alone_is_passed_over(self, chong, file):
        """A newer supervisor's bound does not keep an operator from looking."""
        file.write_text("max_parallel = 0\n")
        assert chong("--config", str(file), "ps").code == 0

    def test_a_command_that_meets_no_file_loads_no_toml(self, world: World):
        """`chong ps` is run by hand and by loops."""
        code = "import sys; from chong.cli.main import run; print(run(['ps']), 'tomllib' in sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], env=clean_environment(world.state), capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "0 False"


def completed(state: Path, words: str, **extra: str) -> list[str]:
    """What a shell is offered for the last of these words; "_" stands for none yet."""
    count = len(words.split()) - 1
    env = {"_CHONG_COMPLETE": "bash_complete", "COMP_WORDS": words.replace("_", ""), "COMP_CWORD": str(count), **extra}
    answer = call(state, env=env)
    assert answer.err == ""
    return [line.partition(",")[2] for line in answer.lines]


class TestCompletion:
    def test_commands_are_completed(self, tmp_path):
        """All of them, or those that begin so; of a group, too."""
        assert completed(tmp_path, "chong _") == list(COMMANDS)
        assert completed(tmp_path, "chong re") == [name for name in COMMANDS if name.startswith("re")]
        assert completed(tmp_path, "chong config _") == ["check", "show"]

    def test_options_are_completed(self, tmp_path):
        """Those of the group before the command, the command's own after it."""
        assert completed(tmp_path, "chong --own") == ["--owned-buckets"]
        assert {"--status", "--since"} <= set(completed(tmp_path, "chong --node x ps --s"))
        assert completed(tmp_path, "chong config show --j") == ["--json"]

    def test_a_broken_file_does_not_matter_to_a_shell(self, tmp_path):
        """Its start-up file asks for the script, its user for a word."""
        (tmp_path / "chong.toml").write_text("[")
        env = {"CHONG_CONFIG": str(tmp_path / "chong.toml")}
        assert completed(tmp_path, "chong p", **env)[0] == "ps"
        assert call(tmp_path, "completion", "zsh", env=env).code == 0

    def test_naming_the_commands_loads_none_of_them(self, tmp_path):
        """A shell waits for the answer with every tab."""
        code = (
            "import sys; from chong.cli.main import run; run([]);"
            "print(sorted(m for m in sys.modules if m.startswith(('chong.store', 'chong.cli.ps'))), file=sys.stderr)"
        )
        env = {"_CHONG_COMPLETE": "bash_complete", "COMP_WORDS": "chong ", "COMP_CWORD": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=clean_environment(tmp_path, env), capture_output=True, check=True
        )
        assert done.stderr == b"[]\n"

    @pytest.mark.parametrize("shell", SHELLS)
    def test_a_script_names_both_programs(self, chong, shell):
        """And what they are asked with."""
        answer = chong("completion", shell)
        assert answer.code == 0
        for program in PROGRAMS:
            assert script(shell, program) in answer.out
        assert f"_CHONG_COMPLETE={shell}_complete" in answer.out
        assert f"_CHONG_SUPERVISOR_COMPLETE={shell}_complete" in answer.out

    def test_bash_takes_the_script(self, tmp_path):
        """The function that it registers offers the words of a real process."""
        (tmp_path / "chong").write_text(f'#!/bin/sh\nexec {sys.executable} -m chong.cli "$@"\n')
        (tmp_path / "chong").chmod(0o755)
        text = (
            'eval "$(chong completion bash)"; COMP_WORDS=(chong hist); COMP_CWORD=1; '
            'COMP_LINE="chong hist"; COMP_POINT=10; '
            '_chong_completion chong; echo "${COMPREPLY[@]}"'
        )
        env = clean_environment(tmp_path) | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(["bash", "--norc", "-c", text], env=env, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("history\n", "")

    def test_the_supervisor_completes_its_options(self, tmp_path):
        """By itself."""
        env = {
            "_CHONG_SUPERVISOR_COMPLETE": "bash_complete",
            "COMP_WORDS": "chong-supervisor --max-parallel-",
            "COMP_CWORD": "1",
        }
        program = Path(sys.executable).with_name("chong-supervisor")
        done = subprocess.run([program], env=clean_environment(tmp_path, env), capture_output=True, check=False)
        assert done.stdout == b"plain,--max-parallel-per-bucket\n"


@pytest.mark.parametrize("words", ["submit noop", "submit noop --wait", "reload"])
def test_what_is_for_a_supervisor_here_expects_a_node_that_the_file_has(tmp_path, words):
    """No supervisor could start here under the host's name, so none is asked for."""
    file = tmp_path / "chong.toml"
    file.write_text(FLEET)
    answer = call(tmp_path, *words.split(), env={"CHONG_CONFIG": str(file)})
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert f"chong: {file}: expected one of the nodes node-a, node-b by --node or CHONG_NODE, got none" in answer.err
