"""When a pause, a freeze or a resume was asked, delivered, acknowledged and in effect, and what came first."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from cli_world import Answer, S, World
from waiting import wait_until

from chong.cli.moments import latest, moments_of
from chong.cli.request import effect_of, look
from chong.store.model import Action, Command, Transition
from chong.store.specimens import START
from chong.supervisor.client import Client

Chong = Callable[..., Answer]
NEVER = {
    "resume": "never, a resume came first",
    "freeze": "never, a freeze came first",
    "stop": "never, a stop or a time-out came first",
    "end": "never, it ended first",
}
OWN, OTHER, WORKER = "command.c", "command.d", "task.1.7"
"""What caused a change: the command that is looked at, another one, and no command."""


def after(seconds: float):
    return START + timedelta(seconds=seconds)


def asked(action: Action, finished: float | None = 11, outcome: str | None = "done", **facts) -> Command:
    """Stored at the tenth second, and done at the eleventh."""
    plain = {"id": "c", "task_id": "t", "issued_by": "olga", "issued_at": after(9), "stored_at": after(10)}
    end = {} if finished is None else {"finished_at": after(finished), "outcome": outcome}
    return Command(**(plain | end | facts), action=action)


def trail_of(*steps: tuple[S, float, str]) -> list[Transition]:
    """A run since the second second, and then these changes: to what, stored when, caused by what."""
    all_steps = [(S.QUEUED, 0, "q"), (S.STARTING, 1, "s"), (S.RUNNING, 2, "r"), *steps]
    return [
        Transition(
            task_id="t", version=number, source=all_steps[number - 2][0] if number > 1 else None, target=target,
            at=after(seconds), actor="a", event_id=event, stored_at=after(seconds),
        )
        for number, (target, seconds, event) in enumerate(all_steps, 1)
    ]  # fmt: skip


ASKED = (S.PAUSING, 11, OWN)


@pytest.mark.parametrize(
    ("steps", "came", "missing"),
    [
        pytest.param([ASKED], [11], "not yet", id="no checkpoint yet"),
        pytest.param([ASKED, (S.PAUSED, 13, WORKER)], [11, 13, 13], None, id="paused"),
        pytest.param(
            [ASKED, (S.PAUSED, 13, WORKER), (S.RUNNING, 14, OTHER), (S.PAUSING, 15, OTHER), (S.PAUSED, 16, WORKER)],
            [11, 13, 13],
            None,
            id="resumed later",
        ),
        pytest.param([ASKED, (S.RUNNING, 12, OTHER)], [11], NEVER["resume"], id="resumed before"),
        pytest.param([ASKED, (S.STOPPING, 12, OTHER), (S.STOPPED, 13, WORKER)], [11], NEVER["stop"], id="stopped"),
        pytest.param([ASKED, (S.SUCCEEDED, 12, WORKER)], [11], NEVER["end"], id="ended"),
        pytest.param(
            [ASKED, (S.RETRYING, 12, WORKER), (S.STARTING, 13, WORKER)], [11], NEVER["end"], id="its attempt ended"
        ),
        pytest.param(
            [(S.PAUSING, 8, OTHER), (S.RUNNING, 11, "command.d"), (S.PAUSING, 11, OWN)],
            [11],
            "not yet",
            id="others in the same transaction",
        ),
        pytest.param(
            [(S.PAUSING, 11, OTHER), (S.PAUSED, 11, WORKER), (S.RUNNING, 11, "command.e"), (S.PAUSING, 11, OWN)],
            [11],
            "not yet",
            id="a whole pause of another in the same transaction",
        ),
        pytest.param([(S.PAUSING, 5, OTHER), (S.PAUSED, 12, WORKER)], [11, 12, 12], None, id="was pausing already"),
        pytest.param(
            [(S.PAUSING, 5, OTHER), (S.PAUSED, 10.5, WORKER)], [10.5, 10.5, 10.5], None, id="paused meanwhile"
        ),
        pytest.param(
            [(S.PAUSING, 5, OTHER), (S.RUNNING, 10.5, OTHER)], [11], NEVER["resume"], id="was pausing, and resumed"
        ),
        pytest.param(
            [(S.PAUSING, 5, OTHER), (S.SUCCEEDED, 10.5, WORKER)], [11], NEVER["end"], id="was pausing, and ended"
        ),
        pytest.param(
            [(S.PAUSING, 10.5, OTHER), (S.PAUSED, 12, WORKER)], [11, 12, 12], None, id="asked behind another one"
        ),
    ],
)
def test_a_pause_finds_its_way_through_the_trail(steps, came, missing):
    """From the change that it caused, or from where it found nothing to change, by the store's moments."""
    moments = moments_of(asked(Action.PAUSE), trail_of(*steps))
    assert moments.came == dict(zip(("delivered", "acknowledged", "effective"), map(after, came), strict=False))
    assert moments.missing == ({} if missing is None else dict.fromkeys(("acknowledged", "effective"), missing))
    assert (moments.asked_at, moments.by) == (after(9), "olga")


