"""Guesses at mistyped words: one typo is found, whatever it is, and another word is left alone."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chong.cli.main import COMMANDS
from chong.store.states import Status
from chong.supervisor.keys import KEYS
from chong.supervisor.nearest import suggestion
from chong.worker.nearest import nearest

LISTS = {
    "keys": [*KEYS],
    "options": [key.option for key in KEYS.values()],
    "commands": [*COMMANDS],
    "states": [*Status],
}
LETTERS = st.sampled_from("abcdefghijklmnopqrstuvwxyz")
WORDS = st.text(LETTERS, min_size=2, max_size=10)


def swapped(word: str, at: int, _: str) -> str:
    return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


def dropped(word: str, at: int, _: str) -> str:
    return word[:at] + word[at + 1 :]


def doubled(word: str, at: int, _: str) -> str:
    return word[: at + 1] + word[at:]


def wrong(word: str, at: int, letter: str) -> str:
    return word[:at] + letter + word[at + 1 :]


TYPOS = [swapped, dropped, doubled, wrong]


def distance(one: str, other: str) -> int:
    """How many typos there are between two words, by the textbook's table."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("typo", TYPOS)
@given(st.data())
def test_a_word_with_one_typo_is_guessed(kind, typo, data):
    """A swap, a drop, a double or a wrong letter, anywhere in any of our own words; two that fit are both near."""
    word = data.draw(st.sampled_from(LISTS[kind]))
    at = data.draw(st.integers(len(word) - len(word.lstrip("-")), len(word) - 1))
    mistyped = typo(word, at, data.draw(LETTERS))
    assume(len(mistyped.lstrip("-")) > 1 and mistyped not in LISTS[kind])
    guess = nearest(mistyped, LISTS[kind])
    assert guess is not None
    assert distance(mistyped, guess) <= 1


@given(WORDS, st.lists(WORDS, max_size=8))
def test_what_is_guessed_is_one_typo_away_or_begins_alike(word, choices):
    """And what is one typo away is guessed: the rule and the textbook agree on random words."""
    guess = nearest(word, choices)
    near = {choice for choice in choices if distance(word, choice) <= 1}
    begun = [choice for choice in choices if choice.startswith(word)]
    if near:
        assert guess in near
    elif len(word) > 2 and len(begun) == 1:
        assert guess == begun[0]
    else:
        assert guess is None


@pytest.mark.parametrize(
    ("word", "choices", "guess"),
    [
        ("ps", ["pause", "stop"], None),
        ("status", COMMANDS, "stats"),
        ("stop-all", COMMANDS, None),
        ("list", COMMANDS, None),
        ("kill", COMMANDS, None),
        ("retries", KEYS, None),
        ("x", ["y", "xy"], None),
        ("mysql", ["sqlite", "memory"], None),
        ("", ["a", "ab"], None),
        ("---", ["--json"], None),
        ("Max-Parallel", KEYS, "max_parallel"),
        ("json", ["--json"], "--json"),
        ("billing-sync", ["billing.sync"], "billing.sync"),
        ("re", ["reload", "prune"], None),
        ("rel", ["reload", "prune"], "reload"),
        ("keep", KEYS, None),
        ("form", ["from", "farm"], "from"),
        ("node_a", ["node-b", "node-a"], "node-a"),
    ],
)
def test_cases_of_the_rule(word, choices, guess):
    """Another word is none of ours, however many letters they share."""
    assert nearest(word, choices) == guess


def test_a_long_list_of_long_names_is_searched_at_once():
    """A node may have ten thousand tasks: time grows with the letters, and not with their square."""
    names = [f"{'x' * 190}{number:06}" for number in range(10_000)]
    assert nearest("x" * 190 + "00001", names) == names[1]


def test_without_a_guess_one_is_told_where_to_look():
    """An error line never ends in nothing."""
    assert suggestion("jsn", ["json"], "see --help") == "did you mean json?"
    assert suggestion("xml", ["json"], "see --help") == "see --help"
