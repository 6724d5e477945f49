"""What a broker counts, as Prometheus reads it: its own parser reads every text here."""

from __future__ import annotations

import socket
import struct
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kafkalog_core.errors import AccessError
from kafkalog_core.serve.metrics import metrics_endpoint, open_metrics, status
from kafkalog_core.serve.metrics.metrics_endpoint import MetricsEndpoint
from kafkalog_core.serve.metrics.network_counts import Metrics
from kafkalog_core.serve.metrics.open_metrics import exposition
from kafkalog_core.serve.metrics.status import GroupLag, GroupStatus, PartitionStatus
from kafkalog_core.serve.network.answers import NO_OBSERVER, CloseReason, ConnectionFacts
from kafkalog_core.serve.topics.traffic import OTHER_TOPICS, Traffic
from tests.support.live_state import batch_of, living, sent_bytes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

CLIENT = ConnectionFacts(1, "127.0.0.1", 1, "PLAINTEXT", 0)
OTHER_CLIENT = ConnectionFacts(2, "127.0.0.1", 2, "PLAINTEXT", 0)


FIRST_LABELS = {"api", "consumergroup", "topic", "partition"}


class Idle:
    """A broker without anything."""

    rebalances = 0

    def __init__(self, groups: list[GroupStatus] | None = None, partitions: int = 0) -> None:
        self._groups = groups or []
        self._partitions = partitions

    def groups(self) -> list[GroupStatus]:
        return self._groups

    def partition_counts(self) -> dict[str, int]:
        return {"t": self._partitions} if self._partitions else {}

    def partitions(self) -> list[PartitionStatus]:
        return [PartitionStatus("t", number, 1, 5, 100, None) for number in range(self._partitions)]

    def lags(self, names: Any, most: int) -> dict[str, list[GroupLag]]:
        return {name: [GroupLag("t", 0, 3, None if name == "far" else 2)] for name in list(names)[:most]}


