"""Requests about users and quotas, and what quotas throttle: `kafkalog serve --read-write` answers as a real broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.broker.asking import SocketClient
from tests.broker.live import LiveServer, create_topics
from tests.broker.live_state import batch_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

Case = tuple[str, int, dict[str, Any]]


def upsert(name: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
    fields = {"name": name, "mechanism": mechanism, "iterations": iterations}
    return fields | {"salt": b"salt", "salted_password": b"x" * 32}


def delete(name: str, mechanism: int = 1) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def users(*upserts: dict[str, Any], deletions: tuple[dict[str, Any], ...] = ()) -> Case:
    return "AlterUserScramCredentials", 0, {"deletions": list(deletions), "upsertions": list(upserts)}


def described_users(*names: str) -> Case:
    return "DescribeUserScramCredentials", 0, {"users": [{"name": each} for each in names]}


def entry(names: Mapping[str, str | None], *operations: tuple[str, float | None]) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in names.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in operations],
    }


def quotas(*entries: dict[str, Any], validate_only: bool = False) -> Case:
    return "AlterClientQuotas", 1, {"entries": list(entries), "validate_only": validate_only}


def filtered(*components: tuple[str, int, str | None], strict: bool = False) -> Case:
    rows = [{"entity_type": kind, "match_type": match_type, "match": match} for kind, match_type, match in components]
    return "DescribeClientQuotas", 1, {"components": rows, "strict": strict}


U: Final[dict[str, str | None]] = {"user": "u"}
BYTES: Final = "producer_byte_rate"
CONNECTIONS: Final = "connection_creation_rate"
CASES: Final = (
    users(upsert("a"), upsert("b", 2, 8192)),
    described_users("a", "b"),
    described_users("a", "a", "z"),
    *(users(upsert("a", 1, iterations)) for iterations in (4095, 16385)),
    *(users(upsert("", mechanism)) for mechanism in (1, 9)),
    *(users(upsert("a", mechanism)) for mechanism in (0, 3, 9)),
    users(upsert("a"), upsert("a", 2)),
    users(upsert("a", 2), deletions=(delete("a"),)),
    users(upsert("c"), upsert("a"), deletions=(delete("a"), delete("a"))),
    *(users(deletions=(each,)) for each in (delete("z"), delete("a", 2), delete(""), delete("a", 7))),
    users(deletions=(delete("a"), delete("b", 2))),
    described_users("a", "b", "c"),
    quotas(entry(U, (BYTES, 1000))),
    quotas(entry(U, (BYTES, 1000), (BYTES, 5))),
    quotas(entry(U, (BYTES, 7)), entry(U, (BYTES, 8))),
    quotas(entry(U, (BYTES, 9)), validate_only=True),
    *(quotas(entry(names, (BYTES, 1))) for names in ({}, {"user": ""}, {"group": "g"}, {"ip": "127.0.0.1"})),
    *(quotas(entry(U, (BYTES, value))) for value in (-1, 0.0, 1.5, 1e19, 1e-9)),
    *(quotas(entry(U, (key, 1))) for key in ("nonsense", CONNECTIONS)),
    *(quotas(entry({"ip": None}, (CONNECTIONS, value))) for value in (2.0**31, 0.5)),
    *(quotas(entry({"ip": host}, (CONNECTIONS, 9))) for host in ("1.2.3.4.5", "localhost")),
    quotas(entry(U, ("nonsense", None))),
    quotas(entry(U)),
    quotas(entry({"user": "u", "client-id": None}, ("request_percentage", 12.5), ("controller_mutation_rate", 0.5))),
    filtered(),
    filtered(("user", 0, "u")),
    filtered(("user", 0, "u"), strict=True),
    *(filtered((kind, match_type, None)) for kind in ("user", "client-id", "ip") for match_type in (0, 1, 2, 3)),
    *(filtered(("user", match_type, "u")) for match_type in (1, 2)),
    filtered(("", 0, "u")),
    filtered(("group", 0, "u")),
    filtered(("user", 0, "u"), ("user", 2, None)),
    filtered(("ip", 2, None), ("user", 2, None)),
)
"""Each is asked after those before it."""


def ordered(value: Any) -> Any:
    """A response without the order of its arrays, which is that of a hash map."""
    if isinstance(value, dict):
        return {key: ordered(each) for key, each in value.items()}
    return sorted(map(ordered, value), key=repr) if isinstance(value, list) else value


def test_users_and_quotas_are_answered_as_a_real_broker_answers_them(own_broker: Broker, tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d") as server:
        for name, version, body in CASES:
            answers = []
            for address in (own_broker.bootstrap, server.address):
                if name.startswith("Describe"):
                    time.sleep(0.2)  # a real broker publishes changes a little later
                with SocketClient(address, "c") as connection:
                    answers.append(ordered(connection.ask(name, version, **body)))
            assert answers[0] == answers[1], (name, body)


def throttled(address: str, name: str) -> list[tuple[int, bool]]:
    """The throttle times of requests with and for records, and whether the next response came after that time.

    name: of a topic and of a client that no other test has used.
    """
    create_topics(address, [name], 1)
    found = []
    with SocketClient(address) as admin, SocketClient(address, name) as client:
        api, version, body = quotas(entry({"client-id": name}, (BYTES, 10_240), ("consumer_byte_rate", 10_240)))
        admin.ask(api, version, **body)
        time.sleep(1.5)
        now_ms, muted_ms = time.time_ns() // 1_000_000, 0

        def ask(api: str, version: int, body: dict[str, Any]) -> None:
            nonlocal muted_ms
            start_s = time.monotonic()
            throttle_ms = client.ask(api, version, **body)["throttle_time_ms"]
            spent_ms = (time.monotonic() - start_s) * 1000
            found.append((throttle_ms, spent_ms > muted_ms - 50))
            muted_ms = throttle_ms

        for size in (60_000, 60_000, 30_000):
            data = [{"index": 0, "records": batch_of(b"x" * size, time_ms=now_ms)}]
            topics = [{"name": name, "partition_data": data}]
            ask("Produce", 9, {"transactional_id": None, "acks": 1, "timeout_ms": 1000, "topic_data": topics})
        for offset in (0, 1):
            fields = {"log_start_offset": -1, "partition_max_bytes": 61_000}
            rows = [{"topic": name, "partitions": [{"partition": 0, "fetch_offset": offset, **fields}]}]
            limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
            session = {"replica_id": -1, "session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
            ask("Fetch", 11, {**limits, **session, "topics": rows, "rack_id": ""})
    return found


def test_a_client_is_throttled_for_as_long_as_by_a_real_broker(own_broker: Broker, tmp_path: Path) -> None:
    """The times depend on when a request comes, so a machine that is busy with other work gets three tries."""
    for attempt in range(3):
        with LiveServer(tmp_path / f"d{attempt}") as server:
            real, ours = (throttled(each, f"t{attempt}") for each in (own_broker.bootstrap, server.address))
        assert all(is_muted for _, is_muted in (*real, *ours)), (real, ours)
        # the part of a sample that has passed counts: up to a tenth of the time
        wanted = pytest.approx([each for each, _ in real], rel=0.2, abs=250)
        if [each for each, _ in ours] == wanted:
            break
    assert [each for each, _ in ours] == wanted
    assert [each > 0 for each, _ in real] == [False, True, True, False, True]
