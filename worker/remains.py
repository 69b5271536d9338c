"""What a forkserver leaves of its runs when no supervisor came back: for the next term to read."""

from pathlib import Path
from socket import AF_UNIX, MSG_DONTWAIT, SOCK_SEQPACKET, socket
from typing import Any

from chong.worker.held import Held
from chong.worker.result import encode_plain
from chong.worker.runfile import write_file
from chong.worker.wire import FRAME_LIMIT, ProtocolError, decode


def write_remains(runs: str, held: Held) -> None:
    """`<runs>/<run>/remains.json`: run, memo, its end, and the frames that nobody had popped, in order."""
    remains = {"run": held.run, "memo": held.memo, **held.end(), "frames": _drain(held.channel)}
    data = encode_plain(remains).encode("utf-8", "backslashreplace")
    write_file(Path(runs, held.run, "remains.json"), data)


def _drain(channel: int) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    sock = socket(AF_UNIX, SOCK_SEQPACKET, 0, fileno=channel)
    try:
        while (data := _receive(sock)) is not None:
            try:
                frames.append(decode(data))
            except ProtocolError:
                continue  # junk of the worker's; the frames around it still count
    finally:
        sock.detach()
    return frames


def _receive(sock: socket) -> bytes | None:
    try:
        return sock.recv(FRAME_LIMIT + 1, MSG_DONTWAIT) or None
    except ConnectionResetError:
        return _receive(sock)  # shown once, before what is queued
    except OSError:
        return None
