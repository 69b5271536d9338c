"""Settings come from where they should, and whatever else stands there is told in one line."""

import os
import re
import socket
import tomllib
import tracemalloc
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chong.store.address import EXPECTED
from chong.store.buckets import parse_buckets
from chong.store.errors import ConfigurationError
from chong.supervisor import configfile
from chong.supervisor.config import Config, Found, configured
from chong.supervisor.configcheck import MOST, FileCheck
from chong.supervisor.configfile import LIMIT, load
from chong.supervisor.effective import effective, settings_of
from chong.supervisor.files import write_json
from chong.supervisor.keys import FIELDS, KEYS, SHARED
from chong.supervisor.oneline import one_line
from chong.supervisor.settings import Settings
from chong.worker import whereabouts as paths_module

INNER = {"configured", "worker_open_files", "only_one_task"}
"""Fields of the settings that nobody sets from outside."""
FLEET = """\
num_buckets = 64
max_parallel = 8
state_dir = "/srv/chong"

[nodes.node-a]
owned_buckets = "0-15"
max_parallel = 2

[nodes."node-b"]
owned_buckets = "16-63"  # the rest
"""
anything = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def file(tmp_path):
    return tmp_path / "chong.toml"


def config_of(file, text=None, *, is_node=True, environ=None, **options):
    """What the supervisor, or a command, makes of the file and of what else is said."""
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return configured({"config": str(file), **options}, environ or {}, is_node=is_node)


def refusal(file, text=None, **said):
    with pytest.raises(ConfigurationError) as refused:
        settings_of(config_of(file, text, **{"node": "node-a", **said}))
    line = one_line(str(refused.value))
    assert line.isprintable()
    return line.replace(str(file), "FILE")


class TestTable:
    def test_every_field_of_the_settings_has_its_key(self):
        """A field without a key could not be set by anybody; a key without a field would be read for nothing."""
        assert {field.name for field in fields(Settings)} - INNER == set(FIELDS)

    def test_every_default_is_within_its_bounds(self):
        """And it is what the settings have."""
        made = Settings(node="n")
        assert {name: getattr(made, name) for name in FIELDS if name != "node"} == {
            name: key.default for name, key in FIELDS.items() if name != "node"
        }

    @pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.default not in (None, ())])
    def test_a_default_is_shown_as_it_may_be_written(self, name):
        """What `config show` prints can be put into the file."""
        key = KEYS[name]
        assert key.kind.read(key.show(key.default)) == key.default


