"""librdkafka reads every partition of the corpus from the broker, record by record what real consumers read live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from kafkalog_core.serve.logs.partition_view import ViewOptions
from tests.support.corpus import consumers, expectations, truth
from tests.support.corpus.snapshots import BEHIND_LAST, Snapshot, snapshots
from tests.support.serving import address, serving

if TYPE_CHECKING:
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_DIGITS = 20
_TYPES = {
    confluent_kafka.TIMESTAMP_NOT_AVAILABLE: None,
    confluent_kafka.TIMESTAMP_CREATE_TIME: "create",
    confluent_kafka.TIMESTAMP_LOG_APPEND_TIME: "append",
}


def _row(message: Any, columns: consumers.Row) -> consumers.Row:
    """What librdkafka delivers, in the columns of the truth."""
    kind, timestamp_ms = message.timestamp()
    row: consumers.Row = {
        "offset": message.offset(),
        "timestamp_ms": timestamp_ms if _TYPES[kind] else None,
        "timestamp_type": _TYPES[kind],
        "key": message.key(),
        "value": message.value(),
        "headers": message.headers() or [],
        "leader_epoch": message.leader_epoch(),
    }
    return {name: row[name] for name in columns}


def _read(tree: Tree, snapshot: Snapshot, columns: consumers.Row, holes: list[Any], isolation: str) -> list[Any]:
    """All records that a consumer of an isolation level gets."""
    directory = tree.partition_dir(snapshot)
    topic, _, number = directory.name.rpartition("-")
    bases = [int(log.stem) for log in directory.glob("*.log") if len(log.stem) == _DIGITS]
    start = max(min(bases), tree.log_start_offset(snapshot))  # librdkafka needs half a second to ask for it
    options = {
        "group.id": "corpus",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
        "check.crcs": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    with serving(directory, view=ViewOptions(notify=holes.append)) as broker:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": address(broker)} | options)
        consumer.assign([confluent_kafka.TopicPartition(topic, int(number), start)])
        found = []
        try:
            while True:
                message = consumer.poll(20)
                assert message is not None, "nothing for 20 s"
                if message.error() is None:
                    found.append(_row(message, columns))
                    continue
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                return found
        finally:
            consumer.close()


def _check(tree: Tree, snapshot: Snapshot, seen: list[consumers.Row], isolation: str, *, is_less: bool) -> None:
    if any(tree.partition_dir(snapshot).glob("*.kafka")):
        return  # a log of 0.7, which no client of today reads
    holes: list[Any] = []
    columns: consumers.Row = seen[0] if seen else {"offset": None}
    found = _read(tree, snapshot, columns, holes, isolation)
    if snapshot.stopped_at is not None and snapshot.stopped_at != BEHIND_LAST:
        found = [row for row in found if int(str(row["offset"])) < snapshot.stopped_at]
    without = consumers.left_out(snapshot)
    rows, wanted = _once(found), _once([row for row in seen if row["offset"] not in without])
    assert not rows.keys() & set(without)
    if is_less or holes or snapshot.stopped_at == BEHIND_LAST:
        missing = [offset for offset, row in wanted.items() if rows.get(offset) != row]
        assert not missing
    else:
        assert rows == wanted


def _once(rows: list[consumers.Row]) -> dict[object, consumers.Row]:
    """Records by offset: a batch that is there twice may be delivered twice."""
    return {row["offset"]: row for row in reversed(rows)}


@pytest.mark.parametrize("snapshot", [each for each in snapshots() if each.records], ids=lambda each: each.id)
def test_every_record_reaches_a_client(tree: Tree, snapshot: Snapshot) -> None:
    seen = truth.records(tree.corpus, snapshot)
    is_less = consumers.is_listed(snapshot, consumers.SERVED_LESS)
    _check(tree, snapshot, seen, "read_uncommitted", is_less=is_less)


@pytest.mark.parametrize("snapshot", [each for each in snapshots() if each.committed], ids=lambda each: each.id)
def test_every_committed_record_reaches_a_client(tree: Tree, snapshot: Snapshot) -> None:
    if expectations.matching(consumers.SERVED_MORE, snapshot.id):
        return  # a broker serves what its indexes do not list as aborted; the view reads the log
    seen = truth.committed_records(tree.corpus, snapshot)
    is_less = consumers.is_listed(snapshot, consumers.SERVED_LESS)
    _check(tree, snapshot, seen, "read_committed", is_less=is_less)
