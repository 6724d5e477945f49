"""Random faults of a partition directory, and the start of Kafka's own classes on it next to the simulated one."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError
from kafkalog_core.format.properties import read_partition_metadata
from kafkalog_core.format.snapshot import decode_snapshot
from kafkalog_core.kafka.rules.releases import Release, parse_release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, read_epoch_file
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import asdict, replace
from tests.integration.differential import TOPIC, Verdict, request_of
from tests.integration.faults import Faults
from tests.integration.faults_in_files import FILE_FAULTS, TOPIC_ID
from tests.integration.faults_in_logs import LOG_FAULTS
from tests.integration.log_harness import HarnessError
from tests.support.build import meta_properties, offset_checkpoint, partition_metadata
from tests.support.corpus import recovering
from tests.support.corpus.replaying import play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.kafka.sim.start.results import LoadResult
    from tests.integration.faults import Stop
    from tests.integration.log_harness import LogHarness
    from tests.integration.workloads import Workload
    from tests.support.corpus.replaying import Played

CASES: Final = 6  # damaged copies of each log
_EXPIRATIONS_MS: Final = {4: 86_400_000, 2: 604_800_000}  # as the harness of each release has it
_LEFT_ALONE: Final = {
    f"truncate.{why}" for why in ("end-lost", "end-misled", "misnamed", "not-foreseen", "split-first")
}
_STOPS: Final = {"fatal", "offline"}  # Kafka's class throws for both; a broker runs on after the second
_EPOCHS: Final = "leader-epoch-checkpoint"
_ENTRY_BYTES: Final = {"index": 8, "timeindex": 12, "txnindex": 34}


def compare_starts(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """Append everything; then damage some copies, and start on each."""
    return _compare_copies(harness, workload, work_dir)


def compare_faults(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """The same with every kind of fault, of a log that may be compacted, and with all files compared."""
    return _compare_copies(harness, workload, work_dir, LOG_FAULTS + FILE_FAULTS)


def write_whole(harness: LogHarness, workload: Workload, whole: Path) -> None:
    """Append everything, and compact it where the workload has room for a map."""
    whole.mkdir(parents=True)
    (stage,) = workload.stages
    harness.append(whole, stage.sets, stage.now_ms, workload.settings)
    if workload.map_bytes:
        sizes = {"map": workload.map_bytes, "io": workload.io_bytes}
        with suppress(HarnessError):  # it gives up records that are too large for it, and leaves what it has written
            harness.run("clean", whole, stage.now_ms, workload.settings, hw=stage.end_offset, **sizes)


def _compare_copies(
    harness: LogHarness, workload: Workload, work_dir: Path, others: Sequence[Callable[[Faults], str]] = ()
) -> Verdict:
    verdict, rng = Verdict(), random.Random(workload.seed)
    whole = work_dir / "whole" / f"{TOPIC}-0"
    write_whole(harness, workload, whole)
    if others:
        (whole / "partition.metadata").write_bytes(partition_metadata(TOPIC_ID))
    for number in range(CASES):
        damaged, real = work_dir / f"damaged-{number}" / f"{TOPIC}-0", work_dir / f"real-{number}" / f"{TOPIC}-0"
        shutil.copytree(whole, damaged)
        faults = Faults(rng, damaged, others)
        faults.inflict()
        stop = faults.stop(workload.stages[-1].end_offset)
        shutil.copytree(damaged, real)
        load = simulate(harness, workload, damaged, stop)
        played = play(read_partition(str(damaged)), load)
        answer = start(harness, workload, real, stop)
        found = _compare(answer, load, real, verdict, Release(*parse_release(harness.version)))
        if others and not found and isinstance(answer, dict) and load.result.problem is None:
            found = _file_differences(played, damaged, real)
        if not found and isinstance(answer, dict):
            found = _compare_mended(harness, workload, damaged, stop, (answer, real))
        verdict.add(f"case {number}, {'; '.join(faults.told)}; {stop}", found)
        verdict.rounds += 1
    return verdict


def start(harness: LogHarness, workload: Workload, partition_dir: Path, stop: Stop) -> dict[str, str] | str:
    """What Kafka's classes make of a directory; a text: why they stop."""
    words = {"clean": int(stop.is_clean), "rp": stop.recovery_point, "start": stop.log_start}
    try:
        return harness.run("start", partition_dir, workload.stages[-1].now_ms, workload.settings, **words)
    except HarnessError as error:
        return str(error)


