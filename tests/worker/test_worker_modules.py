"""Task modules that hurt: each costs its own tasks at most, and nothing of its trial is left."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from worker_bench import is_alive, kill, start_holder, wait_until

GOOD = """
import threading
from chong.worker import task

@task("good.run")
def run(ctx, threads: int = 1):
    return threading.active_count()
"""
THREAD = """
import threading
LOCK = threading.Lock()
def hold():
    with LOCK:
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
"""
TASK = """
import os, signal, sys, time
from chong.worker import task

@task("{name}.run", {options})
def run(ctx, pages: int = 1):
    ctx.checkpoint(done=pages)
    return [os.getpid(), os.getppid()]
"""

DEFINITION = "chong.worker.options.DefinitionError: task 'x':"
NO_SIGNATURE = "expected a function with a signature: no signature found for builtin type <class 'dict'>"

QUARANTINED = {
    "import_error": (
        "import no_such_module",
        "ModuleNotFoundError: No module named 'no_such_module' (import_error.py:2)",
    ),
    "syntax_error": ("def", "SyntaxError: invalid syntax (syntax_error.py:2)"),
    "sys_exit": ("import sys; sys.exit(0)", "SystemExit: 0 (sys_exit.py:2)"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt (interrupt.py:2)"),
    "os_exit": ("import os; os._exit(0)", "it ended the process: exit code 0"),
    "segfault": (
        "import ctypes; ctypes.string_at(0)",
        "it ended the process: signal 11 (Segmentation fault) (segfault.py:2)",
    ),
    "killed": ("import os; os.kill(os.getpid(), 9)", "it ended the process: signal 9 (Killed)"),
    "stdin": ("input()", "EOFError: EOF when reading a line (stdin.py:2)"),
    "junk": ("import os; os.write(3, b'junk\\n')", "it wrote to a descriptor that is not its own: b'junk'"),
    "closes_all": ("import os; os.closerange(3, 4096)", "it ended the process: exit code 70"),
    "no_signature": (
        "from chong.worker import task\nX = task('x')(dict)",
        f"{DEFINITION} {NO_SIGNATURE} (no_signature.py:3)",
    ),
}
OTHERS = {
    "shop/prices.py": "\n\n1 / 0\n",
    "shop/broken.py": "x = 1\n  y = 2\n",
    "site-packages/oddlib.py": "raise ValueError('odd')\n",
    "site-packages/acme/tasks.py": "import json\nimport oddlib\n",
}
HANGING = {
    "loop": "while True: pass",
    "fifo": "import os; os.mkfifo(FIFO); open(FIFO)",
    "stopped": "import os; os.kill(os.getpid(), 19)",
    "deaf": "import signal\nfor n in (6, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    "children": "import subprocess as s\nfor new in (0, 1): s.Popen(['sleep', '987'], start_new_session=new)\n"
    "while True: pass",
}
BEARABLE = {
    "prints": "print('x' * 1_000_000)\nimport sys\nsys.stderr.write('y' * 1_000_000)",
    "ignores_children": "import signal\nfor n in (17, 15, 23): signal.signal(n, signal.SIG_IGN)",
    "blocks": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    "alarm": "import signal; signal.setitimer(signal.ITIMER_REAL, 0.2)",
    "closes": "import os; os.closerange(0, 3)",
    "closes_streams": "import sys; sys.stdin.close(); sys.stdout.close(); sys.stderr.close()",
    "no_streams": "import sys; sys.stdin = sys.stdout = sys.stderr = None",
    "moves": "import os; os.chdir('/proc'); os.umask(0o777)",
    "joined_thread": "import threading\nfor n in range(9):\n t = threading.Thread(target=int)\n t.start()\n t.join()",
    "helper": "import subprocess; HELPER = subprocess.Popen(['sleep', '987'])",
    "twin": "import os, time\nif os.fork() == 0: time.sleep(987)",
    "returning_twin": "import os\nos.fork()",
    "no_tasks": "x = 1",
}
EXECUTED = {
    "not_daemon": "import threading\nthreading.Thread(target=threading.Event().wait).start()",
    "lock": THREAD,
    "pool": "import threading\nfor n in range(4): threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "patches": "import json, os\njson.dumps = json.loads = os.write = os.fork = os.read = lambda *a, **k: 1 / 0",
}
REPLACED = {
    "builtins": "import builtins\nbuiltins.print = builtins.open = lambda *_, **__: 'its own'",
    "os": "import os\nos.fork = os.stat = lambda *_, **__: 'its own'",
    "time": "import time\ntime.monotonic = lambda: 'its own'",
    "json": "import json\njson.dumps = json.JSONEncoder.encode = lambda *_, **__: 'its own'",
    "socket": "import socket\nclass Proxy(socket.socket): pass\nsocket.socket = Proxy",
    "socket_method": "import socket\nsocket.socket.settimeout = lambda *_: 'its own'",
    "path": "import pathlib\npathlib.Path.read_bytes = lambda _: 'its own'",
}
LOOK = """
import builtins, json, os, pathlib, socket, time
from chong.worker import task

