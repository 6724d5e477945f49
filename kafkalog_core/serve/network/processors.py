"""The threads of the network: each waits in a selector, for connections and for mail of other threads.

A processor (`Processor` of Kafka) owns its connections. It reads one request of a connection, asks the handler, sends
the answer, and only then reads the connection's next request (`Processor.processNewResponses` unmutes a channel then),
so answers keep the order of requests. A connection over its quota is not read for a while. No exception ends a thread:
it closes one connection.
"""

from __future__ import annotations

import heapq
import os
import selectors
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

from kafkalog_core.serve.network.answers import (
    Close,
    CloseReason,
    NetworkCounters,
    NoResponse,
    PendingAnswer,
    Reply,
)
from kafkalog_core.serve.network.connections import Closing, Connection
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.serve.network.answers import (
        Answer,
        ConnectionFacts,
        NetworkLimits,
        NetworkObserver,
        RequestHandler,
    )
    from kafkalog_core.serve.network.connections import ConnectionQuotas, FrameMemory, Transport

__all__ = ["Loop", "Processor", "Shared"]

_PAUSE_S: Final = 0.1
_LOOK_S: Final = 1.0  # between looks at slow frames, while others wait for memory
_MAX_SLEEP_S: Final = 3600.0
"""A selector takes no infinite time."""
_HELD_PIECES: Final = 8  # a length and a body for each of four responses; producers have five requests in flight
_HELD_BYTES: Final = 4096
_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE


_Mail: TypeAlias = "tuple[Connection | None, Callable[[], object]]"
"""What a thread is to call, and the connection that is closed if it fails."""


class Shared(Struct, frozen=True):
    """What all threads of a server share.

    memory, unknown_memory: of the half-read frames of clients that are known, and of those that are not. An unknown one
        cannot hold up others: their tokens fit into the first buffer, which is not counted. max_frame_bytes: see
        `NetworkServer`.
    """

    handler: RequestHandler
    observer: NetworkObserver
    limits: NetworkLimits
    clock: Callable[[], float]
    memory: FrameMemory
    quotas: ConnectionQuotas
    unknown_memory: FrameMemory
    max_frame_bytes: Callable[[ConnectionFacts], int | None] | None = None


