"""The simulated start of 4.3.1 on each kind of wrong batch, next to what Kafka's own log loader did with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.storage.partition import read_partition
from tests.support import client_table
from tests.support.wrong_batches import KINDS, NOW_MS, Kind

if TYPE_CHECKING:
    from pathlib import Path

ROWS = {(row["magic"], row["codec"], row["kind"]): row for row in client_table.read()}


def simulated(kind: Kind, partition: Path, *, is_first: bool, is_clean: bool) -> str:
    client_table.lay(partition, kind, is_first=is_first)
    release = parse_release("4.3.1")
    settings = read_settings(SettingsRequest(kafka="4.3.1", assume_defaults=True), release)
    load = PartitionLoad(
        read_partition(str(partition)),
        PartitionContext(is_clean=is_clean, recovery_point=0, log_start_offset=None),
        LoadOptions(
            release=release,
            settings=settings.for_topic("t"),
            snapshots=SnapshotOptions.of_release(release, now_ms=NOW_MS, expiration_ms=86_400_000),
        ),
    )
    for _ in load.run():
        pass
    if load.result.problem is not None:
        assert load.result.problem.kind == "fatal"
        return client_table.FAILS
    before = (partition / f"{0:020d}.log").stat().st_size
    return client_table.outcome_of_start(before, load.result.segments[0].size_bytes, is_first=is_first)


@pytest.mark.parametrize(("magic", "codec"), dict.fromkeys((kind.magic, kind.codec) for kind in KINDS))
def test_the_start_is_that_of_kafka(magic: int, codec: str, tmp_path: Path) -> None:
    for kind in KINDS:
        if (kind.magic, kind.codec) != (magic, codec):
            continue
        row = ROWS[client_table.key(kind)]
        for column, is_first in (("first", True), ("later", False)):
            ours = [
                simulated(kind, tmp_path / "t-0", is_first=is_first, is_clean=is_clean) for is_clean in (True, False)
            ]
            assert "/".join(ours) == row[column], (kind.title, column)


def test_the_table_has_each_kind_once() -> None:
    assert list(ROWS) == [client_table.key(kind) for kind in KINDS]
