"""How an error line goes on about a mistyped word."""

from collections.abc import Iterable

from chong.worker.nearest import nearest


def suggestion(word: str, choices: Iterable[str], otherwise: str) -> str:
    """A guess at what was meant, else where to look."""
    guess = nearest(word, choices)
    return f"did you mean {guess}?" if guess else otherwise
