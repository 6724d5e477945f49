"""What a request handler and the network exchange: requests as bytes, answers as buffers and ranges of files.

A handler gets the bytes of one request (Kafka's `RequestChannel.Request`) and returns one of four answers: a `Reply`,
`NoResponse` (a produce request with acks=0), `Close`, or a `PendingAnswer` (Kafka's `DelayedOperation`): a fetch that
waits for data, a join that waits for other members. Nothing here imports a socket, so handlers are tested without one.
"""

from __future__ import annotations

import os
import threading
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "JOINER",
    "NO_OBSERVER",
    "Answer",
    "Close",
    "CloseReason",
    "ConnectionFacts",
    "FileRange",
    "FinalAnswer",
    "JoinedAnswer",
    "Joiner",
    "NetworkCounters",
    "NetworkLimits",
    "NetworkObserver",
    "NoResponse",
    "PendingAnswer",
    "Piece",
    "Reply",
    "RequestHandler",
    "SharedFile",
    "release_ranges",
]


class SharedFile:
    """One open file for several readers. The descriptor is closed when the last holder has released it.

    The creator is the first holder. A segment that retention deletes or a roll replaces is thus readable until the
    last range of it has been sent (`FileRecords` of Kafka keeps its channel open for the same reason). Thread-safe.
    """

    __slots__ = ("_descriptor", "_holders", "_lock")

    def __init__(self, descriptor: int) -> None:
        """Take over an open descriptor."""
        self._descriptor = descriptor
        self._holders = 1
        self._lock = threading.Lock()

    @property
    def descriptor(self) -> int:
        """The file descriptor; -1: closed."""
        return self._descriptor

    def hold(self) -> None:
        """Add a holder. Raises ValueError if the last holder has released the file."""
        with self._lock:
            if self._descriptor < 0:
                raise ValueError("the file is closed")
            self._holders += 1

    def release(self) -> None:
        """Remove a holder; the last one closes the descriptor. Does nothing if the file is closed."""
        with self._lock:
            if self._descriptor < 0:
                return
            self._holders -= 1
            if self._holders > 0:
                return
            descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def range(self, position: int, size_bytes: int) -> FileRange:
        """Return a range that holds the file; the network releases it. Raises ValueError if the file is closed.

        position: first byte, from 0; size_bytes: length of the range, from 0.
        """
        if position < 0 or size_bytes < 0:
            raise ValueError(f"a range cannot have position {position} and {size_bytes} bytes")
        self.hold()
        return FileRange(self, position, size_bytes)

    def __del__(self) -> None:
        """Close the descriptor of a file that a failed handler never released."""
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)


class FileRange(Struct):
    """`size_bytes` bytes of a file from byte `position` on. It is one holder of the file: see `SharedFile.range`."""

    file: SharedFile
    position: int
    size_bytes: int

    def __len__(self) -> int:
        """Return the size in bytes: a range takes the place of bytes in an encoded response."""
        return self.size_bytes


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
        """Return the answer if there is one or the deadline has passed, else None. The network calls it."""
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


class JoinedAnswer:
    """An answer that is found together with those to requests of the same connection that came with this one.

    The network takes it when it has read what the client has sent so far, or asks for something else.
    """

    __slots__ = ("take",)

    def __init__(self, take: Callable[[], FinalAnswer]) -> None:
        """`take` returns the answer: the network calls it once, for all joined answers in the order of requests."""
        self.take = take


Answer: TypeAlias = FinalAnswer | PendingAnswer | JoinedAnswer


class Joiner(threading.local):
    """Whether requests that are handled on this thread may be answered together, and what ends that.

    A client that sends requests without waiting for their answers, as producers do, has several of them here at once.
    """

    is_open: bool = False
    settle: Callable[[], None] | None = None

    def end(self) -> None:
        """Do what was put off, before a request that may depend on it."""
        settle, self.settle = self.settle, None
        if settle is not None:
            settle()


JOINER: Final = Joiner()


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
    """Bounds of a server; the names in brackets are those of Kafka's settings.

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
    - max_sent_bytes: the same of what we send it while others wait. A small response waits for those of the others that
      are sent before it, each longer than its bytes take: the client that gets them needs the processors too.
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
