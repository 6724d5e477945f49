"""After an excision a real broker starts as after a crash, truncates nothing, and every client reads all the rest."""

from __future__ import annotations

import asyncio
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import confluent_kafka as librdkafka
import crc32c
import pytest

from tests.integration import clients, compacting, releases
from tests.integration.excising import (
    TOPIC,
    all_batches,
    check_readers,
    cluster_of_three,
    commit,
    committed_offset,
    excise,
    fill,
    fill_before_zstd,
    fill_old,
    fill_replicated,
    put,
    read_by_aiokafka,
    read_by_java,
    read_by_kafka_python,
    read_by_librdkafka,
    recover_from_start,
    spoil,
    wait_until_same,
)
from tests.integration.repairing import CUTS, RECOVERS, UNCLEAN, lines_with, run, segments
from tests.integration.zookeeper_broker import ZooKeeperBroker
from tests.support import jars
from tests.support.live import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.broker import Broker
    from tests.integration.excising import Batch

pytestmark = [pytest.mark.java, pytest.mark.slow]
EMPTY: Final = 61
"""Bytes of a batch without records."""


def chosen(batches: list[Batch]) -> list[Batch]:
    """Of each codec and of each kind one batch, never two that follow each other, none at the end."""
    found: dict[tuple[object, ...], Batch] = {}
    for before, batch in pairwise(batches[:-1]):
        kind = (batch.codec, batch.producer_id >= 0, batch.is_transactional, batch.is_control)
        if before not in found.values():
            found.setdefault(kind, batch)
    return list(found.values())


def test_everything_else_is_read_after_an_unclean_start(broker_of_release: Broker) -> None:
    broker = broker_of_release
    asyncio.run(fill(broker))
    all_offsets = read_by_aiokafka(broker, 0)
    committed = read_by_aiokafka(broker, 0, committed=True)
    broker.kill()
    bad = chosen(all_batches(broker))
    assert {batch.codec for batch in bad} == {0, 1, 2, 3, 4}
    assert any(batch.is_control for batch in bad)
    for number, batch in enumerate(bad):
        spoil(batch, header=number % 3 == 2 and batch.producer_id < 0)
    lost = {offset for batch in bad if not batch.is_control for offset in range(batch.first, batch.last + 1)}
    rows = excise(broker, *(batch.first for batch in bad))
    codes = [row["code"] for row in rows if row["type"] == "finding"]
    assert "excise.marker" in codes, "the outcome is proved by what the broker wrote"
    assert "excise.marker-lost" not in codes
    named = [row for row in rows if row["type"] == "loss"]
    assert {n for row in named for n in range(int(str(row["first_offset"])), int(str(row["next_offset"])))} == lost
    recover_from_start(broker)
    broker.start()
    assert lines_with(broker, [UNCLEAN])
    assert lines_with(broker, RECOVERS), "nothing was recovered, so nothing is proved"
    assert lines_with(broker, [*CUTS, "ERROR"]) == []
    check_readers(broker, [each for each in all_offsets if each not in lost])
    check_readers(broker, [each for each in committed if each not in lost], committed=True)
    broker.stop()
    assert run("verify", broker.partition_dir(TOPIC)).status == 0


def test_every_marker_is_rebuilt(broker_of_release: Broker) -> None:
    """By the transaction indexes and by __transaction_state, so that read_committed consumers read the same records."""
    broker = broker_of_release
    asyncio.run(fill(broker))
    committed = read_by_aiokafka(broker, 0, committed=True)
    broker.kill()
    markers = [batch for batch in all_batches(broker)[:-1] if batch.is_control]
    assert len(markers) > 6
    for marker in markers:
        spoil(marker)
    rows = excise(broker, *(marker.first for marker in markers))
    codes = [row["code"] for row in rows if row["type"] == "finding"]
    assert (codes.count("excise.marker"), codes.count("excise.marker-lost")) == (len(markers), 0)
    recover_from_start(broker)
    broker.start()
    assert lines_with(broker, [*CUTS, "ERROR"]) == []
    check_readers(broker, committed, committed=True)


