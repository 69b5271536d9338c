"""The supervisor's own log: whole lines, each in one system call, and the lost ones counted."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chong.supervisor.logs import LogWriter

SAY = """
import structlog
from chong.supervisor import logs

logs.BOUND = {bound}
writer = logs.set_up_logging("json")
for number in range({lines}):
    structlog.get_logger().info("said", number=number)
print(flush=True)
writer.close(20)
"""


@contextmanager
def speaker(lines: int, bound: int) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """A process that logs so many lines, over a socket on which each of its writes is a packet of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-c", SAY.format(lines=lines, bound=bound)], stdout=subprocess.PIPE, stderr=theirs.fileno()
        ) as process,
    ):
        theirs.close()
        ours.settimeout(20)
        try:
            yield ours, process
        finally:
            process.kill()


def packets(source: socket.socket) -> list[bytes]:
    return list(iter(lambda: source.recv(65536), b""))


def test_a_line_and_its_newline_are_written_at_once() -> None:
    """Two supervisors may append to one file: whatever is written in two parts can be torn apart."""
    with speaker(lines=50, bound=1000) as (source, _):
        said = packets(source)
    assert [packet[-1:] for packet in said] == [b"\n"] * 50
    assert [json.loads(packet)["number"] for packet in said] == list(range(50))


def test_lost_lines_are_counted_in_a_line_of_their_own() -> None:
    """What is read stays JSON, and says how many lines are missing and where."""
    with speaker(lines=3000, bound=10) as (source, process):
        assert process.stdout is not None
        process.stdout.readline()  # all is said, and the socket has been full for long
        said = [json.loads(packet) for packet in packets(source)]
    lost = [row["lines"] for row in said if row["event"] == "log_lines_dropped"]
    assert lost
    assert sum(lost) + len(said) - len(lost) == 3000


def test_lost_lines_are_counted_by_one_thread_at_a_time() -> None:
    """Whoever reads or changes the count holds its lock: those who write, and the thread that tells it."""
    seen: list[tuple[str, bool]] = []

    class Watched(LogWriter):
        @property
        def _dropped(self) -> int:
            seen.append((threading.current_thread().name, self._counting.locked()))
            return self.__dict__["count"]

        @_dropped.setter
        def _dropped(self, count: int) -> None:
            if hasattr(self, "_counting"):
                seen.append((threading.current_thread().name, self._counting.locked()))
            self.__dict__["count"] = count

    reader, writer = os.pipe()
    log = Watched(writer, "{} lost\n".format)
    log._drop(2)
    log.write("said\n")
    log.close(20)
    os.close(writer)
    with os.fdopen(reader) as said:
        assert said.read() == "2 lost\nsaid\n"
    assert {name for name, _ in seen} == {threading.current_thread().name, "chong-log"}
    assert all(is_locked for _, is_locked in seen)
