"""Quotas of clients: windows and the order of entities as values, the requests, and what is throttled for how long.

The cases of windows, of the order and of the token bucket are those of Kafka's ClientQuotaManagerTest and
ControllerMutationQuotaManagerTest.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kafkalog_core.livebroker.cluster.client_quotas import CONSUMER_RATE, MUTATION_RATE, PRODUCER_RATE, ClientQuotas
from kafkalog_core.livebroker.quotas.quota_windows import QuotaSamples, RateWindow, TokenBucket
from kafkalog_core.livebroker.quotas.throttling import ClientThrottles
from kafkalog_core.serve.network.answers import NoResponse, Reply
from kafkalog_core.wire.error_codes import ErrorCode
from kafkalog_core.wire.frames import encode_request
from tests.support.asking import FROM, SocketClient, response
from tests.support.live import QUIET, SECONDS, LiveServer, create_topics
from tests.support.live_state import Live, batch_of, living, sent_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

INVALID = ErrorCode.INVALID_REQUEST
KIB = 1024


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A live broker over an empty directory."""
    with living(tmp_path) as found:
        yield found


# --- values -----------------------------------------------------------------------------------------------------------
def test_a_rate_is_measured_over_ten_samples_and_the_current_one() -> None:
    window, now_ms = RateWindow(QuotaSamples()), 0
    for _ in range(10):
        window.record(400, now_ms)
        assert window.throttle_ms(500, now_ms) == 0
        now_ms += 1000
    now_ms += 500
    window.record(2300, now_ms)
    assert window.rate(now_ms) == pytest.approx(600)
    assert window.throttle_ms(500, now_ms) == 2100  # (600 - 500) / 500 * 10.5 s
    now_ms += 2100
    for _ in range(10):
        window.record(400, now_ms)
        now_ms += 1000
    assert window.throttle_ms(500, now_ms) == 0


def test_a_first_value_counts_as_if_ten_seconds_had_passed() -> None:
    window = RateWindow(QuotaSamples())
    window.record(5000, 7)
    assert window.throttle_ms(500, 7) == 0
    window.record(1, 7)
    assert window.throttle_ms(500, 7) == 2
    window.record(-1, 7)
    assert window.throttle_ms(500, 7) == 0
    assert window.rate(7 + 11_000) == 0, "nothing was recorded in the window"


def test_a_bucket_has_the_tokens_of_all_samples_and_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(QuotaSamples())
    assert bucket.tokens(10, 0) == 110
    bucket.take(110, 10, 0)
    assert bucket.throttle_ms(10, 0) == 0
    bucket.take(110, 10, 0)
    assert bucket.throttle_ms(10, 0) == 11_000
    assert bucket.throttle_ms(10, 5000) == 6000
    assert bucket.tokens(10, 11_000) == 0
    assert bucket.tokens(10, 60_000) == 110


def test_samples_of_another_number_and_size_are_those_of_kafka() -> None:
    """The figures are those of `Rate` and `TokenBucket` of Kafka 4.3.1 with a quota of 100, three samples of 2 s."""
    kept = QuotaSamples(3, 2000)
    window = RateWindow(kept)
    found = []
    for now_ms, value in ((0, 300), (500, 200), (2500, 100), (5200, 400), (7000, 50), (11_400, 10)):
        window.record(value, now_ms)
        found.append((round(window.rate(now_ms), 3), window.span_ms(now_ms), window.throttle_ms(100, now_ms)))
    assert found == [
        (75.0, 4000, 0),
        (111.111, 4500, 500),
        (133.333, 4500, 1500),
        (192.308, 5200, 4800),
        (122.222, 4500, 1000),
        (74.194, 6200, 0),
    ]
    bucket = TokenBucket(kept)
    assert bucket.tokens(100, 0) == 600
    bucket.take(1300, 100, 1000)
    assert bucket.tokens(100, 1500) == -650


def quotas_of(*rows: tuple[dict[str, str | None], float], key: str = PRODUCER_RATE) -> ClientQuotas:
    """Quotas of entities."""
    quotas = ClientQuotas()
    for names, value in rows:
        entity = [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]
        quotas.replay({"entity": entity, "key": key, "value": value, "remove": False})
    return quotas


