"""Connections of Kafka clients: one acceptor and N processor threads, after `SocketServer` of Kafka.

A request is an int32 length and that many bytes; so is a response. Ranges of files are sent with `os.sendfile`: the
bytes of a segment never enter Python (`FileRecords.writeTo`). This is the only module that imports `socket`;
the HTTP server of `metrics.metrics_endpoint` has sockets of the standard library.

What never happens: an exception ends a thread, memory grows without a bound, a slow reader or a fast one holds up
the others of its processor, a wake-up from another thread is lost.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
from collections import deque
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.network.answers import NO_OBSERVER, ConnectionFacts, NetworkCounters, NetworkLimits
from kafkalog_core.serve.network.connections import ConnectionQuotas, FrameMemory
from kafkalog_core.serve.network.processors import Loop, Processor, Shared
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_core.serve.logs.file_ranges import SharedFile
    from kafkalog_core.serve.network.answers import NetworkObserver, RequestHandler
    from kafkalog_core.serve.network.connections import Transport

__all__ = [
    "Address",
    "ListenError",
    "Listener",
    "NetworkServer",
    "PlainTransport",
    "Socket",
    "TransportOf",
    "family_of",
    "listen_problem",
    "resolved",
]

_COPY_BYTES: Final = 256 * 1024
_AHEAD_BYTES: Final = 4 * 1024
"""What is read at once at least: a small request comes with its length, by one call of the system."""
_BACKLOG: Final = 1024
_ACCEPT_BATCH: Final = 64
_JOIN_S: Final = 10.0
_TOO_FAST: Final = "its address opens connections faster than its quota allows"
_MORE: Final = getattr(socket, "MSG_MORE", 0)
_NO_SENDFILE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOTSOCK})
_READ: Final = selectors.EVENT_READ


Socket: TypeAlias = socket.socket
TransportOf: TypeAlias = "Callable[[Socket], Transport]"
"""Wraps an accepted, non-blocking socket."""


class ListenError(KafkalogError):
    """An address that the system does not let the server listen on."""


class PlainTransport:
    """A connection without TLS: files are sent with `os.sendfile`, or by copying where the system cannot do it."""

    def __init__(self, connected: socket.socket, *, copies: bool = not hasattr(os, "sendfile")) -> None:
        """Take over a connected, non-blocking socket. copies: read files and send their bytes, as TLS must."""
        self._socket = connected
        self._ahead = b""
        self.sends_all = not copies
        self.fileno = connected.fileno
        self.close = connected.close

    def receive_into(self, buffer: memoryview) -> int:
        """Read into a buffer and return the number of bytes; 0: the client closed its side."""
        if not self._ahead:
            # A large buffer takes the bytes directly, without a copy.
            if len(buffer) >= _AHEAD_BYTES:
                return self._socket.recv_into(buffer)
            # A length and a small request then come with one system call.
            self._ahead = self._socket.recv(_AHEAD_BYTES)
        data = self._ahead[: len(buffer)]
        self._ahead = self._ahead[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def received(self) -> int:
        """Return how many bytes have been read ahead."""
        return len(self._ahead)

    def certificate_subject(self) -> None:
        """Return None: there are no certificates without TLS."""

    def send(self, buffers: Sequence[memoryview], more: bool) -> int:
        """Send buffers; MSG_MORE lets the kernel put a response header and the file's first bytes into one packet."""
        return self._socket.sendmsg(buffers, (), _MORE if more else 0)

    def send_file(self, file: SharedFile, position: int, size_bytes: int) -> int:
        """Send a range of a file without copying it through Python."""
        if self.sends_all:
            try:
                return os.sendfile(self._socket.fileno(), file.descriptor, position, size_bytes)
            except OSError as error:
                if error.errno not in _NO_SENDFILE:
                    raise
                # Some file systems cannot send: found once, then this connection copies.
                self.sends_all = False
        data = os.pread(file.descriptor, min(size_bytes, _COPY_BYTES), position)
        return self._socket.send(data) if data else 0


class Listener(Struct, frozen=True):
    """An address to listen on. An empty host means every address of the machine; port 0 a free port."""

    name: str
    host: str
    port: int
    transport: TransportOf = PlainTransport


class Address(Struct, frozen=True):
    """An address that the server listens on, with its true port."""

    listener: str
    host: str
    port: int


