"""What a broker counts, as text that Prometheus reads (the OpenMetrics format, written by `prometheus_client`).

Names that begin with `kafka_` are taken from kafka_exporter, with its labels, so that its dashboards and alerts for lag
and offsets work here too. Metrics of kafkalog itself begin with `kafkalog_`. The number of series is bounded: topics by
`Traffic`, partitions and offsets of groups by `_MAX_SERIES` for each metric.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from kafkalog_core.serve.metrics.network_counts import BUCKETS_S
from kafkalog_core.serve.topics.traffic import TopicTraffic

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from kafkalog_core.serve.metrics.network_counts import Durations, Metrics, NetworkCounts
    from kafkalog_core.serve.metrics.status import BrokerStatus, GroupStatus
    from kafkalog_core.serve.topics.traffic import TrafficCounts

__all__ = ["exposition"]

_MAX_SERIES: Final = 10_000


def exposition(metrics: Metrics, status: BrokerStatus) -> bytes:
    """Return all metrics of a broker. metrics: what was counted; status: looks at its partitions and groups."""
    registry = CollectorRegistry()
    found = (_of_network(metrics.counts()), _of_topics(metrics.traffic.counts()), _of_broker(status), _of_process())
    registry.register(_Collected([family for families in found for family in families]))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


def _of_network(counts: NetworkCounts) -> list[Metric]:
    sums, connections = counts.sums, counts.sums["opened"] - sum(counts.closed.values())
    return [
        _counter("kafkalog_requests", "Requests by API and version.", ["api", "version"], counts.requests),
        _counter("kafkalog_request_bytes", "Bytes of requests.", [], {(): sums["request_bytes"]}),
        _counter("kafkalog_sent_bytes", "Bytes of responses that were sent.", [], {(): sums["sent_bytes"]}),
        _histogram(counts.durations),
        _gauge("kafkalog_connections", "Open connections.", [], {(): connections}),
        _counter("kafkalog_connections_closed", "Closed connections by reason.", ["reason"], counts.closed),
        _counter("kafkalog_connections_refused", "Connections that were too many.", [], {(): sums["refused"]}),
        _counter("kafkalog_errors", "Failures that belong to no connection.", [], {(): sums["errors"]}),
    ]


class _Collected(Collector):
    """Metrics that were collected before."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._found


# --- what is counted by topic -----------------------------------------------------------------------------------------
_OF_TOPICS: Final = {
    "bytes_in": "Bytes of batches that were appended, by topic.",
    "batches_in": "Batches that were appended, by topic.",
    "records_in": "Records that were appended, by topic.",
    "bytes_out": "Bytes of records that fetch responses sent, by topic.",
    "fetches": "Fetch responses with records, by topic.",
}


def _of_topics(counts: TrafficCounts) -> Iterator[Metric]:
    for number, name in enumerate(TopicTraffic._fields):
        values = {topic: sums[number] for topic, sums in sorted(counts.topics.items())}
        yield _counter(f"kafkalog_topic_{name}", _OF_TOPICS[name], ["topic"], values)
    text = "Batches that were not appended, by error code."
    yield _counter("kafkalog_produce_errors", text, ["error"], dict(sorted(counts.produce_errors.items())))
    text = "Damaged places that are not served, by topic."
    yield _counter("kafkalog_holes", text, ["topic"], dict(sorted(counts.holes.items())))


# --- partitions and groups --------------------------------------------------------------------------------------------
def _of_broker(status: BrokerStatus) -> Iterator[Metric]:
    groups = status.groups()
    states = Counter(each.state for each in groups)
    yield _gauge("kafkalog_groups", "Groups by state.", ["state"], dict(sorted(states.items())))
    yield _counter("kafkalog_rebalances", "Rebalances of groups since the start.", [], {(): status.rebalances})
    yield _gauge("kafka_brokers", "Brokers: always one.", [], {(): 1})
    partitions_left_out = yield from _of_partitions(status)
    offsets_left_out = yield from _of_groups(status, groups)
    text = f"Partitions and groups without metrics of their own: there are more than {_MAX_SERIES}."
    left_out = {"partition": partitions_left_out, "group": offsets_left_out}
    yield _gauge("kafkalog_left_out", text, ["kind"], left_out)