def test_a_pause_of_what_is_paused_is_in_effect_at_once():
    """Nobody has to acknowledge it."""
    moments = moments_of(asked(Action.PAUSE), trail_of((S.PAUSING, 5, OTHER), (S.PAUSED, 6, WORKER)))
    assert (moments.came, moments.missing) == ({"delivered": after(11), "effective": after(11)}, {})


def test_a_freeze_brings_about_a_pause_that_waits_for_a_checkpoint():
    """The worker has not answered, and never will."""
    moments = moments_of(asked(Action.PAUSE), trail_of(ASKED, (S.PAUSED, 12, OTHER)))
    assert moments.came == {"delivered": after(11), "effective": after(12)}
    assert moments.missing == {"acknowledged": NEVER["freeze"]}


def test_a_pause_that_waited_for_the_start_counts_from_there():
    """Its change is one of several in a step, whose events have a number behind."""
    run = [(S.RETRYING, 3, WORKER), (S.STARTING, 4, WORKER), (S.RUNNING, 11, WORKER)]
    moments = moments_of(asked(Action.PAUSE), trail_of(*run, (S.PAUSING, 11, f"{OWN}.2"), (S.PAUSED, 12, WORKER)))
    assert moments.came == {"delivered": after(11), "acknowledged": after(12), "effective": after(12)}


@pytest.mark.parametrize("action", [Action.FREEZE, Action.RESUME])
def test_what_nobody_answers_is_in_effect_with_its_delivery(action):
    """There is no such moment as its acknowledgement, so nothing says that it is missing."""
    moments = moments_of(asked(action), [])
    assert (moments.came, moments.missing) == ({"delivered": after(11), "effective": after(11)}, {})
    assert [name for name, value in moments.facts() if value is not None] == ["asked", "by", "delivered", "effective"]


@pytest.mark.parametrize(
    ("finished", "outcome", "told"), [(None, None, "not yet"), (11, "superseded", "never, superseded")]
)
def test_what_was_not_done_was_not_delivered(finished, outcome, told):
    """Whether it is still open, or has ended otherwise."""
    moments = moments_of(asked(Action.PAUSE, finished, outcome), trail_of((S.PAUSING, 5, OTHER), (S.PAUSED, 6, WORKER)))
    assert (moments.came, set(moments.missing.values())) == ({}, {told})
    assert set(moments.as_fields().values()) == {None}


def test_what_is_stored_late_came_about_when_the_node_did_it():
    """As after an outage of the store: a stop that came meanwhile has such moments, too."""
    late = [replace(step, stored_at=after(60)) for step in trail_of(ASKED, (S.PAUSED, 13, WORKER))]
    moments = moments_of(asked(Action.PAUSE, finished=60), late)
    assert list(moments.came.values()) == [after(11), after(13), after(13)]
    frozen = [replace(step, stored_at=after(60)) for step in trail_of(ASKED, (S.PAUSED, 11, f"{OWN}.2"))]
    assert set(moments_of(asked(Action.FREEZE, finished=60), frozen).came.values()) == {after(11)}
    resumed = [replace(step, stored_at=after(60)) for step in trail_of((S.RUNNING, 12, OWN))]
    assert set(moments_of(asked(Action.RESUME, finished=60), resumed).came.values()) == {after(12)}


