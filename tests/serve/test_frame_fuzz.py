"""Frames that no client sends: random requests, broken ones, requests with far too many elements, and no requests.

Whatever one client sends, the others are answered, memory is bounded, and nothing fails inside. The fixed seeds are the
same in every run; the other test goes on for 20 s, or as many seconds as KAFKALOG_FUZZ_SECONDS says.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import struct
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.errors import ProtocolError
from kafkalog_core.wire.frames import encode_request
from kafkalog_core.wire.schemas import apis, schema_of
from tests.support.live import SECONDS, LiveServer, create_topics, read_all
from tests.support.messages import message as random_message
from tests.support.raw_clients import API_VERSIONS, connected, memory_bytes, open_files, processor_s, produced, receive

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafkalog_core.wire.schemas import Api, MessageField

pytestmark = pytest.mark.slow

FUZZ_SECONDS: Final = float(os.environ.get("KAFKALOG_FUZZ_SECONDS", "20"))
FRAMES: Final = 1000
"""Of each client with a fixed seed."""
CLIENTS: Final = 4
GROWN_BYTES: Final = 64 * 1024 * 1024
"""What the memory of the process may have grown by when all frames are answered."""
PEAK_BYTES: Final = 600 * 1024 * 1024
"""What it may take meanwhile: of frames alone 256 MiB are read at a time."""
ALONE_BYTES: Final = 200 * 1024 * 1024
"""What it may take for one request of 10 MB; it was 5 GB."""
WORST_S: Final = 6.0
"""What the broker does before another client is answered, at most and usually, in seconds of its own processor time: a
busy machine makes it wait and not work. Before, it was minutes."""
USUAL_S: Final = 0.5
UNSAFE: Final = frozenset(
    {"CreateTopics", "CreatePartitions", "DeleteTopics", "IncrementalAlterConfigs", "AlterConfigs"}
)
"""Requests that a random one of which may make thousands of partitions, or delete the topic that the test reads."""


class Frames:
    """Frames by a seed; `many`: the share of those with very many elements."""

    def __init__(self, seed: int, many: float) -> None:
        self.dice = random.Random(seed)
        self._many_share = many

    def frame(self) -> bytes:
        """The next one."""
        dice = self.dice
        if dice.random() < 0.1:
            return dice.randbytes(dice.randint(1, 300))
        if dice.random() < 0.1:
            size = dice.choice((0, 1, 7, 8, 100, 1 << 20, 1 << 27, (1 << 31) - 1, (1 << 32) - 1))
            return struct.pack(">I", size) + dice.randbytes(dice.randint(0, 100))
        api = dice.choice([each for each in apis().values() if each.name not in UNSAFE])
        if dice.random() < self._many_share:
            return self._many(api)
        data = bytearray(self._request(api))
        if dice.random() < 0.6:
            for _ in range(dice.randint(1, 6)):
                data[dice.randrange(4, len(data))] = dice.randrange(256)
        if dice.random() < 0.2:
            del data[dice.randrange(4, len(data)) :]
            data[:4] = struct.pack(">I", len(data) - 4)
        return bytes(data)

    def _request(self, api: Api) -> bytes:
        version = self.dice.randint(api.versions.first, api.versions.last)
        fields = schema_of(f"{api.name}Request", version).fields
        body = random_message(fields, version, self.dice, self.dice.choice((2, 8, 31)))
        return _encoded(api, version, body)

    def _many(self, api: Api) -> bytes:
        """A request one of whose arrays has very many elements, all the same."""
        dice = self.dice
        version = dice.randint(api.versions.first, api.versions.last)
        fields = schema_of(f"{api.name}Request", version).fields
        body = random_message(fields, version, dice, 8)
        places = list(_arrays(fields, version, body))
        if places:
            holder, field = dice.choice(places)
            row = next(iter(holder[field.name] or ()), None)
            if row is not None:
                holder[field.name] = [row] * dice.choice((1_000, 20_000, 100_000))
        return _encoded(api, version, body)


def _arrays(fields: Sequence[MessageField], version: int, body: dict) -> Iterator[tuple[dict, MessageField]]:
    for field in fields:
        if version not in field.versions or field.name not in body:
            continue
        if field.is_array:
            yield body, field
        if field.struct is not None and body[field.name]:
            for each in body[field.name] if field.is_array else [body[field.name]]:
                yield from _arrays(field.struct.fields, version, each)


def _encoded(api: Api, version: int, body: dict) -> bytes:
    try:
        pieces = encode_request(api.name, version, body, correlation_id=7, client_id="garbage")
    except ProtocolError:
        return API_VERSIONS
    return b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]  # no file range


class Garbage(threading.Thread):
    """A client that sends frames by a seed: a number of them, or until a time."""

    def __init__(
        self, server: LiveServer, seed: int, *, many: float = 0, count: int = 1 << 60, until_s: float = math.inf
    ) -> None:
        super().__init__(daemon=True)
        self.sent = self.answered = 0
        self._server = server
        self._frames = Frames(seed, many)
        self._count = count
        self._until_s = until_s

    def run(self) -> None:
        while self.sent < self._count and time.monotonic() < self._until_s:
            with closing(connected(self._server)) as connection:
                for _ in range(self._frames.dice.randint(1, 12)):
                    if not self._ask(connection, self._frames.frame()):
                        break

    def _ask(self, connection: socket.socket, frame: bytes) -> bool:
        """Send a frame; whether it was answered."""
        self.sent += 1
        try:
            connection.settimeout(SECONDS)
            connection.sendall(frame)
            connection.settimeout(0.03)
            found = receive(connection)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            return False
        self.answered += bool(found)
        return bool(found)


class Other(threading.Thread):
    """A client that asks again and again, and notes what the broker does before each answer."""

    def __init__(self, server: LiveServer) -> None:
        super().__init__(daemon=True)
        self.work_s: list[float] = []
        self._server = server
        self._is_over = threading.Event()

    def run(self) -> None:
        with closing(connected(self._server)) as connection:
            while not self._is_over.wait(0.02):
                before_s = processor_s(self._server.pid)
                connection.sendall(API_VERSIONS)
                assert receive(connection)
                self.work_s.append(processor_s(self._server.pid) - before_s)

    def check(self) -> None:
        """End, and judge the work."""
        self._is_over.set()
        self.join(2 * SECONDS)
        assert not self.is_alive(), "it was not answered, or lost its connection"
        assert max(self.work_s) < WORST_S
        assert statistics.median(self.work_s) < USUAL_S


def run_against(server: LiveServer, clients: Sequence[Garbage], seconds: float) -> None:
    """Let clients send what they send, and judge how another one fares."""
    other = Other(server)
    other.start()
    for each in clients:
        each.start()
    for each in clients:
        each.join(seconds + 4 * SECONDS)
        assert not each.is_alive()
    other.check()
    assert memory_bytes(server.pid, "VmHWM") < PEAK_BYTES


@pytest.mark.parametrize("seed", [100, 200])
def test_frames_of_fixed_seeds_hold_nobody_up(seed: int, tmp_path: Path) -> None:
    """Also, no answer fails inside of the broker: each closed connection has a reason that a client gave."""
    with LiveServer(tmp_path / "data", "auto.create.topics.enable=false") as server:
        create_topics(server.address, ["t", "a", "topic-1"], 1)  # the last two are named in random requests
        values = produced(server.address, "t", 0, 100)
        run_against(server, [Garbage(server, seed + at, many=0.05, count=FRAMES) for at in range(CLIENTS)], 300)
        assert [value for _, _, value in read_all(server.address, ["t"], "read_uncommitted")["t", 0]] == values
        server.stop()
    lines = (tmp_path / "data.log").read_text().splitlines()
    assert [each for each in lines if ": an error (" in each or "internal error" in each] == []


def test_frames_with_many_elements_hold_nobody_up(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", "auto.create.topics.enable=false") as server:
        create_topics(server.address, ["t", "a", "topic-1"], 1)
        values = produced(server.address, "t", 0, 100)
        until_s = time.monotonic() + FUZZ_SECONDS
        run_against(server, [Garbage(server, seed, many=0.3, until_s=until_s) for seed in range(4)], FUZZ_SECONDS)
        assert [value for _, _, value in read_all(server.address, ["t"], "read_uncommitted")["t", 0]] == values
        server.stop()


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (3, 1, struct.pack(">i", 5_000_000) + bytes(10_000_000)),
        (1, 4, struct.pack(">iiiibi", -1, 0, 0, 1, 0, 1) + b"\0\1t" + struct.pack(">i", 625_000) + bytes(10_000_000)),
        (2, 1, struct.pack(">ii", -1, 1) + b"\0\1t" + struct.pack(">i", 800_000) + bytes(9_600_000)),
        (15, 0, struct.pack(">i", 5_000_000) + bytes(10_000_000)),
        (32, 0, struct.pack(">i", 1_400_000) + b"\2\0\1t\xff\xff\xff\xff" * 1_400_000),
        (18, 3, b"\x02a\x02b" + b"\xc0\x96\xb1\x02" + b"\x7f\0" * 5_000_000),
    ],
    ids=["Metadata", "Fetch", "ListOffsets", "DescribeGroups", "DescribeConfigs", "tagged fields"],
)
def test_one_request_of_millions_of_elements_costs_the_others_nothing(
    key: int, version: int, body: bytes, tmp_path: Path
) -> None:
    header = struct.pack(">hhih", key, version, 1, -1) + (b"\0" if key == 18 else b"")
    with LiveServer(tmp_path / "data") as server:
        create_topics(server.address, ["t"], 1)
        other = Other(server)
        other.start()
        with closing(connected(server)) as connection:
            connection.sendall(struct.pack(">i", len(header + body)) + header + body)
            assert len(receive(connection)) < 100, "closed, as brokers close it, or an error"
            assert receive(connection) == b""
        other.check()
        assert memory_bytes(server.pid, "VmHWM") < ALONE_BYTES
        server.stop()


def test_no_frame_ends_the_broker_or_makes_it_leak(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", "auto.create.topics.enable=false") as server:
        create_topics(server.address, ["t", "a", "topic-1"], 1)
        values = produced(server.address, "t", 0, 100)
        warm = Garbage(server, 0, until_s=time.monotonic() + FUZZ_SECONDS / 4)
        warm.start()
        warm.join()
        time.sleep(1)
        memory, files = memory_bytes(server.pid, "VmRSS"), open_files(server.pid)
        until_s = time.monotonic() + FUZZ_SECONDS
        clients = [Garbage(server, seed, until_s=until_s) for seed in range(1, 9)]
        run_against(server, clients, FUZZ_SECONDS)
        sent, answered = sum(each.sent for each in clients), sum(each.answered for each in clients)
        assert sent > 100
        assert answered > sent / 20
        values += produced(server.address, "t", 100, 100)
        found = read_all(server.address, ["t"], "read_uncommitted")["t", 0]
        assert [value for _, _, value in found if value in set(values)] == values
        time.sleep(1)
        grown = memory_bytes(server.pid, "VmRSS") - memory
        assert grown < GROWN_BYTES, f"after {sent} frames and {answered} answers"
        assert open_files(server.pid) <= files + 32
        server.stop()
