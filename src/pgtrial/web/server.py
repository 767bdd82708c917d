"""The HTTP server: loopback only, read-only, a thread for each connection."""

import errno
import logging
import socketserver
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pgtrial.errors import PgTrialError
from pgtrial.web.access import Access
from pgtrial.web.experiments import Shelf
from pgtrial.web.handler import Handler
from pgtrial.web.inside import find_root
from pgtrial.web.routes import STATIC, read_static

HOST = "127.0.0.1"
_MOST_CONNECTIONS = 64  # at once; a browser opens some six

_log = logging.getLogger(__name__)


class WebServer(ThreadingHTTPServer):
    """Serves the result folders below ``root`` on ``port`` of loopback; 0 is any free port. OSError where it cannot."""

    daemon_threads = True  # a browser that keeps its connection does not keep the program
    block_on_close = False
    request_queue_size = 32

    def __init__(self, root: Path, *, port: int) -> None:
        self.stopping = threading.Event()  # first, as the base class closes what it cannot open
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__((HOST, port), Handler)
        self.shelf = Shelf(root=root)
        self.access = Access(self.server_port)
        self.files = {name: read_static(name) for name in ("index.html", *STATIC)}

    @property
    def address(self) -> str:
        """Where a browser finds it, with the token."""
        return f"http://{HOST}:{self.server_port}/?token={self.access.token}"

    def server_bind(self) -> None:
        """Without asking the network for the name of this machine, as the base class does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def server_close(self) -> None:
        """Also ends what is being told as it happens."""
        self.stopping.set()
        super().server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, unless there are too many already."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had; one that has begun gives its place back itself
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is none; what else goes wrong is for the log."""
        _log.debug("a connection ended early", exc_info=True)


def open_server(folder: Path, *, port: int) -> WebServer:
    """A server that listens, for a result folder or a directory of them. Raises PgTrialError with what is wrong."""
    root = find_root(folder)
    try:
        return WebServer(root, port=port)
    except OSError as err:
        if err.errno == errno.EADDRINUSE:
            raise PgTrialError(
                f"port {port} on {HOST} is in use",
                hint="Another pgtrial may serve there. Choose another port with --port; --port 0 takes a free one.",
            ) from err
        raise PgTrialError(
            f"cannot listen on port {port} of {HOST}: {err.strerror}",
            hint="Choose another port with --port; --port 0 takes a free one.",
        ) from err
