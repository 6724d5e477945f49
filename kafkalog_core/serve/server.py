"""A broker over disks that nothing writes to: the handlers of all requests, over the network.

Each part is usable alone: `ServedDisks` reads, the handlers answer, `NetworkServer` listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from kafkalog_core.errors import StorageError, UnsupportedError
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.sim.group_states import read_groups
from kafkalog_core.kafka.sim.transactions import read_transactions
from kafkalog_core.serve.groups.committed_offsets import CommittedOffsets
from kafkalog_core.serve.groups.group_members import GroupLimits
from kafkalog_core.serve.groups.group_registry import GroupRegistry
from kafkalog_core.serve.groups.group_requests import GroupRequests
from kafkalog_core.serve.groups.modern_group_requests import ConsumerGroupRequests
from kafkalog_core.serve.groups.offset_commit_requests import OffsetCommitRequests
from kafkalog_core.serve.metrics.status import BrokerStatus
from kafkalog_core.serve.network.answers import NO_OBSERVER, NetworkLimits
from kafkalog_core.serve.network.requests import RequestDispatcher
from kafkalog_core.serve.network.socket_server import NetworkServer
from kafkalog_core.serve.security.authentication import ANONYMOUS
from kafkalog_core.serve.topics.broker_configs import BrokerConfig, identity_configs
from kafkalog_core.serve.topics.fetch_requests import FetchRequests
from kafkalog_core.serve.topics.topic_requests import NodeAddress, TopicRequests
from kafkalog_core.serve.transactions.transaction_descriptions import TransactionDescriptions
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of, first_of
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from kafkalog_core.serve.disks.served_disks import FinalizedFeatures, ServedDisks
    from kafkalog_core.serve.groups.offset_commit_requests import Commits
    from kafkalog_core.serve.network.answers import ConnectionFacts, NetworkCounters, NetworkObserver
    from kafkalog_core.serve.network.requests import Handler, Throttles
    from kafkalog_core.serve.network.socket_server import Address, Listener
    from kafkalog_core.serve.security.authentication import Authentication
    from kafkalog_core.serve.topics.traffic import Traffic

__all__ = ["BrokerOptions", "Handlers", "ReadOnlyBroker", "Without", "handlers_of", "network_of"]

_NOTED_PROBLEMS = 10


class BrokerOptions(Struct, frozen=True, kw_only=True):
    """How the broker listens and answers.

    Args:
        listen: addresses, at least one.
        advertised: host and port that clients are sent to, by the name of the listener; port 0: the listener's own.
        commits: what becomes of offsets that clients commit.
        limits: bounds of the network.
        groups: bounds of groups.
        authentication: how clients prove who they are; None: no client has to.
    """

    listen: Sequence[Listener]
    advertised: Mapping[str, tuple[str, int]]
    commits: Commits = "memory"
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    groups: GroupLimits = field(default_factory=GroupLimits)
    authentication: Authentication | None = None

    def user_of(self, connection: ConnectionFacts) -> str:
        """Return the name of a client's principal (`DefaultKafkaPrincipalBuilder`).

        That is its SASL user, or the subject of its certificate, or ANONYMOUS.
        """
        user = ANONYMOUS if self.authentication is None else self.authentication.user_of(connection)
        return (connection.certificate_subject() or ANONYMOUS) if user == ANONYMOUS else user


class Handlers(Protocol):
    """Handlers of some APIs."""

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""


class Without:
    """The handlers of a part, without the handlers that another part replaces."""

    def __init__(self, part: Handlers, *replaced: str) -> None:
        """Leave out the handlers of some APIs, by name."""
        self._part = part
        self._replaced = replaced

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """See `Handlers`. Raises KeyError for an API that the part does not have."""
        found = self._part.handlers()
        for name in self._replaced:
            del found[name]
        return found


def handlers_of(parts: Iterable[Handlers]) -> dict[str, tuple[int, Handler]]:
    """Return the handlers of all parts. Raises ValueError if two parts have a handler of one API."""
    found: dict[str, tuple[int, Handler]] = {}
    for part in parts:
        for name, entry in part.handlers().items():
            if name in found:
                raise ValueError(f"{name} has two handlers, and `Without` leaves out neither of them")
            found[name] = entry
    return found


class ServedCluster(Protocol):
    """What is served, as far as every request depends on it."""

    @property
    def features(self) -> FinalizedFeatures:
        """The features of the cluster."""

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic, Kafka's own among them."""


def network_of(
    parts: Iterable[Handlers],
    options: BrokerOptions,
    clock: Callable[[], float],
    observer: NetworkObserver,
    decoded: Callable[[str, int, ConnectionFacts], None] | None,
    throttles: Throttles | None = None,
    *,
    disks: ServedCluster,
    lacks_groups: Callable[[], bool] | None = None,
) -> tuple[RequestDispatcher, NetworkServer]:
    """Return the dispatcher of a broker's handlers, and the server that listens for it. Raises ListenError."""
    guard = options.authentication
    every = [*parts] if guard is None else [*parts, guard]
    dispatcher = RequestDispatcher(
        handlers_of(every),
        decoded=decoded,
        throttles=throttles,
        lacks_groups=lacks_groups,
        features=lambda: disks.features,
        partitions=lambda: sum(disks.partition_counts().values()),
    )
    handler = dispatcher if guard is None else guard.before(dispatcher)
    delay_s = None if throttles is None else throttles.connection_delay_s
    server = NetworkServer(
        options.listen,
        handler,
        clock,
        observer=observer,
        limits=options.limits,
        delay_s=delay_s,
        max_frame_bytes=None if guard is None else guard.max_frame_bytes,
    )
    return dispatcher, server


