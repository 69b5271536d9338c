"""A forkserver's process, as its supervisor starts it."""

import os
from contextlib import ExitStack

import psutil
import pytest
from no_descriptors import no_descriptors

from chong.supervisor.child import LISTENER, Child


def test_a_child_that_nobody_could_watch_is_not_left():
    """No descriptor is left behind its start: it would live on, and nobody would hear of its end."""
    before = psutil.Process().children()
    with ExitStack() as closing:
        descriptor = -1
        while descriptor <= LISTENER:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that was free
            closing.callback(os.close, descriptor)
        with no_descriptors(descriptor + 1), pytest.raises(OSError, match="Too many open files"):
            Child(["/bin/sleep", "60"], {}, listener=descriptor, log=descriptor)
    assert psutil.Process().children() == before
