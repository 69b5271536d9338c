"""Every piece of hostile code costs its own run and nothing else, alone and with seven others at its side."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from judge import RENEWAL, perform, start
from node_bench import Supervised
from table import ROWS
from witness import Witness

ROUNDS = 2


@pytest.fixture(scope="module")
def battery() -> Iterator[tuple[Supervised, Witness]]:
    """One node for all of them, with a bystander; at the end everything about it is judged."""
    place = Supervised()
    try:
        with Witness(start(place), RENEWAL) as witness:
            yield place, witness
    finally:
        place.finish()


@pytest.mark.parametrize("what", ROWS)
def test_hostile_code_costs_its_own_run_only(battery: tuple[Supervised, Witness], what: str):
    """The verdict is what the table says, and the moment it is final no process of the run is left."""
    node, witness = battery
    perform(node, ROWS[what])
    witness.check_processes()
    witness.check_supervisor()


def test_eight_at_a_time_meet_the_same_verdicts(place: Supervised):
    """All of the table at once, again and again: nobody's verdict depends on who runs beside it."""
    node = start(place, "--max-parallel", "9")  # the bystander has one
    with Witness(node, RENEWAL) as witness, ThreadPoolExecutor(8) as drivers:
        for _ in range(ROUNDS):
            list(drivers.map(partial(perform, node), ROWS.values()))
        witness.check_processes()
