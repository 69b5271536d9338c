"""Where a node keeps its things when nobody says so, and where programs on its machine find its control socket."""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SYSTEM_STATE = Path("/var/lib/chong")
SYSTEM_RUNTIME = Path("/run/chong")
SYSTEM_CONFIG = Path("/etc/chong/chong.toml")
IDENTITY = "node.json"
CONTROL = "control.sock"


def default_node() -> str:
    return socket.gethostname().split(".")[0] or "node"


def default_state_dir() -> Path:
    """/var/lib/chong for root and for the user who owns it, else the XDG state directory."""
    if _is_system():
        return SYSTEM_STATE
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - without a home it leaves the text
    return Path(base) / "chong"


def default_config() -> Path:
    """The file of settings that goes with `default_state_dir`: the system's, or the user's own."""
    if _is_system():
        return SYSTEM_CONFIG
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - it is asked for on machines without a home, too
    return Path(base) / "chong" / "chong.toml"


def _is_system() -> bool:
    return os.geteuid() == 0 or os.access(SYSTEM_STATE, os.W_OK)


def default_runtime_dir(node: str, state: Path) -> Path:
    """/run/chong/NODE beside the system's state directory, else in the XDG runtime directory.

    A state directory of one's own choosing keeps its sockets in itself: two deployments of one user that
    happen to use one node name must not meet in one runtime directory.
    """
    if state == SYSTEM_STATE:
        return SYSTEM_RUNTIME / node
    if state != default_state_dir():
        return state / "run"
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "chong" / node if base else state / "run"


def control_socket(
    *,
    runtime_dir: Path | None = None,
    state_dir: Path | None = None,
    node: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """The control socket of this machine's node, found as `chong` finds it.

    By what is given here, then by the CHONG_ variables, then by chong.toml. ValueError when that cannot be read.
    """
    said: dict[str, Any] = {"runtime_dir": runtime_dir, "state_dir": state_dir, "node": node}
    environ = os.environ if environ is None else environ
    said = {name: value or environ.get(f"CHONG_{name.upper()}") or None for name, value in said.items()}
    if said["runtime_dir"] is None:
        said = _with_file(said, _config(environ))
    if said["runtime_dir"] is not None:
        return Path(said["runtime_dir"]).expanduser() / CONTROL
    state = _state_of(said)
    return default_runtime_dir(said["node"] or _pinned_node(state) or default_node(), state) / CONTROL


def _with_file(said: dict[str, Any], file: Mapping[str, Any]) -> dict[str, Any]:
    """What is not said is taken from the node's share of chong.toml, then from its top."""
    nodes = file.get("nodes")
    top = {name: said[name] or file.get(name) for name in said}
    node = top["node"] or _pinned_node(_state_of(top)) or default_node()
    share = nodes.get(node) if isinstance(nodes, dict) else None
    if not isinstance(share, dict):
        return top
    return {name: said[name] or share.get(name) or top[name] for name in said} | {"node": node}


def _state_of(said: Mapping[str, Any]) -> Path:
    return Path(said["state_dir"]).expanduser() if said["state_dir"] else default_state_dir()


def _config(environ: Mapping[str, str]) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most programs say where their node is

    named = environ.get("CHONG_CONFIG")
    path = Path(named) if named else default_config()
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        if named:
            raise ValueError(f"CHONG_CONFIG: expected a file, there is none at {path}") from None
        return {}
    except OSError as error:
        raise ValueError(f"{path}: the configuration cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: expected TOML: {error}") from None


def _pinned_node(state: Path) -> str | None:
    """As `chong-supervisor` has written it at its first start; None where it cannot be read."""
    try:
        return str(json.loads((state / IDENTITY).read_bytes())["node"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
