"""An HTTP address of its own that answers `GET /metrics`."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final, Self

from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from kafkalog_core.errors import AccessError
from kafkalog_core.serve.network.socket_server import family_of, listen_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.serve.network.socket_server import Socket

__all__ = ["MetricsEndpoint"]

_PATH: Final = "/metrics"
_TIMEOUT_S: Final = 5.0
_MOST: Final = 16
_BOTH_WAYS: Final = 2  # SHUT_RDWR


class _Server(ThreadingHTTPServer):
    """A thread for each request, which has to end within `_TIMEOUT_S`; of more than `_MOST` the oldest one is cut off.

    So clients that send nothing, however many, do not keep a scraper from its answer.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = family_of(host)
        self._state = threading.Lock()
        self._current: dict[Socket, None] = {}  # the oldest first
        self._is_ending = False
        super().__init__((host, port), handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer a request; a client that sends it byte by byte, or does not read the answer, is cut off."""
        with self._state:
            if self._is_ending:
                return
            excess = list(self._current)[: max(0, len(self._current) + 1 - _MOST)]
            self._current[request] = None
        for each in excess:
            self._cut(each)
        timer = threading.Timer(_TIMEOUT_S, self._cut, (request,))
        timer.daemon = True
        timer.start()
        try:
            super().finish_request(request, client_address)
        finally:
            timer.cancel()
            with self._state:
                self._current.pop(request, None)

    def end(self) -> None:
        """Stop serving, from another thread; requests in progress are cut off."""
        with self._state:
            self._is_ending = True
            current = list(self._current)
        for each in current:
            self._cut(each)
        self.shutdown()
        self.server_close()

    def _cut(self, request: Socket) -> None:
        with self._state, suppress(OSError):
            if request in self._current:
                del self._current[request]
                request.shutdown(_BOTH_WAYS)

    def server_bind(self) -> None:
        """Bind without a query to the name service: `HTTPServer` would ask it for a name that is not needed."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing where a scraper has closed its connection."""


class MetricsEndpoint:
    """Answers `GET /metrics` on an address of its own; a context manager that starts it and closes it."""

    def __init__(self, host: str, port: int, text: Callable[[], bytes]) -> None:
        """Listen. text: returns the metrics of now. Raises AccessError."""
        try:
            self._server = _Server(host, port, _handler(text))
        except OSError as error:
            raise AccessError(listen_problem(error, host, port, "--metrics")) from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="kafkalog-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.end()
        self._thread.join()


def _handler(text: Callable[[], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the metrics."""
            is_known = self.path.partition("?")[0] == _PATH
            data = text() if is_known else f"only {_PATH} is here\n".encode()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", CONTENT_TYPE_LATEST if is_known else "text/plain")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Write nothing."""

    return Handler
