"""The `go` frame: what a worker needs to run its task, through a file where a frame is too small for it."""

import json
import time
from pathlib import Path
from typing import Any

from chong.supervisor.task_state import TaskState
from chong.worker.runfile import write_file
from chong.worker.wire import INLINE_LIMIT, Down, encode_down


def go_frame(
    number: tuple[int, int], state: TaskState, params: dict[str, Any], last_checkpoint: Any, run_dir: Path
) -> bytes:
    task = state.task
    timeout = state.options.timeout
    body: dict[str, Any] = {
        "task": {
            "id": task.id,
            "name": task.name,
            "key": task.bucket_key,
            "bucket": task.bucket,
            "attempt": task.attempt,
            "deadline": None if timeout is None else time.time() + timeout,
        },
        "run_dir": str(run_dir),
    }
    room = INLINE_LIMIT
    for name, value in (("params", params), ("last_checkpoint", last_checkpoint)):
        text = json.dumps(value, ensure_ascii=False)
        room -= len(text.encode())
        if room >= 0:
            body[name] = value
        else:
            write_file(f"{run_dir}/{name}.json", text.encode())
            body[f"{name}_file"] = f"{name}.json"
    return encode_down(Down.GO, *number, **body)