def values_of(text: bytes) -> dict[str, float]:
    """Each sample by its name and labels, as Prometheus reads it."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        assert family.documentation
        for sample in family.samples:
            names = sorted(sample.labels, key=lambda name: (name not in FIRST_LABELS, name == "partition", name))
            labels = ",".join(f'{name}="{sample.labels[name]}"' for name in names)
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in found
            found[key] = sample.value
    return found


def test_events_are_counted() -> None:
    metrics = Metrics(NO_OBSERVER)
    for number in range(3):
        metrics.connection_opened(CLIENT)
        metrics.request_decoded("Fetch", 11 + number % 2, CLIENT)
        metrics.request_decoded("Produce", 9, OTHER_CLIENT)
        metrics.request_handled(CLIENT, 100, 1000, 0.01 * 10**number)
        metrics.bytes_sent(CLIENT, 1000)
    metrics.request_handled(OTHER_CLIENT, 100, 1000, 100.0)
    metrics.connection_closed(CLIENT, CloseReason.IDLE, "", None)
    metrics.request_handled(CLIENT, 0, 0, 1.0)
    metrics.connection_refused("h", "l", "d")
    metrics.network_error("what", OSError())
    metrics.traffic.hole_skipped("t")
    idle: Any = Idle([GroupStatus('od"d\\\n', "Stable", "classic", 2)])
    found = values_of(exposition(metrics, idle))
    assert found['kafkalog_requests_total{api="Fetch",version="11"}'] == 2
    assert found["kafkalog_request_bytes_total"] == 400
    assert found["kafkalog_sent_bytes_total"] == 3000
    assert found["kafkalog_connections"] == 2
    assert found['kafkalog_connections_closed_total{reason="idle"}'] == 1
    assert found["kafkalog_connections_refused_total"] == found["kafkalog_errors_total"] == 1
    assert found['kafkalog_holes_total{topic="t"}'] == 1
    assert found['kafkalog_groups{state="Stable"}'] == 1
    assert found['kafka_consumergroup_members{consumergroup="od"d\\\n"}'] == 2
    name = "kafkalog_request_duration_seconds"
    limits = ("0.001", "0.025", "0.1", "0.5", "2.5", "+Inf")
    assert [found[f'{name}_bucket{{api="Fetch",le="{limit}"}}'] for limit in limits] == [0, 1, 2, 2, 3, 3]
    assert found[f'{name}_count{{api="Produce"}}'] == found[f'{name}_count{{api="unknown"}}'] == 1
    assert found[f'{name}_sum{{api="Produce"}}'] == 100
    assert found["process_resident_memory_bytes"] > 10_000_000


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_metrics, "_MAX_SERIES", 2)
    groups = [GroupStatus(name, "Empty", "classic", 0) for name in ("a", "far", "z")]
    idle: Any = Idle(groups, 5)
    found = values_of(exposition(Metrics(NO_OBSERVER), idle))
    assert found['kafkalog_left_out{kind="partition"}'] == 3
    assert found['kafkalog_left_out{kind="group"}'] == 1
    assert found['kafkalog_groups{state="Empty"}'] == 3
    assert 'kafka_consumergroup_lag{consumergroup="far",topic="t",partition="0"}' not in found, "it is unknown"
    assert found['kafka_consumergroup_current_offset{consumergroup="far",topic="t",partition="0"}'] == 3
    assert sum(name.startswith("kafka_topic_partition_current_offset") for name in found) == 2
    traffic = Traffic(max_topics=2)
    for topic in ("a", "b", "c", "d", "a"):
        traffic.produced(topic, 10, 2)
        traffic.fetched({topic: 1})
        traffic.hole_skipped(topic)
    counts = traffic.counts()
    assert {name: sums.bytes_in for name, sums in counts.topics.items()} == {"a": 20, "b": 10, OTHER_TOPICS: 20}
    assert counts.holes == {"a": 2, "b": 1, OTHER_TOPICS: 2}


def test_what_clients_do_is_counted_by_topic(tmp_path: Path) -> None:
    traffic = Traffic()
    with living(tmp_path, traffic=traffic) as live:
        live.create("t", 2)
        first = batch_of(b"v", b"w")
        assert live.produce("t", first)["error_code"] == 0
        assert live.produce("t", first)["error_code"] == 0
        assert live.produce("t", first, number=7)["error_code"] == 3
        assert live.produce("t", b"\xff" * 80)["error_code"] != 0
        assert first[-10:] in sent_bytes(live.fetch("t", 0))
        assert first[-10:] not in sent_bytes(live.fetch("t", 4))
        rows = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}]
        offsets = [{"name": "t", "partitions": rows}]
        answer = live.ask(
            "OffsetCommit", 7, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=offsets
        )
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0
        metrics = Metrics(NO_OBSERVER)
        metrics.traffic = traffic
        found = values_of(exposition(metrics, live.broker.status))
    assert found['kafkalog_topic_bytes_in_total{topic="t"}'] == 2 * len(first)
    assert found['kafkalog_topic_batches_in_total{topic="t"}'] == 2
    assert found['kafkalog_topic_records_in_total{topic="t"}'] == 4
    assert found['kafkalog_topic_bytes_out_total{topic="t"}'] == 2 * len(first)
    assert found['kafkalog_topic_fetches_total{topic="t"}'] == 1
    assert found['kafkalog_produce_errors_total{error="UNKNOWN_TOPIC_OR_PARTITION"}'] == 1
    assert sum(value for name, value in found.items() if name.startswith("kafkalog_produce_errors")) == 2
    assert found['kafka_topic_partitions{topic="t"}'] == 2
    of_first = 'topic="t",partition="0"'
    assert found[f"kafka_topic_partition_current_offset{{{of_first}}}"] == 4
    assert found[f"kafka_topic_partition_oldest_offset{{{of_first}}}"] == 0
    assert found[f"kafkalog_partition_size_bytes{{{of_first}}}"] == 2 * len(first)
    assert found[f"kafkalog_partition_last_stable_offset_lag{{{of_first}}}"] == 0
    assert found[f'kafka_consumergroup_current_offset{{consumergroup="g",{of_first}}}'] == 1
    assert found[f'kafka_consumergroup_lag{{consumergroup="g",{of_first}}}'] == 3
    assert found['kafka_consumergroup_lag_sum{consumergroup="g",topic="t"}'] == 3
    assert found['kafka_consumergroup_members{consumergroup="g"}'] == 0


def test_groups_that_are_not_empty_come_first(tmp_path: Path) -> None:
    with living(tmp_path) as live:
        live.create("t")
        rows = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}]
        for name in ("a", "b"):
            topics = [{"name": "t", "partitions": rows}]
            live.ask("OffsetCommit", 7, group_id=name, generation_id_or_member_epoch=-1, member_id="", topics=topics)
        live.send(
            "JoinGroup",
            2,
            group_id="z",
            session_timeout_ms=6000,
            rebalance_timeout_ms=6000,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        status = live.broker.status
        assert status.first_groups(2) == (
            [
                GroupStatus("z", "CompletingRebalance", "classic", 1),
                GroupStatus("a", "Empty", "classic", 0),
            ],
            3,
        )
        assert [each.name for each in status.groups()] == ["a", "b", "z"]
        assert status.rebalances == 1


def test_partitions_are_opened_for_a_lag_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(status, "_MAX_OPENED", 1)
    with living(tmp_path) as live:
        live.create("t", 3)
        for number in range(3):
            assert live.produce("t", batch_of(b"v"), number=number)["error_code"] == 0
        rows = [
            {"partition_index": number, "committed_offset": 0, "committed_metadata": None} for number in (0, 1, 2, 9)
        ]
        topics = [{"name": "t", "partitions": rows}]
        live.ask("OffsetCommit", 7, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
    with living(tmp_path) as live:
        for opened in range(1, 4):
            lags = live.broker.status.lags(["g"], 100)["g"]
            assert [each.lag for each in lags].count(1) == opened
        assert live.broker.status.lags(["g", "h"], 2) == {"g": lags[:2]}


def test_they_are_served_at_an_address_of_their_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with living(tmp_path) as live:
        live.create("t")
        metrics = Metrics(NO_OBSERVER)
        with MetricsEndpoint("127.0.0.1", 0, lambda: exposition(metrics, live.broker.status)) as endpoint:
            address = f"http://127.0.0.1:{endpoint.port}"
            with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:  # noqa: S310 - loopback
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
                assert values_of(answer.read())["kafkalog_connections"] == 0
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"{address}/", timeout=10)  # noqa: S310 - loopback
            with socket.create_connection(("127.0.0.1", endpoint.port)) as garbage:
                garbage.sendall(b"\xff" * 100 + b"\r\n\r\n")
                assert garbage.recv(100)
            with socket.create_connection(("127.0.0.1", endpoint.port)) as gone:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                gone.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            with urllib.request.urlopen(f"{address}/metrics", timeout=20) as answer:  # noqa: S310 - loopback
                assert answer.status == 200
            assert capfd.readouterr().err == ""
            with pytest.raises(AccessError, match="--metrics"):
                MetricsEndpoint("127.0.0.1", endpoint.port, bytes)


def test_a_client_that_trickles_or_does_not_read_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "_TIMEOUT_S", 0.5)
    with (
        MetricsEndpoint("127.0.0.1", 0, lambda: b"# EOF\n") as endpoint,
        socket.create_connection(("127.0.0.1", endpoint.port)) as trickling,
    ):
        trickling.sendall(b"GET /me")
        address = f"http://127.0.0.1:{endpoint.port}/metrics"
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert answer.read() == b"# EOF\n"
    monkeypatch.setattr(metrics_endpoint, "_TIMEOUT_S", 60)
    with MetricsEndpoint("127.0.0.1", 0, lambda: "x" * 50_000_000) as endpoint:
        slow = socket.create_connection(("127.0.0.1", endpoint.port))
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert slow.recv(100)
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < 20
    slow.close()


def test_many_clients_that_send_nothing_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "_TIMEOUT_S", 600)
    with MetricsEndpoint("127.0.0.1", 0, lambda: b"# EOF\n") as endpoint, ExitStack() as stack:
        address = ("127.0.0.1", endpoint.port)
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(40)]
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=60) as answer:
            assert answer.read() == b"# EOF\n"
        assert silent[0].recv(1) == b"", "the oldest ones are cut off"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_address_may_be_one_of_ipv6() -> None:
    with MetricsEndpoint("::1", 0, lambda: b"# EOF\n") as endpoint:
        address = f"http://[::1]:{endpoint.port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.read() == b"# EOF\n"