def test_an_idempotent_producer_goes_on(own_broker: Broker) -> None:
    """Its last batch is excised, and its next one follows on the sequence number of that."""
    broker = own_broker
    asyncio.run(fill(broker))
    producer = librdkafka.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **QUIET})
    errors: list[object] = []
    for number in range(9):
        producer.produce(TOPIC, b"value %d" % number, partition=0)
        producer.flush(30)
    producer_id = all_batches(broker)[-1].producer_id
    other = librdkafka.Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
    other.produce(TOPIC, b"after it", partition=0)
    other.flush(30)
    before = read_by_aiokafka(broker, 0)
    broker.kill()
    last = [batch for batch in all_batches(broker) if batch.producer_id == producer_id][-1]
    spoil(last)
    excise(broker, last.first)
    recover_from_start(broker)
    broker.start()
    assert lines_with(broker, [*CUTS, "OutOfOrderSequence"]) == []
    producer.produce(TOPIC, b"goes on", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]
    assert lines_with(broker, ["OutOfOrderSequence"]) == []
    assert all_batches(broker)[-1].producer_id == producer_id
    after = [*before, before[-1] + 1]
    check_readers(broker, [each for each in after if each != last.first])


def _moved(broker: Broker, batches: list[Batch]) -> None:
    """The offsets of three batches of one segment, all wrong by the same number."""
    path = next(each.path for each in batches if sum(other.path == each.path for other in batches) > 4)
    for batch in [each for each in batches if each.path == path][1:4]:
        put(batch, 0, (batch.first + 3).to_bytes(8, "big"))


def _overlong(broker: Broker, batches: list[Batch]) -> None:
    """A last offset and a record count that are two too high, and a checksum to match."""
    batch = next(each for each in batches if not each.is_control and each.codec and each.producer_id < 0)
    put(batch, 23, (batch.last - batch.first + 2).to_bytes(4, "big"))
    put(batch, 57, (batch.last - batch.first + 3).to_bytes(4, "big"))
    data = batch.path.read_bytes()[batch.position : batch.position + batch.size]
    put(batch, 17, crc32c.crc32c(data[21:]).to_bytes(4, "big"))


@pytest.mark.parametrize("damage", [_moved, _overlong])
def test_headers_that_batches_contradict_are_corrected(
    own_broker: Broker, damage: Callable[[Broker, list[Batch]], None]
) -> None:
    """The broker starts on each, and the Java consumer does not read all; the log gets its bytes back."""
    broker = own_broker
    asyncio.run(fill(broker))
    offsets = read_by_aiokafka(broker, 0)
    broker.kill()
    logs = {path: path.read_bytes() for path in broker.partition_dir(TOPIC).glob("*.log")}
    damage(broker, all_batches(broker))
    kept = broker.work_dir / "damaged"
    shutil.copytree(broker.log_dir, kept)
    broker.start()
    assert len(read_by_java(broker, len(offsets))) < len(offsets)
    broker.kill()
    shutil.rmtree(broker.log_dir)
    kept.rename(broker.log_dir)
    done = run(
        "recover", broker.log_dir, "--config", broker.config, "--kafka", broker.release, "--only-copy", "--apply"
    )
    assert done.status == 0, (done.rows, done.errors)
    assert {path: path.read_bytes() for path in broker.partition_dir(TOPIC).glob("*.log")} == logs
    recover_from_start(broker)
    broker.start()
    assert lines_with(broker, [*CUTS, "ERROR"]) == []
    assert read_by_aiokafka(broker, 0) == offsets