class ReadOnlyBroker:
    """A broker that reads from disks alone; a context manager that starts it and closes it."""

    def __init__(
        self,
        disks: ServedDisks,
        options: BrokerOptions,
        *,
        clock: Callable[[], float],
        clock_ms: Callable[[], int],
        new_member_id: Callable[[str], str],
        observer: NetworkObserver = NO_OBSERVER,
        decoded: Callable[[str, int, ConnectionFacts], None] | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """Read the committed offsets, and listen; nothing is accepted before the start. Raises ListenError.

        Args:
            disks: what is served; the caller closes it after the broker.
            options: how it listens and answers.
            clock: monotonic seconds.
            clock_ms: time of day, in milliseconds since 1970.
            new_member_id: returns an id that is used once for a member of a group, from the client's id.
            observer: receives what happens on the network.
            decoded: called with the API, the version and the connection of each request.
            traffic: counts what clients write and read.
        """
        self._disks = disks
        self._options = options
        until_ms = MAX_INT64 if disks.until_ms is None else disks.until_ms
        self.notes: list[str] = []
        states, problems = read_groups(self._logs_of(OFFSETS_TOPIC), until_ms=until_ms)
        self._note("committed offsets may be missing", problems)
        if OFFSETS_TOPIC not in disks.topics:
            self.notes.append(f"no group has a committed offset: {OFFSETS_TOPIC} is not among what is served")
        self._groups = GroupRegistry(CommittedOffsets(states), disks, clock, clock_ms, new_member_id, options.groups)
        transactions, problems = read_transactions(self._logs_of(TRANSACTIONS_TOPIC), until_ms=until_ms)
        self._note(
            "transactions may be missing, or older than the last ones", [*problems, *self._unserved(TRANSACTIONS_TOPIC)]
        )
        at_ms = clock_ms if disks.until_ms is None else lambda: until_ms
        self.status = BrokerStatus(disks, self._groups)
        handlers = (
            TopicRequests(disks, self._address, of_broker=self._own_configs),
            FetchRequests(disks, clock, traffic=traffic),
            GroupRequests(self._groups, self._address),
            ConsumerGroupRequests(self._groups, disks),
            OffsetCommitRequests(disks, self._groups, clock_ms, options.commits),
            TransactionDescriptions(disks, lambda: transactions, at_ms),
        )
        self.dispatcher, self._network = network_of(handlers, options, clock, observer, decoded, disks=disks)
        self.addresses: Sequence[Address] = self._network.addresses
        self._ports = {each.listener: each.port for each in reversed(self.addresses)}

    def _note(self, what: str, problems: Sequence[str]) -> None:
        self.notes += [f"{what}: {each}" for each in problems[:_NOTED_PROBLEMS]]
        if len(problems) > _NOTED_PROBLEMS:
            self.notes.append(f"and {count_of(len(problems) - _NOTED_PROBLEMS, 'place')} more like these")

    def _unserved(self, name: str) -> list[str]:
        """Return a sentence about the partitions of a topic that no disk has; others are after them."""
        topic = self._disks.topics.get(name)
        missing = [] if topic is None else sorted(set(range(topic.partition_count)) - topic.copies.keys())
        names = first_of([f"{name}-{number}" for number in missing])
        return [f"the disks have no copy of {names}"] if missing else []

    def _logs_of(self, name: str) -> Iterator[str]:
        """Yield the directories of the partitions of one of Kafka's own topics, the best copy of each."""
        topic = self._disks.topics.get(name)
        for number in sorted(topic.copies) if topic is not None else ():
            try:
                partition = self._disks.partition(name, number)
            except (StorageError, UnsupportedError):
                continue  # Metadata lists it without a leader
            if partition is not None:
                yield partition.path

    def _address(self, connection: ConnectionFacts) -> NodeAddress:
        host, port = self._options.advertised[connection.listener]
        return NodeAddress(self._disks.node_id, host, port or self._ports[connection.listener])

    def _own_configs(self) -> list[BrokerConfig]:
        found = identity_configs(self._disks.node_id, self._disks.log_dirs, self.addresses, self._options.advertised)
        return [*found, BrokerConfig("auto.create.topics.enable", "false", "boolean", "true")]

    def sweep(self) -> None:
        """End the sessions and rebalances whose time is over: to be called a few times a second."""
        self._groups.expire()

    def counters(self) -> list[NetworkCounters]:
        """Return the sums of each thread of the network."""
        return self._network.counters()

    def requests(self) -> tuple[int, int]:
        """Return the number of requests, and of bytes sent, since the start."""
        counters = self._network.counters()
        return sum(each.requests for each in counters), sum(each.bytes_out for each in counters)

    def __enter__(self) -> Self:
        """Start the threads."""
        self._network.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop accepting, let answers in flight end, and close every connection."""
        self._network.close()
        self.dispatcher.close()