LEVELS: tuple[tuple[dict[str, str | None], float, tuple[str, str]], ...] = (
    ({"user": "u", "client-id": "c"}, 1, ("u", "c")),
    ({"user": "u", "client-id": None}, 2, ("u", "c")),
    ({"user": "u"}, 3, ("u", "")),
    ({"user": None, "client-id": "c"}, 4, ("u", "c")),
    ({"user": None, "client-id": None}, 5, ("u", "c")),
    ({"user": None}, 6, ("u", "")),
    ({"client-id": "c"}, 7, ("", "c")),
    ({"client-id": None}, 8, ("", "c")),
)
"""Entities that fit a client, the most specific one first, and whose use is summed up."""


def test_the_most_specific_entity_counts() -> None:
    others: list[tuple[dict[str, str | None], float]] = [
        ({"user": "u", "client-id": "d"}, 90),
        ({"user": "v"}, 91),
        ({"client-id": "d"}, 92),
        ({"user": None, "client-id": "d"}, 93),
    ]
    for first in range(len(LEVELS)):
        quotas = quotas_of(*others, *[(names, value) for names, value, _ in LEVELS[first:]])
        assert quotas.applied(PRODUCER_RATE, "u", "c") == LEVELS[first][1:], LEVELS[first]
        assert quotas.applied(CONSUMER_RATE, "u", "c") is None
    assert quotas_of(*others).applied(PRODUCER_RATE, "u", "c") is None


def test_a_quota_that_is_removed_leaves_those_of_wider_entities() -> None:
    quotas = quotas_of(({"user": "u"}, 1), ({"user": None}, 2))
    entity: list[dict[str, str | None]] = [{"entity_type": "user", "entity_name": "u"}]
    quotas.replay({"entity": entity, "key": PRODUCER_RATE, "value": 0.0, "remove": True})
    found = quotas.applied(PRODUCER_RATE, "u", "c")
    assert found is not None
    assert found.bound == 2
    entity = [{"entity_type": "user", "entity_name": None}]
    quotas.replay({"entity": entity, "key": PRODUCER_RATE, "value": 0.0, "remove": True})
    assert (quotas.entities, quotas.keys) == ({}, frozenset())


# --- requests ---------------------------------------------------------------------------------------------------------
def entity_body(names: dict[str, str | None]) -> list[dict[str, Any]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]


def entry(names: dict[str, str | None], **values: float | None) -> dict[str, Any]:
    """A change of an entity; None: the key is removed."""
    operations = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
    return {"entity": entity_body(names), "ops": operations}


def alter(live: Live, *entries: dict[str, Any], validate_only: bool = False, version: int = 1) -> list[Any]:
    """The error and its message of each entity."""
    answer = live.ask("AlterClientQuotas", version, entries=list(entries), validate_only=validate_only)
    return [(each["error_code"], each["error_message"]) for each in answer["entries"]]