class TestPrecedence:
    def test_each_place_yields_to_the_one_before(self, file):
        """Command line, variable, the node's table, the top, the default."""
        file.write_text(FLEET)
        seen = []
        for options, environ in (
            ({"node": "node-a", "max_parallel": "4"}, {"CHONG_MAX_PARALLEL": "3"}),
            ({"node": "node-a"}, {"CHONG_MAX_PARALLEL": "3"}),
            ({"node": "node-a"}, {}),
            ({"node": "node-b"}, {"CHONG_MAX_PARALLEL": ""}),
        ):
            found = config_of(file, environ=environ, **options).find("max_parallel")
            seen.append((found.value, found.origin.replace(str(file), "FILE")))
        assert seen == [
            (4, "--max-parallel"),
            (3, "CHONG_MAX_PARALLEL"),
            (2, "FILE:7: nodes.node-a.max_parallel"),
            (8, "FILE:2: max_parallel"),
        ]
        assert config_of(file, node="node-a").find("drain") is None

    def test_every_value_is_shown_with_its_origin(self, file):
        """What follows from others is worked out."""
        rows = {row.key: row for row in effective(config_of(file, FLEET, node="node-b", lease_seconds="1m"))}
        assert list(rows) == ["config", *KEYS]
        assert (rows["owned_buckets"].shown, rows["owned_buckets"].origin) == (
            "16-63",
            f"{file}:10: nodes.node-b.owned_buckets",
        )
        assert (rows["renew_seconds"].value, rows["renew_seconds"].origin) == (10, "default")
        assert (rows["runtime_dir"].value, rows["db"].value) == ("/srv/chong/run", "/srv/chong/chong.db")
        assert (rows["config"].value, rows["config"].origin) == (str(file), "--config")

    def test_the_node_is_the_named_one_else_the_pinned_one_else_the_host(self, file, tmp_path, monkeypatch):
        """The share follows it."""
        state = tmp_path / "state"
        state.mkdir()
        text = FLEET.replace("/srv/chong", str(state))
        monkeypatch.setattr(paths_module.socket, "gethostname", lambda: "node-b.example.org")
        picked = [config_of(file, text).share.value]
        write_json(state / "node.json", {"node": "node-a", "node_id": "1"})
        picked += [config_of(file).share.value, config_of(file, environ={"CHONG_NODE": "node-b"}).share.value]
        picked += [config_of(file, f'node = "node-b"\n{text}').share.value]
        assert picked == ["node-b", "node-a", "node-b", "node-b"]

    def test_a_stranger_is_told_the_nearest_node(self, file):
        """A supervisor of no known node would own every bucket."""
        assert refusal(file, FLEET, node="node-c").endswith(
            "FILE: expected one of the nodes node-a, node-b, got 'node-c' from --node, did you mean node-a?"
        )

    def test_a_command_on_a_machine_that_is_no_node_does_with_the_top(self, file, monkeypatch, tmp_path):
        """An operator's desk; but one who names a node means one that exists."""
        monkeypatch.setattr(paths_module.socket, "gethostname", lambda: "desk")
        text = FLEET.replace("/srv/chong", str(tmp_path))
        assert config_of(file, text, is_node=False).value("max_parallel") == 8
        with pytest.raises(ConfigurationError, match="got 'desk' from --node"):
            config_of(file, text, is_node=False, node="desk")
        with pytest.raises(ConfigurationError, match="got 'desk' from the host's name"):
            config_of(file, text)

    def test_a_directory_in_the_share_does_not_change_the_node(self, file, tmp_path, monkeypatch):
        """Whose directory it is, is compared at the start, and refused."""
        (tmp_path / "b").mkdir()
        write_json(tmp_path / "b" / "node.json", {"node": "other", "node_id": "1"})
        monkeypatch.setattr(paths_module.socket, "gethostname", lambda: "b")
        config = config_of(file, f"state_dir = '{tmp_path}'\n[nodes.b]\nstate_dir = '{tmp_path}/b'")
        assert (config.node().value, config.state_dir) == ("b", tmp_path / "b")

    def test_the_usual_places_go_with_the_state_directory(self, tmp_path, monkeypatch):
        """The system's for root, one's own otherwise; nothing there is nothing said."""
        monkeypatch.setattr(paths_module, "SYSTEM_CONFIG", tmp_path / "etc.toml")
        monkeypatch.setattr(paths_module, "SYSTEM_STATE", tmp_path / "no")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        (tmp_path / "chong").mkdir()
        seen = []
        for uid in (0, 1000):
            monkeypatch.setattr(paths_module.os, "geteuid", lambda uid=uid: uid)
            assert Config({}, {}).chosen_file() is None
            usual = paths_module.default_config()
            usual.write_text("max_parallel = 3")
            seen.append((usual, Config({}, {}).chosen_file().top["max_parallel"]))
        assert seen == [(tmp_path / "etc.toml", 3), (tmp_path / "chong" / "chong.toml", 3)]

    def test_a_usual_place_that_cannot_be_looked_into_is_not_passed_over(self, tmp_path, monkeypatch):
        """What stands there might matter: a supervisor that goes on without it would own every bucket."""
        (tmp_path / "chong").symlink_to(tmp_path / "chong")
        usual = tmp_path / "chong" / "chong.toml"
        monkeypatch.setattr(paths_module, "SYSTEM_CONFIG", usual)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        with pytest.raises(ConfigurationError) as refused:
            Config({}, {}).chosen_file()
        assert str(refused.value) == f"{usual}: the configuration cannot be read: Too many levels of symbolic links"

    def test_the_null_device_is_no_file(self):
        """The way to say "none", where there is one in the usual place."""
        assert configured({"config": os.devnull}, {}, is_node=True).file.top == {}

    def test_values_may_be_written_as_toml_has_them(self, file):
        """Numbers without quotes, and lists; a text reads as it does in an option."""
        text = """
            max_parallel = "5"
            drain = "1m30s"
            poll_seconds = 0.5
            tasks = ["a.b", "c"]
            pass_env = "LANG, AWS_*"
            keep_logs = "12h"
            keep_tasks = 90
            keep_spool = "forever"
            keep_logs_gib = "512M"
            """
        made = settings_of(config_of(file, text, node="n"))
        assert (made.max_parallel, made.drain_seconds, made.poll_seconds) == (5, 90, 0.5)
        assert (made.modules, made.pass_env) == (("a.b", "c"), ("LANG", "AWS_*"))
        assert (made.keep_logs, made.keep_tasks, made.keep_spool, made.keep_logs_gib) == (0.5, 90, None, 0.5)


