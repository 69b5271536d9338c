"""How long to wait before the next try."""

import random

FIRST = 1.0
CAP = 300.0


def backoff(tries: int, seed: str) -> float:
    """Seconds before the next try: 1 s doubled each time, up to 5 minutes, a fifth more or less by `seed`."""
    wait = min(CAP, FIRST * 2.0 ** min(tries - 1, 30))
    return wait * random.Random(seed).uniform(0.8, 1.2)
