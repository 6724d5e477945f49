"""One connection of a client, without its socket: the half-read request, the answer in flight, and what bounds both."""

from __future__ import annotations

import threading
from collections import Counter, deque
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.serve.logs.file_ranges import FileRange
from kafkalog_core.serve.network.answers import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.serve.logs.file_ranges import SharedFile
    from kafkalog_core.serve.network.answers import ConnectionFacts, NetworkLimits, PendingAnswer, Reply

__all__ = ["Closing", "Connection", "ConnectionQuotas", "FrameMemory", "Transport"]

MIN_REQUEST_BYTES: Final = 1
"""A token of SASL may be shorter than a request's header."""
_MAX_INT32: Final = 2**31 - 1
_LENGTH_BYTES: Final = 4
_FIRST_BUFFER_BYTES: Final = 4 * 1024
_MAX_GROWTH_BYTES: Final = 4 * 1024 * 1024
_TRUSTED_BYTES: Final = 256 * 1024
_PATIENCE_S: Final = 5.0
_SLOWEST_BYTES: Final = 64 * 1024
"""Bytes a second that have to come of a frame while others wait for its memory."""
_MAX_BUFFERS: Final = 64
"""Buffers of one sendmsg; the system's IOV_MAX is at least 1,024 on Linux and macOS."""


class Transport(Protocol):
    """The bytes of one connection. Each method raises BlockingIOError if it would wait.

    Attributes:
        sends_all: whether a send takes less than all only where the next one would wait.
    """

    sends_all: bool

    def fileno(self) -> int:
        """Return the descriptor to select on."""

    def receive_into(self, buffer: memoryview) -> int:
        """Read into a buffer and return the number of bytes; 0: the client closed its side."""

    def received(self) -> int:
        """Return how many bytes the transport has read ahead, which a selector does not report."""

    def certificate_subject(self) -> str | None:
        """Return the distinguished name in the client's certificate (RFC 2253); None: it has none. Any thread asks."""

    def send(self, buffers: Sequence[memoryview], more: bool) -> int:
        """Send a part of the buffers and return its size in bytes; `more`: other bytes follow at once."""

    def send_file(self, file: SharedFile, position: int, size_bytes: int) -> int:
        """Send a part of a range of a file and return its size in bytes; 0: the file ends at `position`."""

    def close(self) -> None:
        """Close the connection."""


