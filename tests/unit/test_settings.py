"""Settings are within their bounds, and a node's files lie where one looks for them."""

from pathlib import Path

import pytest

from chong.store.errors import ConfigurationError
from chong.supervisor.keys import NODE_LIMIT
from chong.supervisor.paths import Paths
from chong.supervisor.settings import Settings, owned
from chong.worker import whereabouts as paths_module
from chong.worker.whereabouts import default_node, default_runtime_dir, default_state_dir


def refusal(**facts):
    with pytest.raises(ConfigurationError) as refused:
        Settings(**({"node": "node-a"} | facts))
    return str(refused.value)


class TestBounds:
    @pytest.mark.parametrize(
        ("facts", "message"),
        [
            ({"node": ""}, "node: expected 1 to 100 characters, got 0"),
            ({"node": "n" * 101}, f"node: expected 1 to {NODE_LIMIT} characters, got 101"),
            ({"node": "a/b"}, "node: expected a name without a slash, got 'a/b'"),
            ({"node": "a\n"}, r"node: expected no control characters, got '\n'"),
            ({"max_parallel": 0}, "max parallel: expected 1 to 100000, got 0"),
            ({"max_parallel_per_bucket": 0}, "max parallel per bucket: expected 1 to 100000, got 0"),
            ({"lease_seconds": 0}, "lease seconds: expected more than 0 and at most 86400, got 0"),
            ({"lease_seconds": float("nan")}, "lease seconds: expected more than 0 and at most 86400, got nan"),
            (
                {"lease_seconds": float("inf")},
                "lease seconds: expected more than 0 and at most 86400, got inf",
            ),
            ({"poll_seconds": -1}, "poll seconds: expected more than 0 and at most 86400, got -1"),
            ({"import_seconds": 0}, "import seconds: expected more than 0 and at most 86400, got 0"),
            ({"renew_seconds": 0}, "renew seconds: expected more than 0 and at most 86400, got 0"),
            ({"drain_seconds": -1}, "drain seconds: expected 0 to 86400, got -1"),
            ({"renew_seconds": 11}, "renew seconds: expected at most a third of the lease of 30, got 11"),
            ({"num_buckets": 0}, "num buckets: expected 1 to 65536, got 0"),
            ({"num_buckets": 4, "owned_buckets": frozenset({3, 4})}, "owned buckets: expected 0 to 3, got 4"),
            (
                {"num_buckets": 4, "owned_buckets": frozenset()},
                "owned buckets: expected at least one bucket, got none",
            ),
        ],
    )
    def test_what_is_out_of_bounds_is_told_in_one_line(self, facts, message):
        """What was expected, and what was got."""
        assert message == refusal(**facts)

    @pytest.mark.parametrize("node", [".", ".."])
    def test_a_node_is_not_named_like_a_directory_above(self, node):
        """Its runtime directory would be everybody's."""
        assert refusal(node=node).startswith("node: expected ")

    def test_a_third_of_the_lease_is_just_often_enough(self):
        """Two renewals may be lost."""
        assert Settings(node="n", lease_seconds=30, renew_seconds=10).renewal == 10

    def test_lengths_follow_from_the_lease(self):
        """The workers of a node that died are ended before their leases run out."""
        settings = Settings(node="n", lease_seconds=60)
        assert (settings.renewal, settings.hold, settings.ladder) == (10, 30, 15)
        assert settings.hold + settings.ladder + settings.renewal < settings.lease_seconds

    def test_owned_buckets_may_be_any_numbers(self):
        """None is no limit."""
        assert (frozenset({0, 1}), None) == (owned(range(2)), owned(None))


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A machine of our own: a home, no root, no system directory that is ours."""
    monkeypatch.setattr(paths_module.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(paths_module, "SYSTEM_STATE", tmp_path / "var" / "chong")
    monkeypatch.setattr(paths_module, "SYSTEM_RUNTIME", tmp_path / "run" / "chong")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return tmp_path


class TestDirectories:
    def test_root_has_the_systems_directories(self, places, monkeypatch):
        """A runtime directory for each node."""
        monkeypatch.setattr(paths_module.os, "geteuid", lambda: 0)
        state = default_state_dir()
        assert (places / "var" / "chong", places / "run" / "chong" / "n") == (state, default_runtime_dir("n", state))

    def test_the_owner_of_the_systems_directory_has_it_too(self, places):
        """A service user, for one."""
        (places / "var" / "chong").mkdir(parents=True)
        assert places / "var" / "chong" == default_state_dir()

    def test_a_plain_user_has_a_directory_at_home(self, places):
        """With the sockets in it."""
        state = default_state_dir()
        assert places / "home" / ".local" / "state" / "chong" == state
        assert state / "run" == default_runtime_dir("n", state)

    def test_xdg_directories_are_used(self, places, monkeypatch):
        """Where they are set."""
        monkeypatch.setenv("XDG_STATE_HOME", str(places / "state"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(places / "runtime"))
        state = default_state_dir()
        assert (places / "state" / "chong", places / "runtime" / "chong" / "n") == (
            state,
            default_runtime_dir("n", state),
        )

    def test_a_chosen_directory_keeps_its_sockets_in_itself(self, places, monkeypatch):
        """Two deployments of one user must not meet."""
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(places / "runtime"))
        assert places / "mine" / "run" == Settings(node="n", state_dir=places / "mine").paths.runtime

    def test_a_chosen_runtime_directory_is_taken_as_it_is(self, places):
        """Whatever the state directory."""
        assert places / "r" == Settings(node="n", state_dir=places / "s", runtime_dir=places / "r").paths.runtime

    def test_a_node_is_named_after_its_machine(self, monkeypatch):
        """Without the domain; it has a name even where the machine has none."""
        names = iter(["web1.example.org", "web1", ""])
        monkeypatch.setattr(paths_module.socket, "gethostname", lambda: next(names))
        assert [default_node() for _ in range(3)] == ["web1", "web1", "node"]

    def test_everything_has_a_place_of_its_own(self):
        """No two things of a node share a file."""
        paths = Paths(Path("/s"), Path("/r"))
        named = [paths.identity, paths.lock, paths.default_store, paths.spool, paths.runs]
        made = [paths.log_of("r.1"), paths.run_dir("r.1"), paths.generation_socket(1)]
        more = [paths.logs, paths.control, paths.generation_lock(1), paths.catalogue(1)]
        assert len({*named, *made, *more}) == 12

    def test_the_directories_are_for_their_owner_alone(self, tmp_path):
        """Made, or mended."""
        (tmp_path / "s").mkdir(mode=0o755)
        settings = Settings(node="n", state_dir=tmp_path / "s")
        settings.make_directories()
        settings.make_directories()
        made = [tmp_path / "s", *(path for path in (tmp_path / "s").iterdir())]
        assert ({0o700}, 4) == ({path.stat().st_mode & 0o777 for path in made}, len(made))

    def test_a_file_in_the_way_is_refused(self, tmp_path):
        """In one line."""
        (tmp_path / "s").write_text("")
        with pytest.raises(ConfigurationError) as refused:
            Settings(node="n", state_dir=tmp_path / "s").make_directories()
        assert f"{tmp_path / 's'}: expected a directory, it is a file" == str(refused.value)

    def test_somebody_elses_directory_is_refused(self, tmp_path, monkeypatch):
        """Nothing of ours is put there."""
        monkeypatch.setattr("chong.supervisor.files.os.geteuid", lambda: 4242)
        with pytest.raises(ConfigurationError, match=r": expected a directory of user 4242, it belongs to user \d+\Z"):
            Settings(node="n", state_dir=tmp_path).make_directories()
