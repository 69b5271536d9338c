"""`keys=` as a function: called in a process of its own, `python -m chong.worker.called_keys PATH MODULE TASK`.

It prints one line of JSON, `{"keys": [...]}` or `{"error": "..."}`; what module and function print goes nowhere.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from chong.worker.failure import cause_of, shorten
from chong.worker.options import KEY_LIMIT, KEYS_LIMIT
from chong.worker.place import place_of
from chong.worker.trial import load_module
from chong.worker.usercode import run_user_code

ERROR_LIMIT = 400
FIRST_TO_GO = 1000
"""Of `oom_score_adj`: where memory is short the kernel takes this process, as it takes tasks before supervisors."""


class KeysInvalid(ValueError):  # noqa: N818 -- a verdict
    """What the function has returned are no keys."""


def checked(found: Any) -> list[str]:
    """Keys as a definition may list them: sorted, each once; KeysInvalid."""
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise KeysInvalid(f"expected keys, one after the other, got {type(found).__name__}")
    keys: set[str] = set()
    for key in found:
        if not isinstance(key, str) or not 1 <= len(key) <= KEY_LIMIT or not key.isprintable():
            raise KeysInvalid(f"expected printable strings of 1 to {KEY_LIMIT} characters, got {key!r:.60}")
        keys.add(str(key))
        if len(keys) > KEYS_LIMIT:
            raise KeysInvalid(f"expected at most {KEYS_LIMIT} keys, got more")
    return sorted(keys)


def called(module: str, task: str) -> dict[str, Any]:
    """What the function of this task says."""
    definitions, error = load_module(module)
    if error is not None:
        return _failed(error, module)
    function = next((each.keys for each in definitions if each.name == task), None)
    if function is None:
        return {"error": f"module {module} does not define them any more"}
    keys, error = run_user_code(partial(_call, function))
    return {"keys": keys} if error is None else _failed(error, str(getattr(function, "__module__", module)))


def _call(function: Any) -> list[str]:
    return checked(function())


def _failed(error: BaseException, module: str) -> dict[str, str]:
    where = place_of(error, module)
    told = f"{cause_of(error)}: {' '.join(str(error).split())}" if not isinstance(error, KeysInvalid) else str(error)
    return {"error": shorten(f"{told} ({where})" if where else told, ERROR_LIMIT)}


def main() -> None:
    path, module, task = sys.argv[1:]
    sys.path[:] = json.loads(path)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:  # noqa: PTH123
        score.write(str(FIRST_TO_GO))
    answer = os.dup(1)
    os.set_inheritable(answer, False)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    said = json.dumps(called(module, task)).encode()
    with os.fdopen(answer, "wb") as out:
        out.write(said + b"\n")
        out.flush()
        os._exit(0)  # threads of the module need not end first


if __name__ == "__main__":
    main()