def test_nothing_comes_before_it_was_asked():
    """The asker's clock may be ahead."""
    moments = moments_of(asked(Action.PAUSE, issued_at=after(40)), trail_of(ASKED, (S.PAUSED, 13, WORKER)))
    assert (moments.asked_at, moments.came["delivered"]) == (after(11), after(11))


@pytest.mark.parametrize("action", [Action.PAUSE, Action.FREEZE, Action.RESUME])
def test_what_found_nothing_to_change_says_so(action):
    """Its moments are none of the state: that was there before."""
    before = trail_of((S.PAUSING, 5, OTHER), (S.PAUSED, 6, WORKER))
    assert moments_of(asked(action), before).was_so
    assert dict(moments_of(asked(action), before).facts())["effective"] == "nothing had to change"
    assert not moments_of(asked(action), trail_of((S.PAUSED, 11, OWN))).was_so
    assert not moments_of(asked(Action.PAUSE), trail_of((S.PAUSING, 5, OTHER), (S.PAUSED, 12, WORKER))).was_so


def test_who_asked_for_what_was_there_hides_nobody_who_brought_it_about():
    """Only where nobody has changed anything, and nobody still may, is it shown."""
    freeze, again, late = (asked(Action.FREEZE, id=one) for one in ("c", "x", "y"))
    trail = trail_of((S.PAUSING, 11, OWN), (S.PAUSED, 11, f"{OWN}.2"))
    assert latest([freeze, again], trail) == [freeze]
    assert latest([again], trail) == [again]
    open_one = replace(late, finished_at=None, outcome=None)
    assert latest([freeze, open_one], trail) == [open_one]


P, F, R = Action.PAUSE, Action.FREEZE, Action.RESUME


@pytest.mark.parametrize(
    ("actions", "shown"),
    [
        ((), []),
        ((P,), [0]),
        ((P, R), [0, 1]),
        ((P, R, F), [2]),
        ((P, F, R, R, Action.STOP), [1, 3]),
        ((R,), [0]),
    ],
)
def test_the_latest_pause_and_the_resume_of_it_are_shown(actions, shown):
    """An earlier resume undid an earlier pause."""
    commands = [asked(action, id=str(number)) for number, action in enumerate(actions)]
    assert latest(commands, []) == [commands[number] for number in shown]


# --- what the commands say, on both stores ----------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, world: World) -> Iterator[World]:
    if request.param == "sqlite":
        yield world
        return
    made = World(world.state, request.getfixturevalue("database"))
    yield made
    made.store.close()


@pytest.fixture
def told(request: pytest.FixtureRequest, place: World, chong: Chong) -> Chong:
    return chong if place.address is None else partial(chong, "--db", place.address)


def obeyed(place: World, told: Chong, task, words: tuple[str, ...], *statuses: S):
    """Asked by olga, and done by the node in one save."""
    assert told(*words, task.id, "--as", "olga", "--reason", "lunch").code == 0
    return place.obey(place.store.commands(task.id)[-1], task, *statuses)


def group(answer: Answer, title: str) -> dict[str, str]:
    """The facts below a title of `show`."""
    lines = answer.out.split(f"\n\n{title}\n", 1)[1].split("\n\n", 1)[0].splitlines()
    return {line[2:18].strip(): line[19:] for line in lines}


MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z"
COUNTED = rf"{MOMENT} \(after \S+s\)"


def test_show_tells_the_moments_of_a_pause_and_of_its_resume(place: World, told: Chong):
    """As those of a stop: from when the store took it, with who asked and why; and what has not come."""
    pausing = obeyed(place, told, place.add(), ("pause",), S.PAUSING)
    facts = group(told("show", pausing.id), "pause")
    assert list(facts) == ["asked", "by", "reason", "delivered", "acknowledged", "effective"]
    assert (facts["by"], facts["reason"]) == ("olga", "lunch")
    assert re.fullmatch(MOMENT, facts["asked"])
    assert re.fullmatch(COUNTED, facts["delivered"])
    assert (facts["acknowledged"], facts["effective"]) == ("not yet", "not yet")
    paused = place.move(pausing, S.PAUSED)
    obeyed(place, told, paused, ("resume",), S.RUNNING)
    shown = told("show", paused.id)
    assert re.fullmatch(COUNTED, group(shown, "pause")["acknowledged"])
    assert list(group(shown, "resume")) == ["asked", "by", "reason", "delivered", "effective"]
    assert "\n\nstop\n" not in shown.out


