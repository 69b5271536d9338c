"""Buckets are the same in every process, and lists of them read back as they were written."""

import itertools
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chong.store.buckets import MAX_NUM_BUCKETS, BucketPolicy, format_buckets, parse_buckets
from chong.store.errors import ConfigurationError

KEYS = ["acme", "globex", "名前", "", "a" * 500, "🙂"]
PRINT_BUCKETS = (
    "import sys; from chong.store.buckets import BucketPolicy; "
    "print([BucketPolicy(64).bucket_of(key) for key in sys.argv[1:]])"
)


def buckets_elsewhere(seed: str) -> str:
    """What another interpreter, with other hashes, makes of the keys."""
    environment = os.environ | {"PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", PRINT_BUCKETS, *KEYS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


class TestPolicy:
    def test_a_key_has_the_same_bucket_in_every_process(self):
        """Python's own hash differs from process to process."""
        here = f"{[BucketPolicy(64).bucket_of(key) for key in KEYS]}\n"
        assert [here] * 3 == [buckets_elsewhere(seed) for seed in ("0", "1", "4242")]

    def test_the_buckets_of_known_keys_never_change(self):
        """A stored bucket outlives the code that computed it."""
        assert [BucketPolicy(64).bucket_of(key) for key in ("acme", "globex", "名前")] == [1, 26, 39]

    @given(st.text(), st.integers(1, MAX_NUM_BUCKETS))
    def test_a_bucket_is_in_range(self, key, number):
        """Whatever the key."""
        try:
            key.encode()
        except UnicodeEncodeError:
            return
        assert 0 <= BucketPolicy(number).bucket_of(key) < number

    @pytest.mark.parametrize("number", [0, -1, MAX_NUM_BUCKETS + 1])
    def test_a_senseless_number_is_refused(self, number):
        """It says what was expected and what was got."""
        with pytest.raises(ConfigurationError, match=rf"expected 1 to 65536, got {number}\Z"):
            BucketPolicy(number)

    def test_owning_nothing_in_particular_covers_all(self):
        """No limit and a full list make no partition; less does."""
        policy = BucketPolicy(4)
        assert policy.covers_all(policy.check_owned(None))
        assert policy.covers_all(policy.check_owned(range(4)))
        assert not policy.covers_all(policy.check_owned(range(3)))

    @pytest.mark.parametrize(
        ("owned", "message"),
        [
            ([4, 5, 9], "owned buckets: expected 0 to 3, got 4-5,9"),
            ([-1], "owned buckets: expected 0 to 3, got -1"),
            ([], "owned buckets: expected at least one bucket, got none"),
        ],
    )
    def test_buckets_out_of_range_are_refused(self, owned, message):
        """In one line that names them."""
        with pytest.raises(ConfigurationError) as refused:
            BucketPolicy(4).check_owned(owned)
        assert message == str(refused.value)


class TestText:
    @given(st.sets(st.integers(0, MAX_NUM_BUCKETS - 1), min_size=1))
    def test_a_list_reads_back_as_it_was_written(self, buckets):
        """parse undoes format."""
        assert buckets == parse_buckets(format_buckets(buckets))

    @given(st.sets(st.integers(0, 30), min_size=1))
    def test_the_text_is_the_shortest(self, buckets):
        """Runs are joined, so no two items touch."""
        items = [item.split("-") for item in format_buckets(buckets).split(",")]
        assert all(int(a[-1]) + 1 < int(b[0]) for a, b in itertools.pairwise(items))

    @pytest.mark.parametrize(
        ("text", "buckets"),
        [("0", {0}), (" 1 , 3-4 ", {1, 3, 4}), ("5-5", {5}), ("65535", {65535}), ("007", {7})],
    )
    def test_a_good_list_is_read(self, text, buckets):
        """Spaces and leading zeros do no harm."""
        assert buckets == parse_buckets(text)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "bucket list: expected items like 7 or 0-15 separated by commas, got ''"),
            ("1,,2", "bucket list: expected items like 7 or 0-15 separated by commas, got ''"),
            ("a", "bucket list: expected items like 7 or 0-15 separated by commas, got 'a'"),
            ("-1", "bucket list: expected items like 7 or 0-15 separated by commas, got '-1'"),
            ("1-2-3", "bucket list: expected items like 7 or 0-15 separated by commas, got '1-2-3'"),
            ("1;2", "bucket list: expected items like 7 or 0-15 separated by commas, got '1;2'"),
            ("5-3", "bucket list: '5-3' runs backwards, did you mean 3-5?"),
            ("65536", "bucket list: expected buckets below 65536, got 65536"),
            ("0-99999", "bucket list: expected buckets below 65536, got 99999"),
            ("0-4,3-6", "bucket list: 3-4 is named twice, last in '3-6'"),
            ("7,7", "bucket list: 7 is named twice, last in '7'"),
        ],
    )
    def test_a_bad_list_is_told_in_one_line(self, text, message):
        """It names the item."""
        with pytest.raises(ConfigurationError) as refused:
            parse_buckets(text)
        assert message == str(refused.value)
