"""What answers on a control socket may be anybody's."""

import pytest

from chong.store.errors import Refused
from chong.supervisor.control_client import _answered


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"ok": false}', b"[" * 100_000])
def test_an_answer_that_makes_no_sense_is_a_refusal(answer):
    """In one line that is not long."""
    with pytest.raises(Refused, match="answer is not understood") as refused:
        _answered(answer)
    assert len(str(refused.value)) < 500
