"""The operator's command: real processes, one at a time, for a limited time."""

import json
import os
import shlex
import sys
import threading
import time

import pytest
from no_descriptors import no_descriptors
from node_bench import InProcess, children, descriptors, is_alive, wait_until

from chong.supervisor import alert_hook
from chong.supervisor.adopted import reap_adopted
from chong.supervisor.alert_hook import AlertHook

MESSAGE = {"event": "raised", "subject": "名"}


@pytest.fixture
def world(tmp_path):
    """Makes hooks that run a Python text; they may leave no process behind."""
    before, made = children(), []

    def make(text, **more):
        failures = []
        command = (
            text if text.startswith("/") else f"{shlex.quote(sys.executable)} -c {shlex.quote(text)} {tmp_path}/out"
        )
        hook = AlertHook(command, on_failure=failures.append, **more)
        made.append(hook)
        return hook, failures, tmp_path / "out"

    yield make
    for hook in made:
        hook.close()
    assert children() - before == set()


def drained(hook):
    """All turns until there is nothing to do."""

    def turned():
        return hook.turn() == alert_hook.IDLE_SECONDS

    wait_until(turned, "the end of all calls")


WRITE = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def test_each_alert_is_one_call_with_json_on_its_input(world):
    """In the order in which they came."""
    hook, failures, out = world(WRITE)
    for number in range(3):
        hook.put({**MESSAGE, "id": number})
    drained(hook)
    assert [json.loads(line) for line in out.read_text().splitlines()] == [{**MESSAGE, "id": n} for n in range(3)]
    assert failures == []


def test_a_reaper_beside_it_takes_no_exit_status(world):
    """As the supervisor has one, when a forkserver has gone: it leaves the call's process to the hook."""
    hook, failures, _ = world("/bin/false")
    for number in range(20):
        hook.put({**MESSAGE, "id": number})
    while hook.turn() != alert_hook.IDLE_SECONDS:
        reap_adopted(lambda: hook.pids)
    assert failures == ["exit 1"] * 20


def test_a_reaper_waits_for_the_pid_of_a_call_that_is_just_starting(world, monkeypatch):
    """The call is there, and may be over, before the hook knows its pid."""
    hook, failures, _ = world("/bin/false")
    asked = threading.Event()

    def known():
        asked.set()
        return hook.pids

    reaper = threading.Thread(target=reap_adopted, args=(known,))

    def spawn(*words, **more):
        pid = os_spawn(*words, **more)
        wait_until(lambda: not is_alive(pid), "the end of the call")
        reaper.start()
        assert asked.wait(20)
        reaper.join(0.3)  # one that does not wait has ended by then, and has reaped it
        return pid

    os_spawn = os.posix_spawn
    monkeypatch.setattr(os, "posix_spawn", spawn)
    hook.put(MESSAGE)
    hook.turn()
    reaper.join()
    drained(hook)
    assert failures == ["exit 1"]


def test_a_reaper_asks_who_is_known_behind_its_look_at_the_children():
    """What another thread starts in between is not among those that it reaps."""
    made = []

    def known():
        made.append(os.posix_spawn("/bin/true", ["true"], {}, setsid=True))
        wait_until(lambda: not is_alive(made[0]), "its end")
        return ()

    reap_adopted(known)
    assert os.waitpid(made[0], os.WNOHANG)[0] == made[0]


def test_a_node_s_reaper_leaves_a_call_to_the_one_that_waits_for_it(bench: InProcess):
    """A reload lets a forkserver go, and from then on the node reaps what nobody knows."""
    node = bench.start(alert_command="/bin/false", only_one_task=True)  # so nobody else turns the hook
    hook = node.controller._term._parts.hook
    hook.put(MESSAGE)
    hook.turn()
    (pid,) = hook.pids
    wait_until(lambda: not is_alive(pid), "the end of the call")
    node.controller.reload()
    nobodys = os.posix_spawn("/bin/true", ["true"], {}, setsid=True)
    wait_until(lambda: nobodys not in children(), "a reaper's look")
    assert pid in children()
    failures = []
    hook._on_failure = failures.append
    hook.turn()
    assert failures == ["exit 1"]


