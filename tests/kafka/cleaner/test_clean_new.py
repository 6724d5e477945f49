"""What the cleaner of 4.4 does differently: which last batch it keeps, and how large a record it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import CleanError
from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.cleaner.clean import next_pass
from kafkalog_core.structs import replace
from tests.support import build
from tests.support import cleaner_logs as logs
from tests.support.cleaner_carrying import Cleaner, clean_log
from tests.support.cleaner_logs import batch, lay, shapes

if TYPE_CHECKING:
    from pathlib import Path

LATER = batch((2, b"a", b"3"))
VALUE = b"v" * 500
SIZE = 1 + 1 + 1 + 1 + 1 + 2 + len(VALUE) + 1
"""Of a record with a key of one byte: attributes, two deltas, key and its size, size of the value, value, headers."""


@pytest.mark.parametrize(
    ("release", "watermark", "kept"),
    [
        ("4.0.1", 2, False),
        ("4.1.0", 2, True),
        ("4.1.0", 3, True),
        ("4.3.1", 3, True),
        ("4.4.0", 2, True),
        ("4.4.0", 3, False),
    ],
)
def test_an_empty_last_batch_is_kept_before_the_bound_and_from_4_4_on_before_the_watermark(
    tmp_path: Path, release: str, watermark: int, kept: bool
) -> None:
    rules, config = cleaning_rules(parse_release(release)), logs.config()
    lay(tmp_path, 2, LATER)
    lay(tmp_path, 0, batch((0, b"a", b"1")) + batch((1, None, b"no key")))
    log = replace(clean_log(tmp_path, config, rules, 5_000_000), high_watermark=watermark)
    _, work = next_pass(log, config, rules, 5_000_000, force=True)
    assert work is not None
    assert work.bounds.bound == 2
    work.build()
    data = b"".join(bytes(chunk.data) for group in work.groups for chunk in group.chunks())
    empty = build.empty_batch(1, 1, max_timestamp_ms=1001, leader_epoch=3)
    assert (data == batch((0, b"a", b"1")) + empty) == kept
    assert data.startswith(batch((0, b"a", b"1")))


@pytest.mark.parametrize("codec", [build.GZIP, build.SNAPPY, build.LZ4, build.ZSTD])
@pytest.mark.parametrize(("limit", "fails"), [(SIZE, False), (SIZE - 1, True), (1, True)])
def test_a_record_of_a_compressed_batch_above_the_limit_stops_the_clean(
    tmp_path: Path, codec: int, limit: int, fails: bool
) -> None:
    lay(tmp_path, 0, batch((0, b"a", b"1")) + batch((1, b"b", VALUE), codec=codec))
    lay(tmp_path, 2, LATER)
    cleaner = Cleaner(tmp_path, "4.4.0", max_record_bytes=limit)
    if not fails:
        cleaner.clean(5_000_000)
        assert [shape[:2] for shape in shapes(tmp_path)] == [(0, 0), (1, 1)]
        return
    with pytest.raises(
        CleanError, match=rf"a record of {SIZE} bytes .* max.decompressed.message.bytes={limit}; set it"
    ):
        cleaner.clean(5_000_000)


def test_a_plain_batch_and_one_that_is_dropped_unread_have_no_limit(tmp_path: Path) -> None:
    aborted = batch(
        (0, b"x", VALUE), codec=build.GZIP, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    end = build.txn_marker(build.ABORT, offset=1, producer_id=9, producer_epoch=0, timestamp_ms=1001)
    lay(tmp_path, 0, aborted + end + batch((2, b"a", VALUE)))
    (tmp_path / f"{0:020d}.txnindex").write_bytes(build.txn_index([(9, 0, 1, 2)]))
    lay(tmp_path, 3, batch((3, b"a", b"3")))
    Cleaner(tmp_path, "4.4.0", max_record_bytes=10, expiration_ms=1).clean(5_000_000)
    assert [shape[:2] for shape in shapes(tmp_path)][-1] == (2, 2)


def test_a_message_in_a_wrapper_has_the_limit_too(tmp_path: Path) -> None:
    record = build.Record(offset=0, key=b"a", value=VALUE, timestamp_ms=1000)
    lay(tmp_path, 0, build.wrapper_v1([record], codec=build.GZIP))
    lay(tmp_path, 1, LATER)
    with pytest.raises(CleanError, match=rf"a record of {len(VALUE) + 1 + 22} bytes"):
        Cleaner(tmp_path, "4.4.0", max_record_bytes=100).clean(5_000_000)