def simulate(harness: LogHarness, workload: Workload, partition_dir: Path, stop: Stop) -> PartitionLoad:
    """What kafkalog says of the same start, which it has not yet run."""
    release = Release(*parse_release(harness.version))
    return PartitionLoad(
        read_partition(str(partition_dir)),
        PartitionContext(
            is_clean=stop.is_clean, recovery_point=stop.recovery_point, log_start_offset=stop.log_start or None
        ),
        LoadOptions(
            release=release,
            settings=read_settings(request_of(harness, workload), release).for_topic(TOPIC),
            snapshots=SnapshotOptions.of_release(
                release, now_ms=workload.stages[-1].now_ms, expiration_ms=_EXPIRATIONS_MS[release[0]]
            ),
        ),
    )


def _compare(
    answer: dict[str, str] | str, load: PartitionLoad, real: Path, verdict: Verdict, release: Release
) -> list[str]:
    result = load.result
    problem = result.problem
    if problem is not None and problem.kind not in _STOPS:
        verdict.given_up += 1
        return []
    refused = _refused_topic_id(real)
    if isinstance(answer, str) or problem is not None:
        if isinstance(answer, str) and problem is not None:
            survived = ("io:", "storage:") if rules_of(release).survives_refused_epochs else ("io:",)
            is_offline = answer.startswith(survived)
            return [] if is_offline == (problem.kind == "offline") else [f"Kafka: {answer}, ours: {problem}"]
        if isinstance(answer, str) and refused:
            return []
        return [f"Kafka: {answer}, ours: {problem or result.end_offset}"]
    if refused:
        return [f"Kafka starts, ours: {refused}"]
    ours = {
        "start": str(result.log_start_offset),
        "rp": str(result.recovery_point),
        "end": str(result.end_offset),
        "bases": ",".join(str(each.base_offset) for each in result.segments),
    }
    found = [f"{name}: {answer[name]}, ours {told}" for name, told in ours.items() if answer[name] != told]
    return found or [*_log_differences(result, real, verdict), *_small_differences(load, result, real, release)]


def _refused_topic_id(partition_dir: Path) -> str:
    """Why a broker that has loaded a log refuses its partition.metadata; empty: it does not."""
    path = partition_dir / "partition.metadata"
    refusal = read_partition_metadata(path.read_bytes()).refusal if path.is_file() else None
    return "" if refusal is None else refusal.problem


