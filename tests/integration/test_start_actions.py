"""What verify and `truncate --as-broker` say of a start, next to the start of a real 4.3.1 broker on the same disk."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration import clients
from tests.integration.repairing import run
from tests.support.build import Record, batch_v2
from tests.support.live import QUIET

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.integration.broker import Broker, TwoLogDirs

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC = "orders"


def batch(first: int, **fields: int | bool) -> bytes:
    """Two records from an offset on."""
    records = [Record(offset=first + n, timestamp_ms=1_760_000_000_000 + n, value=b"v") for n in range(2)]
    return batch_v2(records, leader_epoch=0, **fields)  # type: ignore[arg-type]


def lay(partition: Path, segments: Mapping[int, bytes]) -> None:
    """Replace the segments and snapshots of a partition whose broker has stopped cleanly."""
    for path in partition.glob("0*"):
        path.unlink()
    for base, data in segments.items():
        for suffix, content in (("log", data), ("index", b""), ("timeindex", b"")):
            (partition / f"{base:020d}.{suffix}").write_bytes(content)


def stopped_with(broker: Broker, segments: Mapping[int, bytes]) -> Path:
    """A partition whose log is these segments, after a clean stop."""
    asyncio.run(clients.create_topic(broker, TOPIC, {}))
    broker.stop()
    partition = broker.partition_dir(TOPIC)
    lay(partition, segments)
    return partition


def told(broker: Broker, code: str) -> dict[str, object]:
    """The first finding of a code."""
    rows = run("verify", broker.log_dir).rows
    return next(row for row in rows if row.get("type") == "finding" and row["code"] == code)


def planned(partition: Path) -> list[str]:
    """The codes of what `truncate --as-broker` finds."""
    rows = run("truncate", partition, "--as-broker").rows
    return [str(row["code"]) for row in rows if row["type"] == "finding"]


def end_of(broker: Broker) -> int:
    """The log end offset that the broker has found."""
    return asyncio.run(clients.end_offsets(broker, TOPIC))[0]


def offsets_from(broker: Broker, offset: int) -> list[int]:
    """The offsets that a consumer gets from one on."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": TOPIC, "enable.partition.eof": True, **QUIET}
    )
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    found: list[int] = []
    while (message := consumer.poll(clients.READ_SECONDS)) is not None and message.error() is None:
        found.append(message.offset())
    consumer.close()
    return found


# --- the end of a log whose offsets go back ---------------------------------------------------------------------------
def test_a_segment_with_offsets_below_its_base_alone(own_broker: Broker) -> None:
    """After a clean stop nothing is lost; after a crash the broker dies, until the walk of the advice is gone."""
    broker = own_broker
    partition = stopped_with(broker, {0: batch(0) + batch(2), 4: batch(0) + batch(2)})
    assert planned(partition) == []
    said = str(told(broker, "batch.offset-order")["broker_action"])
    assert "only if no earlier segment has these offsets or later ones" in said
    broker.start()
    assert end_of(broker) == 4
    assert len(asyncio.run(clients.read_all(broker, TOPIC))) == 4, "nobody gets the second segment's"
    broker.kill()
    assert planned(partition) == ["truncate.broker-stops"]
    assert str(told(broker, "batch.offset-order")["broker_action"]).startswith("Does not start")
    with pytest.raises(AssertionError, match="did not start"):
        broker.start()
    assert run("truncate", partition, "--at-damage", "--apply").status in {0, 4}
    broker.start()
    assert end_of(broker) == 4


def test_offsets_below_the_base_that_no_other_segment_has(own_broker: Broker) -> None:
    stopped_with(own_broker, {0: batch(0), 5: batch(2) + batch(5)})
    own_broker.start()
    assert len(asyncio.run(clients.read_all(own_broker, TOPIC))) == 6


def test_two_logs_that_have_changed_names(own_broker: Broker) -> None:
    """2 and 3 are in the file of 6, which nobody reads: the file of 2 has later ones."""
    swapped = {0: batch(0), 2: batch(6), 4: batch(4), 6: batch(2), 8: batch(8)}
    stopped_with(own_broker, swapped)
    said = told(own_broker, "segment.overlap")
    assert "begins at offset 4, but 00000000000000000002.log" in str(said["message"])
    assert "gets nothing up to offset 7 from this file" in str(said["broker_action"])
    assert "starts at offset 4 or later gets nothing from" in str(said["broker_action"])
    own_broker.start()
    assert offsets_from(own_broker, 0) == [0, 1, 6, 7, 8, 9]
    assert offsets_from(own_broker, 4) == [4, 5, 8, 9]