class _Acceptor(Loop):
    """The thread that accepts connections and gives each to the processor that has the fewest."""

    def __init__(
        self,
        shared: Shared,
        listening: Iterable[tuple[Listener, socket.socket]],
        to: list[Processor],
        delay_s: Callable[[str], float] | None,
    ) -> None:
        super().__init__("kafkalog-acceptor", shared)
        self._processors = to
        self._ids = count(1)
        self._is_stopped = False
        self._is_short = False  # of descriptors
        self._listening = list(listening)
        self._delay_s = delay_s
        self._delayed: deque[tuple[float, socket.socket]] = deque()  # to be closed, the first one first

    def stop(self) -> None:
        """Make the thread end, from any thread."""
        self._is_stopped = True
        self.mailbox.post((None, bool))

    def _is_done(self) -> bool:
        return self._is_stopped

    def _round(self) -> None:
        # The mailbox alone is registered after a pause: listen again.
        if len(self._selector.get_map()) == 1:
            for each in self._listening:
                self._selector.register(each[1], _READ, each)
        clock = self._shared.clock
        for key, _ in self._selector.select(max(0.0, self._delayed[0][0] - clock()) if self._delayed else None):
            if key.data is None:
                self.mailbox.take()
            else:
                self._accept(*key.data)
        while self._delayed and self._delayed[0][0] <= clock():
            self._delayed.popleft()[1].close()

    def _accept(self, listener: Listener, listening: socket.socket) -> None:
        """Accept the connections that wait, at most _ACCEPT_BATCH.

        Without a free descriptor the connections remain in the backlog, and the thread pauses: the listening socket
        is still readable, so that a loop without a pause would take a core.
        """
        for _ in range(_ACCEPT_BATCH):
            try:
                accepted, peer = listening.accept()
            # The client has left the backlog before it was accepted.
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if not self._is_short:  # one event for a spell, not one for each pause
                    self._is_short = True
                    self.counters.failures += 1
                    self.note(self._shared.observer.network_error, f"accept of {listener.name}", error)
                # EMFILE and the like pass when other connections close.
                self.pause()
                return
            self._is_short = False
            self._guard(partial(self._hand_over, accepted, peer, listener))

    def _hand_over(self, accepted: socket.socket, peer: tuple[str, int], listener: Listener) -> None:
        host = _host(peer[0])
        delay_s = 0.0 if self._delay_s is None else self._delay_s(host)
        if delay_s > 0:  # Acceptor.accept: closed after the delay, so that the client does not try again at once
            self._delayed.append((self._shared.clock() + delay_s, accepted))
            self.note(self._shared.observer.connection_refused, host, listener.name, _TOO_FAST)
            return
        number = self._shared.quotas.enter(host)
        if isinstance(number, str):
            accepted.close()
            self.note(self._shared.observer.connection_refused, host, listener.name, number)
            return
        processor = self._processors[number]
        try:
            accepted.setblocking(False)
            # As `SocketServer` of Kafka: a response must not wait for the acknowledgement of the packet before.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            transport = listener.transport(accepted)
            facts = ConnectionFacts(
                next(self._ids), host, peer[1], listener.name, number, transport.certificate_subject
            )
            adopt = partial(processor.adopt, transport, facts)
        except BaseException:  # the client may be gone already
            accepted.close()
            self._shared.quotas.leave(host, number)
            raise
        processor.mailbox.post((None, adopt))  # it is open: processors end after the acceptor

    def _end(self) -> None:
        for _, each in (*self._listening, *self._delayed):
            each.close()