def _file_differences(played: Played, damaged: Path, real: Path) -> list[str]:
    """Files that are not as foreseen.

    An index may have lost a part of an entry when it was closed; an empty one may have been made where there was none.
    Where 2.8 has completed a replacement without aborted transactions, it leaves the transaction index of the segment
    before, or an empty one, which is not foreseen.
    """
    mine, theirs = played.files(), recovering.files_of(real)
    rebuilt = played.result.rebuilt
    stale = f"{rebuilt.base_offset:020d}.txnindex" if rebuilt is not None and not rebuilt.txn_index else ""
    theirs = {name: data for name, data in theirs.items() if data or name in mine or "index" not in name}
    theirs, mine = ({name: data for name, data in each.items() if name != stale} for each in (theirs, mine))
    for base in played.result.zero_indexes:
        name = f"{base:020d}.index"
        if name in theirs and name not in played.indexes and not any(theirs[name]):
            mine[name] = theirs[name]
    for name in mine.keys() & theirs.keys():
        size = _ENTRY_BYTES.get(name.partition(".")[2], 1)
        if theirs[name] == mine[name][: len(mine[name]) // size * size]:
            mine[name] = theirs[name]
    found = [
        f"{name} {how}: {_hex(theirs.get(name))}, ours {_hex(mine.get(name))}"
        for name, how in recovering.differences(mine, theirs)
        if not name.endswith((".log", ".snapshot"))
    ]
    result = played.result
    gone = (*(each for each, _ in result.swept), *result.moved, *result.orphans)
    left = _others(damaged) - {os.path.basename(file.path) for file in gone}
    return found + [f"{name} is not left as foreseen" for name in sorted(left ^ _others(real))]


def _others(partition_dir: Path) -> set[str]:
    """Names in a directory that are not of its segments, without the file of epochs, which every start may write."""
    names = {path.name for path in partition_dir.iterdir()} - recovering.files_of(partition_dir).keys()
    return names - {_EPOCHS, f"{_EPOCHS}.tmp"}


def _hex(content: bytes | None) -> str:
    return "no such file" if content is None else f"{len(content)} bytes ...{content[-60:].hex()}"


def _compare_mended(
    harness: LogHarness, workload: Workload, damaged: Path, stop: Stop, before: tuple[dict[str, str], Path]
) -> list[str]:
    """What `truncate --as-broker` makes of the directory is what a start makes of it."""
    answer, real = before
    log_dir = damaged.parent
    write_tops(log_dir, stop)
    kafka, now_ms = request_of(harness, workload), workload.stages[-1].now_ms
    for _ in range(2):  # replacements first, and then what is cut of the log that comes of them
        request = PlanRequest(
            target=target_dir([str(log_dir)]), options={"kafka": asdict(kafka), "as_broker": True}, now_ms=now_ms
        )
        draft = make_plan("truncate", request)
        if draft.plan.report.refusals:
            codes = {each.code for each in draft.plan.report.refusals}
            return [] if codes <= _LEFT_ALONE else [f"refused: {sorted(codes)}"]
        if not draft.plan.changes:
            break
        apply_plan(draft, Disk(), now_ms=now_ms)
    if draft.plan.changes and not is_settled(request):
        return ["the second plan was not the last"]
    ours = start(harness, workload, damaged, stop)
    if not isinstance(ours, dict) or any(ours[name] != answer[name] for name in ("end", "bases", "start")):
        return [f"mended, and started: {ours}, unmended {answer}"]
    return [
        f"{path.name}: {path.stat().st_size} bytes, mended {(damaged / path.name).stat().st_size}"
        for path in sorted(real.glob("*.log"))
        if path.is_file() and path.read_bytes() != (damaged / path.name).read_bytes()
    ]


def write_tops(log_dir: Path, stop: Stop) -> None:
    """The files at the top of a log directory."""
    identity = {"version": "1", "node.id": "1", "cluster.id": "aW50ZWdyYXRpb24tdGVzdA"}
    (log_dir / "meta.properties").write_bytes(meta_properties(identity))
    (log_dir / "replication-offset-checkpoint").write_bytes(offset_checkpoint([(TOPIC, 0, 0)]))
    point, start_offset = [(TOPIC, 0, stop.recovery_point)], [(TOPIC, 0, stop.log_start)] if stop.log_start else []
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(offset_checkpoint(point))
    (log_dir / "log-start-offset-checkpoint").write_bytes(offset_checkpoint(start_offset))
    if stop.is_clean:
        (log_dir / ".kafka_cleanshutdown").touch()


def is_settled(request: PlanRequest) -> bool:
    """Whether a plan has nothing to change."""
    fresh = replace(request, target=target_dir([request.target.root]))
    return not make_plan("truncate", fresh).plan.changes


def _log_differences(result: LoadResult, real: Path, verdict: Verdict) -> list[str]:
    found = []
    for each in result.segments:
        name = f"{each.base_offset:020d}.log"
        source = None if each.segment is None else each.segment.log
        content = b"" if source is None else Path(source.path).read_bytes()[: each.size_bytes]
        is_same = (real / name).read_bytes() == content
        verdict.same += is_same
        if not is_same:
            found.append(f"{name}: {(real / name).stat().st_size} bytes, ours {each.size_bytes}")
    return found


def _differ(real: bytes, ours: bytes | None) -> bool:
    """Whether two snapshots are of other producers; where hashes meet, their order is that of Java's maps."""
    if real == ours or ours is None:
        return ours is None
    try:
        return set(decode_snapshot(real)) != set(decode_snapshot(ours))
    except FormatError:
        return True


def _small_differences(load: PartitionLoad, result: LoadResult, real: Path, release: Release) -> list[str]:
    found = []
    snapshots = {int(path.stem): path.read_bytes() for path in real.glob("[0-9]*.snapshot") if path.is_file()}
    ours = {offset: load.snapshots.read(offset) for offset in load.snapshots}
    if snapshots.keys() != ours.keys():
        found.append(f"snapshots {sorted(snapshots)}, ours {sorted(ours)}")
    found += [f"snapshot {each}" for each in snapshots.keys() & ours.keys() if _differ(snapshots[each], ours[each])]
    file = read_epoch_file(str(real))
    epochs = EpochCache(() if file is None else file.entries, release).entries  # as the next start reads them
    if result.epochs is not None and result.epochs != epochs:
        found.append(f"epochs {epochs}, ours {result.epochs}")
    return found
