"""Decisions without a process: the hold's clock, and the forkserver's settings."""

import json

import pytest

from chong.worker.orphanage import Act, Orphanage
from chong.worker.settings import ForkserverSettings

GIVEN = {
    "generation": 1,
    "listen_fd": 5,
    "lock": "l",
    "runs": "r",
    "catalogue": "c",
    "modules": ["m"],
    "hold": 15.0,
    "ladder": 7.5,
}


def test_each_step_is_due_once_and_in_order():
    """A signal that is sent again at each look would leave no time to clean up."""
    orphanage = Orphanage(hold=10, ladder=5)
    orphanage.enter(100)
    acts = [orphanage.next(now) for now in (100, 109.9, 110, 110.1, 112.9, 113, 114, 115, 200)]
    nothing = Act.NOTHING
    assert acts == [nothing, nothing, Act.TERM, nothing, nothing, Act.KILL, nothing, Act.LEAVE, nothing]


def test_a_loss_seen_twice_does_not_prolong_the_hold():
    """The workers' time without a supervisor counts from when it was lost."""
    orphanage = Orphanage(hold=10, ladder=5)
    orphanage.enter(100)
    orphanage.enter(109)
    assert orphanage.next(110) is Act.TERM


def test_a_supervisor_that_did_not_serve_only_stops_the_clock():
    """Starts that fail in a row renew no lease, so they must not renew the hold either."""
    orphanage = Orphanage(hold=10, ladder=5)
    orphanage.enter(100)
    orphanage.pause(106)
    assert not orphanage.is_open
    assert orphanage.next(200) is Act.NOTHING
    orphanage.enter(300)
    assert [orphanage.next(now) for now in (303.9, 304, 306.9, 307)] == [Act.NOTHING, Act.TERM, Act.NOTHING, Act.KILL]
    orphanage.pause(308)
    orphanage.enter(400)
    assert [orphanage.next(now) for now in (400.9, 401)] == [Act.NOTHING, Act.LEAVE]


def test_a_supervisor_that_serves_starts_the_clock_anew():
    """The next loss is a new one, with its whole hold and ladder."""
    orphanage = Orphanage(hold=10, ladder=5)
    orphanage.enter(100)
    assert orphanage.next(111) is Act.TERM
    assert orphanage.on_ladder
    orphanage.leave()
    assert not orphanage.is_open
    assert orphanage.next(200) is Act.NOTHING
    orphanage.enter(300)
    assert not orphanage.on_ladder
    assert orphanage.next(309) is Act.NOTHING


def test_a_clock_that_leapt_takes_the_steps_one_by_one():
    """After a suspended machine SIGKILL still comes behind a SIGTERM, never in its place."""
    orphanage = Orphanage(hold=10, ladder=5)
    orphanage.enter(0)
    assert [orphanage.next(1000) for _ in range(3)] == [Act.TERM, Act.KILL, Act.LEAVE]


def test_settings_come_as_one_object():
    """What was left out has its default."""
    settings = ForkserverSettings.parse(json.dumps(GIVEN))
    assert (settings.modules, settings.hold, settings.import_timeout) == (("m",), 15.0, 60.0)


@pytest.mark.parametrize("text", ["[]", "{}", json.dumps(GIVEN | {"mdules": []})])
def test_settings_that_miss_or_add_a_key_are_refused(text):
    """Supervisor and forkserver come from one installation; a difference is a mistake that must not pass."""
    with pytest.raises(ValueError, match="forkserver: expected an object with"):
        ForkserverSettings.parse(text)
