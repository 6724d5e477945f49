"""Which fetches fail around a compressed message of magic 1 that does not open, and what `recover` makes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration import releases
from tests.integration.clients import create_topic
from tests.integration.repairing import run
from tests.support import build
from tests.support.asking import SocketClient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC: Final = "old"
END: Final = 100
FIRST, LAST = 40, 42
"""Offsets of the message that does not open; each other message has one."""
INTERVAL: Final = 500
"""Bytes of log between two entries of the offset index (`log.index.interval.bytes` of `Broker`): six messages."""


def _log() -> bytes:
    sound = [
        build.message_v1(build.Record(offset=offset, timestamp_ms=1000 + offset, value=b"v" * 60))
        for offset in range(END)
    ]
    closed = build.Record(offset=LAST, timestamp_ms=1000, value=b"no gzip stream")
    return b"".join((*sound[:FIRST], build.message_v1(closed, attributes=build.GZIP), *sound[LAST + 1 :]))


def _served(broker: Broker) -> list[int]:
    """The offsets from which a fetch gets an answer without an error."""
    place = {"partition": 0, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
    epochs = {"current_leader_epoch": -1, "last_fetched_epoch": -1}
    fetch = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0}
    session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    found = []
    with SocketClient(broker.bootstrap) as client:
        for offset in range(END):
            topic = {"topic": TOPIC, "partitions": [{**place, **epochs, "fetch_offset": offset}]}
            answer = client.ask("Fetch", 11, **fetch, **session, topics=[topic])
            if not answer["responses"][0]["partitions"][0]["error_code"]:
                found.append(offset)
    return found


@pytest.mark.parametrize("version", ["3.9.2", "4.0.2", "4.3.1"])
def test_fetches_fail_that_have_to_pass_over_it(tmp_path: Path, version: str) -> None:
    """`FileRecords.searchForOffsetFromPosition` of 4.1 and later reads the base offset of each batch on its way."""
    broker = releases.broker_of(version, tmp_path)
    try:
        broker.start()
        asyncio.run(create_topic(broker, TOPIC, {"index.interval.bytes": str(INTERVAL)}))
        broker.stop()
        directory = broker.partition_dir(TOPIC)
        for path in directory.glob("0*"):
            path.unlink()
        log = directory / f"{0:020d}.log"
        log.write_bytes(_log())
        broker.start()
        refused = sorted({*range(END)} - {*_served(broker)})
        broker.stop()
        if version < "4.0":
            assert refused == []
            return
        assert refused[:3] == [FIRST, LAST - 1, LAST]
        # 4.0 reads the base offset of the batch alone that it has found, later releases of all from the index entry on
        assert (refused[3:] == []) == version.startswith("4.0")
        assert refused == [*range(FIRST, refused[-1] + 1)]
        assert refused[-1] < LAST + INTERVAL // 60
        run("recover", broker.log_dir, "--only-copy", "--apply", "--kafka", version)
        is_removed = log.stat().st_size < len(_log())
        assert is_removed == bool(refused[3:])
        broker.start()
        assert _served(broker) == ([*range(END)] if is_removed else [*range(FIRST), *range(LAST + 1, END)])
    finally:
        broker.close()