class NetworkServer:
    """Listens on addresses and serves connections until `close`; a context manager that starts and closes it."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        handler: RequestHandler,
        clock: Callable[[], float],
        *,
        observer: NetworkObserver = NO_OBSERVER,
        limits: NetworkLimits = NetworkLimits(),  # noqa: B008 - it is frozen
        processors: int | None = None,
        delay_s: Callable[[str], float] | None = None,
        max_frame_bytes: Callable[[ConnectionFacts], int | None] | None = None,
    ) -> None:
        """Listen; nothing is accepted before `start`. Raises ListenError.

        clock: monotonic seconds. processors: number of threads that serve; None: one per two cores. More of them only
            wait for each other: while one runs Python code, no other does. delay_s: counts a connection of an address,
            and returns 0 or after how many seconds it is closed unserved. max_frame_bytes: returns the most bytes of
            the next frame of a client that is not known yet, None for others; None: all clients are known.
        """
        number = max(1, (os.cpu_count() or 1) // 2) if processors is None else processors
        self._clock = clock
        self._quotas = ConnectionQuotas(limits, number)
        memory, unknown = FrameMemory(limits.max_buffered_bytes), FrameMemory(limits.max_unknown_bytes)
        shared = Shared(handler, observer, limits, clock, memory, self._quotas, unknown, max_frame_bytes)
        self._state = threading.Lock()
        self._is_closed = False
        # Whatever fails below, no socket that listens is left open.
        with ExitStack() as undo:
            listening = []
            for listener in listeners:
                for each in _listen(listener):
                    undo.callback(each.close)
                    listening.append((listener, each))
            self.addresses = [Address(each.name, *listened.getsockname()[:2]) for each, listened in listening]
            self._processors = []
            for index in range(number):
                self._processors.append(Processor(index, shared))
                undo.callback(self._processors[-1].close)
            self._acceptor = _Acceptor(shared, listening, self._processors, delay_s)
            undo.pop_all()

    @property
    def refused_connections(self) -> int:
        """The number of connections that were closed at once, because they were too many."""
        return self._quotas.refused

    def counters(self) -> list[NetworkCounters]:
        """Return a copy of each processor's counters, from any thread."""
        return [replace(each.counters) for each in self._processors]

    def start(self) -> None:
        """Start the threads."""
        for each in (*self._processors, self._acceptor):
            each.thread.start()

    def wake(self) -> None:
        """Make every processor look at the clock again: for a clock that does not run by itself."""
        for each in self._processors:
            each.mailbox.post((None, bool))

    def close(self, grace_s: float = 5.0) -> bool:
        """Stop accepting, let the answers in flight end, close every connection, and return whether all threads ended.

        grace_s: seconds of the clock for answers in flight. Only a handler that does not return keeps a thread alive.
        """
        with self._state:
            if self._is_closed:
                return True
            self._is_closed = True
        # The acceptor first: it posts new connections to the processors.
        self._acceptor.stop()
        ended = [self._end(self._acceptor, _JOIN_S)]
        # One deadline for all, not one for each processor.
        until_s = self._clock() + grace_s
        for each in self._processors:
            each.mailbox.post((None, partial(each.drain, until_s)))
        ended += [self._end(each, grace_s + _JOIN_S) for each in self._processors]
        return all(ended)

    @staticmethod
    def _end(loop: Loop, time_s: float) -> bool:
        """Wait for a thread to end, and return whether it did; close a loop whose thread was never started."""
        # A loop that never ran has a mailbox and a selector to close.
        if loop.thread.ident is None:
            loop.close()
        else:
            loop.thread.join(time_s)
        return not loop.thread.is_alive()

    def __enter__(self) -> Self:
        """Start the threads."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the server."""
        self.close()


def family_of(host: str) -> socket.AddressFamily:
    """Return the address family of a host as it is written: with a colon it is an IPv6 address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def resolved(host: str) -> str | None:
    """Return the address of a host as peers have it; None: it is unknown."""
    try:
        return _host(str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]))
    except (OSError, UnicodeError):
        return None


def listen_problem(error: OSError | UnicodeError, host: str, port: int, option: str) -> str:
    """Return why an address cannot be listened on, and what to do. option: the option for another address."""
    where = f"cannot listen on {f'[{host}]' if ':' in host else host or '*'}:{port}"
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EADDRINUSE:
        return (
            f"{where}: another process listens there, and clients would reach that one; stop it (ss -ltnp shows which "
            f"it is), or choose another port: {option} HOST:PORT"
        )
    if code in {errno.EACCES, errno.EPERM}:
        return f"{where}: this user may not, ports below 1024 are for root; choose a higher port: {option} HOST:PORT"
    if code == errno.EADDRNOTAVAIL:
        return f"{where}: this machine does not have the address; choose one that it has: {option} HOST:PORT"
    return f"{where}: {getattr(error, 'strerror', None) or error}; choose another address: {option} HOST:PORT"


def _host(address: str) -> str:
    """Return a peer's address without a scope, and an IPv4 address that is mapped into IPv6 as IPv4."""
    host = address.partition("%")[0]
    return host.removeprefix("::ffff:") if "." in host else host


def _listen(listener: Listener) -> list[socket.socket]:
    """Return a listening socket for each address of a host. Raises ListenError."""
    listening: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        port = listener.port
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening.append(socket.socket(family, kind, protocol))
            # A broker that starts again must not wait until its old connections have left TIME_WAIT.
            listening[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:  # a lone `::` takes IPv4 clients too, as in Kafka; with 0.0.0.0 it may not
                listening[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(len(found) > 1))
            listening[-1].bind((address[0], port, *address[2:]))
            listening[-1].listen(_BACKLOG)
            listening[-1].setblocking(False)
            port = listening[-1].getsockname()[1]  # port 0: the same free port for every address
    except (OSError, UnicodeError) as error:
        for each in listening:
            each.close()
        raise ListenError(listen_problem(error, listener.host, listener.port, "--listen")) from error
    return listening