@task("{name}.looks", {options})
def look(ctx):
    found = [builtins.print, builtins.open, os.fork, os.stat, time.monotonic, json.dumps, json.JSONEncoder.encode,
             socket.socket, socket.socket.settimeout, pathlib.Path.read_bytes]
    return [str(getattr(each, "__module__", None)) for each in found]
"""


def write(node, name, text, **options):
    """A module whose bad part comes before its task."""
    given = ", ".join(f"{option}={value!r}" for option, value in options.items())
    last = TASK.format(name=name, options=given)
    (node.root / f"{name}.py").write_text(f"FIFO = {str(node.root / 'fifo')!r}\n{text}\n{last}")
    return name


def start(node, *names, **settings):
    (node.root / "good.py").write_text(GOOD)
    return node.start((*names, "good"), **settings).attach()


def errors(node):
    return {entry["module"]: entry for entry in node.catalogue()["errors"]}


def tasks(node):
    return {entry["name"]: entry for entry in node.catalogue()["tasks"]}


def family(pid):
    """All living descendants."""
    found = {
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    }
    return found.union(*map(family, found)) if found else set()


def check_good(connection, run="good.1"):
    worker = connection.start(run, "good.run")
    assert worker.wait_for("result")["value"] == 1
    assert connection.release(run)["code"] == 0


@pytest.mark.parametrize("kind", QUARANTINED)
def test_a_module_that_fails_is_quarantined_with_a_reason(node, kind):
    """The others' tasks run, and people read what happened."""
    text, reason = QUARANTINED[kind]
    connection = start(node, write(node, kind, text))
    assert set(tasks(node)) == {"good.run"}
    assert errors(node)[kind]["error"] == reason
    assert family(node.pid) == set()
    check_good(connection)


def test_a_crash_at_import_shows_where(node):
    """A segmentation fault has no exception; the reason still names the line."""
    start(node, write(node, "crash", QUARANTINED["segfault"][0]))
    assert f'"{node.root}/crash.py", line 2' in errors(node)["crash"]["traceback"]


def test_modules_that_hang_are_given_up_side_by_side(node):
    """Each costs the limit once, not one after the other; nothing of them stays, and all others are served."""
    names = [write(node, name, text) for name, text in HANGING.items()]
    connection = start(node, *names, import_timeout=6.0)
    assert set(errors(node)) == set(HANGING)
    late = "it did not finish its import within 6 s"
    where = {name: f" ({name}.py:{line})" for name, line in (("loop", 2), ("fifo", 2), ("children", 4))}
    assert {name: entry["error"] for name, entry in errors(node).items()} == {
        name: late + where.get(name, "") for name in HANGING
    }
    assert f'"{node.root}/loop.py", line 2' in errors(node)["loop"]["traceback"]
    assert family(node.pid) == set()
    assert set(node.processes()) <= {node.pid}
    check_good(connection)


@pytest.mark.parametrize("kind", BEARABLE)
def test_a_module_that_only_misbehaves_is_served(node, kind):
    """What it does to its process is undone; its own task and all others run."""
    (node.root / "fifo").touch()
    connection = start(node, write(node, kind, BEARABLE[kind]))
    assert errors(node) == {}
    assert [tasks(node)[name]["exec"] for name in (f"{kind}.run", "good.run")] == [False, False]
    worker = connection.start("own", f"{kind}.run")
    assert worker.wait_for("result")["value"] == [worker.pid, node.pid]
    assert connection.release("own")["code"] == 0
    check_good(connection)
    connection.order("retire")
    assert node.wait_end() == 0
    assert node.processes() == {}


