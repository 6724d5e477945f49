"""What a broker counts, as text that Prometheus reads (the OpenMetrics exposition format).

Names that begin with `kafka_` are those of kafka_exporter, with its labels, so that its dashboards and alerts for lag
and offsets work here too; those of kafkalog's own begin with `kafkalog_`. The number of series is bounded: topics by
`Traffic`, partitions and offsets of groups by `_MAX_SERIES` for each metric.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from kafkalog_core.serve.topics.traffic import TopicTraffic, Traffic, TrafficCounts

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from kafkalog_core.serve.metrics.status import BrokerStatus, GroupLag, GroupStatus
    from kafkalog_core.serve.network.answers import CloseReason, ConnectionFacts, NetworkObserver

__all__ = ["Metrics"]

_BUCKETS_S: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
_MAX_SERIES: Final = 10_000
_UNKNOWN_API: Final = "unknown"

Labels = tuple[tuple[str, str], ...]


class _Durations:
    """Durations of requests of one API: how many are between two limits, and their sum."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS_S) + 1)
        self.total_s = 0.0

    def add(self, duration_s: float) -> None:
        """Count a request."""
        self.counts[bisect_left(_BUCKETS_S, duration_s)] += 1
        self.total_s += duration_s


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
        self._durations: defaultdict[str, _Durations] = defaultdict(_Durations)
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

    # --- text ---------------------------------------------------------------------------------------------------------
    def text(self, status: BrokerStatus) -> str:
        """Return all metrics. status: looks at the broker."""
        lines = [*self._network_lines(), *_traffic_lines(self.traffic.counts()), *_status_lines(status), *_process()]
        return "\n".join([*lines, "# EOF"]) + "\n"

    def _network_lines(self) -> list[str]:
        with self._lock:
            sums = self._sums
            return [
                *_metric(
                    "kafkalog_requests",
                    "counter",
                    "Requests by API and version.",
                    ((_labels(api=api, version=version), count) for (api, version), count in self._requests.items()),
                ),
                *_single("kafkalog_request_bytes", "counter", "Bytes of requests.", sums["request_bytes"]),
                *_single("kafkalog_sent_bytes", "counter", "Bytes of responses that were sent.", sums["sent_bytes"]),
                *_histograms(self._durations),
                *_single(
                    "kafkalog_connections", "gauge", "Open connections.", sums["opened"] - sum(self._closed.values())
                ),
                *_metric(
                    "kafkalog_connections_closed",
                    "counter",
                    "Closed connections by reason.",
                    ((_labels(reason=reason), count) for reason, count in self._closed.items()),
                ),
                *_single("kafkalog_connections_refused", "counter", "Connections that were too many.", sums["refused"]),
                *_single("kafkalog_errors", "counter", "Failures that belong to no connection.", sums["errors"]),
            ]


# --- what is counted by topic -----------------------------------------------------------------------------------------
_OF_TOPICS: Final = {
    "bytes_in": "Bytes of batches that were appended, by topic.",
    "batches_in": "Batches that were appended, by topic.",
    "records_in": "Records that were appended, by topic.",
    "bytes_out": "Bytes of records that fetch responses sent, by topic.",
    "fetches": "Fetch responses with records, by topic.",
}


def _traffic_lines(counts: TrafficCounts) -> Iterator[str]:
    topics = sorted(counts.topics.items())
    for number, name in enumerate(TopicTraffic._fields):
        rows = ((_labels(topic=topic), sums[number]) for topic, sums in topics)
        yield from _metric(f"kafkalog_topic_{name}", "counter", _OF_TOPICS[name], rows)
    yield from _metric(
        "kafkalog_produce_errors",
        "counter",
        "Batches that were not appended, by error code.",
        ((_labels(error=error), count) for error, count in sorted(counts.produce_errors.items())),
    )
    yield from _metric(
        "kafkalog_holes",
        "counter",
        "Damaged places that are not served, by topic.",
        ((_labels(topic=topic), count) for topic, count in sorted(counts.holes.items())),
    )


# --- partitions and groups --------------------------------------------------------------------------------------------
def _status_lines(status: BrokerStatus) -> Iterator[str]:
    groups = status.groups()
    states = sorted(Counter(each.state for each in groups).items())
    yield from _metric(
        "kafkalog_groups", "gauge", "Groups by state.", ((_labels(state=state), count) for state, count in states)
    )
    yield from _single("kafkalog_rebalances", "counter", "Rebalances of groups since the start.", status.rebalances)
    yield from _single("kafka_brokers", "gauge", "Brokers: always one.", 1)
    partitions_left_out = yield from _partition_lines(status)
    offsets_left_out = yield from _group_lines(status, groups)
    yield from _metric(
        "kafkalog_left_out",
        "gauge",
        f"Partitions and groups without metrics of their own: there are more than {_MAX_SERIES}.",
        [(_labels(kind="partition"), partitions_left_out), (_labels(kind="group"), offsets_left_out)],
    )


