"""What a forkserver leaves of its runs when no supervisor came back: for the next term to read."""

from typing import Any

from chong.worker.held import Held
from chong.worker.packets import open_channel, receive
from chong.worker.plain import encode_plain
from chong.worker.runfile import write_file
from chong.worker.wire import ProtocolError, decode

JUNK_SHOWN = 40


def write_remains(runs: str, held: Held) -> None:
    """`<runs>/<run>/remains.json`: run, memo, its end, and the frames that nobody had popped, in order.

    What is no message stands among them as a text, which is no frame either: it fails the run, as on the wire.
    """
    remains = {"run": held.run, "memo": held.memo, **held.end(), "frames": _unread_frames(held.channel)}
    data = encode_plain(remains).encode("utf-8", "backslashreplace")
    write_file(f"{runs}/{held.run}/remains.json", data)


def _unread_frames(channel: int) -> list[dict[str, Any] | str]:
    frames: list[dict[str, Any] | str] = []
    sock = open_channel(channel)
    try:
        while (data := receive(sock)) is not None:
            try:
                frames.append(decode(data))
            except ProtocolError:
                frames.append(data[:JUNK_SHOWN].decode("utf-8", "backslashreplace"))
    finally:
        sock.detach()
    return frames
