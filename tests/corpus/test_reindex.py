"""Indexes that a reindex builds: those that a broker built on the same log, and the way to every batch."""

from __future__ import annotations

import os
import shutil
import struct
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Run, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import asdict
from tests.corpus import verifying
from tests.support.corpus import archives, recovering
from tests.support.corpus.snapshots import snapshots

if TYPE_CHECKING:
    from tests.support.corpus.recovering import Pair
    from tests.support.corpus.snapshots import Snapshot
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

PAIRS = recovering.pairs()
LINES = [*verifying.lines("recovery_differences.txt", 4), *verifying.lines("reindex_differences.txt", 4)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_after_truncate_and_reindex_a_directory_is_as_the_broker_left_it(
    corpus: Path, tmp_path: Path, pair: Pair
) -> None:
    before, after = pair.lay(corpus, tmp_path)
    options = pair.options(recovering.sheet_of(corpus, pair), tmp_path)
    now_ms = recovering.started_ms(after)
    names = [place.name.raw for place in read_log_dir(str(before)).partitions if place.name.state != "delete"]
    as_they_were = {name: recovering.files_of(before / name) for name in names}
    refused = set()
    for command, more in (("truncate", {"as_broker": True}), ("reindex", {})):
        request = PlanRequest(target=target_dir([str(before)]), options={**options, **more}, now_ms=now_ms)
        draft = make_plan(command, request)
        refused |= {(each.topic, str(each.partition)) for each in draft.plan.report.refusals}
        if draft.plan.changes:
            apply_plan(draft, Disk(), now_ms=now_ms)
    found = []
    for name in names:
        is_refused = tuple(name.rpartition("-")[::2]) in refused
        if recovering.is_own(name) or is_refused or not (before / name).is_dir() or not (after / name).is_dir():
            continue
        mine, theirs = recovering.files_of(before / name), recovering.files_of(after / name)
        others = recovering.differences(mine, theirs)
        found += [(f"{name}/{file}", how) for file, how in others if _is_rebuilt(file, as_they_were[name], theirs)]
    assert [each for each in found if not _is_explained(pair, *each)] == []
    again = make_plan("reindex", PlanRequest(target=target_dir([str(before)]), options=options, now_ms=now_ms))
    assert again.plan.changes == ()


def _is_rebuilt(file: str, before: dict[str, bytes], theirs: dict[str, bytes]) -> bool:
    """Whether the broker wrote an index or a log again, not only with room at its end, or deleted a snapshot."""
    old, new = before.get(file), theirs.get(file)
    if file.endswith(".snapshot"):
        return new is None and old is not None
    if new is None:
        return False
    return old is None or not (new.startswith(old) and not new[len(old) :].strip(b"\0"))


def _is_explained(pair: Pair, file: str, how: str) -> bool:
    return any(
        verifying.is_like(pair.id, case) and verifying.is_like(file, name) and how == kind
        for case, name, kind, _ in LINES
    )


def test_every_line_of_the_list_is_of_a_pair() -> None:
    own = verifying.lines("reindex_differences.txt", 4)
    stale = [line for line in own if not any(verifying.is_like(pair.id, line[0]) for pair in PAIRS)]
    assert not stale or not archives.is_whole(), "a part of the corpus may leave lines unused, the whole may not"


# --- a partition by itself --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("log_dir", sorted({each.log_dir for each in snapshots() if each.fault is None}))
def test_a_partition_that_was_copied_alone_keeps_what_its_log_cannot_prove(
    corpus: Path, tmp_path: Path, log_dir: str
) -> None:
    """Without the checkpoints nothing is written that is not written in the log directory: not from what is left."""
    for name in sorted({each.partition for each in snapshots() if each.log_dir == log_dir and each.fault is None}):
        shutil.copytree(corpus / log_dir / name, tmp_path / name, copy_function=os.link)
        kafka = {"kafka": asdict(SettingsRequest(kafka=str(infer_release(str(corpus / log_dir)).release)))}
        alone, within = (
            {
                os.path.basename(change.path)
                for change in make_plan("reindex", PlanRequest(target=site, options=kafka, now_ms=0)).plan.changes
            }
            for site in (target_dir([str(tmp_path / name)]), target_dir([str(corpus / log_dir / name)]))
        )
        assert alone <= within, name
        shutil.rmtree(tmp_path / name)


# --- every record through every index ---------------------------------------------------------------------------------
HEALTHY = [each for each in snapshots() if each.fault is None and not each.partition.endswith("-delete")]


@pytest.mark.parametrize("snapshot", HEALTHY, ids=lambda snapshot: snapshot.id)
def test_rebuilt_indexes_lead_to_every_batch(tree: Tree, tmp_path: Path, snapshot: Snapshot) -> None:
    source = tree.partition_dir(snapshot)
    release = infer_release(str(source.parent)).release
    directory = shutil.copytree(source, tmp_path / snapshot.partition)
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        path.unlink()
    kafka = SettingsRequest(kafka=str(release), assignments=("log.index.interval.bytes=600",))
    options = {"kafka": asdict(kafka)}
    draft = make_plan("reindex", PlanRequest(target=target_dir([str(directory)]), options=options, now_ms=0))
    if draft.plan.changes:
        apply_plan(draft, Disk(), now_ms=0)
    refused = {each.path for each in draft.plan.report.refusals}
    for segment in read_partition(str(directory)).segments:
        assert segment.log is not None
        if not segment.log.name.raw.endswith(".log") or segment.log.path in refused or not segment.size_bytes:
            continue
        assert segment.index is not None
        batches = _batches(segment.log.path, segment.base_offset)
        _check_offsets(Path(segment.index.path), segment.base_offset, batches)
        if release >= Release(0, 10, 1):
            assert segment.timeindex is not None
            _check_times(Path(segment.timeindex.path), segment.base_offset, batches)


class Batch(NamedTuple):
    """A batch of a full scan."""

    position: int
    first: int
    last: int
    max_timestamp_ms: int


def _batches(path: str, base_offset: int) -> list[Batch]:
    found = []
    with Source.open(path) as source:
        for item in scan(source, base_offset=base_offset):
            if isinstance(item, Run):
                names = ("position", "base_offset", "last_offset", "max_timestamp_ms")
                found += map(Batch, *map(item.batches.column, names))
    return found


def _check_offsets(index: Path, base_offset: int, batches: list[Batch]) -> None:
    """For every batch: a scan from where a lookup of its first or last offset leads finds it."""
    entries = [(base_offset + relative, at) for relative, at in struct.iter_unpack(">ii", index.read_bytes())]
    offsets = [offset for offset, _ in entries]
    assert offsets == sorted(set(offsets))
    for batch in batches:
        slot = bisect_right(offsets, batch.last) - 1
        start = entries[slot][1] if slot >= 0 else 0
        found = next(each for each in batches if each.position >= start and each.last >= batch.last)
        assert found == batch
        if batch.first >= 0:
            slot = bisect_right(offsets, batch.first) - 1
            start = entries[slot][1] if slot >= 0 else 0
            assert start <= batch.position
    starts = {batch.position for batch in batches}
    assert {at for _, at in entries} <= starts


def _check_times(index: Path, base_offset: int, batches: list[Batch]) -> None:
    """For every batch: the entry below its time names an offset before it, and the last entry has the largest time."""
    entries = [(at, base_offset + relative) for at, relative in struct.iter_unpack(">qi", index.read_bytes())]
    times = [at for at, _ in entries]
    assert times == sorted(set(times))
    for batch in batches:
        slot = bisect_left(times, batch.max_timestamp_ms) - 1
        first_so_late = next(each for each in batches if each.max_timestamp_ms >= batch.max_timestamp_ms)
        assert slot < 0 or entries[slot][1] < first_so_late.last
    largest = max((batch.max_timestamp_ms for batch in batches), default=-1)
    assert times[-1:] == ([largest] if largest >= 0 else [])
