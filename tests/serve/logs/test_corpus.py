"""A consumer that fetches from the partition view gets what real consumers read, for every partition of the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import UnsupportedError
from kafkalog_core.serve.logs.partition_view import ServedPartition, ViewOptions
from tests.livebroker.consuming import consumed
from tests.support.corpus import consumers, expectations, truth
from tests.support.corpus.snapshots import BEHIND_LAST, Snapshot, snapshots

if TYPE_CHECKING:
    from kafkalog_core.serve.logs.served_holes import ServedHole
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

WINDOWS = (1, 700, 65_536, 50_000_000)


def _offsets(rows: list[consumers.Row]) -> list[int]:
    return [int(str(row["offset"])) for row in rows]


def _opened(tree: Tree, snapshot: Snapshot, holes: list[ServedHole]) -> ServedPartition | None:
    options = ViewOptions(log_start_offset=tree.log_start_offset(snapshot), notify=holes.append)
    try:
        return ServedPartition.open(str(tree.partition_dir(snapshot)), options)
    except UnsupportedError:  # 0.7
        return None


def _once(offsets: list[int]) -> list[int]:
    """The offsets without repeats: a batch that is there twice is delivered twice by librdkafka, and once by Java."""
    return list(dict.fromkeys(offsets))


def _check(tree: Tree, snapshot: Snapshot, seen: list[int], *, is_committed: bool, is_less: bool) -> None:
    holes: list[ServedHole] = []
    partition = _opened(tree, snapshot, holes)
    if partition is None:
        return
    without = consumers.left_out(snapshot)
    assert set(without) <= set(seen)
    seen = [offset for offset in seen if offset not in without]
    for max_bytes in WINDOWS:
        found = consumed(partition, max_bytes, is_committed=is_committed)
        if snapshot.stopped_at is not None and snapshot.stopped_at != BEHIND_LAST:
            found = [offset for offset in found if offset < snapshot.stopped_at]
        assert not set(without).intersection(found), max_bytes
        if snapshot.stopped_at == BEHIND_LAST or is_less or holes:  # the view finds more: it reads on after damage
            left = iter(found)
            assert all(offset in left for offset in _once(seen)), max_bytes
        else:
            assert _once(found) == _once(seen), max_bytes


@pytest.mark.parametrize("snapshot", [each for each in snapshots() if each.records], ids=lambda snapshot: snapshot.id)
def test_a_consumer_reads_every_record(tree: Tree, snapshot: Snapshot) -> None:
    seen = _offsets(truth.records(tree.corpus, snapshot))
    is_less = consumers.is_listed(snapshot, consumers.SERVED_LESS)
    _check(tree, snapshot, seen, is_committed=False, is_less=is_less)


@pytest.mark.parametrize("snapshot", [each for each in snapshots() if each.committed], ids=lambda snapshot: snapshot.id)
def test_a_read_committed_consumer_reads_what_was_committed(tree: Tree, snapshot: Snapshot) -> None:
    seen = _offsets(truth.committed_records(tree.corpus, snapshot))
    if expectations.matching(consumers.SERVED_MORE, snapshot.id):
        return  # a broker serves what its indexes do not list as aborted; the view reads the log
    is_less = consumers.is_listed(snapshot, consumers.SERVED_LESS)
    _check(tree, snapshot, seen, is_committed=True, is_less=is_less)
