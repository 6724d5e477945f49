"""What happens on the network of a broker, counted."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from kafkalog_core.serve.topics.traffic import Traffic
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.serve.network.answers import CloseReason, ConnectionFacts, NetworkObserver

__all__ = ["BUCKETS_S", "Durations", "Metrics", "NetworkCounts"]

BUCKETS_S: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""Upper limits of the durations that are counted apart, in seconds; longer ones are counted too."""
_UNKNOWN_API: Final = "unknown"


class Durations(Struct):
    """Durations of requests of one API: how many are between two of `BUCKETS_S`, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, duration_s: float) -> None:
        """Count a request."""
        self.counts[bisect_left(BUCKETS_S, duration_s)] += 1
        self.total_s += duration_s


class NetworkCounts(Struct, frozen=True):
    """Sums since the start.

    Args:
        requests: by API and version.
        closed: closed connections, by reason.
        durations: of requests, by API.
        sums: opened, refused, request_bytes, sent_bytes, errors.
    """

    requests: Mapping[tuple[str, int], int]
    closed: Mapping[str, int]
    durations: Mapping[str, Durations]
    sums: Mapping[str, int]


class Metrics:
    """Counts what happens, and passes each event on: a `NetworkObserver`. Thread-safe.

    Attributes:
        traffic: what is counted by topic.
    """

    def __init__(self, then: NetworkObserver) -> None:
        """Take the observer that gets each event too."""
        self.traffic = Traffic()
        self._then = then
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._closed: Counter[str] = Counter()
        self._durations: defaultdict[str, Durations] = defaultdict(Durations)
        self._api_of: dict[int, str] = {}
        self._sums: Counter[str] = Counter()

    # --- events -------------------------------------------------------------------------------------------------------
    def request_decoded(self, api: str, version: int, connection: ConnectionFacts) -> None:
        """Count a request by its API; a connection has one request at a time."""
        with self._lock:
            self._requests[api, version] += 1
            self._api_of[connection.connection_id] = api

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
            self._api_of.pop(connection.connection_id, None)
        self._then.connection_closed(connection, reason, detail, error)

    def request_handled(
        self, connection: ConnectionFacts, request_bytes: int, response_bytes: int, duration_s: float
    ) -> None:
        """See NetworkObserver."""
        with self._lock:
            self._sums["request_bytes"] += request_bytes
            self._durations[self._api_of.get(connection.connection_id, _UNKNOWN_API)].add(duration_s)
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

    def counts(self) -> NetworkCounts:
        """Return what was counted until now."""
        with self._lock:
            durations = {api: Durations(list(each.counts), each.total_s) for api, each in self._durations.items()}
            return NetworkCounts(dict(self._requests), dict(self._closed), durations, Counter(self._sums))
