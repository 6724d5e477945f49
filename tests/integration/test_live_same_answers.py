"""Requests about users and quotas, and what quotas throttle: `kafkalog serve --read-write` answers as a real broker."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from kafkalog_core.serve.network.answers import Reply
from kafkalog_core.wire.error_codes import ErrorCode
from tests.integration.successor import Successor
from tests.support.asking import SocketClient
from tests.support.live import LiveServer, create_topics
from tests.support.live_state import NOW_MS, Live, batch_of, living, sent_bytes

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


def features(address: str) -> dict[int, tuple[Any, Any]]:
    """The features that are supported, and those of the cluster, by the version of ApiVersions."""
    asked = {"client_software_name": "test", "client_software_version": "1"}
    found = {}
    with SocketClient(address) as client:
        for version in (3, 4):
            answer = client.ask("ApiVersions", version, **asked)
            named = [
                {each.pop("name"): each for each in answer[key]} for key in ("supported_features", "finalized_features")
            ]
            found[version] = named[0], named[1]
    return found


def test_features_are_those_that_a_real_broker_has_of_the_directory(libs: Path, tmp_path: Path) -> None:
    share = {"group_id": "s", "member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"]}
    modern = {"group_id": "g", "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None}
    modern |= {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "subscribed_topic_regex": None}
    modern |= {"server_assignor": None, "topic_partitions": []}
    with LiveServer(tmp_path / "data") as server:
        create_topics(server.address, ["t"], 1)
        with SocketClient(server.address) as client:
            assert client.ask("ShareGroupHeartbeat", 1, **share)["error_code"] == 0
            assert client.ask("ConsumerGroupHeartbeat", 1, **modern)["error_code"] == 0
        ours = features(server.address)
        server.stop()
    broker = Successor(libs, tmp_path / "real", tmp_path / "data")
    broker.start()
    try:
        real = features(broker.bootstrap)
        for version, (supported, finalized) in ours.items():
            assert supported.items() <= real[version][0].items()
            assert finalized == real[version][1]
        unserved = {"transaction.version", "streams.version", "kraft.version"}
        assert real[4][0].keys() - ours[4][0].keys() == unserved
        codes = []
        while not codes or codes[-1] in {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}:
            with SocketClient(broker.bootstrap) as client:
                codes.append(client.ask("ConsumerGroupHeartbeat", 1, **modern)["error_code"])
        assert codes[-1] == ErrorCode.NONE, "groups of KIP-848 go on"
    finally:
        broker.close()


class Asked(NamedTuple):
    """A request that may be throttled: its throttle time, and when it was sent and answered, in milliseconds."""

    throttle_ms: int
    sent_ms: float
    answered_ms: float


ROUNDING_MS: Final = 5  # of times, and of sizes of responses, which may differ by a few bytes
UNMUTE_MS: Final = 50  # a thread of the real broker looks for connections whose time is over
RATE: Final = 10_240
SIZES: Final = (60_000, 60_000, 30_000)
LIMITED: Final = quotas(entry({"client-id": "test"}, (BYTES, RATE), ("consumer_byte_rate", RATE)))


def requests_of(now_ms: int) -> list[Case]:
    """Requests with records, and then requests for them."""
    found: list[Case] = []
    for size in SIZES:
        data = [{"index": 0, "records": batch_of(b"x" * size, time_ms=now_ms)}]
        topics = [{"name": "t", "partition_data": data}]
        found.append(("Produce", 9, {"transactional_id": None, "acks": 1, "timeout_ms": 1000, "topic_data": topics}))
    for offset in (0, 1):
        fields = {"log_start_offset": -1, "partition_max_bytes": 61_000}
        rows = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": offset, **fields}]}]
        limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
        session = {"replica_id": -1, "session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
        found.append(("Fetch", 11, {**limits, **session, "topics": rows, "rack_id": ""}))
    return found


def throttled(address: str, requests: list[Case], *, waits: bool = False) -> list[Asked]:
    """What a broker answers to a client that sends the requests one after the other.

    waits: until its connection is read again, so that each request is handled soon after it was sent.
    """
    create_topics(address, ["t"], 1)
    found = []
    with SocketClient(address) as client:
        api, version, body = LIMITED
        client.ask(api, version, **body)
        time.sleep(1.5)  # a real broker publishes changes a little later
        for api, version, body in requests:
            sent_ms = time.monotonic() * 1000
            throttle_ms = client.ask(api, version, **body)["throttle_time_ms"]
            found.append(Asked(throttle_ms, sent_ms, time.monotonic() * 1000))
            if waits and throttle_ms:
                time.sleep((throttle_ms + UNMUTE_MS) / 1000)
    return found


def replayed(live: Live, requests: list[Case], times: list[Asked]) -> list[int]:
    """The throttle times of our broker at the times at which another one answered the same requests."""
    live.create("t")
    api, version, body = LIMITED
    live.ask(api, version, **body)
    found = []
    for (api, version, body), at in zip(requests, times, strict=True):
        live.clock.now_ms = NOW_MS + round(at.answered_ms - times[0].answered_ms)
        answer = live.send(api, version, **body)
        assert isinstance(answer, Reply)
        found.append(round(answer.mute_s * 1000))
        sent_bytes(answer)
    return found


def test_a_client_is_throttled_for_as_long_as_by_a_real_broker(own_broker: Broker, tmp_path: Path) -> None:
    """The throttle time depends on when a request is handled: for the real broker between its sending and its answer.

    Our broker gets the same requests at the same times, by a clock of the test.
    """
    requests = requests_of(time.time_ns() // 1_000_000)
    real = throttled(own_broker.bootstrap, requests, waits=True)
    (tmp_path / "ours").mkdir()
    with living(tmp_path / "ours") as live:
        ours = replayed(live, requests, real)
    for number, (asked, throttle_ms) in enumerate(zip(real, ours, strict=True)):
        # rates begin with the first request of their kind; one of both kinds is handled within these times
        first = real[0 if number < len(SIZES) else len(SIZES)]
        least_ms, most_ms = asked.sent_ms - first.answered_ms, asked.answered_ms - first.sent_ms
        # a sample that is whole counts as a second more (Rate.windowSize)
        sample_ms = 0 if least_ms // 1000 == most_ms // 1000 else 1000
        tolerance_ms = most_ms - least_ms + sample_ms + ROUNDING_MS
        assert abs(asked.throttle_ms - throttle_ms) <= tolerance_ms, (number, real, ours)
    assert [each.throttle_ms > 0 for each in real] == [each > 0 for each in ours] == [False, True, True, False, True]


def test_a_client_that_is_throttled_gets_no_answer_before_its_time_is_over(own_broker: Broker, tmp_path: Path) -> None:
    requests = requests_of(time.time_ns() // 1_000_000)
    with LiveServer(tmp_path / "d") as server:
        for address in (own_broker.bootstrap, server.address):
            found = throttled(address, requests)
            assert any(each.throttle_ms > 0 for each in found)
            for asked, following in pairwise(found):
                # the connection is muted after the request was sent, and read again once the time is over
                assert following.answered_ms - asked.sent_ms >= asked.throttle_ms, found
