"""What is told as one line, errors above all: nothing in it that could command a terminal, and no secret."""

import re
from collections.abc import Sequence

FEW_LENGTH = 240
"""Characters of several words in a row."""
# Up to the last "@": a password that should have been percent-encoded is still a password.
_URL_SECRET = re.compile(r"(://[^:@/\s]*:)\S*(@)")
_WORD_SECRET = re.compile(r"((?:password|secret|scram_\w+_key)\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&;]+)", re.IGNORECASE)


def without_secret(text: str) -> str:
    """`text` with the password of every DSN in it hidden, however the text came by it."""
    return _WORD_SECRET.sub(r"\1***", _URL_SECRET.sub(r"\1***\2", text))


def one_line(text: str) -> str:
    """`text` on one line, without a secret; control, format and surrogate characters as escapes."""
    line = " ".join(without_secret(text).split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)


def few(words: Sequence[str], most: int = 5, separator: str = ", ") -> str:
    """The words in a row; of many, or of long ones, the first and how many more: a line stays one that can be read."""
    shown = min(most, len(words))
    while shown > 1 and len(separator.join(words[:shown])) > FEW_LENGTH:
        shown -= 1
    more = f" and {len(words) - shown} more" if len(words) > shown else ""
    return separator.join(words[:shown]) + more


def counted(number: int, noun: str) -> str:
    """Such as "1 task" or "3 tasks"; of nouns that take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sentence(text: str) -> str:
    """What click says, in the form of our own errors: it begins small and ends without a full stop."""
    text = text.rstrip(".")
    return text[:1].lower() + text[1:]
