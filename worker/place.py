"""Where in somebody's code an import went wrong: what chong, Python and other people's packages did on the way is not
theirs to mend. A task module that is installed itself lies among such packages, and is told from them by its name.
"""

import os
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

_NEVER = (os.path.dirname(__file__) + os.sep, os.path.dirname(os.__file__) + os.sep, "<")  # noqa: PTH120 -- as text
_INSTALLED = {"site-packages", "dist-packages"}
_THREAD = re.compile(r"^Current thread .*\n((?:  .*\n)*)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)


def place_of(error: BaseException, module: str) -> str:
    """`file:line` of the innermost frame in the user's code, or of what is no Python; "" when there is none."""
    if isinstance(error, SyntaxError) and error.lineno and error.filename and not error.filename.startswith("<"):
        return f"{_shown(error.filename)}:{error.lineno}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return _first(reversed(frames), module)


def place_in(trace: str, module: str) -> str:
    """The same of what faulthandler wrote when a signal came."""
    thread = _THREAD.search(trace)
    return _first([] if thread is None else _FRAME.findall(thread[1]), module)


def _first(frames: Iterable[tuple[str, int | str]], module: str) -> str:
    return next((f"{_shown(file)}:{line}" for file, line in frames if _is_theirs(file, module)), "")


def _is_theirs(file: str, module: str) -> bool:
    top = module.partition(".")[0]
    if _shown(file).partition(os.sep)[0] in {top, f"{top}.py"}:
        return True
    return not file.startswith(_NEVER) and _INSTALLED.isdisjoint(Path(file).parts)


def _shown(file: str) -> str:
    """As seen from where Python looks for modules."""
    roots = (f"{entry.rstrip(os.sep)}{os.sep}" for entry in sys.path if isinstance(entry, str) and entry)
    return file[max((len(root) for root in roots if file.startswith(root)), default=0) :]
