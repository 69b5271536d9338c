"""Several words as part of one line."""

from collections.abc import Sequence

FEW_LENGTH = 240
"""Characters of several words in a row."""


def few(words: Sequence[str], most: int = 5, separator: str = ", ") -> str:
    """The words in a row; of many, or of long ones, the first and how many more: a line stays one that can be read."""
    shown = min(most, len(words))
    while shown > 1 and len(separator.join(words[:shown])) > FEW_LENGTH:
        shown -= 1
    more = f" and {len(words) - shown} more" if len(words) > shown else ""
    return separator.join(words[:shown]) + more
