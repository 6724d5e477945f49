"""A small real broker over one log directory: the handlers of all requests, and what runs in the background."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import KafkalogError
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import matches_host_ranges
from kafkalog_core.kafka.sim.group_states import read_groups
from kafkalog_core.livebroker.cluster.acls import Authorizer
from kafkalog_core.livebroker.disks.live_settings import STANDARD_AUTHORIZER_SETTING
from kafkalog_core.livebroker.disks.upkeep import Upkeep
from kafkalog_core.livebroker.groups.group_store import LoggedGroups, load_groups
from kafkalog_core.livebroker.groups.live_offsets import LiveOffsets
from kafkalog_core.livebroker.logs.append_waiters import AppendWaiters
from kafkalog_core.livebroker.quotas.quota_requests import QuotaRequests
from kafkalog_core.livebroker.quotas.quota_windows import QuotaSamples
from kafkalog_core.livebroker.quotas.throttling import ClientThrottles
from kafkalog_core.livebroker.security.acl_requests import AclRequests
from kafkalog_core.livebroker.security.authorization import TopicLookup
from kafkalog_core.livebroker.security.cluster_rules import AuthorizedHandlers
from kafkalog_core.livebroker.security.scram_requests import ScramRequests
from kafkalog_core.livebroker.share.shares import Shares
from kafkalog_core.livebroker.topics.config_requests import ConfigRequests
from kafkalog_core.livebroker.topics.produce_requests import ProduceRequests
from kafkalog_core.livebroker.topics.topic_changes import TopicChanges
from kafkalog_core.livebroker.transactions.coordinator import TransactionCoordinator, TransactionLimits
from kafkalog_core.livebroker.transactions.coordinator_logs import CoordinatorLog, Markers
from kafkalog_core.livebroker.transactions.transaction_requests import TransactionRequests
from kafkalog_core.serve.groups.group_registry import GroupRegistry
from kafkalog_core.serve.groups.group_requests import GroupRequests
from kafkalog_core.serve.groups.modern_group_requests import ConsumerGroupRequests
from kafkalog_core.serve.groups.offset_commit_requests import OffsetCommitRequests
from kafkalog_core.serve.metrics.status import BrokerStatus
from kafkalog_core.serve.network.answers import NO_OBSERVER
from kafkalog_core.serve.network.request_threads import CHANGE_S
from kafkalog_core.serve.network.socket_server import resolved
from kafkalog_core.serve.server import Without, network_of
from kafkalog_core.serve.topics.broker_configs import identity_configs, limit_configs
from kafkalog_core.serve.topics.fetch_requests import FetchRequests
from kafkalog_core.serve.topics.topic_requests import NodeAddress, TopicRequests
from kafkalog_core.serve.transactions.transaction_descriptions import TransactionDescriptions
from kafkalog_core.structs import replace
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from types import TracebackType

    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.livebroker.disks.live_settings import LiveSettings
    from kafkalog_core.serve.network.answers import ConnectionFacts, NetworkCounters, NetworkObserver
    from kafkalog_core.serve.network.requests import RequestContext
    from kafkalog_core.serve.network.socket_server import Address
    from kafkalog_core.serve.server import BrokerOptions, Handlers
    from kafkalog_core.serve.topics.broker_configs import BrokerConfig
    from kafkalog_core.serve.topics.traffic import Traffic

__all__ = ["LiveBroker"]

_UPKEEP_S: Final = 0.5
_MINUTE_MS: Final = 60_000


class LiveBroker:
    """A broker that writes; a context manager that starts it and closes it. The caller closes the disks after it."""

    def __init__(
        self,
        disks: LiveDisks,
        options: BrokerOptions,
        *,
        clock: Callable[[], float],
        clock_ms: Callable[[], int],
        new_member_id: Callable[[str], str],
        observer: NetworkObserver = NO_OBSERVER,
        decoded: Callable[[str, int, ConnectionFacts], None] | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """Load the coordinators, and listen; nothing is accepted before the start. Raises ListenError.

        Args:
            disks: what is served.
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
        self._clock_ms = clock_ms
        self._observer = observer
        self.notes: list[str] = []
        waiters = AppendWaiters(observer.network_error)
        group_log = CoordinatorLog(disks, OFFSETS_TOPIC, clock_ms, waiters.notify)
        states, problems = read_groups(self._offset_dirs())
        self._offsets = LiveOffsets(group_log, states)
        delay_s = disks.settings.number("group.initial.rebalance.delay.ms") / 1000
        limits = replace(options.groups, initial_delay_s=delay_s, max_members=disks.settings.number("group.max.size"))
        store = LoggedGroups(self._offsets.write, disks)
        shares = self._shares = Shares(disks, store.save_shares, waiters, clock, clock_ms, traffic)
        self._groups = GroupRegistry(self._offsets, disks, clock, clock_ms, new_member_id, limits, store, shares.groups)
        self._groups.consumers.limits_of = shares.configs.consumer_limits
        self.status = BrokerStatus(disks, self._groups)
        load_groups(self._groups, shares.groups, states, disks)
        self.notes += [f"groups or their offsets may be missing: {each}" for each in problems + shares.problems]
        markers = Markers(disks, clock_ms, waiters.notify, self._offsets.complete_transaction)
        transaction_log = CoordinatorLog(disks, TRANSACTIONS_TOPIC, clock_ms, waiters.notify)
        settings = disks.settings
        bounds = TransactionLimits(
            max_timeout_ms=settings.number("transaction.max.timeout.ms"),
            expiration_ms=int(disks.configs.broker("transactional.id.expiration.ms").text),
        )
        self._transactions = TransactionCoordinator(transaction_log, markers, clock_ms, bounds)
        samples = [_samples_of(settings, prefix) for prefix in ("", "controller.")]
        throttles = ClientThrottles(disks.quotas, clock, options.user_of, resolved, *samples)
        parts = self._guarded(self._parts(clock, waiters, group_log, traffic))
        observer = shares.watching(observer)
        self.dispatcher, self._network = network_of(
            parts,
            options,
            clock,
            observer,
            decoded,
            throttles,
            disks=disks,
            lacks_groups=lambda: OFFSETS_TOPIC not in disks.topics,
        )
        self.addresses: Sequence[Address] = self._network.addresses
        self._ports = {each.listener: each.port for each in reversed(self.addresses)}
        self._upkeep = Upkeep(disks, clock_ms, failed=observer.network_error, more=self._tasks())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name="kafkalog-upkeep", daemon=True)

    # --- handlers -----------------------------------------------------------------------------------------------------
    def _parts(
        self, clock: Callable[[], float], waiters: AppendWaiters, group_log: CoordinatorLog, traffic: Traffic | None
    ) -> Sequence[Handlers]:
        """Return the handlers of all APIs."""
        disks, settings, clock_ms = self._disks, self._disks.settings, self._clock_ms
        partitions = settings.number("num.partitions")
        changes = TopicChanges(disks, default_partitions=partitions, deleted=self._forget_topic)
        in_transactions = self._transactions, group_log.partition_of
        topics = TopicRequests(disks, self._address, changes.auto_create if settings.creates_topics else _never)
        return (
            # A broker over dead disks answers these itself; here the parts below do.
            Without(topics, "Produce", "DescribeConfigs", "DescribeAcls"),
            FetchRequests(disks, clock, waiters, traffic),
            ProduceRequests(disks, self._transactions, clock_ms, waiters.notify, traffic),
            GroupRequests(self._groups, self._address, can_delete=True, create_topic=self._create_topic),
            ConsumerGroupRequests(self._groups, disks),
            OffsetCommitRequests(disks, self._groups, clock_ms, "log", in_transactions),
            TransactionRequests(self._transactions, disks, group_log.partition_of),
            TransactionDescriptions(disks, self._transactions.transactions, clock_ms),
            changes,
            ConfigRequests(disks, self._shares.configs, self._own_configs),
            AclRequests(disks, is_enforced=settings.authorizer is not None),
            ScramRequests(disks),
            QuotaRequests(disks, resolved),
            *self._shares.handlers(self._groups),
        )

    def _guarded(self, parts: Sequence[Handlers]) -> Sequence[Handlers]:
        """Return the handlers, authorized if there is an authorizer."""
        disks, chosen = self._disks, self._disks.settings.authorizer
        if chosen is None:
            if len(disks.acls):
                self.notes.append(
                    f"warning: ACLs in the metadata log are not enforced ({len(disks.acls)}): add --set "
                    f"{STANDARD_AUTHORIZER_SETTING} to enforce them"
                )
            return parts
        authorizer = Authorizer(disks.acls, chosen.super_users, chosen.allows_unlisted, matches_host_ranges(LATEST))
        topics = TopicLookup(disks.topic_name, lambda: disks.topics, disks.settings.creates_topics)
        return (AuthorizedHandlers(parts, authorizer, topics, self._options.user_of),)

    # --- groups -------------------------------------------------------------------------------------------------------
    def _offset_dirs(self) -> list[str]:
        topic = self._disks.topics.get(OFFSETS_TOPIC)
        return [] if topic is None else [topic.copies[number][0].place.path for number in sorted(topic.copies)]

    def _forget_topic(self, topic: str) -> None:
        self._offsets.forget_topic(topic)
        self._shares.groups.forget_topics()

    def _address(self, connection: ConnectionFacts) -> NodeAddress:
        host, port = self._options.advertised[connection.listener]
        return NodeAddress(self._disks.node_id, host, port or self._ports[connection.listener])

    def _own_configs(self) -> Iterator[BrokerConfig]:
        disks, options = self._disks, self._options
        yield from identity_configs(disks.node_id, disks.log_dirs, self.addresses, options.advertised)
        yield from limit_configs(options.limits)
        yield from disks.settings.described()

    def _create_topic(self, coordinator: int) -> None:
        name = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)[coordinator]
        if name not in self._disks.topics:
            self._disks.internal_topic(name)

    # --- time ---------------------------------------------------------------------------------------------------------
    def sweep(self) -> None:
        """End sessions, rebalances and transactions whose time is over: to be called a few times a second."""
        self._groups.expire()
        if self._disks.is_offline:
            return  # their ends cannot be written
        for what, expire in (
            ("the end of a transaction", self._transactions.expire),
            ("the end of record locks", self._shares.expire),
        ):
            try:
                expire()
            except (KafkalogError, OSError) as error:
                self._observer.network_error(what, error)

    def _tasks(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Return what coordinators do in the background, each task with its interval in milliseconds."""
        number = self._disks.settings.number
        ids_ms = number("transaction.remove.expired.transaction.cleanup.interval.ms")
        return {
            "the expiry of offsets": (number("offsets.retention.check.interval.ms"), self.expire_offsets),
            "the expiry of transactional ids": (ids_ms, self._transactions.forget),
            **self._shares.tasks(),
        }

    def expire_offsets(self) -> None:
        """Delete offsets of groups that have expired, and empty groups without any. Raises KafkalogError."""
        retention_ms = self._disks.settings.number("offsets.retention.minutes") * _MINUTE_MS
        now_ms = self._clock_ms()
        self._groups.expire_offsets(partial(self._offsets.expire, now_ms=now_ms, retention_ms=retention_ms))

    def _keep_up(self) -> None:
        """Do the background work until the broker is closed."""
        while not self._stopped.wait(_UPKEEP_S):
            self._upkeep.run()

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
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop accepting, let answers in flight end, and close every connection, while the background work ends.

        What does not end may still write, so that the stop is not a clean one.
        """
        self._stopped.set()
        self._upkeep.stop()
        ended = [self._network.close(), self.dispatcher.close()]
        self._thread.join(CHANGE_S)
        if self._thread.is_alive() or not all(ended):
            self._disks.abandon()


def _samples_of(settings: LiveSettings, prefix: str) -> QuotaSamples:
    """Return what rates are measured in. prefix: of the names of the settings."""
    size_s = settings.number(f"{prefix}quota.window.size.seconds")
    return QuotaSamples(settings.number(f"{prefix}quota.window.num"), 1000 * size_s)


def _never(_: RequestContext, names: Collection[str]) -> None:
    """Create no topic: auto.create.topics.enable=false."""
    del names
