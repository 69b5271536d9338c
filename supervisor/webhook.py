"""Sends what stands on its input to a web address: `python -m chong.supervisor.webhook URL`.

A POST of JSON. Exit 0 when it was taken, which any 2xx says; else 1, with why in one line on the output. Redirects are
not followed: a secret in the address, or in what is sent, goes to nobody else.
"""

import http.client
import sys
from urllib.parse import urlsplit

SECONDS = 15.0
"""For each step of the exchange; whoever calls this has a limit for the whole."""
OK, BEYOND = 200, 300


def sent(url: str, body: bytes) -> str:
    """What went wrong, nothing when nothing did."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=SECONDS)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "chong"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if OK <= status < BEYOND else f"expected a status of 2xx, got {status}"


def main() -> int:
    fault = sent(sys.argv[1], sys.stdin.buffer.read())
    sys.stdout.write(f"{fault}\n")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
