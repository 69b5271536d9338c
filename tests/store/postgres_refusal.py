"""What opening a PostgreSQL store is refused with."""

import pytest

from chong.store.errors import ConfigurationError
from chong.store.postgres import PostgresTaskStore

DEADLINE = 1.0


def refusal(address: str, **options: bool) -> str:
    with pytest.raises(ConfigurationError) as refused:
        PostgresTaskStore(address, deadline=DEADLINE, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)
