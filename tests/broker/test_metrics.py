"""What a broker counts, as Prometheus reads it."""

from __future__ import annotations

import re
import socket
import struct
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.broker.answers import NO_OBSERVER, CloseReason, ConnectionFacts
from kafkalog_core.broker.metrics import Metrics, MetricsEndpoint
from kafkalog_core.errors import AccessError
from tests.broker.live_state import living

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

LINE = re.compile(r'[a-z_]+(\{[a-z]+="(?:[^"\\]|\\.)*"(?:,[a-z]+="(?:[^"\\]|\\.)*")*\})? -?[0-9.e+]+')
CLIENT = ConnectionFacts(1, "127.0.0.1", 1, "PLAINTEXT", 0)


def values_of(text: str) -> dict[str, float]:
    """Each metric with its labels; every line has the form that the format asks for."""
    lines = text.splitlines()
    assert lines[-1] == "# EOF"
    found = [line for line in lines if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in found), found
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in found}


def test_events_are_counted() -> None:
    metrics = Metrics(NO_OBSERVER)
    for number in range(3):
        metrics.connection_opened(CLIENT)
        metrics.request_decoded("Fetch", 11 + number % 2)
        metrics.request_handled(CLIENT, 100, 1000, 0.01 * 10**number)
        metrics.bytes_sent(CLIENT, 1000)
    metrics.connection_closed(CLIENT, CloseReason.IDLE, "", None)
    metrics.connection_refused("h", "l", "d")
    metrics.network_error("what", OSError())
    metrics.hole_skipped()
    found = values_of(metrics.text({"Stable": 2, 'od"d': 1}))
    assert found['kafkalog_requests_total{api="Fetch",version="11"}'] == 2
    assert found["kafkalog_request_bytes_total"] == 300
    assert found["kafkalog_sent_bytes_total"] == 3000
    assert found["kafkalog_connections"] == 2
    assert found['kafkalog_connections_closed_total{reason="idle"}'] == 1
    assert found["kafkalog_connections_refused_total"] == found["kafkalog_errors_total"] == 1
    assert found["kafkalog_holes_total"] == 1
    assert found['kafkalog_groups{state="Stable"}'] == 2
    assert found['kafkalog_groups{state="od\\"d"}'] == 1
    name = "kafkalog_request_duration_seconds"
    buckets = [found[f'{name}_bucket{{le="{limit}"}}'] for limit in ("0.001", "0.025", "0.1", "0.5", "2.5", "+Inf")]
    assert buckets == [0, 1, 2, 2, 3, 3]
    assert found["process_resident_memory_bytes"] > 10_000_000


def test_they_are_served_at_an_address_of_their_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with living(tmp_path) as live:
        live.create("t")
        states: Counter[str] = live.broker.group_states()
        metrics = Metrics(NO_OBSERVER)
        with MetricsEndpoint("127.0.0.1", 0, lambda: metrics.text(states)) as endpoint:
            address = f"http://127.0.0.1:{endpoint.port}"
            with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:  # noqa: S310 - loopback
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
                assert values_of(answer.read().decode())["kafkalog_connections"] == 0
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
                MetricsEndpoint("127.0.0.1", endpoint.port, str)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_address_may_be_one_of_ipv6() -> None:
    with MetricsEndpoint("::1", 0, lambda: "# EOF\n") as endpoint:
        address = f"http://[::1]:{endpoint.port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.read() == b"# EOF\n"
