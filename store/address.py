"""Which store an address names, by how it begins; nothing is looked at."""

import re

SERVERS = frozenset({"postgresql", "postgres"})
_SCHEMES = SERVERS | {"sqlite", "memory"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)\Z", re.DOTALL)
_LIBPQ_WORDS = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|passfile|service)\s*=")
_STRAYED = re.compile(r"://|^//[^/]*@|:[^/]*@")
EXPECTED = "expected sqlite:///path, a path or postgresql://user@host:5432/database"


def split_scheme(address: str) -> tuple[str, str] | None:
    """The scheme, in small letters, and what follows it; None for a path.

    ValueError for what can be neither: taken for a path it would be a new file, and its name would show the password
    that may stand in it. So it is not shown either.
    """
    if _LIBPQ_WORDS.match(address):
        raise ValueError(f"{EXPECTED}, got key=value words of libpq")
    found = _SCHEME.match(address)
    if found is not None and found[1].lower() not in _SCHEMES:
        raise ValueError(f"{EXPECTED}, got {found[1]}:")
    if found is None and _STRAYED.search(address):
        raise ValueError(f"{EXPECTED}, got an address with something before its scheme, or with a part of it missing")
    return None if found is None else (found[1].lower(), found[2])
