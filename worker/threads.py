"""The threads that a run leaves behind: ended as an interpreter would at its end, but for those of its module."""

import threading
from collections.abc import Collection


def end_threads(elders: Collection[threading.Thread]) -> None:
    """Wake the idle threads of pools, then wait for all that are no daemons and none of `elders`.

    A pool is waited for whoever made it: the task may have left work in it.
    """
    hooks = threading._threading_atexits  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
    while hooks:
        hooks.pop()()
    if not any(thread.is_alive() and not thread.daemon for thread in elders):
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        return
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread() and thread not in elders:
            thread.join()
