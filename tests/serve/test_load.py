"""A live broker under load: a thousand connections."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.live import LiveServer, create_topics
from tests.support.raw_clients import API_VERSIONS, connected, memory_bytes, produced, receive

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

HELD: Final = 1_000
ACTIVE: Final = 200
MEMORY_BYTES: Final = 64 * 1024 * 1024
"""What a thousand connections, 200 of them active, may add to the memory of the process."""


def test_a_thousand_connections_are_held_and_200_of_them_served(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data") as server, ExitStack() as stack:
        create_topics(server.address, ["t"], 1)
        produced(server.address, "t", 0, 10)
        before = memory_bytes(server.pid, "VmRSS")
        held = [stack.enter_context(closing(connected(server))) for _ in range(HELD)]
        for each in held:
            each.sendall(API_VERSIONS)
        assert all(receive(each) for each in held)
        until_s = time.monotonic() + 5
        rounds = 0
        while time.monotonic() < until_s:
            for each in held[:ACTIVE]:
                each.sendall(API_VERSIONS)
            assert all(receive(each) for each in held[:ACTIVE])
            rounds += 1
        assert rounds > 10
        assert memory_bytes(server.pid, "VmRSS") - before < MEMORY_BYTES
        produced(server.address, "t", 10, 10)
        held[-1].sendall(API_VERSIONS)
        assert receive(held[-1]), "one that was silent all the time"