@pytest.mark.parametrize("kind", EXECUTED)
def test_a_module_with_threads_is_imported_by_each_of_its_runs(node, kind):
    """No fork copies a lock that another thread holds; modules without threads are forked as ever."""
    connection = start(node, write(node, kind, EXECUTED[kind]))
    assert errors(node) == {}
    assert [tasks(node)[name]["exec"] for name in (f"{kind}.run", "good.run")] == [True, False]
    assert tasks(node)[f"{kind}.run"]["accepts"] == {"required": [], "optional": ["pages"], "any": False}
    assert len(list(Path(f"/proc/{node.pid}/task").iterdir())) == 1
    worker = connection.start("own", f"{kind}.run")
    assert worker.wait_for("result")["value"] == [worker.pid, node.pid]
    assert worker.last("checkpoint")["done"] == 1
    assert connection.release("own")["code"] == 0
    check_good(connection)


@pytest.mark.parametrize("kind", REPLACED)
def test_what_a_module_replaces_is_replaced_for_its_own_tasks_alone(node, kind):
    """Whatever they are declared to bear: the modules before it and after it see what was there before."""
    for name in ("before", "after"):
        (node.root / f"{name}.py").write_text(LOOK.format(name=name, options=""))
    (node.root / f"its_{kind}.py").write_text(
        REPLACED[kind] + LOOK.format(name=f"its_{kind}", options="fork_safe=True")
    )
    connection = node.start(("before", f"its_{kind}", "after")).attach()
    assert {name: entry["exec"] for name, entry in tasks(node).items()} == {
        "before.looks": False,
        f"its_{kind}.looks": True,
        "after.looks": False,
    }
    before, own, after = (
        connection.start(name, f"{name}.looks").wait_for("result")["value"]
        for name in ("before", f"its_{kind}", "after")
    )
    assert f"its_{kind}" not in before
    assert before == after
    assert f"its_{kind}" in own
    assert re.search(f"module its_{kind} replaces .*: its runs import it by themselves", node.output())


def test_a_module_that_breaks_the_builtins_is_told_and_costs_no_other(node):
    """Chong has its own meanwhile: in the trial, in the run, and when it tells that task's failure."""
    text = "\nimport builtins\nvars(builtins).update(dict.fromkeys(['len', 'isinstance', 'open', 'type', 'getattr']))\n"
    with (node.root / f"{write(node, 'broken', '')}.py").open("a") as module:
        module.write(text)
    connection = start(node, "broken")
    assert tasks(node)["broken.run"]["exec"]
    failure = connection.start("r", "broken.run").wait_for("failure")["failure"]
    assert [failure[key] for key in ("kind", "cause")] == ["exception", "TypeError"]
    assert connection.release("r")["code"] == 1
    check_good(connection)


def test_what_a_module_replaces_only_in_the_forkserver_is_put_back(node):
    """The trial did not show it; its runs import it by themselves."""
    text = "import os\nif not os.path.exists(FIFO):\n open(FIFO, 'w')\nelse:\n os.pidfd_open = os.waitid = None"
    connection = start(node, write(node, "late", text))
    assert [tasks(node)[name]["exec"] for name in ("late.run", "good.run")] == [True, False]
    assert "module late replaces os.pidfd_open, os.waitid: its runs" in node.output()
    check_good(connection)


def test_threads_of_a_library_are_found_for_each_module_that_loads_it(node):
    """The first to import it must not hide them from the second."""
    (node.root / "library.py").write_text(THREAD)
    names = [write(node, name, "import library") for name in ("first", "second")]
    start(node, *names)
    assert {name: entry["exec"] for name, entry in tasks(node).items()} == {
        "first.run": True,
        "second.run": True,
        "good.run": False,
    }


def test_an_import_that_hangs_only_in_the_forkserver_ends_it(node):
    """The trial did not show it; whoever waits for the forkserver sees its end and starts another one."""
    once = "import os, signal\nif os.path.exists(FIFO):\n while True: pass\nopen(FIFO, 'w')"
    names = [
        write(node, "alarm", "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)"),
        write(node, "loop", once),
    ]
    node.start(tuple(names), import_timeout=1.0)
    assert node.wait_end() == -signal.SIGALRM


