"""Everything that needs the bounds of a log finds the same ones, and those that the broker of the disk reported."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import PartitionTarget, resolve
from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.logfiles import Checkpoints, unit_of_partition
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.segment_views import read_partition_view
from kafkalog_core.ops.copies.verdict import places_of, read_copy
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.corpus.broker_answers import all_answers
from tests.support.corpus.snapshots import snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.kafka.sim.start.results import LoadResult
    from tests.support.corpus.snapshots import Snapshot
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

NOW_MS = 1_800_000_000_000


def _starts(path: Path) -> tuple[dict[str, int], LoadResult]:
    """The log start offset as each part of the project finds it, and the simulated start."""
    partition, broker_dir = read_partition(str(path)), read_broker_dir(read_log_dir(str(path.parent)))
    release = infer_release(str(path)).release
    context = broker_dir.context(partition.name)
    options = LoadOptions.of(release, partition.topic, NOW_MS)
    load = PartitionLoad(partition, context, options)
    deque(load.run(), maxlen=0)
    base = partition.segments[0].base_offset
    (target,) = resolve([str(path)])
    assert isinstance(target, PartitionTarget)
    places = [place for copies in places_of([target])[0].values() for place in copies]
    found = {
        "bounds": log_bounds(base, context, rules_of(release)).log_start.offset,
        "look-ups": Checkpoints().bounds(unit_of_partition(partition, str(path.parent)), release).local_start,
    }
    if places:
        found["replicas"] = read_copy(places[0]).log_start
    view = read_partition_view(partition, broker_dir, options.settings, release)
    if view is not None:
        found["forecasts"] = view.log_start_offset
    return found, load.result


def test_starts_and_ends_are_those_that_brokers_reported(corpus: Path) -> None:
    answers = all_answers(corpus)
    assert len(answers) > 20
    for one in answers:
        path = corpus / one.log_dir / one.partition
        earliest, latest = one.answers["earliest"]["offset"], one.answers["latest"]["offset"]
        found, result = _starts(path)
        assert set(found.values()) == {earliest}, (one.id, found)
        assert result.problem is None, one.id
        assert (result.log_start_offset, result.end_offset) == (earliest, latest), one.id
        assert result.log_start_offset <= result.recovery_point <= result.end_offset, one.id
        request = VerifyRequest(targets=tuple(resolve([str(path)])), now_ms=NOW_MS)
        (verdict,) = (each for each in verify(request) if isinstance(each, PartitionVerdict))
        assert (verdict.log_start_offset, verdict.log_end_offset) == (earliest, latest), one.id


@pytest.mark.parametrize("snapshot", snapshots(), ids=lambda snapshot: snapshot.id)
def test_all_find_the_same_log_start(tree: Tree, snapshot: Snapshot) -> None:
    path = tree.partition_dir(snapshot)
    partition = read_partition(str(path))
    if partition.format != "log" or partition.topic == METADATA_TOPIC or not partition.segments:
        return
    try:
        found, result = _starts(path)
    except StorageError:
        return
    assert len(set(found.values())) == 1, found
    is_same_first = bool(result.segments) and result.segments[0].base_offset == partition.segments[0].base_offset
    if result.problem is None and is_same_first:
        assert result.log_start_offset in found.values()
