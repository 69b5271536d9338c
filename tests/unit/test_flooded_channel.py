"""The supervisor's end of forkservers and workers, without either."""

import os
import socket

import pytest

from chong.supervisor import forkservers, processes
from chong.supervisor.events import FailureArrived
from chong.supervisor.loop import Loop
from chong.supervisor.processes import Processes
from chong.supervisor.run_channel import RunChannel
from chong.supervisor.settings import Settings


class Listener:
    """Everything that happens to a run leads to a version that is never stored."""

    def __init__(self):
        self.heard = []
        self.trouble = []

    def happened(self, run, what, event_id, at):
        self.heard.append(what)
        return 5

    def forkserver_not_understood(self, generation, error):
        self.trouble.append(error)

    def forkserver_gone(self, generation, *, expected, restart_in):
        self.trouble.append(restart_in)


@pytest.fixture
def loop():
    made = Loop()
    yield made
    made.close()


def test_a_flood_of_what_has_to_be_stored_is_junk(loop, tmp_path, monkeypatch):
    """A worker of ours holds back; one that does not would fill the memory while the store is away."""
    monkeypatch.setattr(processes, "FRAMES_UNSTORED", 20)
    monkeypatch.setattr(processes, "FRAMES_A_TURN", 10)
    ours, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = RunChannel("run.1", os.getpid(), ours.detach(), os.pidfd_open(os.getpid()))
    listener = Listener()
    inner = Processes(loop, Settings(state_dir=tmp_path), "term", listener, awaited_elsewhere=set)
    for number in range(1, 50):
        worker.send(b'{"kind":"stopping","n":%d,"at":1,"answer":[1,1]}' % number)
    assert [inner._read_frames(channel) for _ in range(4)] == [True, True, True, False]
    failures = [what.failure.kind for what in listener.heard if isinstance(what, FailureArrived)]
    assert (failures, len(listener.heard)) == (["protocol"], 31)
    channel.close()
    worker.close()


def test_a_forkserver_that_cannot_be_started_leaves_no_socket(loop, tmp_path, monkeypatch):
    """It is tried again and again, each time under a number of its own."""
    settings, listener = Settings(state_dir=tmp_path), Listener()
    settings.make_directories()
    monkeypatch.setattr(forkservers.sys, "executable", str(tmp_path / "missing"))
    inner = Processes(loop, settings, "term", listener, awaited_elsewhere=set)
    for _ in range(3):
        inner.generations.begin()
    assert [type(each) for each in listener.trouble] == [FileNotFoundError, float] * 3
    assert list(settings.paths.runtime.iterdir()) == []