class _Mailbox:
    """Things for a thread that sleeps in a selector: a list, and a pipe of which at most one byte is unread."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._lock = threading.Lock()
        self._mail: list[_Mail] = []
        self._is_signalled = False
        self._is_open = True

    def post(self, mail: _Mail) -> bool:
        """Add mail and wake the thread, from any thread; false: the mailbox is closed and the mail is not delivered."""
        with self._lock:  # the byte is written under the lock: the thread never takes the list between list and byte
            # Mail for a thread that has ended would never be read: the caller has to undo what it wanted.
            if self._is_open:
                self._mail.append(mail)
                # One byte for all mail that waits: a pipe that is full would block the thread that posts.
                if not self._is_signalled:
                    self._is_signalled = True
                    os.write(self._writer, b"\0")
            return self._is_open

    def take(self) -> list[_Mail]:
        """Return and remove all mail."""
        if not self._is_signalled:  # mail that is being posted now has its byte in the pipe for the next select
            return []
        with self._lock:
            os.read(self.reader, 1)
            self._is_signalled = False
            mail, self._mail = self._mail, []
            return mail

    def close(self) -> list[_Mail]:
        """Close the pipe, and return the mail that was not taken."""
        with self._lock:
            self._is_open = False
            os.close(self.reader)
            os.close(self._writer)
            mail, self._mail = self._mail, []
            return mail


class Loop(ABC):
    """A thread that waits in a selector for descriptors and for mail, and that no exception ends."""

    def __init__(self, name: str, shared: Shared) -> None:
        self._shared = shared
        self.counters = NetworkCounters()
        with ExitStack() as undo:
            self.mailbox = _Mailbox()
            undo.callback(self.mailbox.close)
            self._selector = selectors.DefaultSelector()
            undo.callback(self._selector.close)
            self._selector.register(self.mailbox.reader, _READ)
            undo.pop_all()
        # A daemon, so that a handler which never returns does not keep the process from its end.
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._never = threading.Event()

    def close(self) -> None:
        """Close all that the loop owns: its thread calls this as its last act, or another one before the start."""
        self._guard(self._end)
        self.mailbox.close()
        self._selector.close()

    def _run(self) -> None:
        try:
            while not self._is_done():
                self._guard(self._round)
        finally:
            self.close()

    @abstractmethod
    def _is_done(self) -> bool:
        """Return whether the thread ends before the next round."""

    @abstractmethod
    def _round(self) -> None:
        """Wait once, and serve what is ready."""

    @abstractmethod
    def _end(self) -> None:
        """Close what the loop owns apart from its mailbox and its selector."""

    def _guard(self, step: Callable[[], object]) -> None:
        """Run a step that belongs to no connection; a failure is reported."""
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - a handler's SystemExit is not the end of the thread either
            self.counters.failures += 1
            # Reported without raising: the thread serves other connections.
            self.note(self._shared.observer.network_error, self.thread.name, error)
            self.pause()

    def pause(self) -> None:
        """Sleep for a moment, so that what fails again and again does not take a whole core."""
        self._never.wait(_PAUSE_S)

    def note(self, event: Callable[..., None], *facts: object) -> None:
        """Report an event; an exception of the observer is counted and dropped."""
        try:
            event(*facts)
        except BaseException:  # noqa: BLE001 - see _guard
            self.counters.dropped_events += 1


class Processor(Loop):
    """A thread that owns connections: it reads their requests, asks the handler, and sends the answers."""

    def __init__(self, number: int, shared: Shared) -> None:
        super().__init__(f"kafkalog-network-{number}", shared)
        self._handler = shared.handler
        self._observer = shared.observer
        self._clock = shared.clock
        self._max_turn_bytes = shared.limits.max_turn_bytes
        self._sent_bytes = shared.limits.max_sent_bytes  # what a turn sends
        self._connections: set[Connection] = set()
        self._by_activity: OrderedDict[Connection, None] = OrderedDict()  # the longest idle first
        self._deadlines: list[tuple[float, int, Connection, PendingAnswer]] = []  # a heap; answered ones are skipped
        self._muted: list[tuple[float, int, Connection]] = []  # a heap; closed ones are skipped
        self._again: dict[Connection, None] = {}  # they have another turn in the next round, selected or not
        self._tickets = count()
        self._waiting = 0  # connections with a pending answer
        self._drain_until_s: float | None = None

    # --- connections ---
    def adopt(self, transport: Transport, facts: ConnectionFacts) -> None:
        """Own a connection that was accepted."""
        connection = Connection(transport, facts, self._shared.memory)
        self._connections.add(connection)
        self.counters.opened += 1
        self.counters.connections += 1
        self.note(self._observer.connection_opened, facts)
        self._run_step(connection, partial(self._await_request, connection))

    def _run_step(self, connection: Connection | None, step: Callable[[], object]) -> None:
        """Run a step; a failure closes its connection alone."""
        if connection is None:
            self._guard(step)
            return
        # Mail may come for a connection that was closed meanwhile.
        if connection.is_closed:
            return
        try:
            step()
        except Closing as closing:
            self._close(connection, closing.reason, closing.detail, closing.__cause__)
        except BaseException as error:  # noqa: BLE001 - as in Loop
            self._close(connection, CloseReason.ERROR, f"{type(error).__name__}: {error}", error)

    def _close(
        self, connection: Connection, reason: CloseReason, detail: str = "", error: BaseException | None = None
    ) -> None:
        """Close a connection and give back all it holds, even if a part of that fails."""
        connection.is_closed = True
        facts = connection.facts
        pending, connection.pending = connection.pending, None
        self.counters.connections -= 1
        self.counters.failures += reason is CloseReason.ERROR
        self._connections.discard(connection)
        self._by_activity.pop(connection, None)
        self._again.pop(connection, None)
        # Last in, first out: the selector first, while its descriptor is open, and the observer last.
        with suppress(BaseException), ExitStack() as stack:
            stack.callback(self.note, self._observer.connection_closed, facts, reason, detail, error)
            stack.callback(self._shared.quotas.leave, facts.peer_host, facts.processor)
            stack.callback(connection.transport.close)
            stack.callback(connection.memory.release, connection, connection.reserved_bytes)
            stack.callback(connection.drop_output)
            if pending is not None:
                self._waiting -= 1
                stack.callback(pending.abandon)
            stack.callback(self._watch, connection, 0)

    def _watch(self, connection: Connection, events: int) -> None:
        """Select on a connection's events; 0: on none, so that its later requests are not read."""
        if events == connection.events:
            return
        if not events:
            self._selector.unregister(connection.transport)
        elif connection.events:
            self._selector.modify(connection.transport, events, connection)
        else:
            self._selector.register(connection.transport, events, connection)
        connection.events = events

    def _touch(self, connection: Connection) -> None:
        connection.active_s = self._clock()
        self._by_activity[connection] = None
        self._by_activity.move_to_end(connection)

    # --- the loop ---
    def _is_done(self) -> bool:
        until = self._drain_until_s
        return until is not None and (not self._connections or self._clock() >= until)

    def _round(self) -> None:
        # Replaced as a whole: turns of this round may ask for another one.
        again, self._again = self._again, {}
        # Bytes that TLS or a read ahead has buffered are not seen by a selector, so it must not sleep.
        ready = self._selector.select(0 if again else self._timeout_s())
        limits, others = self._shared.limits, len(ready) + len(again)
        # A smaller turn while others wait, so that a large fetch does not hold up small requests.
        self._sent_bytes = limits.max_sent_bytes if others > 1 else limits.max_turn_bytes
        for key, _ in ready:
            if key.data is not None:
                # Once in a round, although it was selected and has asked for a turn.
                again.pop(key.data, None)
                self._run_step(key.data, partial(self._turn, key.data))
        for each in again:
            self._run_step(each, partial(self._turn, each))
        for connection, step in self.mailbox.take():
            self._run_step(connection, step)
        now_s = self._clock()
        # After the mail: an answer that came in time is not replaced by its deadline's.
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, _, connection, pending = heapq.heappop(self._deadlines)
            self._run_step(connection, partial(self._resume, connection, pending))
        while self._muted and self._muted[0][0] <= now_s:
            _, _, connection = heapq.heappop(self._muted)
            self._run_step(connection, partial(self._await_request, connection))
        idle_since_s = now_s - self._shared.limits.max_idle_s
        # In the order of their last use, so that only connections that are idle are looked at.
        while self._by_activity and (oldest := next(iter(self._by_activity))).active_s <= idle_since_s:
            self._close(oldest, CloseReason.IDLE)
        # Slow clients matter only while they hold memory that others need.
        if self._is_memory_waited_for():
            for slow in [each for each in self._connections if each.is_slow(now_s)]:
                self._close(slow, CloseReason.SLOW)

    def _is_memory_waited_for(self) -> bool:
        return self._shared.memory.is_waited_for or self._shared.unknown_memory.is_waited_for

    def _timeout_s(self) -> float | None:
        """Return the seconds until an answer, a muted or idle connection, or the shutdown is due; None: never."""
        times = [heap[0][0] for heap in (self._deadlines, self._muted) if heap]
        if self._by_activity:
            times.append(next(iter(self._by_activity)).active_s + self._shared.limits.max_idle_s)
        if self._drain_until_s is not None:
            times.append(self._drain_until_s)
        if self._is_memory_waited_for():
            times.append(self._clock() + _LOOK_S)
        return min(_MAX_SLEEP_S, max(0.0, min(times) - self._clock())) if times else None

    def drain(self, until_s: float) -> None:
        """Close all connections: those with an answer in flight after it, or at a time of the clock."""
        self._drain_until_s = until_s
        for connection in [each for each in self._connections if not each.output and each.pending is None]:
            self._close(connection, CloseReason.SHUTDOWN)

    def _end(self) -> None:
        for connection in list(self._connections):
            self._close(connection, CloseReason.SHUTDOWN)
        # The mailbox is read once more: a connection in it would remain open.
        for _, step in self.mailbox.take():  # connections accepted meanwhile, which are closed again
            self._guard(step)
        for connection in list(self._connections):
            self._close(connection, CloseReason.SHUTDOWN)

    # --- one connection's turn ---
    def _turn(self, connection: Connection) -> None:
        if not connection.events:  # mail that came late: the connection waits now, for its answer or for memory
            return
        self._touch(connection)
        if connection.output:
            self._send(connection)
        else:
            self._read_request(connection)

    def _await_request(self, connection: Connection) -> None:
        self._touch(connection)
        self._watch(connection, _WRITE if connection.output else _READ)
        self._turn_again(connection)

    def _turn_again(self, connection: Connection) -> None:
        """Give the connection another turn if it has bytes that the selector does not know of."""
        if connection.transport.received():
            self._again[connection] = None

    def _read_request(self, connection: Connection) -> None:
        """Read of the request what has arrived, at most a turn's bytes; answer it if it is whole."""
        left = self._max_turn_bytes
        # Bounded by a turn: a client that sends without end must not keep the thread.
        while left > 0:
            size = connection.receive()
            if not size:
                break
            left -= size
            self.counters.bytes_in += size
            if connection.filled < len(connection.buffer):
                continue
            if connection.filled == connection.frame_bytes:
                if not self._dispatch_frame(connection, connection.end_frame()):
                    return
            elif not self._go_on(connection):
                break
        if connection.output:
            self._send(connection)
        elif left <= 0:
            self._turn_again(connection)

    def _go_on(self, connection: Connection) -> bool:
        """Begin a frame whose length is there, or make room for more of it; false: as for `_grow`."""
        if connection.frame_bytes >= 0:
            return self._grow(connection)
        ask, most = self._shared.max_frame_bytes, self._shared.limits.max_request_bytes
        of_unknown = None if ask is None else ask(connection.facts)
        connection.memory = self._shared.memory if of_unknown is None else self._shared.unknown_memory
        connection.begin_frame(most if of_unknown is None else min(most, of_unknown))
        connection.measured = (connection.active_s, 0)
        return not connection.may_grow_at_once or self._grow(connection)

    def _grow(self, connection: Connection) -> bool:
        """Make room for more of a frame; false: the connection is not read until other frames have ended."""
        size = connection.growth_bytes()
        again = partial(self.mailbox.post, (connection, partial(self._read_again, connection)))
        connection.is_paused = not connection.memory.reserve(connection, size, again)
        if connection.is_paused:
            self._watch(connection, 0)
            # Waiting for memory is not idleness.
            self._by_activity.pop(connection, None)
            return False
        connection.reserved_bytes += size
        connection.grow(size)
        return True

    def _read_again(self, connection: Connection) -> None:
        """Go on with a frame that waited for memory."""
        if self._grow(connection):
            connection.measured = (self._clock(), connection.filled)
            self._await_request(connection)

    def _dispatch_frame(self, connection: Connection, request: memoryview) -> bool:
        """Answer a request; true: its response is held for a moment, since the next request may be here already.

        A client that sends requests without waiting for their responses, as producers do, gets them together: it wakes
        up once, and so do we.
        """
        self.counters.requests += 1
        connection.since_s = connection.active_s
        answer: Answer = Close("")
        try:
            answer = self._handler.handle(request, connection.facts)
        finally:
            if isinstance(answer, Close) and connection.output:
                self._send(connection)  # the responses before it; what the client does not take at once is dropped
        if connection.reserved_bytes:
            reserved, connection.reserved_bytes = connection.reserved_bytes, 0
            connection.memory.release(connection, reserved)
        if not self._may_hold(answer, connection):
            self._start_answer(connection, answer)
            return False
        connection.load(answer, self._shared.limits.max_response_bytes)
        self._report(connection)
        return True

    def _may_hold(self, answer: Answer, connection: Connection) -> TypeGuard[Reply]:
        """Return whether a response may be sent with the next one: it is small, and nothing follows from it."""
        if not isinstance(answer, Reply) or answer.then_close or answer.mute_s > 0 or self._drain_until_s is not None:
            return False
        if len(connection.output) >= _HELD_PIECES:
            return False
        return all(isinstance(piece, bytes) and len(piece) <= _HELD_BYTES for piece in answer.pieces)

    def _start_answer(self, connection: Connection, answer: Answer) -> None:
        """Begin to send an answer, or to wait for it."""
        match answer:
            case Reply():
                connection.load(answer, self._shared.limits.max_response_bytes)
                self._send(connection)
            case NoResponse(mute_s):
                connection.response_bytes = 0
                connection.mute_s = mute_s
                connection.is_answering = True
                self._send(connection)  # what is held
            case Close(detail):
                raise Closing(CloseReason.HANDLER, detail)
            case PendingAnswer():
                self._wait(connection, answer)
            case _:
                raise TypeError(f"a handler returned {answer!r}")

    def _send(self, connection: Connection) -> None:
        """Send of the response what the client takes, at most a turn's bytes."""
        left = self._sent_bytes
        try:
            while left > 0 and connection.output:
                size = connection.send(left)
                left -= size
                if connection.is_full:
                    break
        # Counted in any case: a client that has left has got what was sent before.
        finally:
            sent = self._sent_bytes - left
            self.counters.bytes_out += sent
            if sent:
                self.note(self._observer.bytes_sent, connection.facts, sent)
        if connection.output:
            self._touch(connection)
            if connection.is_full or not connection.events:
                self._watch(connection, _WRITE)
            else:  # only its turn is over, so there is nothing to select
                self._again[connection] = None
        elif connection.is_answering:
            self._finish(connection)
        elif connection.is_paused:
            self._watch(connection, 0)
            self._by_activity.pop(connection, None)
        elif self._drain_until_s is not None:
            raise Closing(CloseReason.SHUTDOWN, "")
        else:
            self._await_request(connection)

    def _finish(self, connection: Connection) -> None:
        """Report a request whose answer is sent, and wait for the next one, unless the connection is over its quota."""
        if connection.mute_s > 0:
            self._mute(connection)
        else:
            self._await_request(connection)
        self._report(connection)
        if connection.then_close:
            raise Closing(CloseReason.HANDLER, "after its last response")
        if self._drain_until_s is not None:
            raise Closing(CloseReason.SHUTDOWN, "")

    def _report(self, connection: Connection) -> None:
        connection.is_answering = False
        facts, duration_s = connection.facts, connection.active_s - connection.since_s
        self.note(
            self._observer.request_handled, facts, connection.request_bytes, connection.response_bytes, duration_s
        )

    def _mute(self, connection: Connection) -> None:
        """Leave the connection's later requests unread for a time (`ClientQuotaManager.throttle`, KIP-219)."""
        self._touch(connection)
        self._watch(connection, 0)
        self._by_activity.pop(connection, None)  # it cannot be idle before it may send
        # A heap cannot remove from its middle: it is built again when most of it is of no use.
        if len(self._muted) > 2 * len(self._connections) + 64:  # most were closed before their time
            self._muted = [each for each in self._muted if not each[2].is_closed]
            heapq.heapify(self._muted)
        heapq.heappush(self._muted, (connection.active_s + connection.mute_s, next(self._tickets), connection))
        connection.mute_s = 0.0

    # --- pending answers ---
    def _wait(self, connection: Connection, pending: PendingAnswer) -> None:
        """Leave the connection's later requests unread until its answer is there (`KafkaChannel.mute`)."""
        connection.pending = pending
        self._waiting += 1
        connection.is_paused = True
        self._watch(connection, 0)
        self._by_activity.pop(connection, None)
        if connection.output:
            self._send(connection)  # what is held
        if len(self._deadlines) > 2 * self._waiting + 64:  # most were answered before their deadline
            self._deadlines = [each for each in self._deadlines if each[2].pending is each[3]]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (pending.deadline_s, next(self._tickets), connection, pending))
        # From now on, another thread may complete it: this one learns of it by mail.
        pending.attach(partial(self.mailbox.post, (connection, partial(self._resume, connection, pending))))
        self._resume(connection, pending)  # it may have been completed before

    def _resume(self, connection: Connection, pending: PendingAnswer) -> None:
        """Send a pending answer, unless it is not there yet or was sent."""
        # Both its completion and its deadline may call this: the second finds that it was sent.
        if connection.pending is not pending:
            return
        answer = pending.take(self._clock())
        if answer is not None:
            connection.pending = None
            self._waiting -= 1
            connection.is_paused = False
            self._start_answer(connection, answer)
