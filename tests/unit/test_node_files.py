"""A state directory belongs to one node, and to one supervisor at a time."""

import os
from pathlib import Path

import pytest

from chong.store.errors import ConfigurationError
from chong.supervisor.files import read_json, write_json, write_text
from chong.supervisor.identity import Identity, pin_identity, read_identity
from chong.supervisor.lockfile import NodeLock


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


class TestIdentity:
    def test_it_is_pinned_at_the_first_start(self, tmp_path):
        """And is the same at every later one."""
        first = pin_identity(tmp_path / "node.json", "node-a")
        assert (first, first) == (pin_identity(tmp_path / "node.json", "node-a"), read_identity(tmp_path / "node.json"))

    def test_no_two_nodes_have_the_same_id(self, tmp_path):
        """Even under one name."""
        pinned = [pin_identity(tmp_path / name, "node-a").node_id for name in ("1.json", "2.json")]
        assert len(set(pinned)) == 2

    def test_another_node_is_refused(self, tmp_path):
        """It says whose directory it is."""
        pin_identity(tmp_path / "node.json", "node-a")
        with pytest.raises(ConfigurationError) as refused:
            pin_identity(tmp_path / "node.json", "node-b")
        assert f"state directory {tmp_path} belongs to node 'node-a': expected --node node-a, got node-b" == str(
            refused.value
        )

    def test_where_nobody_ran_there_is_none(self, tmp_path):
        """Reading pins nothing."""
        assert None is read_identity(tmp_path / "node.json")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"{}", b'{"node": "a"}', b"\xff", b"[" * 100_000])
    def test_a_spoilt_one_is_refused(self, tmp_path, content):
        """A new id would make a stranger of the node."""
        (tmp_path / "node.json").write_bytes(content)
        with pytest.raises(ConfigurationError, match=r"node\.json: expected a node's name and id, it is not readable"):
            pin_identity(tmp_path / "node.json", "node-a")

    def test_it_reads_back(self, tmp_path):
        """A name in any script."""
        write_json(tmp_path / "node.json", {"node": "名前", "node_id": "1"})
        assert Identity("名前", "1") == read_identity(tmp_path / "node.json")


class TestLock:
    def test_a_second_holder_is_refused(self, tmp_path):
        """In one line that names the first one's process."""
        first = NodeLock(tmp_path / "lock", "node-a")
        with pytest.raises(ConfigurationError) as refused:
            NodeLock(tmp_path / "lock", "node-a")
        first.close()
        assert f"node 'node-a': expected no other supervisor on {tmp_path}, one runs as process {os.getpid()}" == str(
            refused.value
        )

    def test_it_is_free_after_its_holder(self, tmp_path):
        """And is the same file: its inode is part of a proof."""
        first = NodeLock(tmp_path / "lock", "node-a")
        first.close()
        second = NodeLock(tmp_path / "lock", "node-a")
        second.close()
        assert first.inode == second.inode

    def test_a_refused_holder_leaves_the_lock_as_it_is(self, tmp_path):
        """And no descriptor behind."""
        first = NodeLock(tmp_path / "lock", "node-a")
        before = open_descriptors()
        for _ in range(3):
            with pytest.raises(ConfigurationError):
                NodeLock(tmp_path / "lock", "node-a")
        assert before == open_descriptors()
        assert f"{os.getpid()}\n" == (tmp_path / "lock").read_text()
        first.close()

    def test_closing_twice_does_no_harm(self, tmp_path):
        """The descriptor's number may be somebody else's by then."""
        lock = NodeLock(tmp_path / "lock", "node-a")
        lock.close()
        with (tmp_path / "other").open("w") as other:
            lock.close()
            other.write("x")
        assert (tmp_path / "other").read_text() == "x"

    def test_it_is_not_inherited(self, tmp_path):
        """A child that lives on must not hold it."""
        lock = NodeLock(tmp_path / "lock", "node-a")
        assert False is os.get_inheritable(lock._descriptor)
        lock.close()


class TestFiles:
    def test_a_file_is_whole_or_as_it_was(self, tmp_path):
        """A write that fails leaves the former one."""
        write_text(tmp_path / "f", "before")
        with pytest.raises(UnicodeEncodeError):
            write_text(tmp_path / "f", "after \ud800")
        assert (tmp_path / "f").read_text() == "before"

    def test_json_reads_back(self, tmp_path):
        """In any script."""
        write_json(tmp_path / "f", {"名": [1, None]})
        assert read_json(tmp_path / "f") == {"名": [1, None]}
