"""What is known of a machine, and which nodes share one."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from chong.store.specimens import START, node_record, term_record
from chong.supervisor.arrival import node_record as declared
from chong.supervisor.machine import MACHINE_IDS, machine_id
from chong.supervisor.same_machine import one_of_each_machine, share_machine
from chong.supervisor.settings import Settings

ID = "0123456789abcdef0123456789abcdef"
OTHER = ID[::-1]
TOLD = hashlib.sha256(f"chong {ID}".encode()).hexdigest()[:32]
"""What others hear of it: the id itself stays on its machine."""
MINUTE = timedelta(minutes=1)
LONG_AGO = START - 60 * MINUTE
BEGINNING = node_record("a.1", "a", boot_id="first", machine_id=ID, started_at=LONG_AGO, seen_at=START)
"""Of the tests: a node that began long ago, and was last seen at START."""


def kept(directory: Path, *contents: bytes | None) -> str:
    """The id of a machine that keeps these in its places; None for no file."""
    places = [directory / str(number) for number in range(len(contents))]
    for place, content in zip(places, contents, strict=True):
        if content is None:
            place.unlink(missing_ok=True)
        else:
            place.write_bytes(content)
    return machine_id(places)


class TestMachineId:
    @pytest.mark.parametrize("content", [ID, f"{ID}\n", f" {ID} \n\n", ID.upper()])
    def test_it_is_32_digits(self, tmp_path, content):
        """Whatever blanks are around them."""
        assert kept(tmp_path, content.encode()) == TOLD

    @pytest.mark.parametrize(
        "content", [None, b"", b"\n", b"uninitialized\n", ID[:-1].encode(), b"g" * 32, b"\xff" * 32]
    )
    def test_what_is_none_counts_as_absent(self, tmp_path, content):
        """The other place is asked, and without one there the id is empty."""
        assert kept(tmp_path, content, ID.encode()) == TOLD
        assert kept(tmp_path, content, content) == ""

    def test_the_first_place_goes_before_the_other(self, tmp_path):
        """As where a machine got a new id, and the old one lies about."""
        assert kept(tmp_path, ID.encode(), OTHER.encode()) == TOLD

    def test_what_cannot_be_read_counts_as_absent(self, tmp_path):
        """A directory, and a path that leads through a file."""
        (tmp_path / "file").touch()
        assert machine_id([tmp_path, tmp_path / "file" / "machine-id"]) == ""

    def test_a_node_tells_that_of_its_machine(self, tmp_path):
        """From the places that systemd and D-Bus use; empty where this machine has none."""
        assert [str(place) for place in MACHINE_IDS] == ["/etc/machine-id", "/var/lib/dbus/machine-id"]
        told = declared(Settings(node="a", state_dir=tmp_path), term_record(), "cgroup")
        assert (told.machine_id, told.boot_id) == (machine_id(MACHINE_IDS), term_record().boot_id)


def after_start(by: timedelta, **facts):
    """A node that began so long after BEGINNING was last seen."""
    node = node_record("b.1", "b", boot_id="second", machine_id=ID, started_at=START + by, seen_at=START + 2 * MINUTE)
    return replace(node, **facts)


class TestSameMachine:
    @pytest.mark.parametrize("one", ["", ID])
    @pytest.mark.parametrize("other", ["", OTHER])
    def test_nodes_of_one_boot_share_it(self, one, other):
        """Containers of one kernel may have machine ids of their own, or none."""
        nodes = [after_start(-MINUTE, boot_id="first", machine_id=each) for each in (one, other)]
        assert share_machine(*nodes)

    @pytest.mark.parametrize("by", [timedelta(0), MINUTE])
    def test_a_boot_between_two_starts_is_no_second_machine(self, by):
        """Whichever of the two is looked at first."""
        assert share_machine(BEGINNING, after_start(by))
        assert share_machine(after_start(by), BEGINNING)

    @pytest.mark.parametrize("ids", [(ID, OTHER), (ID, ""), ("", ID), ("", "")])
    def test_where_the_machine_id_does_not_join_them_the_boot_tells_them_apart(self, ids):
        """It may be unknown of one or both, as of a node whose code does not tell it."""
        one, other = ids
        assert not share_machine(replace(BEGINNING, machine_id=one), after_start(MINUTE, machine_id=other))

    def test_a_machine_id_that_was_copied_joins_nobody_for_long(self):
        """Two boots of one machine are never there at one time: a sign of each after the start of the other is two."""
        assert not share_machine(BEGINNING, after_start(-MINUTE))
        assert not share_machine(after_start(-MINUTE), BEGINNING)

    @pytest.mark.parametrize("unknown", ["seen_at", "started_at"])
    def test_a_time_that_cannot_be_read_makes_no_second_machine(self, unknown):
        """Nothing speaks against a boot then."""
        other = after_start(-MINUTE)
        assert share_machine(replace(BEGINNING, **{unknown: None}), replace(other, **{unknown: None}))

    def test_each_machine_is_counted_once(self):
        """By the first of its nodes."""
        boots = ("x", "y", "x", "z", "y")
        nodes = [node_record(f"{number}.1", str(number), boot_id=boot) for number, boot in enumerate(boots)]
        assert [node.node for node in one_of_each_machine(nodes)] == ["0", "1", "3"]
