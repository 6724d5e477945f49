"""What a request handler and the network exchange: requests as bytes, answers as buffers and ranges of files.

A handler gets the bytes of one request (Kafka's `RequestChannel.Request`) and returns one of four answers: a `Reply`,
`NoResponse` (a produce request with acks=0), `Close`, or a `PendingAnswer` (Kafka's `DelayedOperation`): a fetch that
waits for data, a join that waits for other members. Nothing here imports a socket, so handlers are tested without one.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkalog_core.serve.logs.file_ranges import FileRange
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "NO_OBSERVER",
    "Answer",
    "Close",
    "CloseReason",
    "ConnectionFacts",
    "FinalAnswer",
    "NetworkCounters",
    "NetworkLimits",
    "NetworkObserver",
    "NoResponse",
    "PendingAnswer",
    "Piece",
    "Reply",
    "RequestHandler",
    "release_ranges",
]


Piece: TypeAlias = bytes | bytearray | memoryview | FileRange
"""A part of a response. The network does not copy it: a buffer must not change until it has been sent."""


class Reply(Struct):
    """A response: header and body, without the int32 length in front, which the network computes and sends.

    then_close: close the connection after the last byte, as after a failed SASL authentication. mute_s: for how many
    seconds after it no further request of the connection is read (KIP-219).
    """

    pieces: Sequence[Piece]
    then_close: bool = False
    mute_s: float = 0.0


class NoResponse(Struct, frozen=True):
    """No response at all: a produce request with acks=0. The next request of the connection is read after `mute_s`."""

    mute_s: float = 0.0


class Close(Struct, frozen=True):
    """No response, and the connection is closed: an unknown API key or version. `detail` is for the observer."""

    detail: str


FinalAnswer: TypeAlias = Reply | NoResponse | Close


def release(answer: object) -> None:
    """Release the files of an answer that will not be sent."""
    if isinstance(answer, Reply):
        release_ranges(answer.pieces)
    elif isinstance(answer, PendingAnswer):
        answer.abandon()


def release_ranges(pieces: Iterable[object]) -> None:
    """Release the files of the ranges among some parts of a response that will not be sent."""
    for piece in pieces:
        if isinstance(piece, FileRange):
            piece.file.release()


class PendingAnswer:
    """An answer that comes later. Any thread completes it once; at its deadline the network asks `at_deadline`.

    It may be completed with another pending answer, for which the connection then waits.
    The connection's later requests are not read until then (Kafka mutes the channel). Every method is thread-safe.
    """

    __slots__ = ("_abandoned", "_answer", "_at_deadline", "_is_open", "_lock", "_wake", "deadline_s")

    def __init__(
        self, deadline_s: float, at_deadline: Callable[[], FinalAnswer], *, abandoned: Callable[[], None] | None = None
    ) -> None:
        """Describe the deadline.

        deadline_s: time of the server's clock, in seconds. at_deadline: returns the answer if nobody completed it until
        then; it runs on a network thread. abandoned: called on a network thread if the connection closes first.
        """
        self.deadline_s = deadline_s
        self._at_deadline = at_deadline
        self._abandoned = abandoned
        self._answer: Answer | None = None
        self._is_open = True
        self._wake: Callable[[], object] | None = None
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether an answer would still be sent."""
        return self._is_open

    def complete(self, answer: Answer) -> bool:
        """Set the answer, and return whether it will be sent; false: another answer or a closed connection was first.

        The files of an answer that will not be sent are released.
        """
        with self._lock:
            is_first = self._is_open
            if is_first:
                self._answer, self._is_open = answer, False
            wake = self._wake
        if not is_first:
            release(answer)
        elif wake is not None:
            wake()
        return is_first

    def attach(self, wake: Callable[[], object]) -> None:
        """Set what `complete` calls: the network does this once, before it calls `take`."""
        with self._lock:
            self._wake = wake

    def take(self, now_s: float) -> Answer | None:
        """Return the answer if there is one or the deadline has passed; None: not yet. The network calls it."""
        with self._lock:
            if self._answer is not None:
                answer, self._answer = self._answer, None
                return answer
            if not self._is_open or now_s < self.deadline_s:
                return None
            self._is_open = False
        return self._at_deadline()

    def abandon(self) -> None:
        """Give the answer up, because the connection is closed. The network calls it."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
            answer, self._answer = self._answer, None
        release(answer)
        if was_open and self._abandoned is not None:
            self._abandoned()


Answer: TypeAlias = FinalAnswer | PendingAnswer


class ConnectionFacts(Struct, frozen=True, weakref=True):
    """What is known of a connection. `connection_id` is unique in a server's life; `listener` is the listener's name.

    `peer_host` is an IPv4 or IPv6 address; an IPv4 client of an IPv6 listener has its IPv4 address.
    `certificate_subject` returns the distinguished name in the client's certificate (RFC 2253) once the TLS handshake
    is over; None: it has no certificate.
    """

    connection_id: int
    peer_host: str
    peer_port: int
    listener: str
    processor: int
    certificate_subject: Callable[[], str | None] = lambda: None


class RequestHandler(Protocol):
    """Answers requests. Several network threads call it at once, but never two for one connection."""

    def handle(self, request: memoryview, connection: ConnectionFacts) -> Answer:
        """Return the answer to one request.

        request: header and body, without the length; read-only, and the handler may keep it. A handler that waits holds
        up the other connections of its processor: it returns a `PendingAnswer` instead. An exception closes the
        connection.
        """


class CloseReason(Enum):
    """Why a connection was closed."""

    PEER = "the client closed it"
    IDLE = "it was idle"
    SLOW = "its request came too slowly, while others waited for memory"
    FRAME = "its frame has an invalid length"
    HANDLER = "the handler closed it"
    ERROR = "an error"
    FILE_TRUNCATED = "a file was truncated while it was sent"
    RESPONSE_SIZE = "the response is too large"
    SHUTDOWN = "the server was shut down"


class NetworkObserver(Protocol):
    """Receives events, on network threads: it must be thread-safe, fast, and an exception in it is dropped."""

    def connection_opened(self, connection: ConnectionFacts) -> None:
        """Note a new connection."""

    def connection_refused(self, peer_host: str, listener: str, detail: str) -> None:
        """Note a connection that was closed at once, because it is one too many."""

    def connection_closed(
        self, connection: ConnectionFacts, reason: CloseReason, detail: str, error: BaseException | None
    ) -> None:
        """Note the end of a connection, the only event of a failure. `error`: the exception that caused it, if any."""

    def request_handled(
        self, connection: ConnectionFacts, request_bytes: int, response_bytes: int, duration_s: float
    ) -> None:
        """Note a request whose answer is sent.

        Sizes in bytes without the int32 lengths, 0: no response. Seconds from the last byte of the request to the last
        byte of the response, which includes the wait of a pending answer and of a slow client.
        """

    def bytes_sent(self, connection: ConnectionFacts, size_bytes: int) -> None:
        """Note bytes that the operating system accepted for a connection."""

    def network_error(self, what: str, error: BaseException) -> None:
        """Note a failure that belongs to no connection: `what` is the thing that failed."""


class _NoObserver:
    """An observer that drops every event."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _drop


