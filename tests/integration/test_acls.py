"""ACLs: our decisions are those of Kafka's StandardAuthorizer, and a real broker goes on with ours."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding as ClientBinding,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import matches_host_ranges
from kafkalog_core.livebroker.cluster.acls import AclBinding, Acls, Authorizer
from kafkalog_core.livebroker.cluster.acls import AclOperation as Operation
from kafkalog_core.livebroker.cluster.acls import ResourceType as Type
from kafkalog_core.livebroker.security.authorization import host_text
from tests.integration.successor import Successor
from tests.support import jars
from tests.support.live import QUIET, SECONDS, LiveServer, create_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = [pytest.mark.java, pytest.mark.slow]

ROUNDS: Final = 120
QUESTIONS: Final = 40
NAMES: Final = ("a", "ab", "abc", "abcd", "b", "*", "ba", "!", "a*", "hardcode", "ä", "z")
USERS: Final = ("User:ann", "User:bob", "User:*", "Role:ann")
HOSTS: Final = ("*", "127.0.0.1", "0:0:0:0:0:0:0:1", "10.0.0.1", "10.0.0.0/8", "127.0.0.1/31", "::/64", "::/0", "9/8")
RANGES: Final = (
    *("10.0.0.0/8", "10.1.2.3/8", "010.0.0.0/08", "0.0.0.0/0", "10.0.0.0/32", "10.0.0.0/33", "10.0.0/8", "256.0.0.0/0"),
    *("10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "/8", "a/b", "10.0.0.0/8/8", " 10.0.0.0/8", "0010.0.0.0/8"),
    *("2001:db8::/32", "::/0", "::/128", "::/129", "::/+64", "::ffff:10.0.0.0/104", "::10.0.0.1/96", "[::1]/128"),
    *("no:address/8", "::1", "fe80::/10", "::/ 64", ":/8", "1:2:3:4:5:6:7:8/127", "::/064"),
)
CLIENTS: Final = (
    *("10.0.0.0", "10.255.255.255", "11.0.0.0", "127.0.0.1", "0.0.0.0", "255.255.255.255"),  # noqa: S104 - no socket
    *("::", "::1", "2001:db8:ffff::1", "2001:db9::1", "::10.0.0.1", "fe80::1", "1:2:3:4:5:6:7:9"),
)
STANDARD: Final = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OPEN: Final = "allow.everyone.if.no.acl.found=true"


@pytest.fixture(params=[jars.KAFKA_VERSION, jars.NEWEST])
def release(request: pytest.FixtureRequest) -> str:
    """A release: the newer one takes ranges of addresses for hosts."""
    return str(request.param)


def kafkas_answers(libs: Path, scratch: Path, lines: Sequence[str]) -> list[bool]:
    """What Kafka's own authorizer answers to the commands of AclHarness.java."""
    path = os.pathsep.join((str(scratch), f"{libs}/*"))
    source = Path(__file__).parent / "java" / "AclHarness.java"
    subprocess.run(["javac", "-d", str(scratch), "-cp", path, str(source)], check=True, timeout=60)
    command = [
        "java",
        "-Xmx256m",
        *jars.QUICK,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        path,
        "AclHarness",
    ]
    asked = "".join(f"{each}\n" for each in lines)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, timeout=120)
    return [each == "true" for each in done.stdout.split()]


def random_binding(chance: random.Random) -> AclBinding:
    """An ACL; few names, so that they meet."""
    return AclBinding(
        chance.choice((2, 2, 2, 3)),
        chance.choice(NAMES),
        chance.choice((3, 4)),
        chance.choice(USERS),
        chance.choice(HOSTS),
        chance.choice((2, 3, 3, 4, 4, 6, 8, 10, 11)),
        chance.choice((2, 3, 3)),
    )


def test_ranges_are_those_of_the_standard_authorizer(release: str, tmp_path: Path) -> None:
    matches_ranges = matches_host_ranges(parse_release(release))
    lines: list[str] = []
    ours: list[bool] = []
    for host in RANGES:
        acls = Acls()
        binding = AclBinding(2, "a", 3, "User:ann", host, 3, 3)
        acls.add(bytes(16), binding)
        lines += ["new\t\tfalse", "\t".join(map(str, ("add", *binding)))]
        for client in CLIENTS:
            lines.append(f"may\tUser:ann\t{client}\t3\t2\ta")
            authorizer = Authorizer(acls, matches_ranges=matches_ranges)
            ours.append(authorizer.may(("User:ann", host_text(client)), Operation.READ, Type.TOPIC, "a"))
    theirs = kafkas_answers(jars.fetch(release), tmp_path, lines)
    asked = [(host, client) for host in RANGES for client in CLIENTS]
    assert [(each, them) for each, them, us in zip(asked, theirs, ours, strict=True) if them != us] == []
    assert any(ours) is matches_ranges