def _partition_lines(status: BrokerStatus) -> Generator[str, None, int]:
    """Yield the metrics of partitions; return how many have none, because there are too many."""
    counts = sorted(status.partition_counts().items())[:_MAX_SERIES]
    yield from _metric(
        "kafka_topic_partitions",
        "gauge",
        "Partitions of the topic.",
        ((_labels(topic=topic), count) for topic, count in counts),
    )
    every = status.partitions()
    found = [(_labels(topic=each.topic, partition=each.partition), each) for each in every[:_MAX_SERIES]]
    for name, text, values in (
        ("kafka_topic_partition_current_offset", "Log end offset.", [each.log_end_offset for _, each in found]),
        ("kafka_topic_partition_oldest_offset", "Log start offset.", [each.log_start_offset for _, each in found]),
        ("kafkalog_partition_size_bytes", "Size of the log.", [each.size_bytes for _, each in found]),
    ):
        rows = ((labels, value) for (labels, _), value in zip(found, values, strict=True))
        yield from _metric(name, "gauge", f"{text} Of partitions that were used since the start.", rows)
    yield from _metric(
        "kafkalog_partition_last_stable_offset_lag",
        "gauge",
        "Offsets from the last stable offset to the end: those of open transactions and after them.",
        ((labels, each.stable_lag) for labels, each in found if each.stable_lag is not None),
    )
    return len(every) - len(found)


def _group_lines(status: BrokerStatus, groups: list[GroupStatus]) -> Generator[str, None, int]:
    """Yield the metrics of groups; return how many have none, because there are too many."""
    yield from _metric(
        "kafka_consumergroup_members",
        "gauge",
        "Members of the group.",
        ((_labels(consumergroup=each.name), each.members) for each in groups[:_MAX_SERIES]),
    )
    lags = status.lags((each.name for each in groups), _MAX_SERIES)
    found = [(_offset_labels(group, each), each) for group, rows in lags.items() for each in rows]
    yield from _metric(
        "kafka_consumergroup_current_offset",
        "gauge",
        "Committed offset.",
        ((labels, each.offset) for labels, each in found),
    )
    yield from _metric(
        "kafka_consumergroup_lag",
        "gauge",
        "Offsets from the committed one to the high watermark; negative: past the end of the log.",
        ((labels, each.lag) for labels, each in found if each.lag is not None),
    )
    sums: Counter[tuple[str, str]] = Counter()
    for group, rows in lags.items():
        for each in rows:
            if each.lag is not None:
                sums[group, each.topic] += each.lag
    yield from _metric(
        "kafka_consumergroup_lag_sum",
        "gauge",
        "Lag of the group, by topic.",
        ((_labels(consumergroup=group, topic=topic), lag) for (group, topic), lag in sums.items()),
    )
    return max(len(groups) - len(lags), len(groups) - _MAX_SERIES)


def _offset_labels(group: str, lag: GroupLag) -> Labels:
    return _labels(consumergroup=group, topic=lag.topic, partition=lag.partition)


# --- the format -------------------------------------------------------------------------------------------------------
def _labels(**values: object) -> Labels:
    return tuple((name, str(value)) for name, value in values.items())


def _single(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    return _metric(name, kind, text, [((), value)])


def _metric(name: str, kind: str, text: str, values: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {text}"
    for labels, value in values:
        yield f"{name}{'_total' if kind == 'counter' else ''}{_braced(labels)} {value}"


def _braced(labels: Labels) -> str:
    shown = ",".join(f'{key}="{_escaped(each)}"' for key, each in labels)
    return f"{{{shown}}}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _histograms(durations: Mapping[str, _Durations]) -> Iterator[str]:
    name = "kafkalog_request_duration_seconds"
    yield f"# TYPE {name} histogram"
    yield f"# UNIT {name} seconds"
    yield f"# HELP {name} From the last byte of a request to the last byte of its response, waits included."
    for api, found in durations.items():
        limits = [*map(str, _BUCKETS_S), "+Inf"]
        for limit, count in zip(limits, accumulate(found.counts), strict=True):
            yield f'{name}_bucket{{api="{api}",le="{limit}"}} {count}'
        yield f'{name}_count{{api="{api}"}} {sum(found.counts)}'
        yield f'{name}_sum{{api="{api}"}} {found.total_s:.6f}'


def _process() -> Iterator[str]:
    """Yield figures of this process, where the system has them."""
    times = os.times()
    yield from _single("process_cpu_seconds", "counter", "CPU time.", round(times.user + times.system, 2))
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        size = pages * os.sysconf("SC_PAGE_SIZE")
        yield from _single("process_resident_memory_bytes", "gauge", "Resident memory.", size)
    with suppress(OSError):
        yield from _single("process_open_fds", "gauge", "Open files.", len(os.listdir("/proc/self/fd")))
