"""Starts that were once not foreseen: random faults under Kafka's own log loader showed them, each a small case here.

`tests/integration/test_differential.py` makes them; the seed of its kind `fault` is with each.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.layout import MAX_BATCH_BYTES, MAX_INT32
from kafkalog_core.format.names import FileKind
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_checkpoint
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.kafka.sim.start.disk import effect_of
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.recovery import split_parts
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.source import Source
from tests.support import build
from tests.support.truncating import NOW_MS, batch, started, write_log

if TYPE_CHECKING:
    from pathlib import Path


def log(partition: Path, base_offset: int, suffix: str) -> Path:
    return partition / f"{base_offset:020d}.{suffix}"


@pytest.mark.parametrize(
    ("version", "kafka", "starts"),
    [
        (b"\0\1", "4.3.1", True),
        (b"\0\1", "4.4.0", False),
        (b"\xfa\x68", "4.3.1", True),
        (b"\xfa\x68", "4.4.0", False),
        (b"\1\0", "4.3.1", False),
        (b"\1\0", "4.4.0", False),
        (b"\0\0", "4.4.0", True),
    ],
)
def test_4_4_reads_both_bytes_of_a_version_in_a_transaction_index(
    tmp_path: Path, version: bytes, kafka: str, *, starts: bool
) -> None:
    """Seeds 1001, 1011 and 1027: `Unexpected aborted transaction version -1432 in transaction index`."""
    partition = write_log(tmp_path / "t-0", {0: [(0, 9)]})
    log(partition, 0, "txnindex").write_bytes(version + build.txn_index([(7, 1, 5, 5)])[2:])
    assert (started(partition, kafka=kafka).problem is None) is starts


def test_a_part_of_a_split_may_begin_with_a_compressed_message(tmp_path: Path) -> None:
    """Seed 1052: its base offset is that of the first message within (AbstractLegacyRecordBatch.baseOffset)."""
    records = [build.Record(offset=offset, timestamp_ms=1000, value=b"v") for offset in (3, 4, 5)]
    first, last = build.wrapper_v1(records, codec=build.GZIP), batch(3 + MAX_INT32 + 1, 3 + MAX_INT32 + 1)
    (tmp_path / "log").write_bytes(first + last)
    with Source.open(str(tmp_path / "log")) as source:
        parts = split_parts(source, 0, max_batch_bytes=MAX_BATCH_BYTES, checks=False)
    assert [tuple(each) for each in parts] == [
        (3, 0, len(first)),
        (3 + MAX_INT32 + 1, len(first), len(first) + len(last)),
    ]


def test_a_snapshot_stays_next_to_one_that_waits_for_its_deletion(tmp_path: Path) -> None:
    """Seed 76: only the file with the suffix goes."""
    partition = write_log(tmp_path / "t-0", {0: [(0, 9)], 10: [(10, 19)]})
    for name in ("snapshot", "snapshot.deleted"):
        log(partition, 10, name).write_bytes(build.snapshot([]))
    release = parse_release("4.3.1")
    load = PartitionLoad(
        read_partition(str(partition)), PartitionContext(is_clean=True), LoadOptions.of(release, "t", NOW_MS)
    )
    deque(load.run(), maxlen=0)
    assert load.result.problem is None
    assert 10 in load.snapshots


@pytest.mark.parametrize(("kafka", "starts"), [("2.8.2", False), ("3.7.2", False), ("3.8.1", True), ("4.3.1", True)])
def test_a_transaction_that_is_open_beyond_the_end_stops_releases_before_3_8(
    tmp_path: Path, kafka: str, *, starts: bool
) -> None:
    """Seeds 252 of 2.8 and 1171: offsets go back in the last batch, and a transaction began above where the log ends.

    `Received request for offset 12 for partition t-0, but we only have log segments in the range 0 to 10`.
    """
    ids = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    plain, begun = batch(5, 9), batch(12, 14, is_transactional=True, **ids)
    partition = write_log(tmp_path / "t-0", {0: [batch(0, 4), begun, plain]})
    log(partition, 0, "index").write_bytes(b"")
    problem = started(partition, is_clean=False, kafka=kafka).problem
    assert (problem is None) is starts
    if problem is None:
        return
    assert problem.kind == "fatal"
    assert "a transaction is open from offset 12 on, and the log ends before it, at 10" in problem.sentence


def test_2_8_rebuilds_indexes_next_to_a_replacement(tmp_path: Path) -> None:
    """Seed 286 of 2.8: segments without an index are recovered before the replacement is, and stay so."""
    partition = write_log(tmp_path / "t-0", {0: [(0, 9)], 10: [(10, 19)], 20: [(20, 29)]})
    for base in (0, 10, 20):
        log(partition, base, "index").unlink()
    log(partition, 10, "log.swap").write_bytes(batch(10, 19))
    load = PartitionLoad(
        read_partition(str(partition)),
        PartitionContext(is_clean=True),
        LoadOptions.of(parse_release("2.8.2"), "t", NOW_MS),
    )
    assert [each.base_offset for each in load.run()] == [0, 20]


@pytest.mark.parametrize(
    ("kafka", "effect"), [("2.8.2", "offline"), ("3.0.2", "offline"), ("3.1.2", None), ("4.3.1", None)]
)
@pytest.mark.parametrize("text", [b"0\n1\nt 0 x\n", b"0\n1\nt x 0\n", b"0\n-1\n"])
def test_before_3_1_a_wrong_number_in_a_checkpoint_takes_the_directory_offline(
    tmp_path: Path, text: bytes, kafka: str, effect: str | None
) -> None:
    """Seed 0 of checkpoint-2.8: `Error while reading checkpoint file`; 4.3.1 throws a NumberFormatException."""
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_bytes(text)
    refusal = read_checkpoint(str(path), FileKind.RECOVERY_POINT).verdict.refusal
    assert refusal is not None
    finding = EntryFile(path=str(path), kind=FileKind.RECOVERY_POINT).refused(refusal)
    assert effect_of(finding, rules_of(parse_release(kafka))) == effect


def test_what_is_not_utf_8_is_met_before_any_line_is_looked_at(tmp_path: Path) -> None:
    """Seed 8 of checkpoint: a wrong number stands before it, and the directory goes offline all the same."""
    path = tmp_path / "recovery-point-offset-checkpoint"
    for filler, effect in ((b"", "offline"), (b"t 0 1\n" * 2000, None)):
        path.write_bytes(b"0\n3\nt x 2\n" + filler + b"\xff 0 1\n")
        refusal = read_checkpoint(str(path), FileKind.RECOVERY_POINT).verdict.refusal
        assert refusal is not None
        finding = EntryFile(path=str(path), kind=FileKind.RECOVERY_POINT).refused(refusal)
        assert effect_of(finding, rules_of(parse_release("4.3.1"))) == effect
