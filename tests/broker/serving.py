"""A read-only broker in this process, for real clients."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafkalog_core.broker.network import Listener
from kafkalog_core.broker.served_disks import DiskOptions, ServedDisks
from kafkalog_core.broker.server import BrokerOptions, ReadOnlyBroker
from kafkalog_core.ops.reading.selection import Selection
from kafkalog_core.ops.reading.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


def address(broker: ReadOnlyBroker) -> str:
    """Where clients find it."""
    found = broker.addresses[0]
    return f"{found.host}:{found.port}"