BAD_VALUES = [
    ("max_paralel = 1", "FILE:1: max_paralel: unknown key, did you mean max_parallel?"),
    ("zzz = 1", "FILE:1: zzz: unknown key, chong config show lists them"),
    ("[nodes.node-a]\ndrian = 1", "FILE:2: nodes.node-a.drian: unknown key, did you mean drain?"),
    ("[nodes.node-a]\nnode = 'x'", "FILE:2: nodes.node-a.node: expected no name in here, the table has it"),
    ("timeout = '10m'", "FILE:1: timeout: unknown key, it is an option of @task"),
    ("max-parallel = 1", "FILE:1: max-parallel: unknown key, did you mean max_parallel?"),
    ("drain = 1\n[node.a]\ndrain = 1", "FILE:2: node: unknown table, did you mean nodes?"),
    ("[Nodes.a]", "FILE:1: Nodes: unknown table, did you mean nodes?"),
    ("[chong]\ndrain = 1", "FILE:1: chong: unknown table, expected keys at the top or in [nodes.NAME]"),
    ("[drain]\nx = 1", 'FILE:1: drain: expected a length of time like 30, "30s" or "10m", got a table'),
    ("[nodes.a.example.org]\ndrain = 1",
     "FILE: nodes.a.example: expected a key, got a table; a name with a dot is written as [nodes.'a.example.org']"),
    ("nodes = 3", "FILE:1: nodes: expected tables like [nodes.NAME], got 3"),
    ("[nodes]\nnode-a = 3", "FILE: nodes.node-a: expected a table, got 3"),
    ("[nodes.'a/b']", "FILE: nodes.a/b: expected a name without a slash, got 'a/b'"),
    ("[nodes.'']", "FILE: nodes.: expected 1 to 100 characters, got 0"),
    ('max_parallel = "x"', "FILE:1: max_parallel: expected a whole number, got 'x'"),
    ("max_parallel = 1.5", "FILE:1: max_parallel: expected a whole number, got 1.5"),
    ("max_parallel = true", "FILE:1: max_parallel: expected a whole number, got true"),
    ("max_parallel = nan", "FILE:1: max_parallel: expected a whole number, got nan"),
    ("max_parallel = 0x" + "f" * 9000, "FILE:1: max_parallel: expected a whole number, got a huge number"),
    ("max_parallel = " + "9" * 5000, "FILE: expected TOML, got a number with too many digits"),
    ("max_parallel = 0", "FILE:1: max_parallel: expected 1 to 100000, got 0"),
    ("max_parallel = 2026-12-02", "FILE:1: max_parallel: expected a whole number, got a date"),
    ("num_buckets = 99999", "FILE:1: num_buckets: expected 1 to 65536, got 99999"),
    ("drain = nan", "FILE:1: drain: expected a length of time of at least 0, got nan"),
    ("drain = 0x" + "f" * 900, "FILE:1: drain: expected a length of time, got a huge number"),
    ("drain = [1]", 'FILE:1: drain: expected a length of time like 30, "30s" or "10m", got a list'),
    ("lease_seconds = inf", "FILE:1: lease_seconds: expected a length of time of at least 0, got inf"),
    ("lease_seconds = 0", "FILE:1: lease_seconds: expected more than 0 and at most 86400, got 0"),
    ("renew_seconds = 11", "renew seconds: expected at most a third of the lease of 30, got 11"),
    ("owned_buckets = 3", 'FILE:1: owned_buckets: expected text like "0-15,20", got 3'),
    ("owned_buckets = '5-2'", "FILE:1: owned_buckets: bucket list: '5-2' runs backwards, did you mean 2-5?"),
    ("tasks = ['a', 1]", 'FILE:1: tasks: expected a list of names, or text like "a,b", got a list'),
    ("tasks = 'a-b'", "FILE:1: tasks: expected modules like acme.tasks, got 'a-b'"),
    ("pass_env = ['A=1']",
     "FILE:1: pass_env: expected variables like LANG or AWS_*, none of chong's own, got 'A=1'"),
    ("pass_env = ['CHONG_DB']",
     "FILE:1: pass_env: expected variables like LANG or AWS_*, none of chong's own, got 'CHONG_DB'"),
    ("cgroup = 'atuo'", "FILE:1: cgroup: expected auto, none or an absolute path, got 'atuo', did you mean auto?"),
    ("keep_logs = 'never'",
     "FILE:1: keep_logs: expected days, another length of time like \"12h\", or \"forever\", got 'never'"),
    ("keep_logs = 0", "FILE:1: keep_logs: expected more than 0 and at most 36500, got 0"),
    ("keep_logs_gib = false",
     'FILE:1: keep_logs_gib: expected GiB, another size like "512M", or "unlimited", got false'),
    ("log_format = 'jsn'", "FILE:1: log_format: expected auto, console, json, got 'jsn', did you mean json?"),
    ("state_dir = 'here'", "FILE:1: state_dir: expected an absolute path, got 'here'"),
    ("state_dir = ''", "FILE:1: state_dir: expected text, got nothing"),
    ('state_dir = "/a\\u0000"', "FILE:1: state_dir: expected text, got one with a NUL character"),
    ("state_dir = '~nobodyhere/x'", "FILE:1: state_dir: expected a path, got '~nobodyhere/x', whose user has no home"),
    ("db = 'chong.db'", "FILE:1: db: expected an absolute path, got a relative one"),
    ("db = 'sqlite:///chong.db'", "FILE:1: db: expected an absolute path, got a relative one"),
    ("db = {}", "FILE:1: db: expected text, got a table"),
    ("a = " + "[" * 100_000, "FILE: expected TOML, got values that are nested too deeply"),
]  # fmt: skip


