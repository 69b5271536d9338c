"""Sockets work by path, however long it is."""

import os
import socket
from pathlib import Path

import pytest

from chong.worker.unix import ADDRESS_LIMIT, connect, is_trusted, listen, peer_user

KINDS = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(params=["s", "deep/" + "d" * 120 + "/s", "名" * 60 + "/s"])
def path(tmp_path, request):
    path = tmp_path / request.param
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


class TestPaths:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_socket_is_met_by_its_path(self, path, kind):
        """Also where an address is too short for it."""
        with listen(path, kind) as listener, connect(path, kind, 5.0) as client:
            accepted, _ = listener.accept()
            with accepted:
                client.send(b"hello")
                assert accepted.recv(10) == b"hello"

    def test_a_path_is_long_in_bytes(self, tmp_path):
        """Just within, and just beyond."""
        room = ADDRESS_LIMIT - len(os.fsencode(tmp_path)) - 1
        for length in (room, room + 1):
            path = tmp_path / ("x" * length)
            with listen(path, socket.SOCK_STREAM), connect(path, socket.SOCK_STREAM, 5.0) as client:
                assert client.fileno() >= 0

    def test_a_dead_ones_socket_is_replaced(self, path):
        """It left its file."""
        listen(path, socket.SOCK_STREAM).close()
        with listen(path, socket.SOCK_STREAM), connect(path, socket.SOCK_STREAM, 5.0) as client:
            assert client.fileno() >= 0

    def test_nobody_listens(self, path):
        """A dead one's file, and none."""
        with pytest.raises(FileNotFoundError):
            connect(path, socket.SOCK_STREAM, 5.0)
        listen(path, socket.SOCK_STREAM).close()
        with pytest.raises(ConnectionRefusedError):
            connect(path, socket.SOCK_STREAM, 5.0)

    def test_nothing_is_left_open(self, path):
        """Whether it works or not."""
        before = open_descriptors()
        for _ in range(3):
            with pytest.raises(FileNotFoundError):
                connect(path, socket.SOCK_STREAM, 5.0)
            with listen(path, socket.SOCK_STREAM), connect(path, socket.SOCK_STREAM, 5.0):
                pass
            path.unlink()
        assert before == open_descriptors()


class TestPeers:
    def test_a_socket_is_for_its_owner_alone(self, path):
        """By its mode."""
        with listen(path, socket.SOCK_STREAM):
            assert path.stat().st_mode & 0o777 == 0o600

    def test_the_other_end_is_known(self):
        """And trusted when it is this user."""
        one, other = socket.socketpair()
        with one, other:
            assert (os.geteuid(), True) == (peer_user(one), is_trusted(one))

    @pytest.mark.parametrize(("user", "trusted"), [(0, True), (1000, True), (1001, False)])
    def test_only_this_user_and_root_are_trusted(self, monkeypatch, user, trusted):
        """Nobody else."""
        monkeypatch.setattr("chong.worker.unix.peer_user", lambda _: user)
        monkeypatch.setattr("chong.worker.unix.os.geteuid", lambda: 1000)
        assert trusted == is_trusted(None)
