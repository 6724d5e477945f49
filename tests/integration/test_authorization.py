"""What each request needs on a real broker is what our tests of `serve --read-write` expect."""

from __future__ import annotations

import itertools
import socket
import time
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from kafkalog_core.livebroker.cluster.acls import AclBinding, AclOperation, AclPermission
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.frames import encode_request
from kafkalog_core.wire.schemas import apis
from tests.integration.broker import Broker
from tests.support.authorization import ANY_ACL, CASES, REFUSED, Case, allow, creation, refusals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

SECONDS: Final = 8
_LOGIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret" user_alice="secret";'
)
JOINS: Final = {"ConsumerGroupHeartbeat", "ShareGroupHeartbeat"}
"""A member that joins has topics, which a description of its group then needs."""
_NO_TOPIC: Final = 3
_EXISTS: Final = 36


class SecuredBroker(Broker):
    """A real broker with an authorizer, whose clients authenticate by PLAIN; admin is a super user."""

    def _places(self, controller_port: int) -> dict[str, str]:
        places = super()._places(controller_port)
        names = ("sasl_plaintext", "controller")
        return (
            places
            | {f"listener.name.{each}.plain.sasl.jaas.config": _LOGIN for each in names}
            | {f"listener.name.{each}.sasl.enabled.mechanisms": "PLAIN" for each in names}
            | {
                "listeners": places["listeners"].replace("PLAINTEXT:", "SASL_PLAINTEXT:"),
                "advertised.listeners": places["advertised.listeners"].replace("PLAINTEXT:", "SASL_PLAINTEXT:"),
                "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
                "inter.broker.listener.name": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:admin",
                "share.coordinator.state.topic.num.partitions": "1",
                "share.coordinator.state.topic.replication.factor": "1",
                "share.coordinator.state.topic.min.isr": "1",
            }
        )


class RawClient:
    """A connection of a user, for requests of any version."""

    def __init__(self, address: str, user: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=SECONDS)
        self._ids = itertools.count(1)
        assert self.ask("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == 0
        answer = self.ask("SaslAuthenticate", 1, auth_bytes=f"\0{user}\0secret".encode())
        assert answer["error_code"] == 0, answer
        found = self.ask("ApiVersions", 0)["api_keys"]
        self.versions = {each["api_key"]: (each["min_version"], each["max_version"]) for each in found}

    def serves(self, name: str, version: int) -> bool:
        """Whether the broker answers a version of an API."""
        key = next(api.key for api in apis().values() if api.name == name)
        first, last = self.versions.get(key, (0, -1))
        return first <= version <= last

    def ask(self, name: str, version: int, **body: Any) -> dict[str, Any]:
        """The body of a response."""
        number = next(self._ids)
        pieces = encode_request(name, version, body, correlation_id=number, client_id="test")
        self._socket.sendall(b"".join(map(bytes, pieces)))  # type: ignore[arg-type]
        data = self._read(int.from_bytes(self._read(4), "big"))
        api = next(each for each in apis().values() if each.name == name)
        header = codec("ResponseHeader", int(api.is_flexible(version) and name != "ApiVersions"))
        head, position = header.decode(data)
        assert head["correlation_id"] == number
        return codec(f"{name}Response", version).decode(data, position)[0]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


class Admin(RawClient):
    """The super user."""

    def may(self, *bindings: AclBinding) -> None:
        """Replace the ACLs of the cluster, and wait until the broker knows them."""
        self.ask("DeleteAcls", 3, filters=[ANY_ACL])
        if bindings:
            made = self.ask("CreateAcls", 3, creations=[creation(each) for each in bindings])["results"]
            assert {each["error_code"] for each in made} == {0}
        self._await(
            lambda: sum(len(each["acls"]) for each in self.ask("DescribeAcls", 3, **ANY_ACL)["resources"]),
            len(set(bindings)),
        )

    def reset_topics(self) -> None:
        """Have the topic t, and no topic n."""
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        made = self.ask("CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=False)["topics"]
        assert made[0]["error_code"] in {0, _EXISTS}
        gone = self.ask("DeleteTopics", 3, topic_names=["n"], timeout_ms=10_000)["responses"]
        assert gone[0]["error_code"] in {0, _NO_TOPIC}
        flags = {"allow_auto_topic_creation": False}
        self._await(
            lambda: [
                each["error_code"]
                for each in self.ask("Metadata", 4, topics=[{"name": "t"}, {"name": "n"}], **flags)["topics"]
            ].count(_NO_TOPIC),
            1,
        )

    @staticmethod
    def _await(found: Any, expected: object) -> None:
        deadline = time.monotonic() + SECONDS
        while found() != expected:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture(scope="module")
def address(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running broker with an authorizer."""
    broker = SecuredBroker(libs, tmp_path_factory.mktemp("secured"))
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.close()


def differences(admin: Admin, address: str, each: Case) -> Iterator[str]:
    """Where a real broker does not answer as we expect."""
    for needs in each.needs:
        bindings = [allow(*need) for need in needs]
        sets: list[tuple[list[AclBinding], set[int] | None]] = []
        for number, (kind, _) in enumerate(needs):
            sets.append((bindings[:number], {REFUSED[kind if each.refused is None else each.refused]}))
        denied = bindings[-1]._replace(permission=AclPermission.DENY, operation=AclOperation.ALL)
        sets += [(bindings, set()), ([*bindings, denied], None)]
        for granted, expected in sets:
            admin.reset_topics()
            admin.may(*granted)
            with RawClient(address, "alice") as client:
                try:
                    answer = client.ask(each.name, each.version, **each.body)
                    found = refusals(answer)
                except (TimeoutError, AssertionError) as error:
                    yield f"{each.name} {each.version} with {granted}: {error!r}"
                    continue
            if (expected is None and not found) or (expected is not None and found != expected):
                yield f"{each.name} {each.version} with {granted}: {answer}, not {expected}"


def test_a_real_broker_asks_for_the_same(address: str) -> None:
    with Admin(address, "admin") as admin:
        served = [each for each in CASES if admin.serves(each.name, each.version)]
        served.sort(key=lambda each: each.name in JOINS)
        assert len(served) > len(CASES) - 5
        assert "\n".join(line for each in served for line in differences(admin, address, each)) == ""
