"""From the bytes of a request to the handler of its API, and from a handler's body to the bytes of a response.

A handler is a function of a decoded request; it knows neither connections nor encodings (Kafka's `KafkaApis`). It
returns the answer that `RequestContext.reply` makes of a response body, or a `PendingAnswer` whose body comes later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from kafkalog_core.errors import ProtocolError
from kafkalog_core.serve.network.answers import Close, Reply
from kafkalog_core.serve.network.request_threads import RequestThreads
from kafkalog_core.structs import Struct
from kafkalog_core.wire.codec import MAX_ELEMENTS
from kafkalog_core.wire.error_codes import ErrorCode
from kafkalog_core.wire.frames import (
    LargeRequestError,
    UnsupportedVersionError,
    decode_request,
    encode_response,
)
from kafkalog_core.wire.schemas import apis, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.serve.disks.served_disks import FinalizedFeatures
    from kafkalog_core.serve.network.answers import Answer, ConnectionFacts, Piece
    from kafkalog_core.wire.frames import Request
    from kafkalog_core.wire.schemas import Api

__all__ = ["Body", "Handler", "RequestContext", "RequestDispatcher", "RequestObserver", "Throttle", "Throttles"]

Body: TypeAlias = dict[str, Any]
"""A message: fields by the names of Kafka's schemas in snake case. Fields that have a default may be missing."""

