"""One rule for all commands: 2 for what is wrong before anything is asked for, 1 for what was asked and is not so."""

import socket

import pytest
from cli_world import S, World

ID = "019b0000-0000-7000-8000-000000000000"


@pytest.fixture
def away():
    """The address of a server that is away: nothing listens on a socket that was only bound."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"postgresql://u:s3cret@127.0.0.1:{bound.getsockname()[1]}/x"


@pytest.mark.parametrize("words", [
    "show 123", f"show {ID}", f"history {ID}", f"logs {ID}", "logs TASK --attempt 9", f"stop {ID}", f"resume {ID}",
    "pause --name nobody", "ack 99", "ack held x", "forget nobody --dry-run", "drain nobody", "hold --name nobody",
    "submit noop", "hold t", "unhold t", "reload", "doctor",
])  # fmt: skip
def test_what_is_not_there_or_not_so_is_refused(world: World, chong, words: str):
    """An unknown task, node, name, attempt or alert, a supervisor that does not live, something that was found."""
    task = world.add(status=S.SUCCEEDED)
    world.store.declare_buckets("node-a", frozenset(range(9)))
    answer = chong("--node", "node-a", *words.replace("TASK", task.id).split())
    assert answer.code == 1, answer


@pytest.mark.parametrize("words", [
    "shw", "show", "ps --lmit 1", "ps --limit x", "ps --bucket 99", "hold --bucket 99 --as a", "unhold --bucket 99",
    "stop", f"stop {ID} --name t", "stop --bucket 99", "logs TASK --attempt 0", "logs TASK --follow --json", "ack what",
    "ack hled x", "forget node-a", "rebucket 0 --yes", "prune --older-than x", "hold", "hold t --name u", "submit",
    "submit t -p x", "submit t --params {", "--num-buckets 32 ps", "--owned-buckets 99 ps", "--db mysql://h/x ps",
    "--db /no/such/file ps", "--db postgresql://u@h:x/y ps", "--config /no/such/file ps", "ps --mine",
])  # fmt: skip
def test_what_is_wrong_before_anything_is_asked_is_wrong_usage(world: World, chong, words: str):
    """Options, settings, the files that they name, and buckets that the deployment does not have."""
    task = world.add(status=S.SUCCEEDED)
    answer = chong("--node", "node-a", *words.replace("TASK", task.id).split())
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer


@pytest.mark.parametrize("words", ["ps", f"show {ID}", f"stop {ID}", "doctor", "hold --bucket 7", f"logs {ID}"])
def test_a_store_that_is_away_has_a_code_of_its_own(chong, away: str, words: str):
    """Whatever was asked of it: nobody knows whether it would be refused."""
    answer = chong("--db", away, *words.split())
    assert (answer.code, answer.out, answer.err.count("\n")) == (3, "", 1), answer
    assert "s3cret" not in answer.err


def test_logs_are_printed_from_the_disk_while_the_store_is_away(world: World, chong, away: str):
    """By the whole id, its beginning or its end; of the latest attempt here, and it is said that the store is away."""
    logs = world.state / "logs"
    logs.mkdir()
    for task_id, attempt in ((ID, 1), (ID, 10), (ID, 9), (f"{ID[:-1]}1", 1)):
        (logs / f"{task_id}.{attempt}.log").write_text(f"attempt {attempt}\n")
    (logs / "generation-1.log").write_text("no task's\n")
    for part in (ID, ID[-8:], ID.upper()):
        answer = chong("--db", away, "logs", part)
        assert (answer.code, answer.out, answer.err.count("\n")) == (0, "attempt 10\n", 1), answer
        assert answer.err.startswith(
            "chong: the store is away, this is attempt 10 as it lies here; store postgresql://u@"
        )
    assert chong("--db", away, "logs", ID, "--attempt", "9", "--tail", "1").out == "attempt 9\n"
    told = chong("--db", away, "logs", ID, "--json").json
    assert (told["id"], told["attempt"], told["text"]) == (ID, 10, "attempt 10\n")
    ambiguous = chong("--db", away, "logs", ID[:8])
    assert (ambiguous.code, f"fits 2 tasks; type more of the id: {ID[:-1]}1, {ID}" in ambiguous.err) == (1, True)
    for words in ([ID, "--attempt", "2"], [ID, "--follow"], ["ffff"]):
        assert chong("--db", away, "logs", *words).code == 3
