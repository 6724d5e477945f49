"""Clusters of real nodes whose quorum is lost, and what an administrator reads of them before and after."""

from __future__ import annotations

import base64
import json
import os
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.broker import Broker, free_ports
from tests.support.live import QUIET

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SECONDS: Final = 300
"""A busy machine takes long."""
_PATIENCE: Final = {
    "broker.session.timeout.ms": "10000",  # half of it is the time that a registration may take
    "initial.broker.registration.timeout.ms": "300000",
    "controller.quorum.fetch.timeout.ms": "6000",
    "controller.quorum.request.timeout.ms": "6000",
}
"""Settings with which three nodes that start together on a busy machine find a leader and keep it."""
METADATA: Final = "__cluster_metadata-0"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Places:
    """The addresses and directory ids of the controllers of one cluster."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.controllers = {number: f"127.0.0.1:{free_ports()[0]}" for number in numbers}
        self.directory_ids = {number: _uuid_text() for number in numbers}

    def move(self) -> None:
        """Give all controllers other addresses."""
        self.controllers = {number: f"127.0.0.1:{free_ports()[0]}" for number in self.controllers}

    @property
    def initial(self) -> str:
        """As `--initial-controllers` has them."""
        return ",".join(
            f"{number}@{address}:{self.directory_ids[number]}" for number, address in self.controllers.items()
        )


def _uuid_text() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class QuorumNode(Broker):
    """A broker that is one of the controllers too, or a broker alone.

    Args:
        number: of the node.
        places: of the controllers; a node that they do not name is a broker alone.
        is_static: whether the voters are a setting (kraft.version 0).
    """

    release = "4.3.1"

    def __init__(self, libs: Path, work_dir: Path, number: int, places: Places, *, is_static: bool = False) -> None:
        self.number = number
        self.places = places
        self.is_static = is_static
        self.is_controller = number in places.controllers
        self.format_options = ()
        if not is_static:
            initial = ("--initial-controllers", places.initial)
            self.format_options = initial if self.is_controller else ("--no-initial-controllers",)
        work_dir.mkdir(parents=True)
        super().__init__(libs, work_dir)

    @property
    def metadata_dir(self) -> Path:
        """The directory of its metadata log."""
        return self.log_dir / METADATA

    def _places(self, controller_port: int) -> dict[str, str]:
        settings = (
            super()._places(controller_port)
            | _PATIENCE
            | {
                "node.id": str(self.number),
                "authorizer.class.name": _AUTHORIZER,
                "super.users": "User:ANONYMOUS",
                "default.replication.factor": "3",
            }
        )
        del settings["controller.quorum.bootstrap.servers"]
        settings |= self.quorum_setting()
        if not self.is_controller:
            settings["process.roles"] = "broker"
        return settings | self.listener_setting()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def listener_setting(self) -> dict[str, str]:
        """The setting with its own addresses."""
        listeners = f"PLAINTEXT://{self.bootstrap}"
        if self.is_controller:
            listeners += f",CONTROLLER://{self.places.controllers[self.number]}"
        return {"listeners": listeners}

    def quorum_setting(self, numbers: Sequence[int] | None = None) -> dict[str, str]:
        """The setting by which it finds the controllers, all of them or some."""
        wanted = {
            each: address for each, address in self.places.controllers.items() if numbers is None or each in numbers
        }
        if self.is_static:
            return {"controller.quorum.voters": ",".join(f"{each}@{address}" for each, address in wanted.items())}
        return {"controller.quorum.bootstrap.servers": ",".join(wanted.values())}


@contextmanager
def cluster(
    libs: Path,
    work_dir: Path,
    controllers: Sequence[int] = (1, 2, 3),
    brokers: Sequence[int] = (),
    *,
    release: str = "4.3.1",
    is_static: bool = False,
) -> Iterator[dict[int, QuorumNode]]:
    """Nodes that are not started yet, by their numbers; they are ended."""
    places, nodes = Places(controllers), {}
    try:
        for number in (*controllers, *brokers):
            kind = type("Node", (QuorumNode,), {"release": release})
            nodes[number] = kind(libs, work_dir / str(number), number, places, is_static=is_static)
        yield nodes
    finally:
        for node in nodes.values():
            node.close()


def leader_of(nodes: Mapping[int, QuorumNode]) -> int:
    """The node that leads the quorum, as the nodes have written down."""
    states = [json.loads((node.metadata_dir / "quorum-state").read_text()) for node in nodes.values()]
    return int(max(states, key=lambda state: state["leaderEpoch"])["leaderId"])


def start_all(nodes: Mapping[int, QuorumNode]) -> None:
    """Start them together: a quorum is needed before one of them is ready."""
    for node in nodes.values():
        node.start_without_waiting()
    for node in nodes.values():
        wait_for(lambda node=node: node.ready.search(node.output.encode()), "the node did not start")  # type: ignore[misc]


def wait_for(condition: object, what: str, seconds: float = SECONDS) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def admin_of(node: Broker) -> AdminClient:
    """An administration client."""
    return AdminClient({"bootstrap.servers": node.bootstrap, **QUIET})


TOPICS: Final = ("a", "b", "c", "d", "e")


def fill(node: Broker, topics: Sequence[str] = TOPICS, replicas: int = 3) -> None:
    """Topics with settings, and an ACL for each."""
    made = [
        NewTopic(name, num_partitions=3, replication_factor=replicas, config={"retention.ms": str(1000000 + number)})
        for number, name in enumerate(topics)
    ]
    make(node, made)
    bindings = [
        AclBinding(
            *(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, f"User:{name}", "*"),
            *(AclOperation.READ, AclPermissionType.ALLOW),
        )
        for name in topics
    ]
    admin = admin_of(node)
    for future in admin.create_acls(bindings).values():
        future.result(SECONDS)


def _acls(admin: AdminClient) -> list[str]:
    wanted = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    )
    return sorted(f"{acl.name} {acl.principal} {acl.operation}" for acl in admin.describe_acls(wanted).result(SECONDS))


def make(node: Broker, topics: Sequence[NewTopic]) -> None:
    """Make topics, once the client has found a controller that is alive."""
    deadline = time.monotonic() + SECONDS
    left = {each.topic: each for each in topics}
    while left:
        admin = admin_of(node)
        for name, future in admin.create_topics([*left.values()], operation_timeout=20, request_timeout=20).items():
            error = future.exception(SECONDS)
            if error is None or _code(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                del left[name]
            else:
                assert time.monotonic() < deadline, error
                time.sleep(0.5)


def _code(error: BaseException) -> int:
    return error.args[0].code() if isinstance(error, KafkaException) else 0


def described(node: Broker, topics: Sequence[str] = (), acls: int = 0) -> dict[str, object]:
    """The topics with their partitions' replicas and settings, and the ACLs, as an administrator reads them.

    A client asks any broker of the cluster, also one that has older metadata than the others.

    Args:
        node: that the client asks first.
        topics: that are there; it is asked again until they are.
        acls: how many are there, likewise.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            found = _described(admin_of(node))  # each time a new one, which asks where the controller is
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        else:
            if found["topics"].keys() >= set(topics) and len(found["acls"]) >= acls:
                return found
            assert time.monotonic() < deadline, found
        time.sleep(0.5)


def _described(admin: AdminClient) -> dict[str, Any]:
    topics = admin.list_topics(timeout=SECONDS).topics
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
    configs = {
        resource.name: {
            name: entry.value
            for name, entry in future.result(SECONDS).items()
            if entry.source == 1  # of the topic itself
        }
        for resource, future in (admin.describe_configs(resources) if resources else {}).items()
    }
    return {
        "topics": {
            name: {number: sorted(part.replicas) for number, part in topic.partitions.items()}
            for name, topic in topics.items()
        },
        "configs": configs,
        "acls": _acls(admin),
    }


def elect_uncleanly(node: Broker) -> None:
    """Ask for a leader of each partition that has none, whatever it may lack."""
    admin = admin_of(node)
    wanted = [TopicPartition(*place) for place, leader in leaders(node).items() if leader < 0]
    if wanted:
        admin.elect_leaders(ElectionType.UNCLEAN, wanted).result(SECONDS)


def leaders(node: Broker) -> dict[tuple[str, int], int]:
    """The leader of each partition; -1: it has none."""
    topics = admin_of(node).list_topics(timeout=SECONDS).topics
    return {(name, number): part.leader for name, topic in topics.items() for number, part in topic.partitions.items()}
