"""Tasks that replace what chong itself needs, and leave it so; imported by a real forkserver."""

import atexit
import builtins
import json
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from io import StringIO
from pathlib import Path

from chong.worker import task


def refuse(*_, **__):
    raise ZeroDivisionError("replaced by the task")


NAMES = {
    os: (
        *("getpid", "_exit", "kill", "write", "open", "close", "fchmod", "geteuid", "stat", "lstat", "fstat"),
        *("mkdir", "makedirs", "unlink", "remove", "rename", "replace", "read", "listdir", "scandir"),
    ),
    os.path: ("dirname", "join", "split", "exists"),
    Path: ("mkdir", "unlink", "rename", "stat", "read_bytes", "read_text", "write_bytes", "open", "with_name"),
    json: ("dumps", "loads"),
    signal: ("signal", "setitimer", "pthread_sigmask"),
    threading: ("current_thread", "main_thread"),
    time: ("time", "monotonic", "sleep", "clock_gettime"),
}


def replace_all():
    for module, names in NAMES.items():
        for name in names:
            setattr(module, name, refuse)
    sys.stdout.write("before")
    sys.stdout = sys.stderr = StringIO()


def stop_time():
    """As libraries for tests do it: the known functions are looked for in every module."""
    year_2000 = 946684800.0
    known = {id(getattr(time, name)) for name in ("time", "monotonic")}
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if id(value) in known:
                setattr(module, name, lambda: year_2000)
    time.clock_gettime = lambda _: year_2000


@task("patching.ends")
def ends(ctx, how):
    replace_all()
    if how == "raise":
        raise ValueError("as it should")
    return how if how == "short" else "x" * 100_000


@task("patching.states")
def states(ctx):
    """Three in a row, each larger than a frame; the last two wait for their turn."""
    replace_all()
    for page in range(3):
        ctx.checkpoint(state=[page] * 100_000)


@task("patching.late")
def late(ctx):
    """Is stopped with everything replaced."""
    replace_all()
    ctx.checkpoint(message="replaced")
    while True:
        ctx.sleep(0.01)


@task("patching.timeless")
def timeless(ctx, seconds):
    stop_time()
    assert time.time() == time.monotonic() == 946684800.0
    ctx.sleep(seconds)
    for done in range(3):
        ctx.sleep(0.06)
        ctx.checkpoint(done=done)
    return "slept"


# --- what raises once more after the task has raised ---------------------------------------------------------------


def interrupt(*_, **__):
    raise KeyboardInterrupt("replaced by the task")


def patch_json():
    for kind, names in ((json.JSONEncoder, ("encode", "iterencode")), (json.JSONDecoder, ("decode", "raw_decode"))):
        for name in names:
            setattr(kind, name, interrupt)
    for name in ("c_make_encoder", "encode_basestring", "encode_basestring_ascii", "py_encode_basestring"):
        setattr(json.encoder, name, interrupt)
    json.decoder.scanstring = json.scanner.c_make_scanner = interrupt


def replace_builtins():
    names = ("open", "len", "isinstance", "issubclass", "str", "type", "getattr", "BaseException", "Exception")
    vars(builtins).update(dict.fromkeys(names, interrupt))


def remove_builtins():
    vars(builtins).clear()


def trace_by_exceptions():
    threading.settrace(interrupt)
    sys.settrace(interrupt)


def alarm_for_ever():
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 3600)
    for name in ("settrace", "setprofile", "setrecursionlimit", "excepthook"):
        setattr(sys, name, interrupt)


def shrink_stack():
    depth = len(traceback.extract_stack())
    sys.setrecursionlimit(depth + 8)


def drop_streams():
    del sys.stdout, sys.stderr
    del atexit._run_exitfuncs


def warn_by_exceptions():
    warnings.simplefilter("error")
    warnings.warn = traceback.format_tb = traceback.print_exc = interrupt


SPOILS = {
    "json": patch_json,
    "builtins": replace_builtins,
    "no builtins": remove_builtins,
    "tracer": trace_by_exceptions,
    "alarm": alarm_for_ever,
    "stack": shrink_stack,
    "streams": drop_streams,
    "warnings": warn_by_exceptions,
}


@task("patching.spoils")
def spoils(ctx, what, how):
    value, error = {"x": ["é", 1.5, None, True]}, ValueError("as it should")
    SPOILS[what]()
    if how == "raise":
        raise error
    return value


@task("patching.profiled")
def profiled(ctx):
    sys.setprofile(interrupt)


class SilentError(Exception):
    """Says nothing of itself."""

    def __str__(self):
        raise SystemExit(9)

    __repr__ = __str__

    def __getattribute__(self, name):
        raise KeyboardInterrupt(name)


class Hidden(type):
    def __getattribute__(cls, name):
        raise KeyboardInterrupt(name)


class Word(str):
    __slots__ = ()

    def refuse(self, *_):
        raise SystemExit(9)

    __str__ = __format__ = __radd__ = __len__ = refuse


class Rude:
    @property
    def __class__(self):
        raise SystemExit(9)

    def __eq__(self, other):
        raise SystemExit(9)

    __hash__ = None


class UntracedError(ValueError):
    __traceback__ = __context__ = __cause__ = property(interrupt)


def error_of(what):
    match what:
        case "silent":
            return SilentError()
        case "hidden":
            return Hidden("Concealed", (Exception,), {"__module__": "m"})("q")
        case "word":
            error = type(Word("Worded"), (Exception,), {})
            error.__qualname__ = Word("Worded")
            error.__module__ = Word("m")
            return error("q")
        case "rude":
            return type("Placed", (Exception,), {"__module__": Rude()})("q")
    return UntracedError("q")


@task("patching.raises")
def raises(ctx, what):
    raise error_of(what)


# --- what raises again and again ------------------------------------------------------------------------------------


@task("patching.monitored")
def monitored(ctx, kinds):
    """Callbacks for these events, of a tool of its own, all of which raise."""
    monitoring = sys.monitoring
    known = [kind for kind in vars(monitoring.events) if kind != "NO_EVENTS"]
    events = {kind: getattr(monitoring.events, kind) for kind in kinds or known}
    monitoring.use_tool_id(4, "test")
    for event in events.values():
        monitoring.register_callback(4, event, interrupt)
    together = {"C_RETURN": monitoring.events.CALL, "C_RAISE": monitoring.events.CALL}
    wanted = 0
    for kind, event in events.items():
        wanted |= together.get(kind, event)
    atexit.register(monitoring.set_events, 4, wanted)
    monitoring.set_events(4, wanted)
    return "end"


@task("patching.audited")
def audited(ctx, size):
    """An audit hook cannot be removed; this one refuses whatever it is asked."""
    sys.addaudithook(interrupt)
    return "x" * size
