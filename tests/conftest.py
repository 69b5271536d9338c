"""Settings of the whole suite."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("waiting")

# Random input is drawn the same way on every run, and no example is too slow on a machine that is busy: what fails,
# fails for what it found.
settings.register_profile("chong", derandomize=True, deadline=None, database=None)
settings.load_profile("chong")
