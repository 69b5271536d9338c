"""What forkservers say, parsed: sense becomes a value, and everything else one error that keeps no descriptor open."""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chong.supervisor import reports
from chong.supervisor.verdict import ProcessEnd
from chong.worker.options import Options
from chong.worker.wire import ProtocolError

RUN = {"run": "r.1", "pid": 4711}
END = {"run": "r.1", "code": 3, "signal": None}
HELLO = {"op": "hello", "protocol": 1, "pid": 4711, "served": ["a.1"], "catalogue": "/c.json"}


def of_a_run():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    return ours.detach(), os.pidfd_open(os.getpid())


def of_junk():
    return os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)


def one():
    return (os.open(os.devnull, os.O_RDONLY),)


def test_a_forked_worker_is_told_with_its_descriptors():
    """They are the receiver's from then on."""
    descriptors = of_a_run()
    told = reports.parse({"op": "spawned", **RUN}, descriptors)
    assert told == reports.Spawned("r.1", 4711, *descriptors)
    reports.close_all(told.descriptors)


def test_a_held_run_is_told_with_its_end_if_it_has_one():
    """And with the options out of its memo, the defaults where that tells none."""
    body = {"op": "worker", **RUN, **END, "memo": {"options": {"log_max": 7}}}
    for exited, end in ((True, ProcessEnd(code=3)), (False, None)):
        descriptors = of_a_run()
        told = reports.parse(body | {"exited": exited}, descriptors)
        assert told == reports.Worker("r.1", 4711, *descriptors, body["memo"], Options(log_max=7), end)
        reports.close_all(descriptors)


def test_an_end_is_told_with_its_time_or_without():
    """A forkserver of another version may not say when."""
    assert reports.parse({"op": "exited", **END}, ()) == reports.Exited("r.1", ProcessEnd(code=3))
    when = datetime(2026, 3, 1, 12, tzinfo=UTC)
    told = reports.parse({"op": "exited", **END, "at": when.timestamp()}, ())
    assert told == reports.Exited("r.1", ProcessEnd(code=3, at=when))


def test_a_hello_brings_the_leash():
    """The only descriptor beside it."""
    descriptors = one()
    assert reports.parse(HELLO, descriptors) == reports.Hello(1, 4711, {"a.1"}, Path("/c.json"), *descriptors)
    reports.close_all(descriptors)


NONSENSE = {
    "no op": ({}, one),
    "an op that is a list": ({"op": ["spawned"]}, one),
    "an unknown op": ({"op": "spawn", **RUN}, of_a_run),
    "spawned without pid": ({"op": "spawned", "run": "r.1"}, of_a_run),
    "spawned without run": ({"op": "spawned", "pid": 4711}, of_a_run),
    "a pid that is text": ({"op": "spawned", **RUN, "pid": "4711"}, of_a_run),
    "a pid that is true": ({"op": "spawned", **RUN, "pid": True}, of_a_run),
    "a pid that means the own group": ({"op": "spawned", **RUN, "pid": 0}, of_a_run),
    "a pid that means everybody": ({"op": "spawned", **RUN, "pid": -1}, of_a_run),
    "a pid beyond the kernel's": ({"op": "spawned", **RUN, "pid": 10**30}, of_a_run),
    "a run that is a list": ({"op": "spawned", **RUN, "run": ["r.1"]}, of_a_run),
    "one descriptor": ({"op": "spawned", **RUN}, one),
    "no descriptors": ({"op": "spawned", **RUN}, tuple),
    "descriptors of other kinds": ({"op": "spawned", **RUN}, of_junk),
    "descriptors the wrong way round": ({"op": "spawned", **RUN}, lambda: of_a_run()[::-1]),
    "descriptors beside an end": ({"op": "exited", **END}, of_a_run),
    "an end of no run": ({"op": "exited", "code": 3}, tuple),
    "an end at no time": ({"op": "exited", **END, "at": 1e300}, tuple),
    "an end at infinity": ({"op": "exited", **END, "at": float("inf")}, tuple),
    "an end at text": ({"op": "exited", **END, "at": "now"}, tuple),
    "a code that is text": ({"op": "exited", **END, "code": "3"}, tuple),
    "a code beyond any": ({"op": "exited", **END, "code": 10**30}, tuple),
    "a signal beyond any": ({"op": "exited", **END, "signal": 4711}, tuple),
    "a held run without exited": ({"op": "worker", **RUN, **END}, of_a_run),
    "a held run without a name": ({"op": "worker", "pid": 4711, "exited": False}, of_a_run),
    "a held run that ended at no time": ({"op": "worker", **RUN, **END, "exited": True, "at": 1e300}, of_a_run),
    "a held run with other descriptors": ({"op": "worker", **RUN, "exited": False}, of_junk),
    "a hello without a leash": (HELLO, tuple),
    "a hello of no process": (HELLO | {"pid": "x"}, one),
    "a refusal of nothing": ({"op": "refused"}, tuple),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_a_protocol_error_that_keeps_nothing_open(what):
    """Whatever is wrong with it, and whatever came beside it."""
    body, make = NONSENSE[what]
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ProtocolError):
        reports.parse(body, make())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_told_of_memory_and_time_fits_a_store():
    """Else the end of the run could not be stored; the use is left out."""
    for use in ({"cpu_seconds": float("nan"), "max_rss_bytes": 1}, {"cpu_seconds": 1, "max_rss_bytes": 2**63}):
        assert reports.parse({"op": "exited", **END, **use}, ()) == reports.Exited("r.1", ProcessEnd(code=3))