def test_show_tells_a_freeze_by_its_name(place: World, told: Chong):
    """It has no acknowledgement; an earlier pause stays among the commands."""
    pausing = obeyed(place, told, place.add(), ("pause",), S.PAUSING)
    frozen = obeyed(place, told, pausing, ("pause", "--freeze"), S.PAUSED)
    shown = told("show", frozen.id)
    assert list(group(shown, "freeze")) == ["asked", "by", "reason", "delivered", "effective"]
    assert "\n\npause\n" not in shown.out
    assert set(group(shown, "commands")) == {"pause", "freeze"}
    first, _ = told("show", frozen.id, "--json").json["commands"]
    assert (first["acknowledged_at"], first["effective_at"] is not None) == (None, True)


def test_json_has_the_moments_of_each_request(place: World, told: Chong):
    """Null when they have not come; those of a stop stand with the task."""
    pausing = obeyed(place, told, place.add(), ("pause",), S.PAUSING)
    told("resume", pausing.id)
    told("stop", pausing.id)
    pause, resume, stop = told("show", pausing.id, "--json").json["commands"]
    assert None is not pause["delivered_at"] <= pause["finished_at"]
    assert (pause["acknowledged_at"], pause["effective_at"]) == (None, None)
    assert [resume[f"{name}_at"] for name in ("delivered", "acknowledged", "effective")] == [None] * 3
    assert "delivered_at" not in stop


def test_moments_of_one_transaction_are_in_their_order(place: World, told: Chong):
    """As when the worker paused while the store was away: each change and each end of a command has a moment there."""
    task = place.add()
    told("pause", task.id)
    (command,) = place.store.commands(task.id)
    place.obey(command, task, S.PAUSING, S.PAUSED, S.RUNNING, S.PAUSING)
    (command,) = place.store.commands(task.id)
    moments = moments_of(command, place.store.history(task.id))
    assert set(moments.came) == {"delivered", "acknowledged", "effective"}
    assert moments.asked_at <= moments.came["delivered"] <= moments.came["acknowledged"] <= command.finished_at
    assert moments.came["effective"] - moments.asked_at < timedelta(seconds=60)


def test_a_second_pause_in_the_transaction_of_the_first_is_not_taken_for_it(place: World, told: Chong):
    """Whatever the clock said: the first one was answered and undone, the second waits for a checkpoint."""
    task = place.add()
    for word in ("pause", "resume", "pause"):
        told(word, task.id)
    first, resume, second = place.store.commands(task.id)
    place.obey_all(task, {first: (S.PAUSING, S.PAUSED), resume: (S.RUNNING,), second: (S.PAUSING,)})
    trail = place.store.history(task.id)
    was, _, now = (moments_of(command, trail) for command in place.store.commands(task.id))
    assert set(was.came) == {"delivered", "acknowledged", "effective"}
    assert (set(now.came), set(now.missing.values())) == ({"delivered"}, {"not yet"})


