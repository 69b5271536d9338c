"""What the supervisor's side takes off a run's socket: one message at a time, an empty one told from the end.

A task may send a message of no bytes, and for the socket call it looks like the end. But each message comes with its
sender's credentials where they are asked for, and the end has none.
"""

from socket import AF_UNIX, CMSG_LEN, MSG_DONTWAIT, SO_PASSCRED, SOCK_SEQPACKET, SOL_SOCKET, socket

from chong.worker.wire import FRAME_LIMIT

_CREDENTIALS = CMSG_LEN(3 * 4)
"""Room for them alone: descriptors that a task sends along are closed by the kernel."""


def open_channel(descriptor: int) -> socket:
    """The supervisor's end of a run's socket, as `receive` needs it."""
    channel = socket(AF_UNIX, SOCK_SEQPACKET, 0, fileno=descriptor)
    channel.settimeout(None)  # a task module may have called socket.setdefaulttimeout
    channel.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
    return channel


def receive(channel: socket, flags: int = 0) -> bytes | None:
    """The next message, cut behind the limit of a frame; None when there is none now, or never will be."""
    while True:
        try:
            data, beside, _, _ = channel.recvmsg(FRAME_LIMIT + 1, _CREDENTIALS, flags | MSG_DONTWAIT)
        except ConnectionResetError:
            continue  # told once when the worker closed with something unread; queued messages come after it
        except BlockingIOError:
            return None
        return data if data or beside else None
