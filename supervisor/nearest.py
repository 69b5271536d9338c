"""The valid word that a mistyped one is closest to."""

import difflib
from collections.abc import Iterable


def nearest(word: str, choices: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return found[0] if found else None


def suggestion(word: str, choices: Iterable[str], otherwise: str) -> str:
    """How an error line goes on: a guess at what was meant, else where to look."""
    guess = nearest(word, choices)
    return f"did you mean {guess}?" if guess else otherwise
