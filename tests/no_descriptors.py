"""A process without a free descriptor, for tests of what has to go on then."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptors(limit: int = 3) -> Iterator[None]:
    """There is none left to open anything with: what is open lies beyond `limit`, or fills it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
