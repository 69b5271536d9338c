"""A TCP proxy before a PostgreSQL server that loses what is answered to a request, or spoils the request itself."""

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""What a server says of a transaction once it is there for good."""


class LossyProxy:
    """`lose_next_commit`: the answer in which the next commit is told is dropped, and its connection with it.

    `spoil` makes of what a client says what the server hears; where that is nothing, it hears nothing.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._is_losing = False
        self.lost = 0
        self.spoil: Callable[[bytes], bytes] = bytes
        self._is_closed = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def lose_next_commit(self) -> None:
        self._is_losing = True

    def close(self) -> None:
        self._is_closed.set()
        for thread in self._threads:  # the first one adds to them until it has ended
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            ready, _, _ = select.select([self._listener], [], [], 0.05)
            if ready:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._carry, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _server(self) -> socket.socket:
        """A host with a slash is the directory of a socket."""
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server

    def _carry(self, client: socket.socket) -> None:
        with client, self._server() as server, contextlib.suppress(OSError):
            told = b""
            while not self._is_closed.is_set():
                ready, _, _ = select.select([client, server], [], [], 0.05)
                if client in ready:
                    if not (words := client.recv(65536)):
                        return
                    server.sendall(self.spoil(words))
                if server in ready:
                    if not (words := server.recv(65536)):
                        return
                    told = (told + words)[-len(COMMITTED) - len(words) :]
                    if self._is_losing and COMMITTED in told:
                        self._is_losing = False
                        self.lost += 1
                        return
                    client.sendall(words)


@contextmanager
def lossy(host: str, port: int) -> Iterator[LossyProxy]:
    """Before the server that listens there."""
    proxy = LossyProxy(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
