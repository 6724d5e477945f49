"""`kafkalog dump` shows exactly the records that real consumers read, for every partition of the corpus that was read.

What a consumer could not see is taken away from the dump first: control records, what lies below the log start offset,
and what lies behind the place where it gave up. What a broker made of a person's damage is listed in `served_less.txt`
and `served_more.txt`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.corpus import archives, consumers, expectations, truth
from tests.support.corpus.dumping import DAMAGED, dump
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

NO_TRUTH = expectations.read("no_truth.txt")


def _with_truth() -> list[Snapshot]:
    return [snapshot for snapshot in snapshots() if snapshot.records]


def _with_committed() -> list[Snapshot]:
    return [snapshot for snapshot in snapshots() if snapshot.committed]


@pytest.mark.parametrize("snapshot", _with_truth(), ids=lambda snapshot: snapshot.id)
def test_records_are_those_that_a_consumer_read(tree: Tree, snapshot: Snapshot) -> None:
    seen = truth.records(tree.corpus, snapshot)
    result = dump(tree.partition_dir(snapshot), "--records")
    shown = consumers.visible(tree, snapshot, result.live("record"), seen)
    consumers.assert_same(shown, seen, selection=consumers.is_listed(snapshot, consumers.SERVED_LESS))
    if snapshot.stopped_at is not None:
        assert result.live("damage"), "the consumer gave up, and the dump names no damage"
        assert result.exit_status == DAMAGED


@pytest.mark.parametrize("snapshot", _with_committed(), ids=lambda snapshot: snapshot.id)
def test_committed_records_are_those_that_a_read_committed_consumer_read(tree: Tree, snapshot: Snapshot) -> None:
    seen = truth.committed_records(tree.corpus, snapshot)
    result = dump(tree.partition_dir(snapshot), "--records", "--committed")
    shown = consumers.visible(tree, snapshot, result.live("record"), seen)
    if expectations.matching(consumers.SERVED_MORE, snapshot.id):
        shown, seen = seen, [consumers.as_seen(row, seen[0]) for row in shown]
    consumers.assert_same(
        shown, seen, selection=consumers.is_listed(snapshot, consumers.SERVED_LESS, consumers.SERVED_MORE)
    )


def test_every_partition_without_truth_is_named_with_a_reason() -> None:
    unnamed = [
        snapshot.id
        for snapshot in snapshots()
        if not snapshot.records and not expectations.matching(NO_TRUTH, snapshot.label)
    ]
    assert not unnamed, "no truth, and not in no_truth.txt"


def test_no_partition_with_truth_is_named_as_without() -> None:
    named = {
        snapshot.id: found for snapshot in _with_truth() if (found := expectations.matching(NO_TRUTH, snapshot.label))
    }
    assert not named


@pytest.mark.parametrize("name", ["no_truth.txt", "served_less.txt", "served_more.txt", "served_without.txt"])
def test_no_line_is_stale(name: str) -> None:
    lines = expectations.read(name)
    used = {glob for snapshot in snapshots() for glob in expectations.matching(lines, snapshot.label)}
    stale = set(lines) - used
    assert not stale or not archives.is_whole(), "a part of the corpus may leave lines unused, the whole may not"


def test_every_truth_is_used() -> None:
    """A truth that the rules of discovery do not reach would be a stage that is not tested, in silence."""
    used = {snapshot.records for snapshot in snapshots()}
    unused = {name for name in archives.contents(archives.source()).files if truth.is_records(name)} - used
    unnamed = {name for name in unused if not expectations.matching(expectations.read("no_disk.txt"), name)}
    assert not unnamed, "read by a consumer, but from no copy of a disk that is known"
