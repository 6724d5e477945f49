"""A read-only broker in this process, for real clients."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.serve.disks.served_disks import DiskOptions, ServedDisks
from kafkalog_core.serve.network import requests
from kafkalog_core.serve.network.requests import RequestDispatcher
from kafkalog_core.serve.network.socket_server import Listener
from kafkalog_core.serve.server import BrokerOptions, ReadOnlyBroker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafkalog_core.serve.network.requests import Handler


@contextmanager
def serving(*paths: Path, commits: Any = "memory", **options: Any) -> Iterator[ReadOnlyBroker]:
    """A running broker over some directories."""
    disks = ServedDisks(resolve([str(path) for path in paths], Selection()), DiskOptions(**options))
    broker = ReadOnlyBroker(
        disks,
        BrokerOptions(
            listen=[Listener("PLAINTEXT", "127.0.0.1", 0)],
            advertised={"PLAINTEXT": ("127.0.0.1", 0)},
            commits=commits,
        ),
        clock=time.monotonic,
        clock_ms=lambda: time.time_ns() // 1_000_000,
        new_member_id=lambda client_id: f"{client_id}-{uuid.uuid4()}",
    )
    ended = threading.Event()

    def sweep() -> None:
        while not ended.wait(0.1):
            broker.sweep()

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        with broker:
            yield broker
    finally:
        ended.set()
        thread.join()
        disks.close()


FLOOR: Final = {
    "Produce": 3,
    "Fetch": 4,
    "ListOffsets": 1,
    "Metadata": 1,
    "OffsetFetch": 1,
    "FindCoordinator": 0,
    "JoinGroup": 0,
}
"""Versions with which every current client still lists topics, reads, and uses groups; ApiVersions ends with 2."""


@contextmanager
def serving_the_floor(*paths: Path) -> Iterator[ReadOnlyBroker]:
    """A running broker that knows these versions alone."""
    made = RequestDispatcher.__init__

    def capped(self: RequestDispatcher, handlers: Mapping[str, tuple[int, Handler]], *rest: Any, **more: Any) -> None:
        low = {name: (min(last, FLOOR.get(name, last)), handler) for name, (last, handler) in handlers.items()}
        made(self, {name: each for name, each in low.items() if not name.startswith("ConsumerGroup")}, *rest, **more)

    with (
        patch.object(RequestDispatcher, "__init__", capped),
        patch.object(requests, "_LAST_API_VERSIONS", 2),
        serving(*paths) as broker,
    ):
        yield broker


def address(broker: ReadOnlyBroker) -> str:
    """Where clients find it."""
    found = broker.addresses[0]
    return f"{found.host}:{found.port}"