def test_declared_threads_are_forked(node):
    """Only when all tasks of the module are declared to bear it."""
    names = [write(node, "declared", THREAD, fork_safe=True), write(node, "half", THREAD, fork_safe=True)]
    with (node.root / "half.py").open("a") as module:
        module.write('\n@task("half.other")\ndef other(ctx): return 1\n')
    connection = start(node, *names)
    ways = {name: entry["exec"] for name, entry in tasks(node).items()}
    assert ways == {"declared.run": False, "half.run": True, "half.other": True, "good.run": False}
    assert connection.start("r", "declared.run").finish()[-1] == "result"


def test_threads_that_appear_only_in_the_forkserver_make_all_runs_exec(node):
    """What the trial did not show is seen once more after the imports."""
    text = f"import os\nif not os.path.exists(FIFO):\n open(FIFO, 'w')\nelse:\n exec({THREAD!r})"
    connection = start(node, write(node, "late", text))
    assert all(entry["exec"] for entry in tasks(node).values())
    assert "all tasks import their modules" in node.output()
    check_good(connection)


def test_an_import_that_fails_in_the_run_fails_the_run(node):
    """With its traceback; the import is no start that may be tried again for nothing."""
    text = f"{THREAD}\nimport os\nif os.path.exists(FIFO): raise LookupError('gone')"
    connection = start(node, write(node, "changed", text))
    (node.root / "fifo").touch()
    worker = connection.start("r", "changed.run")
    failure = worker.wait_for("failure")["failure"]
    assert [failure[key] for key in ("kind", "cause", "message")] == ["import_error", "LookupError", "gone"]
    assert "changed.py" in failure["traceback"]
    assert worker.kinds()[:2] == ["ready", "started"]


def test_a_task_that_is_gone_from_its_module_fails_the_run(node):
    """The module was changed after the trial."""
    connection = start(node, write(node, "changed", THREAD))
    (node.root / "changed.py").write_text("")
    failure = connection.start("r", "changed.run").wait_for("failure")["failure"]
    assert [failure[key] for key in ("kind", "cause")] == ["import_error", "UnknownTask"]


def test_an_exec_run_is_a_worker_like_any_other(node):
    """Descriptors, signals, directory, umask, title, marker and session, whatever its module did to them."""
    text = THREAD + BEARABLE["moves"] + "\n" + BEARABLE["ignores_children"] + "\n" + BEARABLE["closes"]
    body = """
    import signal as s
    status = open('/proc/self/status').read().splitlines()
    words = {line.split(':')[0]: line.split()[-1] for line in status}
    return {
        'files': sorted(map(int, os.listdir('/proc/self/fd')))[:-1],
        'kept': [os.get_inheritable(fd) for fd in (3, 4)],
        'blocked': words['SigBlk'],
        'ignored': words['SigIgn'],
        'cwd': os.getcwd(), 'umask': words['Umask'],
        'title': open('/proc/self/cmdline').read().rstrip('\\0'),
        'marker': os.environ['CHONG_RUN'],
        'sid': os.getsid(0) == os.getpid(),
        'int': s.getsignal(s.SIGINT) == s.SIG_DFL,
    }
"""
    (node.root / "execd.py").write_text(f"{text}\nfrom chong.worker import task\n@task('pristine')\ndef p(ctx):{body}")
    (node.root / "forked.py").write_text(f"import os\nfrom chong.worker import task\n@task('plain')\ndef p(ctx):{body}")
    connection = start(node, "execd", "forked")
    pristine, plain = (
        connection.start(name, name).wait_for("result")["value"] | {"marker": ""} for name in ("pristine", "plain")
    )
    assert pristine == plain
    assert pristine["files"] == [0, 1, 2, 3, 4]
    assert pristine["kept"] == [False, False]


def test_an_exec_run_is_stopped_and_paused(node):
    """Its channel is the one that it had before the exec."""
    text = f"{THREAD}\nfrom chong.worker import task\n@task('slow')\ndef slow(ctx):\n while True: ctx.sleep(60)"
    (node.root / "slow.py").write_text(text)
    connection = start(node, "slow")
    worker = connection.start("r", "slow")
    worker.wait_for("started")
    number = worker.down("pause")
    assert worker.wait_for("paused")["answer"] == number
    worker.down("resume")
    worker.wait_for("resumed")
    worker.down("stop")
    worker.wait_for("stopping")
    assert connection.release("r")["code"] == 0