class TestBadFiles:
    @pytest.mark.parametrize(("text", "line"), BAD_VALUES, ids=[text[:30] for text, _ in BAD_VALUES])
    def test_a_bad_value_is_told_with_file_line_and_key(self, file, text, line):
        """One line: where, what was expected, what was got, and the nearest word that would do."""
        assert self.told(file, text) == line

    @staticmethod
    def told(file, text):
        with pytest.raises(ConfigurationError) as refused:
            list(effective(config_of(file, text, node="node-a")))
        return one_line(str(refused.value)).replace(str(file), "FILE")

    @pytest.mark.parametrize(
        ("data", "line"),
        [
            (b"\xff\xfea\0", "FILE: expected UTF-8, got UTF-16"),
            (b"\xfe\xff\0a", "FILE: expected UTF-8, got UTF-16"),
            (b"\xef\xbb\xbfdrain = 1", "FILE: expected UTF-8, got a byte order mark before it"),
            (b"drain = 1\n# caf\xe9\n", "FILE:2: expected UTF-8, got byte 0xe9"),
            (b"a." * 100_000 + b"a = 1", "FILE:1: expected at most 200 dots in a line, it has more"),
            (b"#" * (LIMIT + 1), "FILE: expected at most 262144 bytes of configuration, it has more"),
            (b"".join(b"[nodes.n%d]\n" % number for number in range(201)), "FILE: expected at most 200 nodes, got 201"),
        ],
    )  # fmt: skip
    def test_what_is_no_toml_is_told_in_one_line(self, file, data, line):
        """Wrong encodings, too much, broken syntax: with the place where there is one."""
        assert refusal(file, data) == line

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("drain 1", "line 1, column 7"),
            ("a = 1\0", "line 1, column 6"),
            ("a = 1\na = 2\n", "line 2, column 6"),
            ("[nodes.a]\n[nodes.a]", "line 2, column 9"),
        ],
    )
    def test_broken_syntax_is_told_with_its_place(self, file, text, place):
        """Line and column."""
        told = refusal(file, text)
        assert told.startswith("FILE: expected TOML: ")
        assert told.endswith(f"(at {place})")

    def test_an_empty_file_says_nothing(self, file):
        """It is fine."""
        assert settings_of(config_of(file, "", node="n")) == settings_of(Config({"node": "n"}, {}))

    def test_a_file_of_the_largest_size_is_read(self, file):
        """The bound itself is within."""
        assert config_of(file, b"drain = 1\n#".ljust(LIMIT, b"x"), node="n").value("drain") == 1

    def test_what_is_no_file_is_told_and_never_waited_for(self, tmp_path):
        """A FIFO has no writer, a device no end."""
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        (tmp_path / "file").write_text("")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "socket"))
        told = {}
        for place in ("fifo", "loop", "socket", ".", "none", "file/below", "/dev/zero", "x" * 300, "/a\0b"):
            with pytest.raises(ConfigurationError) as refused:
                load(tmp_path / place)
            told[place[:10]] = one_line(str(refused.value)).rpartition(": ")[2]
        assert told == {
            "fifo": "expected a TOML file, it is a FIFO",
            "loop": "Too many levels of symbolic links",
            "socket": "expected a TOML file, it is a socket",
            ".": "expected a TOML file, it is a directory",
            "none": "No such file or directory",
            "file/below": "Not a directory",
            "/dev/zero": "expected a TOML file, it is a device",
            "xxxxxxxxxx": "File name too long",
            "/a\0b": r"expected a path, got '/a\x00b'",
        }

    def test_a_file_that_would_have_to_be_waited_for_is_told(self, tmp_path, monkeypatch):
        """Some of /proc say that they are files, and have nothing to read at the moment."""
        os.mkfifo(tmp_path / "fifo")
        writer = os.open(tmp_path / "fifo", os.O_RDWR)
        monkeypatch.setattr(configfile.stat, "S_ISREG", lambda _: True)
        with pytest.raises(ConfigurationError, match="expected a TOML file, it has nothing to read"):
            load(tmp_path / "fifo")
        os.close(writer)

    def test_a_file_full_of_long_keys_is_judged(self, file):
        """As many parts as a key may have, as often as there is room: tomllib takes the square of it."""
        line = ".".join(["a"] * 200)
        lines = "\n".join(f"{line}.b{number} = 1" for number in range(LIMIT // (len(line) + 12)))
        assert refusal(file, lines) == "FILE: a: unknown table, expected keys at the top or in [nodes.NAME]"

    def test_a_password_is_in_no_error_and_not_shown(self, file):
        """Whoever asks for help pastes what was printed."""
        url = "postgresql://u:s3cret@h/x"
        rows = {row.key: row for row in effective(config_of(file, f"db = '{url}'", node="n"))}
        assert (rows["db"].value, rows["db"].shown) == ("postgresql://u:***@h/x", "postgresql://u:***@h/x")
        assert "s3cret" not in refusal(file, f"db = ['{url}']\n'{url}' = 1")


class TestCheck:
    def told(self, file, text, look=FileCheck.faults):
        file.write_text(text)
        return [one_line(line).replace(str(file), "FILE") for line in look(FileCheck(load(file)))]

    def test_a_good_fleet_has_neither_faults_nor_alarms(self, file):
        """Every bucket belongs to one node."""
        assert (self.told(file, FLEET), self.told(file, FLEET, FileCheck.alarms)) == ([], [])

    def test_every_fault_of_every_node_is_told_once(self, file):
        """What is wrong at the top is wrong for all, and told once."""
        text = f"cgroup = 'x'\n{FLEET}drain = 'x'\n[nodes.c]\npoll_seconds = 0\nlaese_seconds = 1\n"
        assert self.told(file, text) == [
            "FILE:15: nodes.c.laese_seconds: unknown key, did you mean lease_seconds?",
            "FILE:1: cgroup: expected auto, none or an absolute path, got 'x'",
            'FILE:12: nodes.node-b.drain: expected a length of time like 30, "30s", "10m" or "1h30m", got \'x\'',
            "FILE:14: nodes.c.poll_seconds: expected more than 0 and at most 86400, got 0",
        ]

    def test_values_that_do_not_go_together_are_told_by_node(self, file):
        """Each is right by itself."""
        text = FLEET.replace("16-63", "16-64") + "[nodes.c]\nnum_buckets = 32\nrenew_seconds = 20\n"
        assert self.told(file, text) == [
            "FILE: nodes.node-b: owned buckets: expected 0 to 63, got 64",
            "FILE: nodes.c: renew seconds: expected at most a third of the lease of 30, got 20",
            "FILE: num_buckets: expected one number for all nodes, got 32, 64",
        ]
        assert self.told(file, f"{FLEET}num_buckets = 65\n") == [
            "FILE: num_buckets: expected one number for all nodes, got 64, 65"
        ]

    @pytest.mark.parametrize("db", [" postgresql://u:s3cret@h/x", "host=h password=s3cret", "//u:s3cret@h/x"])
    def test_what_is_neither_path_nor_address_is_told_as_that(self, file, db):
        """And not as a relative path, nor with the password that may stand in it."""
        (line,) = self.told(file, f"db = '{db}'\n")
        assert line.startswith(f"FILE:1: db: {EXPECTED}, got ")
        assert "s3cret" not in line

    def test_what_no_supervisor_would_start_with_is_a_fault(self, file):
        """A check that passes it would be worth nothing."""
        text = FLEET.replace("node-b", "node-c")
        assert self.told(file, f"node = 'node-b'\n{text}") == [
            "FILE:1: node: expected one of the nodes node-a, node-c, got 'node-b'"
        ]
        assert self.told(file, "db = 'mysql://u:secret@h/x'\n") == [f"FILE:1: db: {EXPECTED}, got mysql:"]
        assert self.told(file, "db = 'postgresql://u:secret@h/x'\n") == []

    def test_buckets_of_several_nodes_or_of_none_are_alarming(self, file):
        """They are legal, and nearly always a slip of the pen."""
        text = FLEET.replace('"0-15"', '"0-17"').replace("16-63", "16-50,60")
        assert self.told(file, text, FileCheck.alarms) == [
            "FILE: buckets 16-17 of 64 belong to node-a, node-b: expected one node each",
            "FILE: buckets 51-59,61-63 of 64 belong to no node",
        ]
        text = "[nodes.a]\nowned_buckets = '0-9'\n[nodes.b]\n"
        assert self.told(file, text, FileCheck.alarms) == [
            "FILE: buckets 0-9 of 64 belong to a, b: expected one node each"
        ]
        text = "[nodes.a]\nowned_buckets = '0-9'"
        assert self.told(file, text, FileCheck.alarms) == [
            "FILE: buckets 10-63 of 64 belong to no node; num_buckets is not named, 64 is the default"
        ]

    def test_faults_of_each_sort_are_told_together(self, file):
        """Whoever mends a file wants to do it once: words that are no keys, bad values, values that do not agree."""
        text = FLEET.replace("16-63", "16-64") + "laese_seconds = 1\npoll_seconds = 0\n"
        assert self.told(file, text) == [
            "FILE:11: nodes.node-b.laese_seconds: unknown key, did you mean lease_seconds?",
            "FILE:12: nodes.node-b.poll_seconds: expected more than 0 and at most 86400, got 0",
            "FILE: nodes.node-b: owned buckets: expected 0 to 63, got 64",
        ]

    def test_alarms_are_told_beside_faults(self, file):
        """A bad value elsewhere does not make them any less true."""
        text = FLEET.replace("16-63", "14-60") + "drain = 'x'\n"
        assert len(self.told(file, text)) == 1
        assert self.told(file, text, FileCheck.alarms) == [
            "FILE: buckets 14-15 of 64 belong to node-a, node-b: expected one node each",
            "FILE: buckets 61-63 of 64 belong to no node",
        ]

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"16-63"', '"63-16"'),
            ("num_buckets = 64", "num_bucket = 128"),
            ('owned_buckets = "16', 'owned_bucket = "16'),
        ],
    )
    def test_what_only_follows_from_a_fault_is_no_alarm(self, file, old, new):
        """A list that cannot be read is not nothing, and a mistyped one is not everything."""
        text = FLEET.replace(old, new)
        assert len(self.told(file, text)) == 1
        assert self.told(file, text, FileCheck.alarms) == []

    def test_the_largest_fleet_is_judged_by_ranges(self, file):
        """200 nodes that own 65,536 buckets each: sets of them would take a gigabyte, and many seconds."""
        nodes = "\n".join(f"[nodes.n{number}]\nowned_buckets = '0-65535'" for number in range(200))
        file.write_text(f"num_buckets = 65536\n{nodes}\n")
        found = load(file)
        tracemalloc.start()
        look = FileCheck(found)
        lines = [*look.faults(), *look.alarms()]
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        (line,) = lines
        assert line.startswith(f"{file}: buckets 0-65535 of 65536 belong to n0, n1, ")
        assert line.endswith(", n19 and 180 more: expected one node each")
        assert most < 8 << 20

    def test_a_file_full_of_faults_is_told_in_a_bounded_number_of_lines(self, file):
        """Somebody may have named the wrong file."""
        told = self.told(file, "\n".join(f"k{number} = 1" for number in range(20_000)))
        assert (len(told), told[-1]) == (MOST + 1, f"and more; the first {MOST} are named")


