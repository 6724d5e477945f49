"""The open transaction that holds the cleaner back: whose it is, and what a clean does once it has committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.compact.compact import compact
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.topics.transactions import TransactionPhase, TransactionValue, encode_transaction
from tests.support import build
from tests.support.brokers import Appended, write_segment

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.ops.compact.forecast import CompactForecast

TIME_MS = 1_700_000_000_000
KAFKA = SettingsRequest(kafka="4.3.1", assignments=("cleanup.policy=compact",))


def write_log(root: Path, *, is_ended: bool) -> Path:
    """A partition whose producer 7 began a transaction at offset 0; its end, or another record, is at offset 30."""
    directory = root / "customers-0"
    for base in (0, 10, 20):
        records = [
            build.Record(offset=base + n, timestamp_ms=TIME_MS + base + n, key=b"%d" % (n % 3), value=b"value")
            for n in range(10)
        ]
        of_producer = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 0, "is_transactional": True}
        batch = build.batch_v2(records, **of_producer) if base == 0 else build.batch_v2(records)  # type: ignore[arg-type]
        write_segment(directory, base, [Appended(batch, base + 9, TIME_MS + base + 9)])
    last = build.batch_v2([build.Record(offset=30, timestamp_ms=TIME_MS + 30, key=b"last", value=b"v")])
    if is_ended:
        last = build.txn_marker(build.COMMIT, offset=30, producer_id=7, producer_epoch=2, timestamp_ms=TIME_MS + 30)
    write_segment(directory, 30, [Appended(last, 30, TIME_MS + 30)])
    (root / "replication-offset-checkpoint").write_text("0\n1\ncustomers 0 31\n")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=JP8dLpwyRqt7lTsK7P_TbQ\n")
    return root


def write_transactions(root: Path, name: str) -> None:
    value = TransactionValue(
        producer_id=7,
        producer_epoch=2,
        timeout_ms=60_000,
        state=TransactionPhase.ONGOING,
        partitions=frozenset({("customers", 0)}),
        update_ms=TIME_MS,
        start_ms=TIME_MS - 5,
    )
    key, content = encode_transaction(name, value)
    record = build.Record(offset=0, timestamp_ms=TIME_MS, key=key, value=content)
    write_segment(root / "__transaction_state-3", 0, [Appended(build.batch_v2([record]), 0, TIME_MS)])


def forecast(root: Path, **options: bool) -> CompactForecast:
    targets = tuple(resolve([str(root)], Selection(topics=("customers",))))
    request = CompactRequest(targets=targets, now_ms=TIME_MS + 10_000_000, kafka=KAFKA, force=True, **options)
    (one,) = compact(request, Report())
    return one


@pytest.mark.parametrize("name", [None, "payer"])
def test_whose_it_is(tmp_path: Path, name: str | None) -> None:
    root = write_log(tmp_path, is_ended=False)
    if name is not None:
        write_transactions(root, name)
    held = forecast(root).held_by
    assert held is not None
    assert (held.producer_id, held.producer_epoch, held.first_offset, held.bytes_after) == (7, 2, 0, None)
    assert (held.transactional_id, held.start_ms) == (name, None if name is None else TIME_MS - 5)


def test_what_a_clean_does_then_is_what_it_does_to_a_log_in_which_it_has_ended(tmp_path: Path) -> None:
    held, ended = (
        forecast(write_log(tmp_path / name, is_ended=name == "ended"), asks_after_transactions=True)
        for name in ("open", "ended")
    )
    assert held.partition["state"] == "nothing-cleanable"
    assert ended.held_by is None
    assert held.held_by is not None
    after = held.held_by.bytes_after
    assert after is not None
    saved = int(str(held.partition["bytes_before"])) - after
    assert saved == int(str(ended.partition["bytes_before"])) - int(str(ended.partition["bytes_after"])) > 0
    assert [chunk.table.name for chunk in held.chunks()] == ["compaction", "cleaned_segment"]