def _drop(*_: object) -> None:
    """Drop an event."""


NO_OBSERVER: NetworkObserver = _NoObserver()


class NetworkLimits(Struct, frozen=True):
    """Bounds of a server, with the names of Kafka's settings in brackets.

    - max_connections, max_connections_per_host: further connections are closed at once [max.connections,
      max.connections.per.ip].
    - max_idle_s: seconds without a byte in or out; a connection with a pending answer is not idle
      [connections.max.idle.ms].
    - max_request_bytes: a longer frame closes its connection unread [socket.request.max.bytes].
    - max_buffered_bytes: memory of half-read frames of all connections together, beyond the first 4 KiB of each. A
      connection over it waits; only one at a time may exceed it, so that some frame always ends. While one waits,
      clients that send less than 64 KiB a second of a frame are disconnected
      [queued.max.request.bytes, KIP-72].
    - max_unknown_bytes: the same for clients that have not proved yet who they are, apart from the others.
    - max_response_bytes: memory of the buffers of one response; ranges of files do not count.
    - max_turn_bytes: bytes that one connection may send us before the others of its processor get their turn, and that
      we send it while no other waits.
    - max_sent_bytes: the same of what we send it while others wait. A small response waits until the larger ones before
      it are sent. That takes longer than their bytes do, because the client that gets them needs the processors too.
    """

    max_connections: int = 10_000
    max_connections_per_host: int = 10_000
    max_idle_s: float = 600.0
    max_request_bytes: int = 100 * 1024 * 1024
    max_buffered_bytes: int = 256 * 1024 * 1024
    max_unknown_bytes: int = 16 * 1024 * 1024
    max_response_bytes: int = 256 * 1024 * 1024
    max_turn_bytes: int = 4 * 1024 * 1024
    max_sent_bytes: int = 640 * 1024


class NetworkCounters(Struct):
    """Sums of one processor since its start; `connections` is the number of open ones now.

    Only the processor's thread writes them; a reader of another thread gets each number whole.
    """

    connections: int = 0
    opened: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    failures: int = 0
    dropped_events: int = 0