def test_a_start_that_is_given_up_during_the_import_never_starts(node):
    """The socket was shut down: the worker ends with its import, and says nothing."""
    text = f"{THREAD}\nimport os, time\nif 'CHONG_RUN' in os.environ:\n open(FIFO, 'w')\n time.sleep(0.2)"
    connection = start(node, write(node, "slow", text))
    worker = connection.spawn("r", task="slow.run")
    wait_until((node.root / "fifo").exists, "the import")
    worker.socket.shutdown(2)
    assert connection.release("r")["code"] == 0
    assert worker.kinds() == []


def test_the_leash_holds_an_exec_run(node, subreaper):
    """It belongs to the open file, which the exec keeps: supervisor and forkserver die, and the kernel ends it."""
    text = (
        f"{THREAD}\nfrom chong.worker import task\n@task('slow')\ndef slow(ctx):\n open(BEGUN, 'w')\n while True: pass"
    )
    text = f"BEGUN = {str(node.root / 'begun')!r}\n{text}"
    (node.root / "slow.py").write_text(text)
    node.start(("slow",), hold=600.0)
    holder = start_holder(node, "slow")
    try:
        (worker,) = wait_until(lambda: family(node.pid), "the worker")
        wait_until((node.root / "begun").exists, "its own code")
        node.kill()
        assert is_alive(worker)
    finally:
        kill(holder)
    wait_until(lambda: not is_alive(worker), "the end of the worker")


def test_the_first_of_two_tasks_of_one_name_counts_whatever_its_way(node):
    """The error is the task's and not its module's; it says where both stand, and which one stays."""
    text = '{}\nfrom chong.worker import task\n@task("same")\ndef run(ctx): return "{}"\n'
    for name, before in (("one", THREAD), ("two", ""), ("three", THREAD)):
        (node.root / f"{name}.py").write_text(text.format(before, name))
    connection = start(node, "one", "two", "three")
    stays = f"is refused: expected one definition of the name, that of one:{THREAD.count(chr(10)) + 3} (run) stays"
    assert [(entry["task"], entry["module"], entry["error"]) for entry in node.catalogue()["errors"]] == [
        ("same", "two", f"two:3 (run) {stays}"),
        ("same", "three", f"three:{THREAD.count(chr(10)) + 3} (run) {stays}"),
    ]
    assert connection.start("r", "same").wait_for("result")["value"] == "one"


def test_a_second_task_of_one_name_in_one_module_costs_only_itself(node):
    """The first of them and all others of the module are served."""
    text = "from chong.worker import task\n" + "".join(
        f"@task('{name}')\ndef {function}(ctx): return '{function}'\n"
        for name, function in (("same", "first"), ("same", "second"), ("other", "third"))
    )
    (node.root / "one.py").write_text(text)
    connection = start(node, "one")
    (error,) = node.catalogue()["errors"]
    stays = "expected one definition of the name, that of one:2 (first) stays"
    assert (error["task"], error["error"]) == ("same", f"one:4 (second) is refused: {stays}")
    assert connection.start("r", "same").wait_for("result")["value"] == "first"
    assert connection.start("s", "other").wait_for("result")["value"] == "third"