_API_VERSIONS: Final = "ApiVersions"
_LAST_API_VERSIONS: Final = 4  # in version 5 a client names the node that it expects, which a dead disk cannot promise
_READS: Final = frozenset(
    {
        *("Fetch", "ListOffsets", "OffsetForLeaderEpoch", "Metadata", "DescribeTopicPartitions", "DescribeLogDirs"),
        *("DescribeProducers", "DescribeConfigs", "FindCoordinator", "ShareGroupHeartbeat"),
    }
)
"""APIs that read logs, which may take long, or may create one of Kafka's own topics."""
_CHANGES: Final = frozenset(
    {
        *("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs"),
        *("CreateAcls", "DeleteAcls", "AlterUserScramCredentials", "AlterClientQuotas", "DeleteRecords"),
        *("AlterShareGroupOffsets", "DeleteShareGroupOffsets", "InitProducerId"),
    }
)
"""APIs that write the metadata log, which is fsynced, or make and delete directories."""
_OF_GROUPS: Final = frozenset(
    {
        *("JoinGroup", "SyncGroup", "OffsetCommit", "ConsumerGroupHeartbeat"),
        *("AddOffsetsToTxn", "TxnOffsetCommit"),
    }
)
"""APIs that write into `__consumer_offsets`, or name a partition of it: the first one of all creates the topic."""
_FEATURES: Final = {
    "metadata.version": (7, 30),
    "group.version": (0, 1),
    "share.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}
"""The features that this broker supports, at the levels of Kafka 4.3 (`BrokerFeatures`).

Features that it does not serve are left out: transaction.version (KIP-890), streams.version and the controllers'
kraft.version. A Java producer that finds transaction.version 2 finalized adds no partition to a transaction any more.
"""
_FIRST_WITH_LEVEL_0: Final = 4  # before, clients cannot read a feature that is supported from 0 on (KAFKA-17492)
_FEW_ELEMENTS: Final = 20_000
"""Elements of a request that are always read: twice what a controller takes of one (`MAX_RECORDS_PER_USER_OP`)."""
_ELEMENTS_PER_PARTITION: Final = 4  # a request names each topic and partition at most once, some for each group
_NAMED: Final = 3  # since this version clients name their software (KIP-511)
_UNMEASURED: Final = frozenset({17, 36})  # SaslHandshake, SaslAuthenticate: the user is not known yet
_CLIENT_WORD: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Throttle(Protocol):
    """What measures one request: see `livebroker.quotas.throttling.RequestThrottle`."""

    def measure(self, handle: Callable[[], Answer], /) -> Answer:
        """Return the answer of a handler, and count its time."""

    def response_ms(self) -> int:
        """Return for how long the request throttles its client in any case."""

    def produced_ms(self) -> int:
        """Count the request as records that a client produces, and return the throttle."""

    def fetched_ms(self, response_bytes: int, /) -> int:
        """Count a response with records, and return the throttle."""

    def max_fetch_bytes(self) -> int:
        """Return the most bytes of records that one response may have."""

    def allows_changes(self, partitions: int, /, *, is_strict: bool) -> bool:
        """Count partitions that are to be created or deleted, and return whether the quota allows it."""


class Throttles(Protocol):
    """What clients have used of their quotas: see `livebroker.quotas.throttling.ClientThrottles`."""

    def begin(self, connection: ConnectionFacts, client_id: str | None, request_bytes: int, /) -> Throttle | None:
        """Return what measures a request; None: there are no quotas."""

    def connection_delay_s(self, host: str, /) -> float:
        """Count a connection of an address. Return 0 if it may be served, or the seconds until it is to be closed."""


class RequestContext(Struct):
    """A decoded request, and the connection that it came from.

    amend: changes the body of its response. throttle: measures it; None: there are no quotas. may_use: returns whether
        the client may use a topic that the request does not name, such as one of a session; None: it may use all.
    """

    request: Request
    connection: ConnectionFacts
    amend: Callable[[Body], Body] | None = None
    throttle: Throttle | None = None
    may_use: Callable[[str], bool] | None = None

    @property
    def body(self) -> Body:
        """The body of the request."""
        return self.request.body

    @property
    def version(self) -> int:
        """The version of the request and of its response."""
        return self.request.version

    def reply(self, body: Body, throttle_ms: int = 0) -> Reply:
        """Return the response with this body. Raises ProtocolError if a field does not fit its schema.

        throttle_ms: how long a quota of bytes throttles the client; the time of the request quota is added here.
        """
        request = self.request
        body = body if self.amend is None else self.amend(body)
        # The longest of the throttles counts: they run at the same time.
        if self.throttle is not None:
            throttle_ms = max(throttle_ms, self.throttle.response_ms())
            # The client is shown the time, and the network does not read it for as long (KIP-219).
            if throttle_ms:
                body = {**body, "throttle_time_ms": throttle_ms}
        pieces = encode_response(request.api, request.version, request.correlation_id, body)
        # the parts of a body are bytes and file ranges alone
        return Reply(cast("Sequence[Piece]", pieces), mute_s=throttle_ms / 1000)


Handler: TypeAlias = "Callable[[RequestContext], Answer]"


class RequestObserver(Protocol):
    """Receives what clients ask for that is not served. Network threads call it."""

    def request_refused(self, connection: ConnectionFacts, detail: str) -> None:
        """Note a request that is not answered, and whose connection is closed."""


class RequestDispatcher:
    """The `RequestHandler` of the network: decodes a request, and calls the handler of its API.

    Every version from 0 to the given one is advertised, although brokers of 4.x removed the first ones: the table of
    schemas has them all, so clients of 0.8 to 0.10 are served too.
    """

    def __init__(
        self,
        handlers: Mapping[str, tuple[int, Handler]],
        observer: RequestObserver | None = None,
        decoded: Callable[[str, int, ConnectionFacts], None] | None = None,
        throttles: Throttles | None = None,
        lacks_groups: Callable[[], bool] | None = None,
        features: Callable[[], FinalizedFeatures] | None = None,
        partitions: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take the handlers.

        handlers: the last version that is served and the handler, by the name of the API (`Fetch`); ApiVersions itself
            is answered here.
        observer: receives what is not served.
        decoded: called with the API and the version of each request that is served, and its connection.
        throttles: measure what clients use of their quotas.
        lacks_groups: returns whether `__consumer_offsets` would be created by a record; None: none is written.
        features: returns the finalized features of the cluster; None: it has none.
        partitions: returns the number of partitions that exist: a request may have elements in proportion to it.
        """
        by_name = {api.name: api for api in apis().values()}
        self._handlers = {by_name[name].key: entry for name, entry in handlers.items()}
        own = by_name[_API_VERSIONS]
        self._handlers[own.key] = (_LAST_API_VERSIONS, self._api_versions)
        # From 0 on: clients choose the highest version that both sides have.
        self._ranges = [
            {"api_key": key, "min_version": 0, "max_version": last} for key, (last, _) in sorted(self._handlers.items())
        ]
        self._observer = observer
        self._decoded = decoded
        self._threads = RequestThreads()
        self._throttles = throttles
        self._lacks_groups = lacks_groups
        self._features = features
        self._partitions = partitions

    def handle(self, request: memoryview, connection: ConnectionFacts) -> Answer:
        """Return the answer to a request. A request that cannot be decoded, or is not served, closes its connection."""
        try:
            decoded = self._decode(request)
        except ProtocolError as error:
            return self._undecoded(error, connection)
        last, handler = self._handlers.get(decoded.api.key, (-1, None))
        if handler is None:
            return self._close(connection, f"{decoded.api.name} is not served")
        if decoded.version > last:
            detail = f"{decoded.api.name} is served up to version {last}, not in version {decoded.version}"
            return self._unsupported(decoded.api, decoded.correlation_id, connection, detail)
        if self._decoded is not None:
            self._decoded(decoded.api.name, decoded.version, connection)
        throttle = None
        # Requests before the log-in have no user whose quota they could use.
        if self._throttles is not None and decoded.api.key not in _UNMEASURED:
            throttle = self._throttles.begin(connection, decoded.client_id, len(request))
        context = RequestContext(decoded, connection, throttle=throttle)
        if throttle is not None:
            return self._on_thread(context, lambda given: throttle.measure(lambda: handler(given)))
        return self._on_thread(context, handler)

    def _on_thread(self, context: RequestContext, handler: Handler) -> Answer:
        """Return the answer of a handler: of this thread, or later of one that reads or changes (`RequestThreads`)."""
        name = context.request.api.name
        # On other threads: the network's own would keep all its connections waiting for the disk.
        if name in _READS:
            return self._threads.read(lambda: handler(context))
        # A record of a group whose topic does not exist yet creates it, which takes as long as a change.
        if name in _CHANGES or (name in _OF_GROUPS and self._lacks_groups is not None and self._lacks_groups()):
            return self._threads.change(lambda: handler(context))
        return handler(context)

    def close(self) -> bool:
        """End the threads of reads and changes, and return whether no change goes on."""
        return self._threads.close()

    def _decode(self, request: memoryview) -> Request:
        """Return a request. Raises ProtocolError, LargeRequestError if it has more elements than anybody asks for.

        Each element costs a hundred times its bytes, and the other clients wait while they are decoded and answered.
        """
        try:
            return decode_request(request, _FEW_ELEMENTS)
        except LargeRequestError:
            allowed = _FEW_ELEMENTS + _ELEMENTS_PER_PARTITION * self._partitions()
            return decode_request(request, min(allowed, MAX_ELEMENTS))

    def _undecoded(self, error: ProtocolError, connection: ConnectionFacts) -> Answer:
        if isinstance(error, UnsupportedVersionError):
            return self._unsupported(error.api, error.correlation_id, connection, str(error))
        if isinstance(error, LargeRequestError):
            return self._too_large(error, connection)
        return self._close(connection, str(error))

    def _too_large(self, error: LargeRequestError, connection: ConnectionFacts) -> Answer:
        """Answer a request that is not read: with an error where the response as a whole can have one."""
        api, version = error.api, error.version
        fields = schema_of(f"{api.name}Response", version).fields
        is_served = version <= self._handlers.get(api.key, (-1, None))[0]
        if not is_served or not any(each.name == "error_code" and version in each.versions for each in fields):
            return self._close(connection, str(error))
        body = {each.name: each.default for each in fields} | {"error_code": ErrorCode.INVALID_REQUEST}
        pieces = encode_response(api, version, error.correlation_id, body)
        return Reply(cast("Sequence[Piece]", pieces), then_close=True)

    def _unsupported(self, api: Api, correlation_id: int, connection: ConnectionFacts, detail: str) -> Answer:
        """Answer ApiVersions of an unknown version in version 0, from which the client learns the range (KIP-511)."""
        if api.name != _API_VERSIONS:
            return self._close(connection, detail)
        body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": self._ranges}
        return Reply(cast("Sequence[Piece]", encode_response(api, 0, correlation_id, body)))

    def _api_versions(self, context: RequestContext) -> Answer:
        words = [context.body[name] for name in ("client_software_name", "client_software_version")]
        is_valid = context.version < _NAMED or all(map(_CLIENT_WORD.fullmatch, words))  # ApiVersionsRequest.isValid
        error = ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST
        body = {"error_code": error, "api_keys": self._ranges, "throttle_time_ms": 0}
        return context.reply(body | self._described_features(context.version))

    def _described_features(self, version: int) -> Body:
        """Return the features for ApiVersions (KIP-584), without features of the cluster that are not supported.

        `ApiVersionsResponse.maybeFilterSupportedFeatureKeys`.
        """
        if self._features is None:
            return {}
        found = self._features()
        return {
            "supported_features": [
                {"name": name, "min_version": least, "max_version": most}
                for name, (least, most) in _FEATURES.items()
                if least > 0 or version >= _FIRST_WITH_LEVEL_0
            ],
            "finalized_features_epoch": found.epoch,
            "finalized_features": [
                {"name": name, "max_version_level": level, "min_version_level": level}
                for name, level in found.levels.items()
                if name in _FEATURES
            ],
        }

    def _close(self, connection: ConnectionFacts, detail: str) -> Answer:
        if self._observer is not None:
            self._observer.request_refused(connection, detail)
        return Close(detail)