def test_a_magic_that_no_release_writes(broker_of_release: Broker) -> None:
    """The checksum does not cover it: a broker takes 127 for 2 and keeps the batch, but consumers stop there.

    Of the last batch alone, then of one in the middle too. `excise` puts back the one, `recover` the other.
    """
    broker = broker_of_release
    asyncio.run(fill(broker))
    producer = librdkafka.Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
    producer.produce(TOPIC, b"the last one", partition=0)
    producer.flush(30)
    offsets = read_by_aiokafka(broker, 0)
    broker.kill()
    logs = {path: path.read_bytes() for path in segments(broker, TOPIC)}
    batches = [batch for batch in all_batches(broker) if not batch.is_control]
    middle, last = batches[len(batches) // 2], batches[-1]
    for batch in (last, middle):
        put(batch, 16, bytes([127]))
        damaged = batch.path.read_bytes()
        recover_from_start(broker)
        broker.start()
        assert lines_with(broker, RECOVERS), "nothing was recovered, so nothing is proved"
        assert lines_with(broker, CUTS) == []
        assert read_by_java(broker, len(offsets)) == [each for each in offsets if each < batch.first]
        with pytest.raises(AssertionError, match=f"MagicByte 127 at offset {batch.first}"):
            read_by_librdkafka(broker, len(offsets))
        broker.kill()
        assert batch.path.read_bytes() == damaged
    excise(broker, middle.first)
    options = ("--config", broker.config, "--kafka", broker.release, "--only-copy", "--apply")
    done = run("recover", broker.log_dir, *options)
    assert done.status == 0, (done.rows, done.errors)
    assert {path: path.read_bytes() for path in segments(broker, TOPIC)} == logs
    recover_from_start(broker)
    broker.start()
    assert lines_with(broker, [*CUTS, "ERROR"]) == []
    check_readers(broker, offsets)


def test_coordinators_load_over_it(own_broker: Broker) -> None:
    """A batch in the middle of the logs of groups and of transactions; what is in the others is loaded."""
    broker = own_broker
    asyncio.run(fill(broker))
    groups = [f"group-{number}" for number in range(6)]
    for number, group in enumerate(groups):
        commit(broker, group, number)
    broker.kill()
    logs = {"__consumer_offsets": 0, "__transaction_state": 0}
    for topic in logs:
        batch = [each for each in all_batches(broker, topic) if not each.is_control][2]
        spoil(batch)
        excise(broker, batch.first, topic=topic)
    broker.start()
    assert lines_with(broker, [*CUTS, "ERROR", "Error loading"]) == []
    found = [committed_offset(broker, group) for group in groups]
    assert found[3:] == [3, 4, 5]
    assert found.count(None) <= 1
    asyncio.run(clients.settle_transactions(broker, TOPIC))


def test_the_cleaner_compacts_over_it(own_broker: Broker) -> None:
    """Before, it marks the partition uncleanable at the first batch with a wrong checksum that it opens."""
    broker = own_broker
    compacting.fill(broker)
    broker.kill()
    bad = [batch for batch in chosen(all_batches(broker, compacting.TOPIC)) if not batch.is_control]
    assert {batch.codec for batch in bad} == {0, 1, 2, 3, 4}
    for batch in bad:
        spoil(batch)
    excise(broker, *(batch.first for batch in bad), topic=compacting.TOPIC)
    broker.start()
    assert lines_with(broker, [*CUTS, "ERROR"]) == []
    before = compacting.consumed(broker)
    compacting.set_ratio(broker, "0.01")
    compacting.more(broker)
    expected = compacting.last_values([*before, *compacting.consumed(broker)])
    end = read_by_aiokafka(broker, 0, compacting.TOPIC)[-1]
    last = all_batches(broker, compacting.TOPIC)[-1].path
    assert compacting.wait_for_cleaner(broker, bad[-1].last) <= end
    compacting.wait_for_cleaner(broker, int(last.stem) - 1)
    assert lines_with(broker, ["ncleanable", "ERROR"]) == []
    after = compacting.consumed(broker)
    assert len(after) < len(before)
    assert compacting.last_values(after) == expected


def test_the_metadata_log_takes_no_empty_batch(own_broker: Broker) -> None:
    """The same 61 bytes there stop the node, at every start; that is why excise refuses this log."""
    broker = own_broker
    broker.kill()
    log = broker.partition_dir("__cluster_metadata")
    batches = [batch for batch in all_batches(broker, "__cluster_metadata") if not batch.is_control]
    batch = batches[len(batches) // 2]
    data = batch.path.read_bytes()
    header = bytearray(data[batch.position : batch.position + EMPTY])
    header[8:12] = (EMPTY - 12).to_bytes(4, "big")
    header[21:23] = (batch.attributes & ~7).to_bytes(2, "big")  # no codec
    header[57:61] = bytes(4)  # no record
    header[17:21] = crc32c.crc32c(bytes(header[21:])).to_bytes(4, "big")
    batch.path.write_bytes(data[: batch.position] + header + data[batch.position + batch.size :])
    for index in log.glob("*index"):
        index.unlink()
    with pytest.raises(AssertionError, match="the broker did not start"):
        broker.start()
    assert lines_with(broker, [f"Batch must contain at least one record; baseOffset = {batch.first}; epoch = "])
    for done, code in (
        (run("excise", log, "--offset", str(batch.first), "--healthy"), "excise.metadata-log"),
        (run("preflight", broker.log_dir), "metadata-log.empty-batch"),
        (run("recover", broker.log_dir), "metadata-log.empty-batch"),
    ):
        assert (done.status, [row["code"] for row in done.rows if row["type"] == "finding"].count(code)) == (4, 1)


def test_followers_copy_it(libs: Path, tmp_path: Path) -> None:
    """Two of three brokers have lost their copy, and fetch all of it from the leader, on whose disk it was excised."""
    with cluster_of_three(libs, tmp_path) as nodes:
        leader, *followers = nodes
        for node in nodes:
            node.start()
        asyncio.run(fill_replicated(leader))
        wait_until_same(nodes)
        all_offsets = read_by_aiokafka(leader, 0)
        for node in followers:
            node.stop()
        leader.kill()
        bad = [batch for batch in chosen(all_batches(leader)) if not batch.is_control]
        for batch in bad:
            spoil(batch)
        excise(leader, *(batch.first for batch in bad))
        for node in followers:
            shutil.rmtree(node.partition_dir(TOPIC))
        for node in nodes:
            node.start()
        wait_until_same(nodes)
        for node in nodes:
            assert lines_with(node, [*CUTS, "CorruptRecord", "marked as failed"]) == []
        lost = {offset for batch in bad for offset in range(batch.first, batch.last + 1)}
        leader.stop()
        assert read_by_aiokafka(followers[0], 0) == [each for each in all_offsets if each not in lost]


@pytest.mark.parametrize(("version", "magic"), [("0.9.0", 0), ("0.10.2", 1)])
def test_the_gap_of_an_old_format(tmp_path: Path, version: str, magic: int) -> None:
    broker = ZooKeeperBroker(jars.fetch(jars.ZOOKEEPER_ERA), tmp_path)
    try:
        broker.start()
        asyncio.run(fill_old(broker, version))
        all_offsets = read_by_aiokafka(broker, 0)
        broker.kill()
        batches = all_batches(broker)
        assert {batch.magic for batch in batches} == {magic}
        bad = chosen(batches)
        assert {batch.codec for batch in bad} == ({0, 1, 2} if magic == 0 else {0, 1, 2, 3})
        for batch in bad:
            spoil(batch)
        excise(broker, *(batch.first for batch in bad))
        recover_from_start(broker)
        broker.start()
        assert lines_with(broker, RECOVERS), "nothing was recovered, so nothing is proved"
        assert lines_with(broker, [*CUTS, "ERROR"]) == []
        lost = {offset for batch in bad for offset in range(batch.first, batch.last + 1)}
        check_readers(broker, [each for each in all_offsets if each not in lost])
    finally:
        broker.close()


@pytest.mark.parametrize("version", ["1.1.1", "2.0.1", "4.4.0"])
def test_other_releases_keep_everything_else(tmp_path: Path, version: str) -> None:
    broker = releases.broker_of(version, tmp_path)
    try:
        broker.start()
        asyncio.run(fill_before_zstd(broker))
        all_offsets = read_by_aiokafka(broker, 0)
        committed = read_by_aiokafka(broker, 0, committed=True)
        broker.kill()
        bad = chosen(all_batches(broker))
        for batch in bad:
            spoil(batch)
        excise(broker, *(batch.first for batch in bad))
        recover_from_start(broker)
        broker.start()
        assert lines_with(broker, RECOVERS), "nothing was recovered, so nothing is proved"
        assert lines_with(broker, CUTS) == []
        lost = {offset for batch in bad if not batch.is_control for offset in range(batch.first, batch.last + 1)}
        for read in (read_by_aiokafka, read_by_librdkafka, read_by_kafka_python):
            for offsets, is_committed in ((all_offsets, False), (committed, True)):
                expected = [each for each in offsets if each not in lost]
                assert read(broker, len(expected), committed=is_committed) == expected, read.__name__
    finally:
        broker.close()