def asking(told: Chong, *words: str) -> Callable[[], Answer]:
    """Begins a command that waits; what it gives is to be called for its answer."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(told(*words, "--wait", "--timeout", "20s", "--as", "olga")))
    thread.start()

    def answer() -> Answer:
        thread.join()
        return answers[0]

    return answer


def test_waiting_tells_the_moments_and_who_asked(place: World, told: Chong):
    """Of a pause, of its resume, and of a freeze; each counted from when it was asked."""
    task = place.add()
    seconds = r"after \S+s"
    for words, done, later, now, names in (
        (("pause",), (S.PAUSING,), (S.PAUSED,), "paused", ("delivered", "acknowledged", "effective")),
        (("resume",), (S.RUNNING,), (), "running", ("delivered", "effective")),
        (("pause", "--freeze"), (S.PAUSING, S.PAUSED), (), "paused", ("delivered", "effective")),
    ):
        answer = asking(told, *words, task.id)
        command = wait_until(partial(open_one, place, task.id), "the command")
        task = place.obey(command, task, *done)
        for status in later:
            task = place.move(task, status)
        found = answer()
        rest = ", ".join(f"{name} {seconds}" for name in names)
        assert re.fullmatch(rf"{task.id[-8:]} billing\.sync: {now}, asked by olga, {rest}\n", found.out), found
        assert found.code == 0


def test_a_wait_that_looks_in_the_moment_of_the_end_sees_that_the_task_went_on(world: World, monkeypatch):
    """The end may come between the look at the command, which is open then, and the one at the task."""
    task = world.add(status=S.PAUSED)
    command = Client(world.store, issued_by="olga").resume(task.id)
    get = world.store.get

    def get_ended(task_id: str):
        if open_one(world, task_id) is not None:
            world.obey(command, task, S.RUNNING, S.SUCCEEDED)
        return get(task_id)

    monkeypatch.setattr(world.store, "get", get_ended)
    found = look(world.store, command)
    assert found.came_about
    assert found.text.startswith("succeeded, asked by olga, delivered after ")


@pytest.mark.parametrize(
    ("action", "steps", "came_about", "text"),
    [
        (P, [ASKED, (S.PAUSED, 12, WORKER), (S.RUNNING, 13, OTHER)], True, "running, asked by olga, delivered after "),
        (P, [ASKED, (S.RUNNING, 13, OTHER)], False, "pause overtaken, now running"),
        (
            P,
            [ASKED, (S.PAUSED, 12, WORKER), (S.RUNNING, 13, OTHER), (S.STOPPING, 14, OTHER)],
            True,
            "stopping, asked by",
        ),
        (P, [ASKED, (S.PAUSED, 12, WORKER), (S.RUNNING, 13, OTHER), (S.RETRYING, 14, WORKER)], True, "retrying, asked"),
        (P, [ASKED, (S.PAUSED, 12, WORKER), (S.RUNNING, 13, OTHER), (S.SUCCEEDED, 14, WORKER)], True, "succeeded, ask"),
        (P, [ASKED, (S.SUCCEEDED, 14, WORKER)], False, "it has ended: succeeded"),
        (P, [ASKED, (S.STOPPING, 14, OTHER)], False, "pause overtaken, now stopping"),
        (F, [ASKED, (S.PAUSED, 11, f"{OWN}.2"), (S.RUNNING, 13, OTHER)], True, "running, asked by olga, delivered "),
        (R, [(S.PAUSED, 5, WORKER), (S.RUNNING, 11, OWN), (S.PAUSING, 13, OTHER)], True, "pausing, asked by olga"),
    ],
)
def test_a_wait_ends_when_others_have_undone_what_was_asked(world: World, action, steps, came_about, text):
    """It came about or never will, whatever the task does now."""
    task = replace(world.add(), status=steps[-1][0])
    effect = effect_of(asked(action), task, trail_of(*steps))
    assert (effect.came_about, effect.text[: len(text)]) == (came_about, text)


def open_one(place: World, task_id: str) -> Command | None:
    return next((command for command in place.store.commands(task_id) if command.finished_at is None), None)


def test_the_state_told_is_no_older_than_the_moments(world: World, monkeypatch):
    """The worker may answer between the looks: a task that is told to be paused is not told to be pausing."""
    task = world.add()
    command = Client(world.store, issued_by="olga").pause(task.id)
    pausing = world.obey(command, task, S.PAUSING)
    history = world.store.history

    def paused_then(task_id: str):
        if world.store.get(task_id).status is S.PAUSING:
            world.move(pausing, S.PAUSED)
        return history(task_id)

    monkeypatch.setattr(world.store, "history", paused_then)
    assert look(world.store, command).text.startswith("paused, asked by olga, delivered after ")


def test_a_resume_whose_task_has_ended_says_who_asked(place: World, told: Chong):
    """It did go on before anybody looked."""
    paused = place.move(place.move(place.add(), S.PAUSING), S.PAUSED)
    answer = asking(told, "resume", paused.id)
    command = wait_until(lambda: open_one(place, paused.id), "the command")
    place.obey(command, paused, S.RUNNING, S.SUCCEEDED)
    found = answer()
    assert (found.code, found.err) == (0, "")
    assert re.fullmatch(
        rf"{paused.id[-8:]} billing\.sync: succeeded, asked by olga, delivered after \S+s, effective after \S+s\n",
        found.out,
    )
