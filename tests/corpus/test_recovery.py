"""What a broker made of a directory at its start is what the simulation of its start makes of it, byte for byte.

Before and after come from real brokers: killed ones, damaged ones, and every fault that the broker started on. Of what
differs every file stands in `recovery_differences.txt`, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.names import DirectoryState
from kafkalog_core.ops.apply import apply_draft
from kafkalog_core.ops.logdirs.brokerdir import read_broker_dir
from kafkalog_core.ops.plans.plan import PlanRequest, make_plan
from kafkalog_core.ops.plans.sites import site_of
from kafkalog_core.ops.recovery.partition import PartitionLoad
from kafkalog_core.ops.recovery.results import LoadOptions
from kafkalog_core.ops.recovery.rules import recovery_rules
from kafkalog_core.ops.recovery.snapshots import SnapshotOptions
from kafkalog_core.ops.releases.release import parse_release
from kafkalog_core.ops.releases.settings import SettingsRequest, read_settings
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.corpus import archives, recovering, verifying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from kafkalog_core.ops.recovery.results import LoadResult
    from kafkalog_core.ops.recovery.snapshots import SnapshotFiles
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition
    from tests.corpus.recovering import Pair

pytestmark = pytest.mark.corpus

PAIRS = recovering.pairs()
LINES = verifying.lines("recovery_differences.txt", 4)


@dataclass(slots=True)
class Played:
    """A start that was played through."""

    partition: Partition
    result: LoadResult
    indexes: dict[str, bytes]
    snapshots: SnapshotFiles

    def files(self) -> dict[str, bytes]:
        """What would be there."""
        stems = {f"{each.base_offset:020d}" for each in self.result.segments}
        found = {name: data for name, data in self.indexes.items() if name.partition(".")[0] in stems}
        for each in self.result.segments:
            stem = f"{each.base_offset:020d}"
            if each.segment is None:
                found |= {f"{stem}.log": b"", f"{stem}.index": b"", f"{stem}.timeindex": b""}
                continue
            assert each.segment.log is not None
            suffix = each.segment.log.name.raw.partition(".")[2]
            found[f"{stem}.{suffix}"] = _read(each.segment.log.path)[: each.size_bytes]
            others = (
                (each.segment.index, "index"),
                (each.segment.timeindex, "timeindex"),
                (each.segment.txnindex, "txnindex"),
            )
            for file, kind in others:
                if file is not None:
                    found.setdefault(f"{stem}.{kind}", b"" if each.is_emptied else _read(file.path))
        found |= {f"{offset:020d}.snapshot": self.snapshots.read(offset) or b"" for offset in self.snapshots}
        return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _play(place: PartitionPath, before: Path, options: dict[str, Any], now_ms: int) -> Played:
    request = SettingsRequest(**options["kafka"])
    release = parse_release(options["kafka"]["kafka"])
    settings = read_settings(request, release)
    expiration = settings.broker("producer.id.expiration.ms").value
    assert isinstance(expiration, int)
    partition = read_partition(place.path)
    order = recovery_rules(release).snapshot_order
    load = PartitionLoad(
        partition,
        read_broker_dir(read_log_dir(str(before))).context(place.name, as_loaded=True),
        LoadOptions(
            release=release,
            settings=settings.for_topic(partition.topic),
            snapshots=SnapshotOptions(order=order, now_ms=now_ms, expiration_ms=expiration),
        ),
    )
    indexes: dict[str, bytes] = {}
    for each in load.run():
        recovery, stem = each.recovery, f"{each.base_offset:020d}"
        if recovery is not None and each.segment is not None:
            has_txn_index = bool(recovery.txn_index) or each.segment.txnindex is not None
            contents = {
                "index": recovery.offset_index,
                "timeindex": recovery.time_index,
                "txnindex": recovery.txn_index if has_txn_index else None,
            }
            indexes |= {f"{stem}.{kind}": data for kind, data in contents.items() if data is not None}
    return Played(partition, load.result, indexes, load.snapshots)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_a_start_is_foreseen_and_its_cuts_are_made(corpus: Path, tmp_path: Path, pair: Pair) -> None:
    """First it is played through, then `truncate --as-broker` is applied: the broker did the same."""
    before, after = pair.lay(corpus, tmp_path)
    options = pair.options(recovering.sheet_of(corpus, pair), tmp_path)
    now_ms = recovering.started_ms(after)
    found = _foreseen(before, after, options, now_ms) + _cut(before, after, options, now_ms)
    left = [each for each in dict.fromkeys(found) if not any(_explains(line, pair, *each) for line in LINES)]
    assert not left, "\n".join(f"{pair.id}  {file}  {how}" for file, how in left)


def _explains(line: tuple[str, ...], pair: Pair, file: str, how: str) -> bool:
    return all(map(verifying.is_like, (pair.id, file, how), line))


def _places(before: Path) -> Iterator[PartitionPath]:
    """Partitions that brokers serve, and that nobody writes to before they are copied."""
    for place in read_log_dir(str(before)).partitions:
        if not recovering.is_own(place.name.raw) and place.name.state is not DirectoryState.DELETE:
            yield place


def _foreseen(before: Path, after: Path, options: dict[str, Any], now_ms: int) -> list[tuple[str, str]]:
    """What is other in the simulation of the start."""
    found: list[tuple[str, str]] = []
    for place in _places(before):
        name = place.name.raw
        if not (after / name).is_dir():
            found.append((name, "gone"))
        elif read_partition(place.path).format != "v07":
            played = _play(place, before, options, now_ms)
            found += [(f"{name}/{file}", how) for file, how in _others(played, after / name)]
    return found


def _others(played: Played, after: Path) -> Iterator[tuple[str, str]]:
    result = played.result
    if result.problem is not None:
        yield result.problem.path.rpartition("/")[2], result.problem.kind
        return
    yield from recovering.differences(played.files(), recovering.files_of(after))
    if result.epochs is not None:
        mine = [f"{epoch} {start}" for epoch, start in result.epochs]
        text = (after / "leader-epoch-checkpoint").read_text()
        if mine != recovering.epochs_without_election(text, result.end_offset):
            yield "leader-epoch-checkpoint", "other"


def _cut(before: Path, after: Path, options: dict[str, Any], now_ms: int) -> list[tuple[str, str]]:
    """What is other in the logs that `truncate --as-broker` leaves; where one was cut, in all that belongs to it."""
    request = PlanRequest(site=site_of([str(before)]), options={**options, "as_broker": True}, now_ms=now_ms)
    untouched = {place.name.raw: recovering.files_of(before / place.name.raw) for place in _places(before)}
    draft = make_plan("truncate", request)
    if draft.plan.changes:
        apply_draft(draft, Disk(), now_ms=now_ms)
        again = replace(request, site=site_of([str(before)]))
        assert make_plan("truncate", again).plan.changes == (), "nothing is left to do"
    refused = {(refusal.topic, refusal.partition) for refusal in draft.plan.outcome.refusals}
    found: list[tuple[str, str]] = []
    for place in _places(before):
        name = place.name.raw
        if (place.name.topic, place.name.partition) in refused or not (after / name).is_dir():
            continue
        mine, theirs = recovering.files_of(before / name), recovering.files_of(after / name)
        if mine == untouched[name]:
            mine, theirs = _logs(mine), _logs(theirs)
        for file, how in recovering.differences(mine, theirs):
            if not _is_left_to_reindex(file, mine, untouched[name]):
                found.append((f"{name}/{file}", how))
    return found


def _logs(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.endswith((".log", ".kafka"))}


def _is_left_to_reindex(file: str, mine: dict[str, bytes], before: dict[str, bytes]) -> bool:
    """Indexes of segments that are not cut; a broker builds them anew too."""
    stem = file.partition(".")[0]
    log = f"{stem}.log"
    return file.endswith("index") and mine.get(log) == before.get(log)


def test_every_line_of_the_list_is_of_a_pair() -> None:
    stale = [line for line in LINES if not any(verifying.is_like(pair.id, line[0]) for pair in PAIRS)]
    assert not stale or not archives.is_whole(), "a part of the corpus may leave lines unused, the whole may not"