def _of_partitions(status: BrokerStatus) -> Generator[Metric, None, int]:
    """Yield the metrics of partitions; return how many have none, because there are too many."""
    counts = dict(sorted(status.partition_counts().items())[:_MAX_SERIES])
    yield _gauge("kafka_topic_partitions", "Partitions of the topic.", ["topic"], counts)
    every = status.partitions()
    found = {(each.topic, each.partition): each for each in every[:_MAX_SERIES]}
    labels = ["topic", "partition"]
    used = "Of partitions that were used since the start."
    for name, text, field in (
        ("kafka_topic_partition_current_offset", "Log end offset.", "log_end_offset"),
        ("kafka_topic_partition_oldest_offset", "Log start offset.", "log_start_offset"),
        ("kafkalog_partition_size_bytes", "Size of the log.", "size_bytes"),
    ):
        yield _gauge(name, f"{text} {used}", labels, {place: getattr(each, field) for place, each in found.items()})
    yield _gauge(
        "kafkalog_partition_last_stable_offset_lag",
        "Offsets from the last stable offset to the end: those of open transactions and after them.",
        labels,
        {place: each.stable_lag for place, each in found.items() if each.stable_lag is not None},
    )
    return len(every) - len(found)


def _of_groups(status: BrokerStatus, groups: list[GroupStatus]) -> Generator[Metric, None, int]:
    """Yield the metrics of groups; return how many have none, because there are too many."""
    members = {each.name: each.members for each in groups[:_MAX_SERIES]}
    yield _gauge("kafka_consumergroup_members", "Members of the group.", ["consumergroup"], members)
    lags = status.lags((each.name for each in groups), _MAX_SERIES)
    found = {(group, each.topic, each.partition): each for group, rows in lags.items() for each in rows}
    labels = ["consumergroup", "topic", "partition"]
    offsets = {place: each.offset for place, each in found.items()}
    yield _gauge("kafka_consumergroup_current_offset", "Committed offset.", labels, offsets)
    text = "Offsets from the committed one to the high watermark; negative: past the end of the log."
    known = {place: each.lag for place, each in found.items() if each.lag is not None}
    yield _gauge("kafka_consumergroup_lag", text, labels, known)
    sums: Counter[tuple[str, str]] = Counter()
    for (group, topic, _), lag in known.items():
        sums[group, topic] += lag
    yield _gauge("kafka_consumergroup_lag_sum", "Lag of the group, by topic.", labels[:2], sums)
    return max(len(groups) - len(lags), len(groups) - _MAX_SERIES)


def _of_process() -> Iterator[Metric]:
    """Yield figures of this process, where the system has them."""
    times = os.times()
    yield _counter("process_cpu_seconds", "CPU time.", [], {(): round(times.user + times.system, 2)})
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        size = pages * os.sysconf("SC_PAGE_SIZE")
        yield _gauge("process_resident_memory_bytes", "Resident memory.", [], {(): size})
    with suppress(OSError):
        yield _gauge("process_open_fds", "Open files.", [], {(): len(os.listdir("/proc/self/fd"))})


# --- families ---------------------------------------------------------------------------------------------------------
_Values: TypeAlias = "Mapping[Any, float]"
"""Values by a tuple of their labels, or by the one label that they have."""


def _counter(name: str, text: str, labels: list[str], values: _Values) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), values)


def _gauge(name: str, text: str, labels: list[str], values: _Values) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: _Values) -> Metric:
    for labels, value in values.items():
        family.add_metric([labels] if isinstance(labels, str) else [str(each) for each in labels], value)
    return family


def _histogram(durations: Mapping[str, Durations]) -> Metric:
    family = HistogramMetricFamily(
        "kafkalog_request_duration_seconds",
        "From the last byte of a request to the last byte of its response, waits included.",
        labels=["api"],
        unit="seconds",
    )
    limits = [*map(str, BUCKETS_S), "+Inf"]
    for api, found in durations.items():
        family.add_metric([api], list(zip(limits, accumulate(found.counts), strict=True)), found.total_s)
    return family
