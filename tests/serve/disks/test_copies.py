"""Of several copies of real disks, the broker serves what an election would lead with, and what was read after one."""

from __future__ import annotations

import gzip
import json
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.copies.compare import Comparison
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, work_of
from kafkalog_core.serve.disks.served_disks import DiskOptions, ServedDisks
from kafkalog_core.serve.logs.partition_view import ServedPartition
from tests.livebroker.consuming import consumed

if TYPE_CHECKING:
    from collections.abc import Sequence

REPLICAS: Final = Path(__file__).resolve().parents[3] / "fixtures" / "replicas"


def chosen(directories: Sequence[Path]) -> dict[str, str]:
    """The path of the copy that is served, by partition; the same in every order of the disks."""
    found: list[dict[str, str]] = []
    for order in permutations(directories):
        disks = ServedDisks(resolve([str(each) for each in order], Selection()), DiskOptions())
        paths = {}
        for topic in disks.topics.values():
            for number in topic.copies:
                partition = disks.partition(topic.name, number)
                assert partition is not None
                paths[f"{topic.name}-{number}"] = partition.path
        found.append(paths)
        disks.close()
    ranks = [
        {name: (view.leader_epoch, view.log_end_offset) for name, path in paths.items() for view in [opened(path)]}
        for paths in found
    ]
    assert all(each == ranks[0] for each in ranks)
    return found[0]


def opened(path: str) -> ServedPartition:
    """A copy."""
    return ServedPartition.open(path)


def stages(corpus: Path) -> list[list[Path]]:
    """The disks of several brokers, or several disks of one, at one time."""
    found = []
    for parent in sorted(corpus.glob("modern/*/*")):
        disks = [*sorted(parent.glob("broker-[0-9]*")), *sorted(parent.glob("[AB]"))]
        if sum((each / "meta.properties").exists() for each in disks) > 1:
            found.append([each for each in disks if each.is_dir()])
    return found


@pytest.mark.corpus
def test_the_copy_of_the_latest_leader_epoch_is_served(corpus: Path) -> None:
    count = 0
    for disks in stages(corpus):
        found = (place for disk in disks for place in disk.glob("*-[0-9]*") if place.is_dir())
        names = {place.name for place in found if not place.name.endswith("-delete")}  # what a broker set aside
        served = chosen(disks)
        assert served.keys() == names - {"__cluster_metadata-0"}, "every partition of every disk"
        for name, path in served.items():
            copies = [opened(str(each / name)) for each in disks if (each / name).is_dir()]
            best, count = opened(path), count + len(copies)
            latest = max(each.leader_epoch for each in copies)
            assert best.leader_epoch == latest
            assert best.log_end_offset == max(each.log_end_offset for each in copies if each.leader_epoch == latest)
    assert count > 3


def test_the_records_of_the_old_leader_of_an_unclean_election_are_not_served() -> None:
    """It has more of its own epoch; consumers read those of the new leader, and `kafkalog replicas` keeps the same."""
    disks = sorted(REPLICAS.glob("broker-*"))
    served = chosen(disks)
    copies = {str(disk / "rep.diverged-0"): opened(str(disk / "rep.diverged-0")) for disk in disks}
    best = copies[served["rep.diverged-0"]]
    others = [each for each in copies.values() if each.leader_epoch < best.leader_epoch]
    assert others
    with gzip.open(REPLICAS / "truth" / "after-7.jsonl.gz") as stream:
        read = [row["offset"] for row in map(json.loads, stream) if row.get("topic", "rep.diverged") == "rep.diverged"]
    assert consumed(best, 1 << 20, is_committed=False) == read
    request = ReplicasRequest(targets=tuple(resolve([str(each) for each in disks])))
    kept = {
        each.replica["topic"]: each.replica["keep"]
        for each in replicas(work_of(request), Report())
        if isinstance(each, Comparison)
    }
    assert kept["rep.diverged"] == best.path
