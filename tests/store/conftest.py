"""Assertions of the suite that ships in the package explain themselves as those of a test file do."""

from pathlib import Path

import pytest

import chong.store

PARTS = Path(chong.store.__file__).parent.glob("conformance_*.py")
pytest.register_assert_rewrite(*(f"chong.store.{part.stem}" for part in PARTS))