def describe(live: Live, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """The entities with their quotas, or the error."""
    asked = [{"entity_type": kind, "match_type": match_type, "match": match} for kind, match_type, match in components]
    answer = live.ask("DescribeClientQuotas", 1, components=asked, strict=strict)
    if answer["error_code"]:
        assert answer["entries"] is None
        return answer["error_code"], answer["error_message"]
    return [
        (
            {row["entity_type"]: row["entity_name"] for row in each["entity"]},
            {row["key"]: row["value"] for row in each["values"]},
        )
        for each in answer["entries"]
    ]


def test_quotas_are_stored_replaced_and_removed(tmp_path: Path) -> None:
    anna: dict[str, str | None] = {"user": "anna"}
    with living(tmp_path) as live:
        assert alter(live, entry(anna, producer_byte_rate=1000, request_percentage=12.5)) == [(0, None)]
        assert alter(live, entry({"ip": "127.0.0.1"}, connection_creation_rate=7), version=0) == [(0, None)]
        assert alter(live, entry(anna, producer_byte_rate=2000), validate_only=True) == [(0, None)]
        assert describe(live, ("user", 0, "anna")) == [(anna, {PRODUCER_RATE: 1000, "request_percentage": 12.5})]
    with living(tmp_path) as live:
        assert describe(live, ("user", 0, "anna")) == [(anna, {PRODUCER_RATE: 1000, "request_percentage": 12.5})]
        alter(live, entry(anna, producer_byte_rate=None, consumer_byte_rate=None, request_percentage=50))
        assert describe(live) == [
            ({"ip": "127.0.0.1"}, {"connection_creation_rate": 7}),
            (anna, {"request_percentage": 50}),
        ]
    with living(tmp_path) as live:
        alter(live, entry(anna, request_percentage=None))
        assert describe(live) == [({"ip": "127.0.0.1"}, {"connection_creation_rate": 7})]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (entry({}, producer_byte_rate=1), "Invalid empty client quota entity"),
        (entry({"user": ""}, producer_byte_rate=1), "Empty user not supported"),
        (entry({"group": "g"}, producer_byte_rate=1), "Unhandled client quota entity type: group"),
        (entry({"user": "u"}, nonsense=1), "Invalid configuration key nonsense"),
        (entry({"user": "u"}, connection_creation_rate=1), "Invalid configuration key connection_creation_rate"),
        (entry({"ip": "127.0.0.1"}, producer_byte_rate=1), "Invalid configuration key producer_byte_rate"),
        (entry({"user": "u"}, producer_byte_rate=-1), "Quota producer_byte_rate must be greater than 0"),
        (entry({"user": "u"}, request_percentage=float("nan")), "Quota request_percentage must be greater than 0"),
        (entry({"user": "u"}, producer_byte_rate=1.5), "producer_byte_rate cannot be a fractional value."),
        (
            entry({"user": "u"}, producer_byte_rate=1e19),
            "Proposed value for producer_byte_rate is too large for a LONG.",
        ),
        (
            entry({"ip": None}, connection_creation_rate=2.0**31),
            "Proposed value for connection_creation_rate is too large",
        ),
        (entry({"ip": "127.0.0.1", "user": "u"}, connection_creation_rate=1), "IP entity should"),
        (entry({"ip": "1.2.3.4.5"}, connection_creation_rate=1), "1.2.3.4.5 is not a valid IP or resolvable host."),
    ],
)
def test_a_quota_that_no_controller_takes_is_refused(live: Live, asked: dict[str, Any], message: str) -> None:
    ((code, text),) = alter(live, asked)
    assert (code, message in text) == (INVALID, True), text
    assert describe(live) == []


def test_an_entity_or_a_key_that_is_there_twice_is_an_error(live: Live) -> None:
    twice = {"entity": entity_body({"user": "u"}), "ops": [{"key": PRODUCER_RATE, "value": 1.0, "remove": False}] * 2}
    message = "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"
    assert alter(live, twice) == [(INVALID, message)]
    assert describe(live) == []
    rows = entry({"user": "u"}, producer_byte_rate=1), entry({"user": "u"}, producer_byte_rate=2)
    assert alter(live, *rows, entry({"user": None}, producer_byte_rate=3)) == [(INVALID, message), (0, None)]
    assert describe(live, ("user", 0, "u")) == [({"user": "u"}, {PRODUCER_RATE: 1})], "as a controller does it"