def test_a_process_that_somebody_else_has_reaped_is_told_and_costs_no_more(world):
    """In a turn, and at the close."""
    hook, failures, _ = world("/bin/true")
    for end in (drained, AlertHook.close):
        hook.put(MESSAGE)
        hook.turn()
        (pid,) = hook.pids
        os.waitpid(pid, 0)
        end(hook)
    assert (failures, hook.pids) == (["its exit status was lost"], set())


def test_without_a_descriptor_a_call_is_told_and_the_next_one_made(world):
    """Nothing but the call is lost."""
    hook, failures, out = world(WRITE)
    for number in range(2):
        hook.put({**MESSAGE, "id": number})
    with no_descriptors():
        hook.turn()
    assert failures == ["it cannot be started: Too many open files"]
    drained(hook)
    assert json.loads(out.read_text())["id"] == 1


def test_a_reaper_without_a_descriptor_takes_another_look():
    """It cannot know whether anything is left."""
    with no_descriptors():
        assert reap_adopted(set)
    assert not reap_adopted(children)


def test_putting_waits_for_nobody(world):
    """Nor does a turn, whatever the command does."""
    hook, _, _ = world("import time; time.sleep(600)")
    began = time.monotonic()
    for _ in range(10):
        hook.put(MESSAGE)
        hook.turn()
    assert time.monotonic() - began < 20
    assert len(children()) >= 1


def test_a_command_that_hangs_is_killed_with_its_children(world):
    """At its time; the next call follows."""
    text = (
        "import os, subprocess, sys, time; child = subprocess.Popen(['sleep', '600']);"
        " open(sys.argv[1], 'w').write(f'{os.getpid()} {child.pid}'); time.sleep(600)"
    )
    hook, failures, out = world(text, seconds=2)
    hook.put(MESSAGE)
    drained(hook)
    assert failures == ["it took longer than 2 s, and was killed"]
    pids = [int(word) for word in out.read_text().split()]
    wait_until(lambda: not any(map(is_alive, pids)), "the end of both")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys; sys.exit(3)", "exit 3"),
        ("import os; os.kill(os.getpid(), 9)", "exit 137"),
        ("/no/such/program --here", "exit 127, as of a program that is not there"),
        ("/bin/sh -c no-such-program-either", "exit 127, as of a program that is not there"),
        ("/etc", "exit 126, as of a program that cannot be run"),
    ],
)
def test_a_command_that_fails_is_told(world, text, said):
    """Once, with what is known of it."""
    hook, failures, _ = world(text)
    hook.put(MESSAGE)
    drained(hook)
    assert failures == [said]


def test_the_command_does_not_see_chongs_variables(world, monkeypatch):
    """They may hold the store's password; its own it has."""
    monkeypatch.setenv("CHONG_DB", "postgresql://u:secret@h/d")
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("PAGER_TOKEN", "token")
    hook, _, out = world("import os, sys; open(sys.argv[1], 'w').write(repr(dict(os.environ)))")
    hook.put(MESSAGE)
    drained(hook)
    assert "secret" not in out.read_text()
    assert "PAGER_TOKEN" in out.read_text()


def test_what_waits_is_bounded(world, monkeypatch):
    """What comes then is told, and left out."""
    monkeypatch.setattr(alert_hook, "WAITING", 2)
    hook, failures, _ = world(WRITE)
    for _ in range(3):
        hook.put(MESSAGE)
    assert len(failures) == 1


def test_without_a_command_nothing_is_kept():
    """Most deployments have none."""
    hook = AlertHook(None, on_failure=lambda _: None)
    hook.put(MESSAGE)
    assert hook.turn() == alert_hook.IDLE_SECONDS


def test_a_descriptor_is_never_left(world):
    """Neither by calls nor by those that cannot start."""
    hook, _, _ = world(WRITE)
    before = descriptors()
    for _ in range(3):
        hook.put(MESSAGE)
    drained(hook)
    assert descriptors() == before
