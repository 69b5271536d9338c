"""What keeps waiting work from starting, as far as the store shows it."""

from datetime import timedelta

import pytest

from chong.store.model import CatalogueEntry, Deployment, HoldScope, SharedHold
from chong.store.specimens import START, queued, task_id
from chong.store.states import Status
from chong.store.survey import OpenWork, Survey
from chong.supervisor.shown_holds import ShownHolds, Target, freed_by

MAIL: Target = (HoldScope.NAME, "mail")
SEVEN: Target = (HoldScope.BUCKET, "7")
NODE_A: Target = (HoldScope.NODE, "a")


def shared(target: Target) -> SharedHold:
    scope, of = target
    return SharedHold(scope=scope, target=of, by="olga", reason=f"{scope} {of}", since=START)


def own(name: str) -> CatalogueEntry:
    return CatalogueEntry(node="a", name=name, module="m", hold=f"own {name}")


@pytest.mark.parametrize(
    ("catalogue", "holds", "said"),
    [
        ([], [], None),
        ([own("other")], [shared((HoldScope.NAME, "other"))], None),
        ([own("*")], [shared(NODE_A)], "own *"),
        ([own("mail"), own("*")], [], "own mail"),
        ([], [shared(SEVEN), shared(MAIL)], "name mail; by olga"),
        ([], [shared(SEVEN), shared(NODE_A)], "node a; by olga"),
    ],
)
def test_the_nearest_word_is_told(catalogue, holds, said):
    """The node's own before those in the store, and the widest of these."""
    found = ShownHolds(catalogue, holds).on(queued(name="mail", node="a", bucket=7))
    assert (found is None) if said is None else found.startswith(said)


def test_every_hold_is_told_with_what_releases_it():
    """What waits starts when all are lifted; a hold of everything is shown with each name, and is one."""
    everything = CatalogueEntry(node="a", name="mail", module="m", hold="own *")
    task = queued(name="mail", node="a", bucket=7)
    found = ShownHolds([everything, own("*")], [shared(SEVEN), shared(MAIL)])
    holds = found.all_on(task)
    assert [hold.release.removeprefix("when its reason is gone, ") for hold in holds] == [
        "on a: chong unhold '*'",
        "chong unhold --name mail",
        "chong unhold --bucket 7",
    ]
    assert found.on(task) == "; also ".join(hold.text for hold in holds)
    assert [hold.text for hold in ShownHolds([own("mail"), own("*")], []).all_on(task)] == ["own mail", "own *"]


def test_a_task_without_a_key_is_in_no_bucket_that_is_held():
    """It has none."""
    assert ShownHolds([], [shared(SEVEN)]).on(queued(name="mail", node="a")) is None


def test_a_release_frees_what_nothing_else_keeps():
    """Neither another hold in the store nor the node's own word; what runs was never kept."""

    def work(name: str, bucket: int, status: Status = Status.QUEUED) -> OpenWork:
        facts = {"node": "a", "tasks": 2, "still": 0, "since": START, "task_id": task_id(1)}
        return OpenWork(name=name, bucket=bucket, status=status, **facts)

    survey = Survey(
        now=START + timedelta(hours=1), engine="sqlite", engine_version="", deployment=Deployment(64, 1, 1), nodes=(),
        declarations=(), loads=(), commands=(), catalogue=(own("kept"),),
        work=(work("mail", 7), work("mail", 8), work("kept", 7), work("sync", 7), work("sync", 7, Status.RUNNING)),
        holds=(shared(MAIL), shared(SEVEN), shared((HoldScope.BUCKET, "8"))),
    )  # fmt: skip
    assert freed_by(survey, [MAIL, SEVEN]) == {MAIL: 2, SEVEN: 4}
