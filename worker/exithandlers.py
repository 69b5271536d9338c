"""Exit handlers: those of a module belong to the process that imported it, those of a task to its worker."""

import atexit
import sys
import traceback
import weakref


def forget_exit_handlers() -> None:
    """In a worker, after the fork: the first to end would tear down for all what a module made at import.

    A temporary directory is the usual case. Handlers that the task registers do run.
    """
    for finalizer in weakref.finalize._registry.values():  # type: ignore[attr-defined]  # noqa: SLF001
        finalizer.atexit = False
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]  # noqa: SLF001 - it registers anew
    atexit._clear()  # noqa: SLF001 - there is no public way
    if "logging" in sys.modules:
        atexit.register(sys.modules["logging"].shutdown)


def run_exit_handlers() -> None:
    """Whatever they do: the caller ends in any case."""
    try:
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way
    except BaseException:  # noqa: BLE001 - the verdict is out
        traceback.print_exc()