def test_a_filter_finds_exact_names_defaults_and_types(live: Live) -> None:
    rows: list[dict[str, str | None]] = [
        {"client-id": "c"},
        {"client-id": None},
        {"client-id": "c", "user": "u"},
        {"user": None},
        {"user": "u"},
        {"ip": "127.0.0.1"},
    ]
    for number, names in enumerate(rows, 1):
        key = "connection_creation_rate" if "ip" in names else "controller_mutation_rate"
        assert alter(live, entry(names, **{key: number})) == [(0, None)]

    def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[float]:
        return sorted(value for _, values in describe(live, *components, strict=strict) for value in values.values())

    assert found() == [1, 2, 3, 4, 5, 6]
    assert found(("user", 0, "u")) == [3, 5]
    assert found(("user", 0, "u"), strict=True) == [5]
    assert found(("user", 1, None)) == [4]
    assert found(("user", 2, None)) == [3, 4, 5]
    assert found(("user", 2, None), ("client-id", 0, "c"), strict=True) == [3]
    assert found(("client-id", 1, None)) == [2]
    assert found(("ip", 2, None)) == [6]


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", 0, "u")], INVALID, "Invalid empty entity type."),
        (
            [("user", 0, "u"), ("user", 2, None)],
            INVALID,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", 0, "u")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        ([("user", 0, None)], INVALID, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", 1, "u")], INVALID, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", 2, "u")], INVALID, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("user", 3, None)], INVALID, "Unknown match type 3"),
        ([("ip", 2, None), ("user", 2, None)], INVALID, "IP filter component should not be used with user or clientId"),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(
    live: Live, components: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    found, text = describe(live, *components)
    assert (found, message in text) == (code, True), text


def test_a_directory_without_a_metadata_log_stores_no_quotas(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    with living(tmp_path) as live:
        ((code, message),) = alter(live, entry({"user": "u"}, producer_byte_rate=1))
        assert (code, "no metadata log" in message) == (ErrorCode.UNSUPPORTED_VERSION, True)


# --- enforcement ------------------------------------------------------------------------------------------------------
def produced(live: Live, size_bytes: int, acks: int = -1, client_id: str = "test") -> Any:
    """The answer to a request with a batch of a size."""
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch_of(b"x" * size_bytes)}]}]
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 1000, "topic_data": data}
    pieces = encode_request("Produce", 9, body, correlation_id=7, client_id=client_id)
    frame = b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]  # no file range in a request
    return live.broker.dispatcher.handle(memoryview(frame)[4:], FROM)


def test_a_producer_is_answered_at_once_and_muted_until_its_rate_is_that_of_the_quota(live: Live) -> None:
    live.create("t")
    assert produced(live, 100 * KIB).mute_s == 0, "there is no quota"
    alter(live, entry({"client-id": "test"}, producer_byte_rate=10 * KIB))
    assert produced(live, 100 * KIB - 1000).mute_s == 0, "ten seconds of the quota may come at once"
    answer = produced(live, 10 * KIB)
    assert answer.mute_s == pytest.approx(1, rel=0.1)
    body = response("Produce", 9, answer)
    assert body["throttle_time_ms"] == round(answer.mute_s * 1000)
    assert body["responses"][0]["partition_responses"][0]["error_code"] == ErrorCode.NONE
    assert produced(live, 100, client_id="other").mute_s == 0
    live.clock.now_ms += 11_000
    assert produced(live, 100).mute_s == 0, "the window has nothing of before"
    silent = produced(live, 120 * KIB, acks=0)
    assert isinstance(silent, NoResponse)
    assert silent.mute_s == pytest.approx(2, rel=0.1)


def test_the_samples_of_quotas_are_settings_of_the_broker(tmp_path: Path) -> None:
    settings = ("quota.window.num=3", "quota.window.size.seconds=2")
    changes = ("controller.quota.window.num=5", "controller.quota.window.size.seconds=1")
    with living(tmp_path, None, *settings, *changes) as live:
        live.create("t")
        quotas = {"producer_byte_rate": 10 * KIB, "consumer_byte_rate": 10 * KIB, "controller_mutation_rate": 1}
        alter(live, entry({"client-id": "test"}, **quotas))
        assert produced(live, 40 * KIB - 1000).mute_s == 0, "two samples of two seconds may come at once"
        assert produced(live, 10 * KIB).mute_s == pytest.approx(1, rel=0.1)
        request = live.fetch("t", min_bytes=1 << 20, max_wait_ms=500)
        assert isinstance(request, Reply), "40 KiB are enough"
        live.create("five", 5)
        assert live.create("overdrawn", 1)["error_code"] == ErrorCode.NONE
        assert live.send("DeleteTopics", 4, topic_names=["five"], timeout_ms=1000).mute_s == 6  # type: ignore[union-attr]
        live.clock.now_ms += 6_000
        assert produced(live, 100).mute_s == 0, "the window has nothing of before"


