"""The network layer over real sockets on loopback: order, bounds, failures, shutdown. Nothing here judges by time."""

from __future__ import annotations

import errno
import os
import random
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.serve.logs.file_ranges import SharedFile
from kafkalog_core.serve.network.answers import (
    NO_OBSERVER,
    Close,
    CloseReason,
    ConnectionFacts,
    NetworkLimits,
    NoResponse,
    PendingAnswer,
    Reply,
)
from kafkalog_core.serve.network.connections import Connection, FrameMemory
from kafkalog_core.serve.network.socket_server import Listener, ListenError, NetworkServer, PlainTransport
from tests.serve.network.network_server import (
    MIB,
    PATIENCE_S,
    Events,
    Handler,
    answer_of,
    connected,
    descriptors,
    frame,
    serving,
    take,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.live


class Clock:
    """A clock that runs when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def shared(path: Path) -> SharedFile:
    return SharedFile(os.open(path, os.O_RDONLY))


# --- answers, and their order -----------------------------------------------------------------------------------------
def test_answers_keep_the_order_of_pipelined_requests() -> None:
    with serving() as (server, events), connected(server) as client:
        sent = [b"%08d" % number * (number + 1) for number in range(300)]
        client.sendall(b"".join(map(frame, sent)))
        assert [answer_of(client) for _ in sent] == sent
        handled = events.wait("request_handled", len(sent))
        assert [each[1] for each in handled] == [each[2] for each in handled] == [len(each) for each in sent]
        totals = server.counters()
        assert sum(each.requests for each in totals) == len(sent)
        assert (
            sum(each.bytes_in for each in totals)
            == sum(each.bytes_out for each in totals)
            == sum(map(len, sent)) + 1200
        )


def test_no_response_is_followed_by_the_next_request() -> None:
    with serving(lambda request: NoResponse() if request[:1] == b"-" else Reply([request])) as (server, _):  # noqa: SIM117
        with connected(server) as client:
            client.sendall(frame(b"-produce") * 3 + frame(b"the next"))
            assert answer_of(client) == b"the next"


def test_a_handler_closes_and_a_reply_may_be_the_last() -> None:
    def answer(request: bytes) -> object:
        return Close("unknown API 99") if request == b"api 99.." else Reply([b"bye"], then_close=True)

    with serving(answer) as (server, events):
        with connected(server) as client:
            client.sendall(frame(b"api 99.."))
            assert is_ended(client)
        assert events.wait("connection_closed")[0][1:] == (CloseReason.HANDLER, "unknown API 99", None)
        with connected(server) as client:
            client.sendall(frame(b"password"))
            assert answer_of(client) == b"bye"
            assert is_ended(client)


def test_pieces_of_all_kinds_form_one_response(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(256)) * 1000)
    file = shared(path)

    def answer(_: bytes) -> Reply:
        many = [bytes([number % 256]) * (number % 3) for number in range(500)]
        first, second = file.range(256, 512), file.range(5, 0)
        return Reply([b"", b"head", first, *many, second, bytearray(b"body"), memoryview(b"xtailx")[1:5], b""])

    many = b"".join(bytes([number % 256]) * (number % 3) for number in range(500))
    limits = NetworkLimits(max_turn_bytes=7, max_sent_bytes=7)  # each turn ends in a piece
    with serving(answer, limits=limits) as (server, _):
        with connected(server) as client:
            client.sendall(frame(b"fetch...") * 3)
            for _ in range(3):
                assert answer_of(client) == b"head" + bytes(range(256)) * 2 + many + b"bodytail"
        file.release()
    assert file.descriptor == -1


@pytest.mark.parametrize("size", [10, 5000, 70_000, 400_000])
def test_a_frame_arrives_in_any_parts(size: int) -> None:
    payload = random.Random(size).randbytes(size)
    with serving(limits=NetworkLimits(max_turn_bytes=1000)) as (server, _), connected(server) as client:
        whole = frame(payload)
        for cut in (1, 3, 4, 5, 4 + 4096, size):
            client.sendall(whole[:cut])
            client.sendall(whole[cut:])
            assert answer_of(client) == payload


# --- pending answers --------------------------------------------------------------------------------------------------
def test_a_pending_answer_holds_up_its_connection_alone() -> None:
    pending: list[PendingAnswer] = []
    arrived = threading.Event()

    def answer(request: bytes) -> object:
        if request != b"join....":
            return Reply([request])
        pending.append(PendingAnswer(time.monotonic() + 3600, lambda: Reply([b"too late"])))
        arrived.set()
        return pending[0]

    handler = Handler(answer)
    with serving(handler, processors=1) as (server, _), connected(server) as joining, connected(server) as other:
        joining.sendall(frame(b"join....") + frame(b"after it"))
        assert arrived.wait(PATIENCE_S)
        for _ in range(3):
            other.sendall(frame(b"fetch..."))
            assert answer_of(other) == b"fetch..."
        assert b"after it" not in handler.requests
        assert pending[0].complete(Reply([b"joined"]))
        assert not pending[0].complete(Reply([b"again"]))
        assert answer_of(joining) == b"joined"
        assert answer_of(joining) == b"after it"


def test_a_pending_answer_is_asked_at_its_deadline() -> None:
    clock = Clock()
    made: list[PendingAnswer] = []

    def answer(request: bytes) -> PendingAnswer:
        made.append(PendingAnswer(1000.0 + int(request), lambda: Reply([b"empty " + request])))
        return made[-1]

    with serving(answer, clock=clock, processors=1) as (server, events), ExitStack() as stack:
        first, second = (stack.enter_context(connected(server)) for _ in range(2))
        first.sendall(frame(b"00000500"))
        second.sendall(frame(b"00000300"))
        while len(made) < 2:
            time.sleep(0.01)
        clock.now_s += 300
        server.wake()
        assert answer_of(second) == b"empty 00000300"
        assert not made[1].complete(Reply([b"later"]))
        assert len(events.wait("request_handled")) == 1
        clock.now_s += 200
        server.wake()
        assert answer_of(first) == b"empty 00000500"
        assert [each[3] for each in events.wait("request_handled", 2)] == [300.0, 500.0]


def test_an_answer_may_be_complete_before_it_is_returned() -> None:
    def answer(request: bytes) -> PendingAnswer:
        pending = PendingAnswer(float("inf"), lambda: Close("never"))
        assert pending.complete(Reply([request]))
        return pending

    with serving(answer) as (server, _), connected(server) as client:
        for _ in range(200):  # more than what starts a clean-up of old deadlines
            client.sendall(frame(b"fetch..."))
            assert answer_of(client) == b"fetch..."


def test_a_failure_at_the_deadline_closes_the_connection_alone() -> None:
    def answer(request: bytes) -> object:
        return PendingAnswer(0.0, lambda: 1 / 0) if request == b"join...." else Reply([request])

    with serving(answer, processors=1) as (server, events), connected(server) as other:
        with connected(server) as client:
            client.sendall(frame(b"join...."))
            assert is_ended(client)
        other.sendall(frame(b"still ok"))
        assert answer_of(other) == b"still ok"
        assert events.reasons() == [CloseReason.ERROR]


def test_a_closed_connection_abandons_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"record")
    abandoned = threading.Event()
    pending = PendingAnswer(float("inf"), lambda: Close("never"), abandoned=abandoned.set)
    handler = Handler(lambda _: pending)
    with serving(handler) as (server, _), connected(server) as client:
        client.sendall(frame(b"join...."))
        while not handler.requests:
            time.sleep(0.01)
        assert server.close(grace_s=0)
        assert abandoned.is_set()
        assert is_ended(client)
        file = shared(path)
        assert not pending.complete(Reply([file.range(0, 6)]))
        file.release()
        assert file.descriptor == -1


def test_no_wake_up_is_lost() -> None:
    """Eight threads complete what eight clients wait for, each at once; no deadline would help."""
    queue: list[tuple[PendingAnswer, bytes]] = []
    filled = threading.Semaphore(0)

    def answer(request: bytes) -> PendingAnswer:
        pending = PendingAnswer(float("inf"), lambda: Close("never"))
        queue.append((pending, request))
        filled.release()
        return pending

    def complete() -> None:
        while True:
            filled.acquire()
            pending, request = queue.pop()
            if request == b"stop....":
                return
            assert pending.complete(Reply([request]))

    done: list[int] = []
    completing = [threading.Thread(target=complete) for _ in range(8)]
    with serving(answer) as (server, _):
        asking = [threading.Thread(target=_ask, args=(server, number, done)) for number in range(8)]
        for each in (*completing, *asking):
            each.start()
        for each in asking:
            each.join()
        for _ in completing:
            answer(b"stop....")
        for each in completing:
            each.join()
    assert sorted(done) == list(range(8))


def _ask(server: NetworkServer, number: int, done: list[int]) -> None:
    with connected(server) as client:
        for turn in range(250):
            client.sendall(frame(b"%04d%04d" % (number, turn)))
            assert answer_of(client) == b"%04d%04d" % (number, turn)
        done.append(number)


# --- files ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("copies", [False, True], ids=["sendfile", "copied"])
def test_a_range_of_a_sparse_file_beyond_2_gib(tmp_path: Path, copies: bool) -> None:
    path = tmp_path / "segment"
    position = 5 * 1024**3 + 3
    content = random.Random(1).randbytes(3 * MIB)
    with path.open("wb") as opened:
        opened.seek(position)
        opened.write(content)
    file = shared(path)

    def wrap(accepted: socket.socket) -> PlainTransport:
        return PlainTransport(accepted, copies=copies)

    with serving(lambda _: Reply([b"h", file.range(position - 1, len(content))]), transport=wrap) as (server, _):
        with connected(server) as client:
            client.sendall(frame(b"fetch...") * 2)
            for _ in range(2):
                assert answer_of(client) == b"h\0" + content[:-1]
        file.release()
    assert file.descriptor == -1


@pytest.fixture
def records(tmp_path: Path) -> SharedFile:
    """An open file of eight bytes, which a test releases."""
    path = tmp_path / "segment"
    path.write_bytes(b"records!")
    return shared(path)


def test_sendfile_falls_back_to_copying(records: SharedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> int:
        raise OSError(errno.EINVAL, "not on this file system")

    monkeypatch.setattr(os, "sendfile", refuse)
    with serving(lambda _: Reply([records.range(0, 8)])) as (server, _), connected(server) as client:
        client.sendall(frame(b"fetch..."))
        assert answer_of(client) == b"records!"
    records.release()


def test_a_file_that_cannot_be_read_closes_the_connection(records: SharedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "sendfile", fail)
    with serving(lambda _: Reply([records.range(0, 8)])) as (server, events), connected(server) as client:
        client.sendall(frame(b"fetch..."))
        assert take(client, 100) == b"\0\0\0\x08"
        closed = events.wait("connection_closed")
        assert (closed[0][1], closed[0][3].errno) == (CloseReason.ERROR, errno.EIO)
        records.release()
        assert records.descriptor == -1


def test_a_file_truncated_meanwhile_closes_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    with path.open("wb") as opened:
        opened.truncate(64 * MIB)
    file = shared(path)
    with serving(lambda _: Reply([file.range(0, 64 * MIB)])) as (server, events), connected(server, 65_536) as client:
        client.sendall(frame(b"fetch..."))
        events.wait("bytes_sent")
        os.truncate(path, 1 * MIB)
        assert len(take(client, 4 + 64 * MIB)) < 4 + 64 * MIB
        assert events.reasons() == [CloseReason.FILE_TRUNCATED]
        file.release()
        assert file.descriptor == -1


def test_a_file_is_open_until_its_last_range_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(16 * MIB))
    file = shared(path)

    def answer(_: bytes) -> Reply:
        reply = Reply([file.range(0, 16 * MIB)])
        path.unlink()
        file.release()
        return reply

    with serving(answer) as (server, events), connected(server, 65_536) as client:
        client.sendall(frame(b"fetch..."))
        events.wait("bytes_sent")
        assert file.descriptor >= 0
        assert answer_of(client) == bytes(16 * MIB)
        events.wait("request_handled")
        assert file.descriptor == -1
        with pytest.raises(ValueError, match="closed"):
            file.range(0, 1)
        file.release()


def test_a_file_that_nobody_released_is_closed_with_its_object(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"record")
    file = shared(path)
    number = file.descriptor
    with pytest.raises(ValueError, match="position -1"):
        file.range(-1, 1)
    del file
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(number)


# --- failures ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "failure", [RuntimeError("broken"), SystemExit(3), MemoryError(), ConnectionResetError("inner")]
)
def test_a_failing_handler_closes_only_its_connection(failure: BaseException) -> None:
    def answer(request: bytes) -> object:
        if request == b"fail....":
            raise failure
        return Reply([request]) if request != b"wrong..." else "no answer"

    with serving(answer) as (server, events), ExitStack() as stack:
        others = [stack.enter_context(connected(server)) for _ in range(6)]
        for number in range(20):
            with connected(server) as client:
                client.sendall(frame(b"fail...." if number % 2 else b"wrong..."))
                assert is_ended(client)
        for each in others:
            each.sendall(frame(b"still ok"))
            assert answer_of(each) == b"still ok"
        assert events.reasons(20) == [CloseReason.ERROR] * 20  # one event for each
        assert events.of("network_error") == []
        assert sum(each.failures for each in server.counters()) == 20


def test_a_failing_observer_changes_nothing() -> None:
    class Raises:
        def __getattr__(self, name: str) -> Callable[..., None]:
            def fail(*_: object) -> None:
                raise RuntimeError(name)

            return fail

    server = NetworkServer([Listener("A", "127.0.0.1", 0)], Handler(), time.monotonic, observer=Raises(), processors=1)
    with server, connected(server) as client:
        client.sendall(frame(b"fetch..."))
        assert answer_of(client) == b"fetch..."
        assert server.counters()[0].dropped_events > 0


def test_garbage_leaves_nothing() -> None:
    seeded = random.Random(400)
    good = frame(b"fetch...")
    with serving() as (server, events), connected(server) as steady:
        steady.sendall(good)
        assert answer_of(steady) == b"fetch..."
        before = len(descriptors())
        for number in range(400):
            garbage = [
                seeded.randbytes(seeded.randrange(1, 300)),
                (-seeded.randrange(1, 2**31)).to_bytes(4, "big", signed=True),
                (2**31 - 1).to_bytes(4, "big") + b"x" * 100,
                (1000).to_bytes(4, "big") + b"x" * seeded.randrange(999),
                seeded.randrange(8).to_bytes(4, "big"),
                b"\0\0",
            ][number % 6]
            with connected(server) as client, suppress(ConnectionError):
                client.sendall(garbage)
        events.wait("connection_closed", 400)
        steady.sendall(good)
        assert answer_of(steady) == b"fetch..."
        assert len(descriptors()) == before
        assert {each[1] for each in events.of("connection_closed")} == {CloseReason.PEER, CloseReason.FRAME}
        assert sum(each.connections for each in server.counters()) == 1


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 1001, 2**31 - 1])
def test_an_invalid_length_closes_at_once(size: int) -> None:
    handler = Handler()
    with (
        serving(handler, limits=NetworkLimits(max_request_bytes=1000)) as (server, events),
        connected(server) as client,
    ):
        client.sendall(size.to_bytes(4, "big", signed=True))
        assert is_ended(client)
        assert events.reasons() == [CloseReason.FRAME]
        assert handler.requests == []


def test_a_response_that_is_too_large_closes(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"")
    file = shared(path)
    replies = [[bytes(2000)], [file.range(0, 2**31 - 1), file.range(0, 1)]]
    with serving(lambda _: Reply(replies.pop()), limits=NetworkLimits(max_response_bytes=1000)) as (server, events):
        for _ in range(2):
            with connected(server) as client:
                client.sendall(frame(b"fetch..."))
                assert is_ended(client)
        assert events.reasons(2) == [CloseReason.RESPONSE_SIZE] * 2
    file.release()
    assert file.descriptor == -1


# --- bounds -----------------------------------------------------------------------------------------------------------
def test_a_slow_reader_holds_nobody_up(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    with path.open("wb") as opened:
        opened.truncate(64 * MIB)
    file = shared(path)
    handler = Handler(lambda request: Reply([file.range(0, 64 * MIB)] if request == b"fetch..." else [request]))
    with (
        serving(handler, processors=1) as (server, events),
        connected(server, 65_536) as slow,
        connected(server) as other,
    ):
        slow.sendall(frame(b"fetch...") + frame(b"the next"))
        events.wait("bytes_sent")
        for _ in range(50):
            other.sendall(frame(b"quick..."))
            assert answer_of(other) == b"quick..."
        assert b"the next" not in handler.requests  # it is not read from while its output waits
        assert len(answer_of(slow)) == 64 * MIB
        assert answer_of(slow) == b"the next"
        file.release()


def test_a_fast_reader_takes_turns(tmp_path: Path) -> None:
    """One connection moves at most a turn's bytes at a time."""
    path = tmp_path / "segment"
    path.write_bytes(bytes(8 * MIB))
    file = shared(path)
    limits = NetworkLimits(max_turn_bytes=10_000, max_sent_bytes=10_000)
    with (
        serving(lambda _: Reply([file.range(0, 8 * MIB)]), limits=limits) as (server, events),
        connected(server) as client,
    ):
        client.sendall(frame(b"fetch..."))
        assert len(answer_of(client)) == 8 * MIB
        events.wait("request_handled")
        assert max(each[1] for each in events.of("bytes_sent")) <= 10_000
    file.release()


def test_too_many_connections_are_refused() -> None:
    with serving(limits=NetworkLimits(max_connections=5, max_connections_per_host=3)) as (server, events):
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(connected(server))
            events.wait("connection_opened", 3)
            refused = stack.enter_context(connected(server))
            assert is_ended(refused)
            assert "3 connections of this address" in events.wait("connection_refused")[0][2]
        events.wait("connection_closed", 3)
        with connected(server) as client:
            client.sendall(frame(b"fetch..."))
            assert answer_of(client) == b"fetch..."
        assert server.refused_connections == 1
    with serving(limits=NetworkLimits(max_connections=1)) as (server, events):  # noqa: SIM117
        with connected(server), connected(server) as refused:
            assert is_ended(refused)
            assert "1 connections are open" in events.wait("connection_refused")[0][2]


def test_idle_connections_are_closed_by_the_clock() -> None:
    clock = Clock()
    handler = Handler(lambda request: PendingAnswer(9000.0, lambda: Reply([request])))
    handler._answer, wait = (
        (lambda request: wait(request) if request == b"join...." else Reply([request])),
        handler._answer,
    )
    with (
        serving(handler, clock=clock, processors=1, limits=NetworkLimits(max_idle_s=600)) as (server, events),
        ExitStack() as s,
    ):
        idle, busy, half, waiting = (s.enter_context(connected(server)) for _ in range(4))
        events.wait("connection_opened", 4)
        half.sendall(frame(b"fetch...")[:6])
        waiting.sendall(frame(b"join...."))
        busy.sendall(frame(b"fetch..."))
        assert answer_of(busy) == b"fetch..."
        while len(handler.requests) < 2 or sum(each.bytes_in for each in server.counters()) < 30:
            time.sleep(0.01)
        clock.now_s += 599
        busy.sendall(frame(b"fetch..."))
        assert answer_of(busy) == b"fetch..."
        assert events.of("connection_closed") == []
        clock.now_s += 1
        server.wake()
        assert is_ended(idle)
        assert is_ended(half)
        assert events.reasons(2) == [CloseReason.IDLE] * 2
        busy.sendall(frame(b"fetch..."))
        assert answer_of(busy) == b"fetch..."
        clock.now_s = 9000.0
        server.wake()
        assert answer_of(waiting) == b"join...."


def test_half_read_frames_share_bounded_memory() -> None:
    """All clients send half of a frame that only fits alone; others go on, and in the end all are answered."""
    size = 4 * MIB
    limits = NetworkLimits(max_buffered_bytes=size + MIB)
    with serving(limits=limits, processors=2) as (server, _), ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(4)]
        rests = []
        for each in clients:
            each.setblocking(False)
            rests.append(memoryview(frame(bytes(size))))
            with suppress(BlockingIOError):
                for _ in range(20):
                    rests[-1] = rests[-1][each.send(rests[-1][: MIB // 4]) :]
        with connected(server) as small:
            small.sendall(frame(b"fetch..."))
            assert answer_of(small) == b"fetch..."
        found = []

        def finish(client: socket.socket, rest: memoryview) -> None:
            client.settimeout(PATIENCE_S)
            client.sendall(rest)
            found.append(len(answer_of(client)))

        threads = [threading.Thread(target=finish, args=each) for each in zip(clients, rests, strict=True)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert found == [size] * 4


def test_a_client_that_does_not_end_its_frame_is_disconnected_while_others_wait_for_memory() -> None:
    """Unfinished frames of three clients fill the memory; a fourth client is answered all the same."""
    clock, size = Clock(), 128 * 1024
    limits = NetworkLimits(max_buffered_bytes=size, max_idle_s=1e9)
    with serving(limits=limits, clock=clock) as (server, events), ExitStack() as stack:
        for _ in range(3):
            slow = stack.enter_context(connected(server))
            slow.sendall(frame(bytes(8 * MIB))[:size])
        good = stack.enter_context(connected(server))
        good.sendall(frame(bytes(size)))  # it fits into the socket: however fast this clock runs, it is not slow
        answers: list[bytes] = []
        waiting = threading.Thread(target=lambda: answers.append(answer_of(good)))
        waiting.start()
        while waiting.is_alive() and clock.now_s < 20_000:
            clock.now_s += 1
            server.wake()
            waiting.join(0.02)
        assert [len(each) for each in answers] == [size]
        assert set(events.reasons()) == {CloseReason.SLOW}


def test_a_frame_of_an_unknown_client_is_short_and_holds_nobody_up() -> None:
    """What a client sends before it has proved who it is takes no memory of those that have."""
    unknown: set[int] = set()
    limits = NetworkLimits(max_buffered_bytes=MIB, max_unknown_bytes=MIB // 4)

    def most(facts: ConnectionFacts) -> int | None:
        return 64 * 1024 if facts.peer_port in unknown else None

    with serving(limits=limits, max_frame_bytes=most) as (server, _), ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(8)]
        unknown |= {each.getsockname()[1] for each in clients}
        clients[0].sendall(frame(bytes(64 * 1024 + 1))[:100])
        assert is_ended(clients[0])
        for each in clients[1:]:
            each.sendall(frame(bytes(64 * 1024))[:-1])
        with connected(server) as known:
            known.sendall(frame(bytes(MIB)))
            assert len(answer_of(known)) == MIB


def test_frame_memory_has_one_senior_and_wakes_those_that_wait() -> None:
    memory = FrameMemory(100)
    first, second, third = (object.__new__(Connection) for _ in range(3))
    woken: list[int] = []
    assert memory.reserve(first, 60, lambda: woken.append(1))
    assert memory.reserve(second, 60, lambda: woken.append(2))  # the one that may exceed the bound
    assert not memory.reserve(first, 60, lambda: woken.append(1))
    assert not memory.reserve(third, 1, lambda: woken.append(3))
    assert memory.reserve(second, 1000, lambda: woken.append(2))
    memory.release(third, 0)  # it was closed
    assert woken == []
    memory.release(second, 1060)
    assert woken == [1]
    assert memory.reserve(first, 60, lambda: woken.append(1))
    memory.release(first, 120)
    assert memory.reserve(third, 100, lambda: woken.append(3))


def test_a_thousand_connections_take_little_memory() -> None:
    """1,000 are held and 200 of them ask; of half-read frames only what has arrived takes memory."""
    with serving() as (server, events), ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(1000)]
        events.wait("connection_opened", 1000)
        before = resident_bytes()
        for each in clients:
            each.sendall((50 * MIB).to_bytes(4, "big"))  # 50 GB are promised
        while sum(each.bytes_in for each in server.counters()) < 4000:
            time.sleep(0.01)
        assert resident_bytes() - before < 64 * MIB
    with serving() as (server, events), ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(1000)]
        events.wait("connection_opened", 1000)
        for _ in range(5):
            for each in clients[:200]:
                each.sendall(frame(b"fetch..."))
            assert {answer_of(each) for each in clients[:200]} == {b"fetch..."}
        assert [each.connections for each in server.counters()] == [500, 500]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


SHORT_OF_DESCRIPTORS = """
import resource, socket, sys, threading, time
from tests.serve.network.network_server import Events, Handler, answer_of, frame, PATIENCE_S
from kafkalog_core.serve.network.socket_server import Listener, NetworkServer

events = Events()
server = NetworkServer([Listener("A", "127.0.0.1", 0)], Handler(), time.monotonic, observer=events, processors=1)
with server:
    address = ("127.0.0.1", server.addresses[0].port)
    used = socket.socket().fileno()
    clients = [socket.socket() for _ in range(20)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 25, used + 25))
    for each in clients:
        each.settimeout(PATIENCE_S)
        each.connect(address)
    assert "Too many open files" in str(events.wait("network_error")[0][1])
    before = time.process_time()
    time.sleep(1)
    assert time.process_time() - before < 0.5, "the acceptor spins"
    assert len(events.of("network_error")) == 1, events.of("network_error")
    served = len(events.of("connection_opened"))
    for each in clients[:served]:
        each.sendall(frame(b"fetch..."))
        assert answer_of(each) == b"fetch..."
        each.close()
    for each in clients[served:]:
        each.sendall(frame(b"fetch..."))
        assert answer_of(each) == b"fetch..."
        each.close()
sys.stdout.write(f"{served} of {len(clients)}")
"""


def test_without_descriptors_the_acceptor_waits() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", SHORT_OF_DESCRIPTORS],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout.split()[0]) < 20


# --- start and shutdown -----------------------------------------------------------------------------------------------
def test_shutdown_lets_an_answer_in_flight_end(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(32 * MIB))
    file = shared(path)
    pending = PendingAnswer(float("inf"), lambda: Close("never"))
    handler = Handler(lambda request: pending if request == b"join...." else Reply([file.range(0, 32 * MIB)]))
    with serving(handler) as (server, events), ExitStack() as stack:
        idle, slow, waiting = (stack.enter_context(connected(server, 65_536)) for _ in range(3))
        slow.sendall(frame(b"fetch..."))
        waiting.sendall(frame(b"join...."))
        events.wait("bytes_sent")
        while len(handler.requests) < 2:
            time.sleep(0.01)
        closing = threading.Thread(target=server.close, args=(PATIENCE_S,))
        closing.start()
        assert is_ended(idle)
        with pytest.raises(OSError, match="refused"), connected(server):
            pass
        assert answer_of(slow) == bytes(32 * MIB)
        assert is_ended(slow)
        assert pending.complete(Reply([b"joined"]))
        assert answer_of(waiting) == b"joined"
        assert is_ended(waiting)
        closing.join()
        assert events.reasons(3) == [CloseReason.SHUTDOWN] * 3
        assert server.close()
        file.release()


def test_shutdown_ends_at_its_deadline(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    with path.open("wb") as opened:
        opened.truncate(64 * MIB)
    file = shared(path)
    with serving(lambda _: Reply([file.range(0, 64 * MIB)])) as (server, events), connected(server, 65_536) as client:
        client.sendall(frame(b"fetch..."))
        events.wait("bytes_sent")
        assert server.close(grace_s=0.05)
        assert events.reasons() == [CloseReason.SHUTDOWN]
        file.release()
        assert file.descriptor == -1


def test_a_server_that_never_started_is_closed() -> None:
    before = descriptors()
    server = NetworkServer([Listener("A", "127.0.0.1", 0)], Handler(), time.monotonic, observer=NO_OBSERVER)
    assert len(server.counters()) == max(1, (os.cpu_count() or 1) // 2)
    assert server.close()
    assert server.close()
    assert descriptors() <= before


def test_several_addresses_and_ipv6() -> None:
    listeners = [Listener("A", "127.0.0.1", 0), Listener("B", "localhost", 0), Listener("C", "::1", 0)]
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        listeners.pop()  # a machine without IPv6
    events = Events()
    with NetworkServer(listeners, Handler(), time.monotonic, observer=events) as server:
        assert {each.listener for each in server.addresses} == {each.name for each in listeners}
        for number, address in enumerate(server.addresses, 1):
            with socket.create_connection((address.host, address.port), PATIENCE_S) as client:
                client.sendall(frame(b"fetch..."))
                assert answer_of(client) == b"fetch..."
            facts = events.wait("connection_opened", number)[-1][0]
            assert (facts.listener, facts.peer_host) == (address.listener, address.host)


def test_an_ipv4_client_of_an_ipv6_listener_has_its_own_address() -> None:
    try:
        server = NetworkServer([Listener("A", "::", 0)], Handler(), time.monotonic, observer=(events := Events()))
    except ListenError:
        pytest.skip("this machine has no IPv6")
    with server, socket.create_connection(("127.0.0.1", server.addresses[0].port), PATIENCE_S):
        assert events.wait("connection_opened")[0][0].peer_host == "127.0.0.1"


def test_an_address_in_use_is_an_error() -> None:
    before = descriptors()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}"):
            NetworkServer([Listener("A", "127.0.0.1", 0), Listener("B", "127.0.0.1", port)], Handler(), time.monotonic)
    assert descriptors() <= before


# --- quotas -----------------------------------------------------------------------------------------------------------
def test_a_muted_connection_gets_its_answer_at_once_and_is_read_again_later() -> None:
    clock = Clock()
    handler = Handler(lambda request: Reply([request], mute_s=10.0 if request == b"much" else 0.0))
    with serving(handler, clock=clock, processors=1) as (server, _), connected(server) as muted:
        muted.sendall(frame(b"much") + frame(b"next"))
        assert answer_of(muted) == b"much"
        with connected(server) as other:  # of the same thread
            for number in range(20):
                other.sendall(frame(b"%d" % number))
                assert answer_of(other) == b"%d" % number
        assert b"next" not in handler.requests
        clock.now_s += 9.9
        server.wake()
        with connected(server) as other:
            other.sendall(frame(b"more"))
            assert answer_of(other) == b"more"
        assert b"next" not in handler.requests
        clock.now_s += 0.2
        server.wake()
        assert answer_of(muted) == b"next"


def test_a_connection_without_a_response_is_muted_too() -> None:
    clock = Clock()
    handler = Handler(lambda request: NoResponse(10.0) if request == b"much" else Reply([request]))
    with serving(handler, clock=clock, processors=1) as (server, events), connected(server) as muted:
        muted.sendall(frame(b"much") + frame(b"next"))
        events.wait("request_handled")
        with connected(server) as other:
            other.sendall(frame(b"other"))
            assert answer_of(other) == b"other"
        assert b"next" not in handler.requests
        clock.now_s += 10.1
        server.wake()
        assert answer_of(muted) == b"next"


def test_a_muted_connection_is_not_idle_and_a_shutdown_does_not_wait_for_it() -> None:
    clock = Clock()
    limits = NetworkLimits(max_idle_s=5.0)
    answer = Handler(lambda request: Reply([request], mute_s=60.0))
    with serving(answer, clock=clock, limits=limits) as (server, events), connected(server) as muted:
        muted.sendall(frame(b"much"))
        assert answer_of(muted) == b"much"
        clock.now_s += 30
        server.wake()
        with connected(server) as other:
            other.sendall(frame(b"other"))
            assert answer_of(other) == b"other"
        assert not events.of("connection_closed")
        server.close(grace_s=0)
        assert is_ended(muted)


def test_muted_connections_that_close_leave_nothing() -> None:
    with serving(lambda request: Reply([request], mute_s=0.2), processors=1) as (server, events):
        for _ in range(200):
            with connected(server) as muted:
                muted.sendall(frame(b"much"))
                assert answer_of(muted) == b"much"
        events.wait("connection_closed", 200)


def test_a_connection_that_comes_too_fast_is_closed_after_its_delay() -> None:
    delays = iter([0.0, 0.05])
    events = Events()
    server = NetworkServer(
        [Listener("PLAIN", "127.0.0.1", 0)],
        Handler(),
        time.monotonic,
        observer=events,
        delay_s=lambda host: next(delays) if host == "127.0.0.1" else 0.0,
    )
    with server, connected(server) as first, connected(server) as second:
        first.sendall(frame(b"first"))
        assert answer_of(first) == b"first"
        assert second.recv(1) == b""
        ((host, listener, detail),) = events.wait("connection_refused")
        assert (host, listener, "faster than its quota" in str(detail)) == ("127.0.0.1", "PLAIN", True)


# --- requests that do not wait for their responses --------------------------------------------------------------------
def test_responses_of_requests_that_came_together_are_sent_together() -> None:
    with serving() as (server, events), connected(server) as client:
        client.sendall(b"".join(frame(b"request %d" % number) for number in range(5)))
        assert read_exactly(client, 5 * 13) == b"".join(frame(b"request %d" % number) for number in range(5))
        assert len(events.wait("request_handled", 5)) == 5
        sent = [size for _, size in events.of("bytes_sent")]
        assert sum(sent) == 5 * 13
        assert len(sent) < 5


def read_exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        assert part, (len(data), size)
        data += part
    return data


class Kinds:
    """Answers a request by its first letter, with the rest of it."""

    def __init__(self, path: Path) -> None:
        self.file = SharedFile(os.open(path, os.O_RDONLY))
        self.timers: list[threading.Timer] = []

    def __call__(self, request: bytes) -> object:
        kind, rest = request[:1], request[1:]
        if kind == b"p":
            pending = PendingAnswer(time.monotonic() + 60, lambda: Reply([b"never"]))
            self.timers.append(threading.Timer(0.002, pending.complete, [Reply([rest])]))
            self.timers[-1].start()
            return pending
        if kind == b"d":
            return PendingAnswer(time.monotonic() + 0.002, lambda: Reply([rest]))
        if kind == b"e":
            raise ValueError("a bug")
        answers = {b"n": NoResponse(), b"c": Close("as asked"), b"f": None, b"b": Reply([rest * 100, b"end"])}
        found = answers.get(kind, Reply([rest]))
        return found if found is not None else Reply([rest, self.file.range(0, 50_000)])

    @staticmethod
    def expected(request: bytes) -> bytes:
        kind, rest = request[:1], request[1:]
        if kind in b"nce":
            return b""
        return frame({b"f": rest + bytes(50_000), b"b": rest * 100 + b"end"}.get(kind, rest))


@pytest.mark.parametrize("seed", range(12))
def test_any_requests_in_any_parts_are_answered_in_their_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    (tmp_path / "file").write_bytes(bytes(50_000))
    kinds = Kinds(tmp_path / "file")
    with serving(kinds) as (server, events), connected(server, receive_buffer=4096) as client:
        requests = [
            bytes([chance.choice(b"rrrrrrrbfpdn")]) + b"%d," % number * chance.choice((1, 5, 3000))
            for number in range(chance.choice((5, 60, 200)))
        ]
        end = chance.choice((b"c", b"e"))
        data = b"".join(map(frame, [*requests, end]))
        cuts = sorted(chance.randrange(len(data)) for _ in range(chance.choice((0, 3, 50))))

        def send() -> None:
            for first, last in zip([0, *cuts], [*cuts, len(data)], strict=True):
                client.sendall(data[first:last])

        sender = threading.Thread(target=send)
        sender.start()
        wanted = b"".join(map(kinds.expected, requests))
        assert read_exactly(client, len(wanted)) == wanted
        sender.join()
        assert client.recv(1) == b""
        (reason,) = events.reasons()
        assert reason is (CloseReason.HANDLER if end == b"c" else CloseReason.ERROR)
        assert len(events.of("request_handled")) == len(requests)
    for timer in kinds.timers:
        timer.join()
    kinds.file.release()