@pytest.mark.parametrize("is_clean", [True, False])
def test_offsets_that_go_back_at_the_end(own_broker: Broker, is_clean: bool) -> None:
    partition = stopped_with(own_broker, {0: batch(0) + batch(2) + batch(4) + batch(2)})
    if not is_clean:
        (own_broker.log_dir / ".kafka_cleanshutdown").unlink()
        (own_broker.log_dir / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    assert planned(partition) == ["truncate.end-lost"]
    assert "takes offset 4 as the log end offset" in str(told(own_broker, "batch.offset-order")["broker_action"])
    assert "and hide the end of 1 log" in str(run("recover", own_broker.log_dir).rows)
    own_broker.start()
    assert end_of(own_broker) == 4
    own_broker.stop()
    (partition / "00000000000000000000.log").write_bytes(batch(0) + batch(2) + batch(4) + batch(2))
    assert run("truncate", partition, "--at-damage", "--apply").status in {0, 4}
    own_broker.start()
    assert end_of(own_broker) == 6


# --- a transaction without a snapshot ---------------------------------------------------------------------------------
@pytest.mark.parametrize("is_mended", [False, True])
def test_an_open_transaction_after_a_clean_stop_without_a_snapshot(own_broker: Broker, is_mended: bool) -> None:
    broker = own_broker
    data = batch(0, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True) + batch(2)
    partition = stopped_with(broker, {0: data})
    found = told(broker, "txn.open")
    assert str(found["broker_action"]).startswith("Forgets the transaction at its next start")
    if is_mended:
        assert run("reindex", partition, "--apply").status == 0
        assert str(told(broker, "txn.open")["broker_action"]).startswith("Waits for its marker")
    broker.start()
    read = asyncio.run(clients.read_all(broker, TOPIC, committed=True))
    assert len(read) == (0 if is_mended else 4)


# --- a leader-epoch-checkpoint that is refused, of one of two log directories -----------------------------------------
@pytest.mark.parametrize(
    ("text", "code"),
    [(b"0\n3\n0 0\n", "truncate.broker-offline"), (b"0\n1\nzero 0\n", "truncate.broker-stops")],
)
def test_a_refused_leader_epoch_checkpoint(two_log_dirs: TwoLogDirs, text: bytes, code: str) -> None:
    broker = two_log_dirs
    for number in range(4):
        asyncio.run(_make(broker, f"t{number}"))
    broker.stop()
    partition = next(broker.second.glob("t?-0"))
    (partition / "leader-epoch-checkpoint").write_bytes(text)
    assert planned(partition) == [code]
    if code == "truncate.broker-stops":
        with pytest.raises(AssertionError, match="did not start"):
            broker.start()
        return
    broker.start()
    assert broker.is_running
    assert f"due to failure on log directory {broker.second}" in broker.output


async def _make(broker: Broker, topic: str) -> None:
    async with clients.admin_of(broker) as admin:
        await admin.create_topics([clients.NewTopic(topic, 1, 1)])
    await clients.send_everything(broker, random.Random(topic), topic, 3)


# --- leader epochs ----------------------------------------------------------------------------------------------------
def test_a_leader_epoch_from_before_the_first_segment(own_broker: Broker) -> None:
    """Its line remains as it is when the broker starts, and when it stops."""
    partition = stopped_with(own_broker, {2: batch(2)})
    (partition / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    said = told(own_broker, "epochs.before-start")
    assert str(said["broker_action"]).startswith("Leaves the line as it is")
    own_broker.start()
    assert end_of(own_broker) == 4
    own_broker.stop()
    assert "0 0" in (partition / "leader-epoch-checkpoint").read_text().splitlines()


def test_leader_epochs_without_their_file(own_broker: Broker) -> None:
    """The metadata log gets all of them back at every start, other logs those of the segments that are recovered."""
    broker = own_broker
    metadata, topic = (
        broker.log_dir / name / "leader-epoch-checkpoint" for name in ("__cluster_metadata-0", f"{TOPIC}-0")
    )
    asyncio.run(clients.create_topic(broker, TOPIC, {}))
    asyncio.run(clients.send_everything(broker, random.Random(0), TOPIC, 20))
    broker.stop()
    kept = metadata.read_text().splitlines()[2:]
    assert topic.read_text().splitlines()[2] == "0 0"
    metadata.unlink()
    topic.unlink()
    found = [row["file"] for row in run("verify", broker.log_dir).rows if row.get("code") == "epochs.missing"]
    assert found == [str(topic)]
    broker.start()
    assert metadata.read_text().splitlines()[2:][: len(kept)] == kept
    assert "\n0 " not in topic.read_text()
    asyncio.run(clients.send_everything(broker, random.Random(1), TOPIC, 20))
    broker.kill()
    epoch = topic.read_text().splitlines()[-1].split()[0]
    topic.unlink()
    broker.start()
    assert f"\n{epoch} " in topic.read_text()