def test_a_fetch_over_the_quota_is_answered_without_records_and_does_not_count(live: Live) -> None:
    live.create("t", max_message_bytes="10000000")
    for _ in range(3):
        produced(live, 60 * KIB)
    alter(live, entry({"user": None}, consumer_byte_rate=10 * KIB))
    first = live.fetch("t", 0, max_bytes=70 * KIB)
    assert isinstance(first, Reply)
    assert first.mute_s == 0
    assert len(sent_bytes(first)) > 60 * KIB
    second = live.fetch("t", 1, max_bytes=70 * KIB)
    assert isinstance(second, Reply)
    assert second.mute_s == pytest.approx(4, rel=0.1)
    body = response("Fetch", 11, second)
    assert (body["throttle_time_ms"], body["responses"]) == (round(second.mute_s * 1000), [])
    live.clock.now_ms += 11_000
    third = live.fetch("t", 1, max_bytes=70 * KIB)
    assert isinstance(third, Reply)
    assert (third.mute_s, len(sent_bytes(third)) > 60 * KIB) == (0, True)


def test_a_fetch_asks_for_no_more_than_its_quota_can_give(live: Live) -> None:
    live.create("t")
    for _ in range(4):
        produced(live, 10 * KIB)
    alter(live, entry({"user": None}, consumer_byte_rate=3 * KIB))
    answer = live.fetch("t", 0, min_bytes=1 << 20, max_wait_ms=500, max_bytes=1 << 20)
    assert isinstance(answer, Reply), "enough for the quota is enough"
    assert 0 < answer.mute_s < 0.1, "the response has more bytes than its records"
    live.clock.now_ms += 100
    answer = live.fetch("t", 0, min_bytes=1 << 20, max_wait_ms=500, max_bytes=1 << 20)
    assert isinstance(answer, Reply)
    assert answer.mute_s == 0
    assert 20 * KIB < len(sent_bytes(answer)) < 31 * KIB


def test_changes_of_topics_are_refused_once_the_tokens_are_used_up(live: Live) -> None:
    alter(live, entry({"user": None}, controller_mutation_rate=1))

    def create(name: str, partitions: int, version: int = 6) -> Any:
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        return live.send("CreateTopics", version, topics=[topic], timeout_ms=1000, validate_only=False)

    def code(answer: Any, version: int = 6) -> int:
        return int(response("CreateTopics", version, answer)["topics"][0]["error_code"])

    assert code(create("a", 11)) == ErrorCode.NONE
    assert code(create("b", 4)) == ErrorCode.NONE, "the last one may overdraw"
    refused = create("c", 1)
    assert code(refused) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (refused.mute_s, "c" in live.disks.topics) == (4, False)
    old = create("d", 1, version=5)  # before version 6 it is done, and the client waits
    assert code(old, 5) == ErrorCode.NONE
    assert old.mute_s == 5
    grown = [{"name": "a", "count": 12, "assignments": None}]
    answer = live.ask("CreatePartitions", 3, topics=grown, timeout_ms=1000, validate_only=False)
    assert answer["results"][0]["error_code"] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert answer["throttle_time_ms"] == 5000
    answer = live.ask("DeleteTopics", 5, topic_names=["a"], timeout_ms=1000)
    assert answer["responses"][0]["error_code"] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    named = [{"name": "auto", "topic_id": bytes(16)}]
    live.ask("Metadata", 12, topics=named, allow_auto_topic_creation=True, include_topic_authorized_operations=False)
    assert "auto" not in live.disks.topics
    live.clock.now_ms += 5000
    answer = live.ask("DeleteTopics", 5, topic_names=["a"], timeout_ms=1000)
    assert (answer["responses"][0]["error_code"], answer["throttle_time_ms"]) == (ErrorCode.NONE, 0)


