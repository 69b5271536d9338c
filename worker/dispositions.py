"""Signals as a new process has them, whatever was imported into this one."""

import faulthandler
import signal

_KEPT_IGNORED = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_NOT_SETTABLE = frozenset({signal.SIGKILL, signal.SIGSTOP})


def reset_signals() -> None:
    """A module may have ignored SIGCHLD, which would lose every exit status. Timers end, nothing is blocked."""
    faulthandler.disable()
    signal.set_wakeup_fd(-1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in signal.valid_signals() - _NOT_SETTABLE:
        signal.signal(number, signal.SIG_IGN if number in _KEPT_IGNORED else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    faulthandler.enable(file=2)
