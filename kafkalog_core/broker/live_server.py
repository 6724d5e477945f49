"""A small real broker over one log directory: the handlers of all requests, and what runs in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kafkalog_core.broker.answers import NO_OBSERVER
from kafkalog_core.broker.append_waiters import AppendWaiters
from kafkalog_core.broker.fetch_requests import FetchRequests
from kafkalog_core.broker.network import NetworkServer
from kafkalog_core.broker.produce_requests import ProduceRequests
from kafkalog_core.broker.requests import RequestDispatcher
from kafkalog_core.broker.topic_changes import TopicChanges
from kafkalog_core.broker.topic_requests import NodeAddress, TopicRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from kafkalog_core.broker.answers import ConnectionFacts, NetworkObserver
    from kafkalog_core.broker.live_disks import LiveDisks
    from kafkalog_core.broker.network import Address
    from kafkalog_core.broker.server import BrokerOptions

__all__ = ["LiveBroker"]


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
    ) -> None:
        """Load the coordinators, and listen; nothing is accepted before the start. Raises ListenError.

        Args:
            disks: what is served.
            options: how it listens and answers.
            clock: monotonic seconds.
            clock_ms: time of day, in milliseconds since 1970.
            new_member_id: returns an id that is used once for a member of a group, from the client's id.
            observer: receives what happens on the network.
        """
        self._disks = disks
        self._options = options
        self.notes: list[str] = []
        waiters = AppendWaiters()
        changes = TopicChanges(disks)
        parts = (
            TopicRequests(disks, self._address, changes.auto_create),
            FetchRequests(disks, clock, waiters),
            ProduceRequests(disks, _NoTransactions(), clock_ms, waiters.notify),
            changes,
        )
        dispatcher = RequestDispatcher({name: entry for each in parts for name, entry in each.handlers().items()})
        self._network = NetworkServer(options.listen, dispatcher, clock, observer=observer, limits=options.limits)
        self.addresses: Sequence[Address] = self._network.addresses
        self._ports = {each.listener: each.port for each in reversed(self.addresses)}

    def _address(self, connection: ConnectionFacts) -> NodeAddress:
        host, port = self._options.advertised[connection.listener]
        return NodeAddress(self._disks.node_id, host, port or self._ports[connection.listener])

    def sweep(self) -> None:
        """End what is over: to be called a few times a second."""

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


class _NoTransactions:
    def is_in_transaction(self, *_: object) -> int:
        return 48