class SteppingClock:
    """A clock on which each look takes as long as it is set to."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.step_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def throttles_of(quotas: ClientQuotas, clock: SteppingClock) -> ClientThrottles:
    return ClientThrottles(quotas, clock, lambda _: "u", {"localhost": "127.0.0.1"}.get)


def test_the_time_of_handlers_is_a_share_of_one_thread_and_throttles_for_a_second_at_most() -> None:
    clock = SteppingClock()
    throttles = throttles_of(quotas_of(({"user": "u"}, 10.0), key="request_percentage"), clock)

    def used(seconds: float) -> int:
        request = throttles.begin(FROM, "c", 100)
        assert request is not None

        def handle() -> NoResponse:
            clock.now_s += seconds / 2
            return NoResponse()

        for _ in range(2):  # a long read is begun twice
            request.measure(handle)
            clock.now_s += 0.5  # the wait of a pending answer
        return request.response_ms()

    assert used(0.9) == 0  # 90 of the 100 that ten seconds have
    assert 0 < used(0.2) < 1000
    assert used(5) == 1000


def test_a_quota_of_one_kind_costs_the_others_nothing() -> None:
    throttles = throttles_of(ClientQuotas(), SteppingClock())
    assert throttles.begin(FROM, "c", 100) is None
    throttles = throttles_of(quotas_of(({"client-id": "d"}, 1.0)), SteppingClock())
    request = throttles.begin(FROM, None, 10**9)
    assert request is not None
    assert (request.produced_ms(), request.fetched_ms(10**9), request.response_ms()) == (0, 0, 0)


def test_connections_of_an_address_are_delayed_above_their_rate() -> None:
    clock = SteppingClock()
    quotas = quotas_of(({"ip": "localhost"}, 2), ({"ip": None}, 100), key="connection_creation_rate")
    throttles = throttles_of(quotas, clock)
    assert [throttles.connection_delay_s("127.0.0.1") for _ in range(20)] == [0.0] * 20
    assert 0 < throttles.connection_delay_s("127.0.0.1") <= 1
    assert throttles.connection_delay_s("127.0.0.2") == 0
    clock.now_s += 0.6
    assert [throttles.connection_delay_s("127.0.0.1") > 0 for _ in range(3)] == [False, True, True]


def test_the_use_of_clients_that_are_gone_is_forgotten_after_an_hour() -> None:
    clock = SteppingClock()
    throttles = throttles_of(quotas_of(({"client-id": None}, 1000.0)), clock)
    for number in range(100):
        throttles.record(PRODUCER_RATE, "u", f"client-{number}", 1)
    clock.now_s += 3601
    throttles.record(PRODUCER_RATE, "u", "client", 1)
    assert len(throttles._rates) == 1
    assert throttles.mutate("u", "c", 10**6, is_strict=True) == (True, 0)
    assert MUTATION_RATE not in quotas_of(({"client-id": None}, 1.0)).keys


# --- bounds of requests -----------------------------------------------------------------------------------------------
def test_one_request_creates_no_more_partitions_than_a_controller_does(live: Live) -> None:
    def create(*counts: int) -> set[tuple[int, str]]:
        topics = [
            {"name": f"t{number}", "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for number, count in enumerate(counts)
        ]
        answer = live.ask("CreateTopics", 5, topics=topics, timeout_ms=1000, validate_only=False)
        return {(each["error_code"], each["error_message"]) for each in answer["topics"]}

    too_many = ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
    too_large = ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    assert create(10_001) == create(5000, 5001) == create(1, 2_000_000_000) == {too_many}
    assert create(10_000) == create(5000, 5000) == {too_large}
    assert live.disks.topics == {}
    live.create("t")
    live.create("s")
    for rows in ([("t", 10_002)], [("t", 5002), ("s", 5001)]):
        topics = [{"name": name, "count": count, "assignments": None} for name, count in rows]
        answer = live.ask("CreatePartitions", 3, topics=topics, timeout_ms=1000, validate_only=False)
        assert {(each["error_code"], each["error_message"]) for each in answer["results"]} == {too_large}
    assert live.disks.partition_counts() == {"t": 1, "s": 1}
    answer = live.ask("DeleteTopics", 5, topic_names=["t", *[f"x{each}" for each in range(10_000)]], timeout_ms=1000)
    assert answer["responses"][0]["error_code"] == ErrorCode.POLICY_VIOLATION
    named = [{"name": f"auto{each}", "topic_id": bytes(16)} for each in range(10_001)]
    live.ask("Metadata", 12, topics=named, allow_auto_topic_creation=True, include_topic_authorized_operations=False)
    assert live.disks.partition_counts() == {"t": 1, "s": 1}


# --- real clients -----------------------------------------------------------------------------------------------------
RATE = 100 * KIB
VALUE = b"x" * (4 * KIB)


class Greedy:
    """A producer that never pauses, and the bytes of its values that were acknowledged."""

    def __init__(self, address: str, client_id: str) -> None:
        options = {"bootstrap.servers": address, "batch.size": 8 * KIB, "linger.ms": 0, "client.id": client_id}
        self.producer = Producer({**options, **QUIET})
        self.acknowledged = 0

    def run(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            if len(self.producer) < 200:
                self.producer.produce("t", VALUE, on_delivery=self._note)
            self.producer.poll(0.001)

    def _note(self, error: object, _: object) -> None:
        assert error is None
        self.acknowledged += len(VALUE)


def test_the_quota_of_a_user_counts_for_who_has_logged_in(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("anna:secret\n")
    options = ("--users", str(tmp_path / "users"), "--sasl-listen", "127.0.0.1:0")
    with LiveServer(tmp_path / "d", options=options) as server:
        asked = [entry({"user": "anna"}, consumer_byte_rate=1, request_percentage=0.000001)]
        assert _asked(server.address, "AlterClientQuotas", entries=asked, validate_only=False)["entries"]
        found = re.search(r"authenticate at (\S+)", (tmp_path / "d.log").read_text())
        assert found is not None
        with SocketClient(found[1]) as anna, SocketClient(server.address) as other:
            assert anna.ask("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == ErrorCode.NONE
            assert anna.ask("SaslAuthenticate", 1, auth_bytes=b"\0anna\0secret")["error_code"] == ErrorCode.NONE
            assert 0 < anna.ask("ListGroups", 1)["throttle_time_ms"] <= 1000
            assert other.ask("ListGroups", 1)["throttle_time_ms"] == 0
            refused = other.ask("SaslHandshake", 1, mechanism="PLAIN")
            assert refused["error_code"] == ErrorCode.ILLEGAL_SASL_STATE, "nobody logs in at the plain address"


@pytest.mark.slow
def test_a_real_producer_gets_the_rate_of_its_quota_and_another_one_is_not_held_up(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d") as server:
        create_topics(server.address, ["t"], 1)
        _set_quota(server.address, "slow", RATE)
        slow, fast = Greedy(server.address, "slow"), Producer({"bootstrap.servers": server.address, **QUIET})
        # A burst of ten seconds comes at once, then little until the window has passed: three windows are measured.
        start_s, longest_s = time.monotonic(), 0.0
        while time.monotonic() < start_s + 32.5:
            slow.run(0.25)
            before_s = time.monotonic()
            fast.produce("t", VALUE)
            assert fast.flush(SECONDS) == 0
            longest_s = max(longest_s, time.monotonic() - before_s)
        rate = slow.acknowledged / (time.monotonic() - start_s)
        assert 0.8 * RATE < rate < 1.2 * RATE, rate / RATE
        assert longest_s < 1, "its processor serves others meanwhile"
        slow.producer.purge()
        server.kill()
        server.start()
        assert _quota_of(server.address, "slow") == RATE


def _asked(address: str, name: str, **body: Any) -> dict[str, Any]:
    with SocketClient(address) as client:
        return client.ask(name, 1, **body)


def _set_quota(address: str, client_id: str, rate: float) -> None:
    asked = [entry({"client-id": client_id}, producer_byte_rate=rate)]
    answer = _asked(address, "AlterClientQuotas", entries=asked, validate_only=False)
    assert answer["entries"][0]["error_code"] == ErrorCode.NONE


def _quota_of(address: str, client_id: str) -> float:
    asked = [{"entity_type": "client-id", "match_type": 0, "match": client_id}]
    answer = _asked(address, "DescribeClientQuotas", components=asked, strict=True)
    value: float = answer["entries"][0]["values"][0]["value"]
    return value