PLACES = {
    "library": (
        "import json\njson.loads('')",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) (library.py:3)",
    ),
    "installed": ("import sys\nsys.path.append(HERE)\nimport oddlib", "ValueError: odd (installed.py:4)"),
    "package": ("import shop.prices", "ZeroDivisionError: division by zero (shop/prices.py:3)"),
    "other_syntax": ("import shop.broken", "IndentationError: unexpected indent (shop/broken.py:2)"),
    "executed": ("exec('1 +')", "SyntaxError: invalid syntax (executed.py:2)"),
    "option": (
        "from chong.worker import task\n@task('x', retries=-1)\ndef x(ctx): 1",
        f"{DEFINITION} retries: expected a whole number of at least 0, got -1 (option.py:3)",
    ),
    "noted": (
        "try: 1 / 0\nexcept ArithmeticError as e:\n e.add_note('more')\n raise",
        "ZeroDivisionError: division by zero (noted.py:2)",
    ),
    "lines": ("raise ValueError('one\\ntwo')", "ValueError: one two (lines.py:2)"),
    "group": (
        "raise ExceptionGroup('both', [ValueError(1), ValueError(2)])",
        "ExceptionGroup: both (2 sub-exceptions) (group.py:2)",
    ),
    "caused": (
        "try: 1 / 0\nexcept ArithmeticError as e:\n raise ValueError('no') from e",
        "ValueError: no (caused.py:4)",
    ),
    "long": ("raise ValueError('x' * 10_000)", f"ValueError: {'x' * 473}… (long.py:2)"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_a_failed_import_names_its_place_in_the_users_code(node, kind):
    """File and line of the innermost frame that is neither Python's, nor chong's, nor an installed package's."""
    text, error = PLACES[kind]
    for name, content in OTHERS.items():
        (node.root / name).parent.mkdir(parents=True, exist_ok=True)
        (node.root / name).write_text(content)
    start(node, write(node, kind, text.replace("HERE", repr(str(node.root / "site-packages")))))
    assert errors(node)[kind]["error"] == error


def test_an_installed_task_module_is_the_users_own(node):
    """What it imports of other packages is not."""
    for name, content in OTHERS.items():
        (node.root / name).parent.mkdir(parents=True, exist_ok=True)
        (node.root / name).write_text(content)
    write(node, "path", f"import sys\nsys.path.append({str(node.root / 'site-packages')!r})")
    start(node, "path", "acme.tasks")
    assert errors(node)["acme.tasks"]["error"] == "ValueError: odd (acme/tasks.py:2)"


def test_a_task_that_another_module_imports_is_no_second_one(node):
    """It is the same function, also where the two are run in different ways."""
    for name in ("forked", "execd"):
        (node.root / f"{name}.py").write_text(f"{THREAD if name == 'execd' else ''}\nfrom base import shared\n")
    (node.root / "base.py").write_text("from chong.worker import task\n@task('shared')\ndef shared(ctx): return 1\n")
    start(node, "base", "forked", "execd")
    assert errors(node) == {}


def test_a_fork_at_import_keeps_neither_lock_nor_listener(node):
    """A dead forkserver's lock would keep its runs from being judged, and its socket would let callers wait."""
    start(node, write(node, "twin", BEARABLE["twin"]))
    (child,) = family(node.pid)
    held = {str(link.readlink()) for link in Path(f"/proc/{child}/fd").iterdir()}
    assert str(node.root / "lock") not in held
    node.kill()
    assert is_alive(child)
    words = ["flock", "--nonblock", str(node.root / "lock"), "true"]
    assert subprocess.run(words, check=False).returncode == 0
    os.kill(child, signal.SIGKILL)


def test_the_death_of_a_forkserver_ends_its_probes(node):
    """Also one that loops in C, and what it had forked."""
    write(node, "loop", "import os\nos.fork()\nimport re; re.match('(a*)*b', 'a' * 100)")
    node.start(("loop",))
    probes = wait_until(lambda: len(found := family(node.pid)) == 2 and found, "the probe and its child")
    node.kill()
    wait_until(lambda: not any(map(is_alive, probes)), "their ends")


def test_known_trials_are_not_repeated(node):
    """A forkserver that replaces a dead one need not wait for what hangs; it takes the file away."""
    bad = write(node, "loop", HANGING["loop"])
    counted = write(node, "counted", "print('imported', flush=True)")
    threads = write(node, "threads", THREAD)
    start(node, bad, counted, threads, import_timeout=3.0)
    first = node.catalogue()
    node.connections.pop().close()
    node.kill()
    node.path.unlink()
    trials = node.root / "trials.json"
    trials.write_text(json.dumps(first))
    assert node.output().count("imported") == 2
    start(node, bad, counted, threads, import_timeout=60.0, trials=str(trials))
    assert node.catalogue() == first
    assert node.output().count("imported") == 3
    assert not trials.exists()


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"trials": [{"module": 1}]}', '{"trials": [{"way": "x", "tasks": []}]}', "[" * 100_000],
)
def test_trials_that_are_none_are_passed_over(node, text):
    """Everything is tried again."""
    trials = node.root / "trials.json"
    trials.write_text(text)
    connection = start(node, trials=str(trials))
    assert "expected those of another forkserver" in node.output()
    check_good(connection)


def test_so_many_modules_hang_that_some_never_have_their_turn(node):
    """The start of a forkserver is bounded: who waits for it must know how long to wait."""
    names = [write(node, f"loop{number}", HANGING["loop"]) for number in range(20)]
    start(node, *names, import_timeout=0.3)
    reasons = {re.sub(r" \(loop\d+\.py:2\)\Z", "", entry["error"]) for entry in errors(node).values()}
    assert set(names) <= set(errors(node))
    assert reasons == {
        "it did not finish its import within 0.3 s",
        "expected its turn within 0.6 s, others took all that time",
    }
