"""Assertions of the suite that ships in the package explain themselves as those of a test file do."""

import pytest

PARTS = ("saves", "leases", "looks", "holds", "pruning", "alerts", "rebucketing")
pytest.register_assert_rewrite(*(f"chong.store.conformance_{part}" for part in PARTS))
