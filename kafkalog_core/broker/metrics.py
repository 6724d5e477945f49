"""What a broker counts, as text that Prometheus reads (the OpenMetrics exposition format), over HTTP."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final, Self

from kafkalog_core.broker.network import family_of
from kafkalog_core.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.broker.answers import CloseReason, ConnectionFacts, NetworkObserver

__all__ = ["Metrics", "MetricsEndpoint"]

_BUCKETS_S: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
_CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PATH: Final = "/metrics"
_TIMEOUT_S: Final = 5.0

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts what happens, and passes each event on: a `NetworkObserver`. Thread-safe."""

    def __init__(self, then: NetworkObserver) -> None:
        """Take the observer that gets each event too."""
        self._then = then
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._closed: Counter[str] = Counter()
        self._durations: Counter[float] = Counter()
        self._sums: Counter[str] = Counter()
        self._duration_s = 0.0

    # --- events -------------------------------------------------------------------------------------------------------
    def request_decoded(self, api: str, version: int) -> None:
        """Count a request by its API."""
        with self._lock:
            self._requests[api, version] += 1

    def hole_skipped(self) -> None:
        """Count a damaged place that is not served."""
        with self._lock:
            self._sums["holes"] += 1

    def connection_opened(self, connection: ConnectionFacts) -> None:
        """See NetworkObserver."""
        with self._lock:
            self._sums["opened"] += 1
        self._then.connection_opened(connection)

    def connection_refused(self, peer_host: str, listener: str, detail: str) -> None:
        """See NetworkObserver."""
        with self._lock:
            self._sums["refused"] += 1
        self._then.connection_refused(peer_host, listener, detail)

    def connection_closed(
        self, connection: ConnectionFacts, reason: CloseReason, detail: str, error: BaseException | None
    ) -> None:
        """See NetworkObserver."""
        with self._lock:
            self._closed[reason.name.lower()] += 1
        self._then.connection_closed(connection, reason, detail, error)

    def request_handled(
        self, connection: ConnectionFacts, request_bytes: int, response_bytes: int, duration_s: float
    ) -> None:
        """See NetworkObserver."""
        with self._lock:
            self._sums["handled"] += 1
            self._sums["request_bytes"] += request_bytes
            self._duration_s += duration_s
            for limit in _BUCKETS_S:
                self._durations[limit] += duration_s <= limit
        self._then.request_handled(connection, request_bytes, response_bytes, duration_s)

    def bytes_sent(self, connection: ConnectionFacts, size_bytes: int) -> None:
        """See NetworkObserver."""
        with self._lock:
            self._sums["sent_bytes"] += size_bytes
        self._then.bytes_sent(connection, size_bytes)

    def network_error(self, what: str, error: BaseException) -> None:
        """See NetworkObserver."""
        with self._lock:
            self._sums["errors"] += 1
        self._then.network_error(what, error)

    # --- text ---------------------------------------------------------------------------------------------------------
    def text(self, groups: Mapping[str, int]) -> str:
        """Return all metrics. groups: the number of groups by state."""
        with self._lock:
            requests, closed, durations = dict(self._requests), dict(self._closed), dict(self._durations)
            sums, duration_s = Counter(self._sums), self._duration_s
        lines = [
            *_metric(
                "kafkalog_requests",
                "counter",
                "Requests by API and version.",
                {
                    (("api", api), ("version", str(version))): count
                    for (api, version), count in sorted(requests.items())
                },
            ),
            *_metric("kafkalog_request_bytes", "counter", "Bytes of requests.", {(): sums["request_bytes"]}),
            *_metric("kafkalog_sent_bytes", "counter", "Bytes of responses that were sent.", {(): sums["sent_bytes"]}),
            *_histogram(durations, sums["handled"], duration_s),
            *_metric("kafkalog_connections", "gauge", "Open connections.", {(): sums["opened"] - sum(closed.values())}),
            *_metric(
                "kafkalog_connections_closed",
                "counter",
                "Closed connections by reason.",
                {(("reason", reason),): count for reason, count in sorted(closed.items())},
            ),
            *_metric(
                "kafkalog_connections_refused", "counter", "Connections that were too many.", {(): sums["refused"]}
            ),
            *_metric("kafkalog_errors", "counter", "Failures that belong to no connection.", {(): sums["errors"]}),
            *_metric("kafkalog_holes", "counter", "Damaged places that are not served.", {(): sums["holes"]}),
            *_metric(
                "kafkalog_groups",
                "gauge",
                "Groups by state.",
                {(("state", state),): count for state, count in sorted(groups.items())},
            ),
            *_process(),
            "# EOF",
        ]
        return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, text: str, values: Mapping[Labels, float]) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {text}"
    for labels, value in values.items():
        shown = ",".join(f'{key}="{_escaped(each)}"' for key, each in labels)
        yield f"{name}{'_total' if kind == 'counter' else ''}{f'{{{shown}}}' if shown else ''} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _histogram(durations: Mapping[float, int], count: int, total_s: float) -> Iterator[str]:
    name = "kafkalog_request_duration_seconds"
    yield f"# TYPE {name} histogram"
    yield f"# HELP {name} From the last byte of a request to the last byte of its response."
    for limit in _BUCKETS_S:
        yield f'{name}_bucket{{le="{limit}"}} {durations.get(limit, 0)}'
    yield f'{name}_bucket{{le="+Inf"}} {count}'
    yield f"{name}_count {count}"
    yield f"{name}_sum {total_s:.6f}"


def _process() -> Iterator[str]:
    """Yield figures of this process, where the system has them."""
    times = os.times()
    yield from _metric("process_cpu_seconds", "counter", "CPU time.", {(): round(times.user + times.system, 2)})
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        size = pages * os.sysconf("SC_PAGE_SIZE")
        yield from _metric("process_resident_memory_bytes", "gauge", "Resident memory.", {(): size})
    with suppress(OSError):
        yield from _metric("process_open_fds", "gauge", "Open files.", {(): len(os.listdir("/proc/self/fd"))})


class _Server(HTTPServer):
    """One request at a time, each with a deadline for every read: scrapers ask a few times a minute."""

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = family_of(host)
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind without a look at the name service, which `HTTPServer` asks for a name that nobody needs."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing where a scraper has closed its connection."""


class MetricsEndpoint:
    """Answers `GET /metrics` on an address of its own; a context manager that starts it and closes it."""

    def __init__(self, host: str, port: int, text: Callable[[], str]) -> None:
        """Listen. text: returns the metrics of now. Raises AccessError."""
        try:
            self._server = _Server(host, port, _handler(text))
        except OSError as error:
            raise AccessError(
                f"cannot listen on {host}:{port} for metrics ({error}); choose another address: --metrics HOST:PORT"
            ) from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="kafkalog-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S

        def do_GET(self) -> None:
            """Answer with the metrics."""
            is_known = self.path.partition("?")[0] == _PATH
            data = text().encode() if is_known else f"only {_PATH} is here\n".encode()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", _CONTENT_TYPE if is_known else "text/plain")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Write nothing."""

    return Handler
