"""What a term leaves with each run in its forkserver, so that a next term can go on managing it without the code."""

from dataclasses import asdict
from typing import Any

from chong.worker.options import Options, options_from_json

_NOT_KEPT = frozenset({"tags", "env", "cwd", "user", "umask", "nice", "memory", "fork_safe"}) | {
    *(
        "every",
        "schedule",
        "keys",
        "calls_keys",
        "misfire",
        "overlap",
        "misfire_limit",
        "on_failure",
        "on_failure_every",
    ),
}
"""What is the worker's business, or was settled when the task was accepted: a memo has to fit a frame."""


def memo_of(options: Options) -> dict[str, Any]:
    kept = {name: value for name, value in asdict(options).items() if name not in _NOT_KEPT}
    return {"options": kept}


def options_of(memo: Any) -> Options:
    """The defaults when it tells none."""
    options = memo.get("options") if isinstance(memo, dict) else None
    return options_from_json(options) if isinstance(options, dict) else Options()