toml_values = st.recursive(
    st.one_of(
        st.text(max_size=20),
        st.booleans(),
        st.floats(),
        st.integers(-(10**30), 10**30),
        st.datetimes(),
        st.dates(),
        st.times(),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from([*KEYS, "nodes", "max_paralel", ""]) | st.text(max_size=8)


def outcome(call):
    """What a call gave, or else the line that it was refused with."""
    try:
        return call(), None
    except ConfigurationError as error:
        return None, one_line(str(error))


def assert_tame(file):
    """Whatever the file says: every reading of it comes to an end, and each complaint is one printable line."""
    try:
        found = load(file)
    except ConfigurationError as error:
        lines = [str(error)]
    else:
        lines = [*FileCheck(found).faults()]
        lines += FileCheck(found).alarms()
        if not [*FileCheck(found).faults()]:
            for node in ("", *found.nodes):
                assert len([*effective(Config({}, {}, found, Found(node or "n", "")))]) == len(KEYS) + 1
    assert all(one_line(line).isprintable() for line in lines)


class TestAnything:
    @anything
    @given(st.binary(max_size=300))
    def test_bytes(self, file, data):
        """No crash, one line each."""
        file.write_bytes(data)
        assert_tame(file)

    @anything
    @given(st.text("abn[]{}=.\"'\\\n#0-1:, \0é\x1b", max_size=200) | st.text(max_size=100))
    def test_text(self, file, text):
        """What nearly is TOML."""
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        assert_tame(file)

    @anything
    @given(st.dictionaries(names, toml_values, max_size=5), st.dictionaries(names, toml_values, max_size=3))
    def test_values(self, file, top, share):
        """TOML with other values than expected, at the top and in a node's table."""
        file.write_text(toml_of(top) + "\n[nodes.n]\n" + toml_of(share), encoding="utf-8", errors="replace")
        assert_tame(file)

    @anything
    @given(st.sampled_from(sorted(KEYS)), st.text(max_size=40))
    def test_options_and_variables(self, name, text):
        """A value is taken, or refused by the name of its option or variable."""
        key = KEYS[name]
        for options, environ, origin in (({name: text}, {}, key.option), ({}, {key.variable: text}, key.variable)):
            found, line = outcome(lambda: Config(options, environ).find(name))  # noqa: B023 - called at once
            assert found is None or found.origin == origin
            assert line is None or re.match(rf"{re.escape(origin)}: \S", line)

    @anything
    @given(st.text("0123456789-, x٣²", max_size=20) | st.text(max_size=20))
    def test_bucket_lists(self, text):
        """A set of buckets within range, or one line."""
        buckets, line = outcome(lambda: parse_buckets(text))
        assert line.startswith("bucket list: ") if line else all(0 <= bucket < 65_536 for bucket in buckets)

    @anything
    @given(st.dictionaries(st.sampled_from(sorted(SHARED)), st.text(max_size=20)))
    def test_settings_are_made_or_refused(self, options):
        """Whatever the command line says together."""
        made, line = outcome(lambda: settings_of(Config({"node": "n", "state_dir": "/s", **options}, {})))
        assert line if made is None else made.node == options.get("node", "n")


def toml_of(table):
    """The table as TOML, for keys and values of any kind; tomllib has no writer."""
    return "".join(f"{quoted(name)} = {written(value)}\n" for name, value in table.items())


def quoted(text):
    plain = all(char.isalnum() or char == "_" for char in text) and text.isascii()
    return text if plain and text else '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


def written(value):
    match value:
        case str():
            return '"' + "".join(f"\\U{ord(char):08x}" for char in value) + '"'
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            return "{" + ", ".join(f"{quoted(name)} = {written(one)}" for name, one in value.items()) + "}"
        case _:
            return value.isoformat()


def test_the_writer_of_toml_writes_toml():
    """Else the test of odd values would only test the syntax."""
    table = {"a": [1, True, "x\0"[:1]], "b c": {"d": 1.5}, "": "é"}
    assert tomllib.loads(toml_of(table)) == table
