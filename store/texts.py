"""Which texts a store can hold."""

from collections.abc import Iterable

from chong.store.errors import Refused


def check_texts(texts: Iterable[str]) -> None:
    """Refused for one that no store can hold: in a list a database would take it, and find nothing."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Refused(f"store: what was asked for cannot be looked up: {error}") from error
        if "\0" in text:
            raise Refused("store: what was asked for cannot be looked up: a text with a NUL")