class Closing(Exception):  # noqa: N818 - a decision, not an error
    """Unwinds the turn of a connection that is to be closed."""

    def __init__(self, reason: CloseReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class FrameMemory:
    """The memory of half-read frames of all connections, as `MemoryPool` of KIP-72, but reserved as bytes arrive.

    Invariant: a connection waits only while another one, the senior, is over the bound. The senior's frame can always
    grow, so it ends, or is closed for idleness or slowness; its release wakes the waiting connections.
    """

    def __init__(self, bound_bytes: int) -> None:
        self._bound_bytes = bound_bytes
        self._used_bytes = 0
        self._senior: Connection | None = None
        self._waiting: dict[Connection, Callable[[], object]] = {}
        self._lock = threading.Lock()

    def reserve(self, owner: Connection, size_bytes: int, wake: Callable[[], object]) -> bool:
        """Return whether the owner may use more memory now; else `wake` is called when it may ask again."""
        with self._lock:
            # The first connection over the bound becomes the senior: one at least has to make progress.
            if self._used_bytes + size_bytes > self._bound_bytes:
                if self._senior is not None and self._senior is not owner:
                    self._waiting[owner] = wake
                    return False
                self._senior = owner
            self._used_bytes += size_bytes
            return True

    @property
    def is_waited_for(self) -> bool:
        """Whether a connection waits for memory."""
        return bool(self._waiting)

    def release(self, owner: Connection, size_bytes: int) -> None:
        """Give back all memory of an owner, which no longer waits."""
        with self._lock:
            # A connection that closes while it waits must not be woken.
            self._waiting.pop(owner, None)
            self._used_bytes -= size_bytes
            if self._senior is owner:
                self._senior = None
            # It had nothing reserved, so its end makes no room for anybody.
            elif size_bytes == 0:
                return
            wakes = list(self._waiting.values())
            self._waiting.clear()
        # Without the lock: a wake-up posts into another thread's mailbox, which has a lock of its own.
        for wake in wakes:
            wake()


class _FilePart:
    """What is left to send of a range of a file."""

    __slots__ = ("file", "left_bytes", "position")

    def __init__(self, part: FileRange) -> None:
        self.file = part.file
        self.position = part.position
        self.left_bytes = part.size_bytes


class Connection:
    """One connection: its half-read request, its answer in flight. Only its processor's thread uses it."""

    __slots__ = (
        "active_s", "buffer", "events", "facts", "filled", "frame_bytes", "is_answering", "is_closed",
        "is_full", "is_paused", "measured", "memory", "mute_s", "output", "pending", "request_bytes",
        "reserved_bytes", "response_bytes", "since_s", "then_close", "transport",
    )  # fmt: skip

    def __init__(self, transport: Transport, facts: ConnectionFacts, memory: FrameMemory) -> None:
        self.transport = transport
        self.facts = facts
        self.memory = memory  # of its half-read frame
        self.events = 0
        self.active_s = self.since_s = self.mute_s = 0.0
        self.buffer = bytearray(_LENGTH_BYTES)  # first for the length, then for the frame
        self.frame_bytes = -1  # -1: the length has not been read
        self.filled = self.reserved_bytes = 0
        self.measured = (0.0, 0)  # a time, and how much of the frame was here then
        self.is_closed = self.then_close = False
        self.is_full = False  # whether the last send was stopped, since the client takes no more now
        self.is_answering = False  # whether the last response in the output has not been reported yet
        self.is_paused = False  # whether it is not read once the output is sent: an answer is pending, or memory
        self.pending: PendingAnswer | None = None
        self.output: deque[memoryview | _FilePart] = deque()
        self.request_bytes = self.response_bytes = 0

    def receive(self) -> int:
        """Read once, and return the number of bytes; 0: nothing can be read now. Raises Closing if the client left."""
        with memoryview(self.buffer) as whole, whole[self.filled :] as rest:
            try:
                size = self.transport.receive_into(rest)
            except BlockingIOError:
                return 0
            except (ConnectionError, TimeoutError) as error:
                raise Closing(CloseReason.PEER, str(error)) from error
        if size == 0:
            raise Closing(
                CloseReason.PEER, "in the middle of a request" if self.frame_bytes >= 0 or self.filled else ""
            )
        self.filled += size
        return size

    def begin_frame(self, max_bytes: int) -> None:
        """Check the length, and allocate a first buffer that is small, whatever the length promises."""
        size = int.from_bytes(self.buffer, "big", signed=True)
        # A length from a client that speaks another protocol, such as HTTP, is a large number: nothing is allocated for
        # it.
        if not MIN_REQUEST_BYTES <= size <= max_bytes:
            raise Closing(CloseReason.FRAME, f"length {size}, expected {MIN_REQUEST_BYTES} to {max_bytes}")
        self.frame_bytes = size
        self.buffer = bytearray(min(size, _FIRST_BUFFER_BYTES))
        self.filled = 0

    def is_slow(self, now_s: float) -> bool:
        """Return whether little came lately of a frame that memory is reserved for: to be asked about once a second."""
        since_s, had_bytes = self.measured
        if self.is_paused or not self.reserved_bytes:
            # A connection that waits for memory, or has none reserved, is not measured: its time begins again.
            self.measured = (now_s, self.filled)
        elif now_s - since_s >= _PATIENCE_S:
            self.measured = (now_s, self.filled)
            return self.filled - had_bytes < _PATIENCE_S * _SLOWEST_BYTES
        return False

    def growth_bytes(self) -> int:
        """Return by how much a full buffer grows: at most to four times the bytes that have arrived.

        A client is trusted with the size of its last request at once.
        """
        size = len(self.buffer)
        # Tripled at most, so that a length alone cannot make the broker allocate: the bytes have to come.
        trusted = max(3 * size, min(self.request_bytes, _TRUSTED_BYTES))
        return min(self.frame_bytes - size, trusted, _MAX_GROWTH_BYTES)

    def grow(self, size_bytes: int) -> None:
        """Make room for more of the frame."""
        full, self.buffer = memoryview(self.buffer), bytearray(len(self.buffer) + size_bytes)
        self.buffer[: self.filled] = full[: self.filled]

    @property
    def may_grow_at_once(self) -> bool:
        """Whether a frame that has just begun is like the last request, so that its buffer can be made whole."""
        return len(self.buffer) < self.frame_bytes <= min(2 * self.request_bytes, _TRUSTED_BYTES)

    def end_frame(self) -> memoryview:
        """Return the request, and wait for the next length."""
        request = memoryview(self.buffer).toreadonly()
        self.buffer = bytearray(_LENGTH_BYTES)
        self.filled, self.frame_bytes = 0, -1
        self.request_bytes = len(request)
        return request

    def load(self, reply: Reply, max_bytes: int) -> None:
        """Set the output. Raises Closing if the response, or its part in memory, is too large."""
        output = self.output
        in_files = in_memory = 0
        length = len(output)
        output.append(memoryview(b""))  # the length takes its place
        for piece in reply.pieces:
            if isinstance(piece, FileRange):
                output.append(_FilePart(piece))
                in_files += piece.size_bytes
            else:
                view = memoryview(piece).cast("B")
                output.append(view)
                in_memory += len(view)
        self.response_bytes = in_files + in_memory
        # A Kafka response has an int32 for its length.
        if in_memory > max_bytes or self.response_bytes > _MAX_INT32:
            raise Closing(CloseReason.RESPONSE_SIZE, f"{in_memory} bytes in memory, {in_files} bytes in files")
        output[length] = memoryview(self.response_bytes.to_bytes(_LENGTH_BYTES, "big"))
        self.then_close = reply.then_close
        self.mute_s = reply.mute_s
        self.is_answering = True

    def send(self, budget_bytes: int) -> int:
        """Send once, and return the number of bytes; 0: nothing can be sent now. Raises Closing."""
        first = self.output[0]
        self.is_full = True
        try:
            return self._send_file(first, budget_bytes) if isinstance(first, _FilePart) else self._send(budget_bytes)
        except BlockingIOError:
            return 0
        except (ConnectionError, TimeoutError) as error:
            raise Closing(CloseReason.PEER, str(error)) from error

    def _send_file(self, part: _FilePart, budget_bytes: int) -> int:
        # Some of the budget is kept for a rest, which would not be worth a turn of its own.
        wanted = part.left_bytes if part.left_bytes <= budget_bytes else budget_bytes - budget_bytes // 5
        size = self.transport.send_file(part.file, part.position, wanted)
        # A short send means that the socket is full, except where a send of TLS or a copy is short by itself.
        self.is_full = size < wanted and self.transport.sends_all
        if size == 0:  # the length of the response is promised, and its bytes no longer exist
            raise Closing(CloseReason.FILE_TRUNCATED, f"{part.left_bytes} bytes are missing at byte {part.position}")
        part.position += size
        part.left_bytes -= size
        self._drop_sent()
        return size

    def _send(self, budget_bytes: int) -> int:
        buffers: list[memoryview] = []
        left = budget_bytes
        # Bounded by what one sendmsg takes (IOV_MAX).
        for piece in islice(self.output, _MAX_BUFFERS):
            if isinstance(piece, _FilePart) or left == 0:
                break
            buffers.append(piece[:left])
            left -= len(buffers[-1])
        last = self.output[len(buffers) - 1]
        # MSG_MORE only if something follows, else the kernel holds the last packet back.
        more = len(buffers) < len(self.output) or (not isinstance(last, _FilePart) and len(buffers[-1]) < len(last))
        sent = taken = self.transport.send(buffers, more)
        self.is_full = sent < budget_bytes - left and self.transport.sends_all
        while taken:
            piece = self.output[0]
            if isinstance(piece, _FilePart) or len(piece) > taken:
                break
            taken -= len(piece)
            self.output.popleft()
        if taken and not isinstance(piece := self.output[0], _FilePart):
            self.output[0] = piece[taken:]
        self._drop_sent()
        return sent

    def _drop_sent(self) -> None:
        """Remove empty pieces from the front of the output."""
        output = self.output
        while output:
            piece = output[0]
            if isinstance(piece, _FilePart):
                if piece.left_bytes:
                    return
                # The descriptor is shared: the last range that is sent lets it close.
                piece.file.release()
            elif len(piece):
                return
            output.popleft()

    def drop_output(self) -> None:
        """Release the files of an answer that will not be sent to its end."""
        while self.output:
            piece = self.output.popleft()
            if isinstance(piece, _FilePart):
                piece.file.release()


class ConnectionQuotas:
    """The number of connections, in all, by host and by processor (`ConnectionQuotas` of Kafka)."""

    def __init__(self, limits: NetworkLimits, processors: int) -> None:
        self._limits = limits
        self._hosts: Counter[str] = Counter()
        self._processors = [0] * processors
        self._lock = threading.Lock()
        self.refused = 0

    def enter(self, host: str) -> int | str:
        """Count a new connection, and return the processor with the fewest; a text: why the connection is refused."""
        with self._lock:
            if sum(self._processors) >= self._limits.max_connections:
                self.refused += 1
                return f"{self._limits.max_connections} connections are open"
            if self._hosts[host] >= self._limits.max_connections_per_host:
                self.refused += 1
                return f"{self._limits.max_connections_per_host} connections of this address are open"
            self._hosts[host] += 1
            # By their number and not by turns: long connections would pile up on one processor.
            number = self._processors.index(min(self._processors))
            self._processors[number] += 1
            return number

    def leave(self, host: str, number: int) -> None:
        """Count a closed connection."""
        with self._lock:
            self._processors[number] -= 1
            self._hosts[host] -= 1
            # An address that has left takes no memory.
            if not self._hosts[host]:
                del self._hosts[host]
