"""The table of states: what it allows, and what it never will."""

import re
from pathlib import Path

import pytest

import chong.store.queries as sql
from chong.store.states import FINAL, MOVES, RUNS, WAITING, Status, is_allowed, targets


class TestTable:
    def test_every_status_can_be_reached(self):
        """From nothing, by moves of the table."""
        reached, fresh = set(), targets(None)
        while fresh:
            reached |= fresh
            fresh = frozenset().union(*(targets(status) for status in fresh)) - reached
        assert set(Status) == reached

    @pytest.mark.parametrize("final", sorted(FINAL))
    def test_a_final_status_has_no_way_out(self, final):
        """Final states absorb."""
        assert targets(final) == frozenset()

    @pytest.mark.parametrize("status", sorted(set(Status) - FINAL))
    def test_every_other_status_has_a_way_to_an_end(self, status):
        """Nothing is stuck for ever by design."""
        seen, fresh = set(), {status}
        while fresh:
            seen |= fresh
            fresh = {target for source in fresh for target in targets(source)} - seen
        assert FINAL & seen

    def test_no_move_stands_twice(self):
        """Two rows for one move could disagree."""
        pairs = [(move.source, move.target) for move in MOVES]
        assert len(set(pairs)) == len(pairs)

    def test_every_move_says_when(self):
        """The page is rendered from it."""
        assert all(move.when for move in MOVES)

    def test_a_move_that_is_not_in_the_table_is_not_allowed(self):
        """What is not listed is forbidden."""
        allowed = {(move.source, move.target) for move in MOVES}
        everything = {(source, target) for source in [None, *Status] for target in Status}
        assert allowed == {pair for pair in everything if is_allowed(*pair)}


class TestGroups:
    def test_the_groups_partition_the_states(self):
        """Every status waits, runs or is final."""
        assert sorted(Status) == sorted([*WAITING, *RUNS, *FINAL])

    def test_the_questions_agree_with_the_groups(self):
        """A status knows its group."""
        assert {s for s in Status if s.is_final} == FINAL
        assert {s for s in Status if s.is_run} == RUNS
        assert {s for s in Status if s.is_waiting} == WAITING

    def test_runs_begin_by_starting_only(self):
        """A lease is made with `starting`, so no other way may lead from waiting to a run."""
        entries = {m.target for m in MOVES if m.target in RUNS and m.source not in RUNS}
        assert entries == {Status.STARTING}


class TestSql:
    def test_no_status_is_written_by_hand(self):
        """The lists in the SQL come from the table."""
        folder = Path(sql.__file__).parent / "sql"
        words = "|".join(Status)
        for file in folder.rglob("*.sql"):
            assert re.findall(rf"'({words})'", file.read_text()) == []

    def test_the_check_names_every_status(self):
        """As rendered."""
        listed = re.search(r"status IN \((.*?)\)", sql.load_script("sqlite_schema"))[1]
        assert list(Status) == re.findall(r"'(\w+)'", listed)
