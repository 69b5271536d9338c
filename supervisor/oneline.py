"""What is told as one line, errors above all: nothing in it that could command a terminal, and no secret."""

import re

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


def counted(number: int, noun: str) -> str:
    """Such as "1 task" or "3 tasks"; of nouns that take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sentence(text: str) -> str:
    """What click says, in the form of our own errors: it begins small and ends without a full stop."""
    text = text.rstrip(".")
    return text[:1].lower() + text[1:]
