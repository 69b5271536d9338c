"""The environment of a node's tasks: a short list of what a Python program needs at all, and what was named.

The supervisor's own environment may hold the store's password and much else that is no task's business.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

OWN = "CHONG_"
BASIC: Mapping[str, str] = {
    "PATH": "where programs are found",
    "HOME": "whose files",
    "USER": "who",
    "LOGNAME": "who, to older programs",
    "SHELL": "for programs that start one",
    "LANG": "language and encoding",
    "LANGUAGE": "languages, in order",
    "LC_*": "language and encoding, in parts",
    "TZ": "time zone",
    "TZDIR": "where time zones are found",
    "TMPDIR": "where temporary files go",
    "PYTHON*": "Python's own, such as PYTHONPATH",
    "VIRTUAL_ENV": "the virtual environment in use",
    "LD_LIBRARY_PATH": "where libraries are found",
    "SSL_CERT_FILE": "the trusted certificates",
    "SSL_CERT_DIR": "the trusted certificates",
}
"""Names, or patterns of names, and what they are for."""


def environment_of_tasks(own: Mapping[str, str], pass_env: Iterable[str]) -> dict[str, str]:
    """What of the supervisor's `own` environment its tasks see."""
    patterns = (*BASIC, *pass_env)
    return {
        name: value
        for name, value in own.items()
        if not name.startswith(OWN) and any(fnmatchcase(name, pattern) for pattern in patterns)
    }