def test_decisions_are_those_of_the_standard_authorizer(release: str, tmp_path: Path) -> None:
    matches_ranges = matches_host_ranges(parse_release(release))
    chance = random.Random(7)
    lines: list[str] = []
    ours: list[bool] = []
    for _ in range(ROUNDS):
        acls = Acls()
        is_open, supers = chance.random() < 0.4, chance.choice(("", "", "User:bob", "User:bob;Role:ann"))
        lines.append(f"new\t{supers}\t{str(is_open).lower()}")
        for number, binding in enumerate({random_binding(chance) for _ in range(chance.randint(0, 14))}):
            acls.add(number.to_bytes(16, "big"), binding)
            lines.append("\t".join(map(str, ("add", *binding))))
        authorizer = Authorizer(acls, frozenset(supers.split(";")) - {""}, is_open, matches_ranges)
        for _ in range(QUESTIONS):
            user, host = (
                chance.choice(("User:ann", "User:bob", "User:eve")),
                chance.choice(("127.0.0.1", "::1", "10.0.0.9")),
            )
            operation = Operation(chance.choice((3, 4, 5, 6, 7, 8, 10, 11)))
            kind, name = Type(chance.choice((2, 2, 3))), chance.choice(NAMES)
            client = user, host_text(host)
            if chance.random() < 0.2:
                lines.append(f"any\t{user}\t{host}\t{operation:d}\t{kind:d}")
                ours.append(authorizer.may_with_any(client, operation, kind))
            else:
                lines.append(f"may\t{user}\t{host}\t{operation:d}\t{kind:d}\t{name}")
                ours.append(authorizer.may(client, operation, kind, name))
    theirs = kafkas_answers(jars.fetch(release), tmp_path, lines)
    asked = [each for each in lines if each.startswith(("may", "any"))]
    assert len(theirs) == len(ours) == ROUNDS * QUESTIONS
    assert [(line, them) for line, them, us in zip(asked, theirs, ours, strict=True) if them != us] == []
    assert ROUNDS < sum(ours) < len(ours) - ROUNDS, "both answers are common"


# --- a real broker goes on with them ----------------------------------------------------------------------------------
EVERYTHING: Final = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
ALLOW, DENY, LITERAL, PREFIXED = (
    AclPermissionType.ALLOW,
    AclPermissionType.DENY,
    ResourcePatternType.LITERAL,
    ResourcePatternType.PREFIXED,
)
BINDINGS: Final = [
    ClientBinding(*fields)
    for fields in (
        (ResourceType.TOPIC, "orders", LITERAL, "User:bob", "*", AclOperation.READ, ALLOW),
        (ResourceType.TOPIC, "pay", PREFIXED, "User:*", "10.1.2.3", AclOperation.ALL, DENY),
        (ResourceType.GROUP, "*", LITERAL, "User:eve", "*", AclOperation.DELETE, ALLOW),
        (ResourceType.TRANSACTIONAL_ID, "t", PREFIXED, "User:bob", "*", AclOperation.WRITE, ALLOW),
        (ResourceType.TOPIC, "locked", LITERAL, "User:ANONYMOUS", "*", AclOperation.ALTER, DENY),
    )
]


def listed(address: str) -> list[ClientBinding]:
    """The ACLs that a broker lists."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    return sorted(admin.describe_acls(EVERYTHING).result(SECONDS), key=str)


def growth_of(address: str, topic: str, count: int) -> int:
    """The error of a client that proves nothing and gives a topic more partitions; 0: it has them."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    try:
        admin.create_partitions([NewPartitions(topic, count)])[topic].result(SECONDS)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


@pytest.fixture
def successor(libs: Path, tmp_path: Path) -> Iterator[Successor]:
    """A real broker over the directory `data`."""
    (tmp_path / "data").mkdir()
    broker = Successor(libs, tmp_path / "real", tmp_path / "data")
    name, _, value = STANDARD.partition("=")
    broker.configure({name: value, "allow.everyone.if.no.acl.found": "true"})
    yield broker
    broker.close()


def test_a_real_broker_goes_on_with_our_acls_and_we_with_its(successor: Successor) -> None:
    with LiveServer(successor.log_dir, STANDARD, OPEN) as server:
        create_topics(server.address, ["locked", "free"])
        admin = AdminClient({"bootstrap.servers": server.address, **QUIET})
        for each in admin.create_acls([*BINDINGS, gone := ClientBinding(*_fields(BINDINGS[0], "gone"))]).values():
            each.result(SECONDS)
        only_gone = AclBindingFilter(*_fields(gone, "gone"))
        (deleted,) = admin.delete_acls([only_gone]).values()
        assert deleted.result(SECONDS) == [gone]
        before = listed(server.address)
        assert before == sorted(BINDINGS, key=str)
        refused = growth_of(server.address, "locked", 3)
        assert refused == 29
        server.stop()
    successor.start()
    try:
        assert listed(successor.bootstrap) == before
        assert growth_of(successor.bootstrap, "locked", 3) == refused
        assert growth_of(successor.bootstrap, "free", 3) == 0
        admin = AdminClient({"bootstrap.servers": successor.bootstrap, **QUIET})
        locked = AclBindingFilter(*_fields(BINDINGS[-1], "locked"))
        (deleted,) = admin.delete_acls([locked]).values()
        assert deleted.result(SECONDS) == [BINDINGS[-1]]
        after = listed(successor.bootstrap)
    finally:
        successor.stop()
    with LiveServer(successor.log_dir, STANDARD, OPEN) as server:
        assert listed(server.address) == after
        assert growth_of(server.address, "locked", 3) == 0
        server.stop()


def _fields(binding: ClientBinding, name: str) -> tuple[object, ...]:
    """The fields of an ACL, of a resource of another name."""
    pattern = binding.restype, name, binding.resource_pattern_type
    return (*pattern, binding.principal, binding.host, binding.operation, binding.permission_type)
