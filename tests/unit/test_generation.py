"""The supervisor's view of a forkserver, against a socket that plays one."""

import array
import os
import socket
import threading

import pytest

from chong.supervisor.generation import Generation
from chong.worker.unix import listen
from chong.worker.wire import ProtocolError, decode, encode

HELLO = {"op": "hello", "protocol": 1, "generation": 3, "pid": os.getpid(), "served": ["a.1"], "catalogue": "/c.json"}


def attach_to(path, *messages, leash=True):
    """What a Generation makes of a forkserver that says these messages."""
    heard = []

    def play(listener):
        connection, _ = listener.accept()
        with connection:
            for message in messages:
                descriptors = [os.open(os.devnull, os.O_RDONLY)] if leash and message["op"] == "hello" else []
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
                connection.sendmsg([encode(message)], rights)
                for descriptor in descriptors:
                    os.close(descriptor)
            answer = connection.recv(65536)
            heard.extend([decode(answer)] if answer else [])

    with listen(path, socket.SOCK_SEQPACKET) as listener:
        player = threading.Thread(target=play, args=(listener,), daemon=True)
        player.start()
        generation = Generation.at(3, path)
        try:
            generation.attach(5.0)
        finally:
            generation.close()
            generation.let_leash_go()
            player.join(5)
    return generation, heard


@pytest.mark.parametrize("protocol", [1, 2])
def test_runs_of_another_version_are_held_all_the_same(tmp_path, protocol):
    """An upgrade must not end what runs; what is needed to hold it never changes."""
    generation, heard = attach_to(tmp_path / "g.sock", HELLO | {"protocol": protocol}, {"op": "attached"})
    assert (generation.protocol, generation.served) == (protocol, {"a.1"})
    assert heard == [{"op": "attach", "term": None}]


@pytest.mark.parametrize("hello", [HELLO | {"pid": "x"}, {"op": "hello"}, HELLO | {"served": 7}, {"op": "nonsense"}])
def test_a_hello_that_makes_no_sense_is_a_protocol_error(tmp_path, hello):
    """Reported, and never the end of the supervisor."""
    with pytest.raises(ProtocolError):
        attach_to(tmp_path / "g.sock", hello)


def test_a_hello_without_its_leash_is_a_protocol_error(tmp_path):
    """The descriptor was lost on the way, for want of room."""
    with pytest.raises(ProtocolError, match="its leash"):
        attach_to(tmp_path / "g.sock", HELLO, leash=False)
