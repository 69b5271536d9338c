"""The valid word that a mistyped one stands for: the same but for one typo, or the only one that begins like it.

A typo is a letter too few, too many or wrong, or two neighbours in the wrong order. Case does not count, nor which
separator was used. Anything more is another word: a wrong guess misleads, and no guess only sends one to the list.
"""

import re
from collections.abc import Iterable

LEAST_BEGINNING = 3
"""Letters that a beginning has to have."""


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Where several fit: the one of the same letters, then the one that comes first."""
    given = _plain(word)
    plain = [(choice, _plain(choice)) for choice in choices]
    near = [(choice, form) for choice, form in plain if _is_one_typo(given, form)]
    if near:
        return min(near, key=lambda pair: (pair[1] != given, set(pair[1]) != set(given)))[0]
    begun = [choice for choice, form in plain if form.startswith(given)] if len(given) >= LEAST_BEGINNING else []
    return begun[0] if len(begun) == 1 else None


def _plain(word: str) -> str:
    return re.sub(r"[-_.]", "_", word.lower()).lstrip("_")


def _is_one_typo(word: str, choice: str) -> bool:
    """At most one; what is left of a word of one letter says nothing."""
    if abs(len(word) - len(choice)) > 1 or min(len(word), len(choice)) < 2:  # noqa: PLR2004
        return False
    pairs = enumerate(zip(word, choice, strict=False))
    start = next((at for at, (left, right) in pairs if left != right), min(len(word), len(choice)))
    left, right = word[start:], choice[start:]
    return left[1:] == right[1:] or left[1:] == right or left == right[1:] or _is_swap(left, right)


def _is_swap(left: str, right: str) -> bool:
    return left[:2] == right[1::-1] and left[2:] == right[2:]
