"""A log directory of a KRaft broker whose metadata log has settings of its topics, all of whose records are old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import build
from tests.support.clusters import TOPIC, config_record, topic_record, write_meta, write_metadata_log
from tests.support.truncating import MARK, RECOVERY, STARTS, WATERMARKS, write_log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NOW_MS = 1_700_000_000_000
DAY_MS = 24 * 3_600_000
END = 30


def write_topics(root: Path, topics: Mapping[str, Mapping[str, str]]) -> Path:
    """Topics of one partition each, with the settings that the metadata log has of them.

    Each has three segments of ten records of five keys, which are 30 days old.
    """
    write_meta(root)
    for name in topics:
        batches = {base: [_batch(base)] for base in (0, 10, 20)}
        partition = write_log(root / f"{name}-0", batches)
        for base in batches:
            (partition / f"{base:020}.timeindex").write_bytes(build.time_index([(NOW_MS - 30 * DAY_MS, 9)]))
    for top in (RECOVERY, WATERMARKS):
        (root / top).write_bytes(build.offset_checkpoint([(name, 0, END) for name in topics]))
    (root / STARTS).write_bytes(build.offset_checkpoint([]))
    (root / MARK).write_bytes(b"")
    records = [topic_record(name, number) for number, name in enumerate(topics, 1)]
    records += [config_record(TOPIC, name, *each) for name, values in topics.items() for each in values.items()]
    write_metadata_log(root, *records)
    return root


def _batch(base: int) -> bytes:
    time_ms = NOW_MS - 30 * DAY_MS
    return build.batch_v2(
        [
            build.Record(offset=base + number, timestamp_ms=time_ms, key=b"%d" % (number % 5), value=b"v")
            for number in range(10)
        ]
    )
