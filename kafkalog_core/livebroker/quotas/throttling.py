"""Enforcement of quotas: for how long the connection of a client is not read (KIP-219).

The answer is sent at once and says for how long its connection is muted; no thread waits for that.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog_core.livebroker.cluster.client_quotas import (
    CONNECTION_RATE,
    CONSUMER_RATE,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
)
from kafkalog_core.livebroker.quotas.quota_windows import QuotaSamples, RateWindow, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.livebroker.cluster.client_quotas import ClientQuotas
    from kafkalog_core.serve.network.answers import Answer, ConnectionFacts

__all__ = ["ClientThrottles", "RequestThrottle"]

_EXPIRY_MS: Final = 3_600_000  # ClientQuotaManager.INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS
_UNLIMITED: Final = 2**31 - 1

_DEFAULT_SAMPLES: Final = QuotaSamples()

_Key = tuple[str, str, str]
_Window = TypeVar("_Window", RateWindow, TokenBucket)


class ClientThrottles:
    """What clients have used of their quotas. Thread-safe.

    Windows are kept for an hour after their last use, as brokers keep them.

    Attributes:
        bound_ms: the longest throttle for the time of requests and for connections (`QuotaUtils.boundedThrottleTime`).
    """

    def __init__(
        self,
        quotas: ClientQuotas,
        clock: Callable[[], float],
        user_of: Callable[[ConnectionFacts], str],
        resolve: Callable[[str], str | None],
        samples: QuotaSamples = _DEFAULT_SAMPLES,
        samples_of_changes: QuotaSamples = _DEFAULT_SAMPLES,
    ) -> None:
        """Take the quotas.

        Args:
            quotas: of clients.
            clock: monotonic seconds.
            user_of: returns the name of a connection's user.
            resolve: returns the address of a host, or None.
            samples: what rates are measured in.
            samples_of_changes: samples for controller_mutation_rate.
        """
        self._quotas = quotas
        self._clock = clock
        self._user_of = user_of
        self._resolve = resolve
        self._samples = samples
        self._samples_of_changes = samples_of_changes
        self.bound_ms = samples.size_ms
        self._rates: OrderedDict[_Key, tuple[RateWindow, int]] = OrderedDict()
        self._buckets: OrderedDict[_Key, tuple[TokenBucket, int]] = OrderedDict()
        self._hosts: dict[str | None, float] = {}
        self._addresses: dict[str, str] = {}
        self._hosts_of = -1
        self._lock = threading.Lock()

    def begin(self, connection: ConnectionFacts, client_id: str | None, request_bytes: int) -> RequestThrottle | None:
        """Return what measures a request; None: there are no quotas. `request_bytes`: header and body."""
        if not self._quotas.keys:
            return None
        return RequestThrottle(self, self._user_of(connection), client_id or "", request_bytes, self._clock)

    def record(self, key: str, user: str, client_id: str, value: float, *, keeps: bool = True) -> int:
        """Count what a client uses, and return for how long it is throttled, in milliseconds.

        keeps: false: what throttles the client is not done, and does not count (`unrecordQuotaSensor`).
        """
        applied = self._quotas.applied(key, user, client_id) if key in self._quotas.keys else None
        if applied is None:
            return 0
        return self._record((key, *applied.shared_by), applied.bound, value, keeps=keeps)

    def _record(self, key: _Key, bound: float, value: float, *, keeps: bool) -> int:
        now_ms = int(self._clock() * 1000)
        with self._lock:
            window = _kept(self._rates, key, lambda: RateWindow(self._samples), now_ms)
            window.record(value, now_ms)
            throttle_ms = window.throttle_ms(bound, now_ms)
            # What is not sent, or not served, must not count against the client.
            if throttle_ms and not keeps:
                window.record(-value, now_ms)
        return throttle_ms

    def max_fetch_bytes(self, user: str, client_id: str) -> int:
        """Return the most bytes that are not throttled for certain (`ClientQuotaManager.maxValueInQuotaWindow`)."""
        applied = self._quotas.applied(CONSUMER_RATE, user, client_id)
        if applied is None:
            return _UNLIMITED
        kept = self._samples
        # All samples but the current one, which may have just begun.
        return min(_UNLIMITED, int(applied.bound * (kept.count - 1) * kept.size_ms / 1000))

    def mutate(self, user: str, client_id: str, count: int, *, is_strict: bool) -> tuple[bool, int]:
        """Take tokens for partitions that are created or deleted; return whether that is allowed, and the throttle.

        is_strict: with tokens missing, nothing is allowed; else it is done, and throttled
            (`StrictControllerMutationQuota`, `PermissiveControllerMutationQuota`).
        """
        applied = self._quotas.applied(MUTATION_RATE, user, client_id)
        if applied is None:
            return True, 0
        now_ms = int(self._clock() * 1000)
        with self._lock:
            key = (MUTATION_RATE, *applied.shared_by)
            bucket = _kept(self._buckets, key, lambda: TokenBucket(self._samples_of_changes), now_ms)
            if is_strict and bucket.tokens(applied.bound, now_ms) < 0:
                return False, bucket.throttle_ms(applied.bound, now_ms)
            bucket.take(count, applied.bound, now_ms)
            return True, 0 if is_strict else bucket.throttle_ms(applied.bound, now_ms)

    def connection_delay_s(self, host: str) -> float:
        """Count a connection of an address; 0: it may be served, else after how many seconds it is to be closed.

        `ConnectionQuotas.recordIpConnectionMaybeThrottle`, KIP-612.
        """
        if CONNECTION_RATE not in self._quotas.keys:
            return 0.0
        if self._hosts_of != self._quotas.generation:  # the acceptor alone calls this
            self._hosts_of = self._quotas.generation
            named = self._quotas.of_hosts()
            self._hosts = {None if name is None else self._address_of(name): rate for name, rate in named}
        rate = self._hosts.get(host, self._hosts.get(None))
        if rate is None:
            return 0.0
        return min(self.bound_ms, self._record((CONNECTION_RATE, host, ""), rate, 1, keeps=False)) / 1000

    def _address_of(self, host: str) -> str:
        """Return the address of a host, which is looked up once, as brokers do it."""
        found = self._addresses.get(host)
        if found is None:
            found = self._addresses[host] = self._resolve(host) or host
        return found


class RequestThrottle:
    """The use of quotas by one request."""

    __slots__ = (
        "_all", "_client_id", "_clock", "_mutation_ms", "_processed_ms", "_request_bytes", "_since_s", "_spent_s",
        "_user",
    )  # fmt: skip

    def __init__(
        self, throttles: ClientThrottles, user: str, client_id: str, request_bytes: int, clock: Callable[[], float]
    ) -> None:
        self._all = throttles
        self._user = user
        self._client_id = client_id
        self._request_bytes = request_bytes
        self._clock = clock
        self._spent_s = 0.0
        self._since_s: float | None = None
        self._mutation_ms = 0
        self._processed_ms: int | None = None

    def measure(self, handle: Callable[[], Answer]) -> Answer:
        """Return the answer of a handler, and count its time; the wait of a pending answer is not the client's use."""
        self._since_s = self._clock()
        try:
            return handle()
        finally:
            self._spent_s += self._clock() - self._since_s
            self._since_s = None

    def response_ms(self) -> int:
        """Return for how long the request throttles its client in any case, for its time and for its changes."""
        if self._processed_ms is None:
            since_s = self._since_s  # another thread may answer while the handler's own ends
            spent_s = self._spent_s + (0.0 if since_s is None else self._clock() - since_s)
            # ClientRequestQuotaManager.nanosToPercentage: 100 is one thread for all of a second
            throttle_ms = self._all.record(REQUEST_PERCENTAGE, self._user, self._client_id, 100 * spent_s)
            self._processed_ms = min(self._all.bound_ms, throttle_ms)
        return max(self._processed_ms, self._mutation_ms)

    def produced_ms(self) -> int:
        """Count the request as records that a client produces, and return the throttle."""
        return self._all.record(PRODUCER_RATE, self._user, self._client_id, self._request_bytes)

    def fetched_ms(self, response_bytes: int) -> int:
        """Count a response with records, and return the throttle: then an empty one is sent and this one not counted.

        `KafkaApis.handleFetchRequest`.
        """
        if self.response_ms():
            return self.response_ms()
        return self._all.record(CONSUMER_RATE, self._user, self._client_id, response_bytes, keeps=False)

    def max_fetch_bytes(self) -> int:
        """Return the most bytes of records that one response may have."""
        return self._all.max_fetch_bytes(self._user, self._client_id)

    def allows_changes(self, partitions: int, *, is_strict: bool) -> bool:
        """Count partitions that are to be created or deleted, and return whether the quota allows it (KIP-599)."""
        is_allowed, throttle_ms = self._all.mutate(self._user, self._client_id, partitions, is_strict=is_strict)
        self._mutation_ms = max(self._mutation_ms, throttle_ms)
        return is_allowed


def _kept(
    windows: OrderedDict[_Key, tuple[_Window, int]], key: _Key, new: Callable[[], _Window], now_ms: int
) -> _Window:
    """Return the window of a client, and forget those that nobody has used for long."""
    found = windows.get(key)
    window = new() if found is None else found[0]
    windows[key] = window, now_ms
    # In the order of their last use, so the oldest come first.
    windows.move_to_end(key)
    while next(iter(windows.values()))[1] <= now_ms - _EXPIRY_MS:
        windows.popitem(last=False)
    return window
