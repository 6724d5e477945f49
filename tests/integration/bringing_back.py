"""`kafkalog recover` on randomly damaged logs, and Kafka's own classes on what it leaves: nothing is lost unsaid.

In the lines of `recoveries.txt`: rounds; those given up, as the plan leaves something to a person; those of which every
record is read; those in which consumers pass over records that lie on the disk as before, such as those of two batches
in the wrong order, and that `dump --resync` still shows.
"""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAX_BATCH_BYTES
from kafkalog_core.format.names import FileKind
from kafkalog_core.kafka.sim.logdir.text_files import read_checkpoint
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import asdict
from tests.integration.differential import TOPIC, Verdict, request_of
from tests.integration.faults import Faults, Stop
from tests.integration.faults_in_files import FILE_FAULTS, TOPIC_ID
from tests.integration.faults_in_logs import LOG_FAULTS
from tests.integration.starting import start, write_tops, write_whole
from tests.support.build import partition_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanDraft
    from tests.integration.log_harness import LogHarness
    from tests.integration.workloads import Workload

CASES: Final = 4  # damaged copies of each log
Records = dict[int, set[tuple[bytes | None, bytes | None]]]
"""Key and value of each copy of a record, by its offset."""
_MARK: Final = ".kafka_cleanshutdown"
_INDEXES: Final = (".index", ".timeindex", ".txnindex")


def compare_recoveries(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """Append everything; then damage some copies, recover them, start on each, clean and unclean, and read it."""
    verdict, rng = Verdict(), random.Random(workload.seed)
    whole = work_dir / "whole" / f"{TOPIC}-0"
    write_whole(harness, workload, whole)
    (whole / "partition.metadata").write_bytes(partition_metadata(TOPIC_ID))
    for number in range(CASES):
        partition_dir = work_dir / f"disk-{number}" / f"{TOPIC}-0"
        shutil.copytree(whole, partition_dir)
        faults = Faults(rng, partition_dir, LOG_FAULTS + FILE_FAULTS)
        faults.inflict()
        stop = faults.stop(workload.stages[-1].end_offset)
        write_tops(partition_dir.parent, stop)
        shutil.copytree(partition_dir.parent, work_dir / f"before-{number}")
        found = _compare(harness, workload, partition_dir, stop, verdict)
        verdict.add(f"case {number}, {'; '.join(faults.told)}; {stop}", found)
        verdict.rounds += 1
    return verdict


def _compare(harness: LogHarness, workload: Workload, partition_dir: Path, stop: Stop, verdict: Verdict) -> list[str]:
    replaced = _replaced(partition_dir)
    before = {
        offset: copies
        for offset, copies in readable(partition_dir).items()
        if not any(first <= offset <= last for first, last in replaced)
    }
    try:
        draft = _recover(harness, workload, partition_dir.parent)
    except KafkalogError as error:
        return [f"not planned: {type(error).__name__}: {error}"]
    if draft.plan.report.refusals:
        verdict.given_up += 1
        return []
    if not (partition_dir.parent / _MARK).exists():
        return ["it would not start without recovery: there is no clean shutdown file"]
    point, log_start = (
        _offset(partition_dir.parent / name, kind)
        for name, kind in (
            ("recovery-point-offset-checkpoint", FileKind.RECOVERY_POINT),
            ("log-start-offset-checkpoint", FileKind.LOG_START_OFFSET),
        )
    )
    found: list[str] = []
    is_hidden = False
    for is_clean in (True, False):
        after = Stop(is_clean=is_clean, recovery_point=point if is_clean else 0, log_start=log_start)
        how = "clean" if is_clean else "unclean"
        other = partition_dir.parent.with_name(f"{partition_dir.parent.name}-{how}")
        copied = shutil.copytree(partition_dir, other / partition_dir.name)
        answer = start(harness, workload, copied, after)
        if isinstance(answer, str):
            found.append(f"{how}: Kafka: {answer}")
            continue
        found += [f"{how}: {each}" for each in _changed(partition_dir, copied, _INDEXES if is_clean else ())]
        lost = _lost(harness, workload, copied, after, before, draft)
        still = readable(copied) if lost else {}
        gone = [offset for offset in lost if not before[offset] & still.get(offset, set())]
        found += [f"{how}: {len(gone)} of {len(before)} records are lost: {gone[:5]}"] if gone else []
        is_hidden = is_hidden or bool(lost)
    verdict.recompressed += is_hidden
    verdict.same += not found and not is_hidden
    return found


def _replaced(partition_dir: Path) -> list[tuple[int, int]]:
    """First and last offset of finished replacements, which may lack records of their segments, as compaction does."""
    found = []
    for path in partition_dir.glob("*.log.swap"):
        offsets = _records(str(path), None)
        with Source.open(str(path)) as source:
            runs = [item for item in scan(source, base_offset=None, options=ScanOptions()) if isinstance(item, Run)]
            # Also of a marker: the replacement may hold or end with one, and lack the records before it
            ends = [run.batches.column("last_offset")[-1] for run in runs]
        found += [(min(*offsets, int(path.name[:20]), ends[0]), max(ends))] if ends else []
    return found


def _recover(harness: LogHarness, workload: Workload, log_dir: Path) -> PlanDraft:
    options = {"kafka": asdict(request_of(harness, workload)), "only_copy": True}
    now_ms = workload.stages[-1].now_ms
    request = PlanRequest(target=target_dir([str(log_dir)]), options=options, now_ms=now_ms)
    draft = make_plan("recover", request)
    if draft.plan.changes:
        apply_plan(draft, Disk(), now_ms=now_ms)
    return draft


def _offset(path: Path, kind: FileKind) -> int:
    return read_checkpoint(str(path), kind).offset(TOPIC, 0) or 0


def _changed(mine: Path, started: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    """What a start has changed of the logs, and of indexes: nothing."""
    logs = {path.stem for path in mine.glob("*.log")}  # indexes of no log are deleted, whatever the stop was
    there = {path.name: path for path in (*mine.iterdir(), *started.iterdir()) if path.is_file()}
    names = {name for name, path in there.items() if path.stem in logs and path.suffix in {".log", *suffixes}}
    for name in sorted(names):
        one, other = (path.read_bytes() if path.is_file() else b"" for path in (mine / name, started / name))
        if one != other:
            yield f"{name}: {len(one)} bytes ...{one[-40:].hex()}, after the start {len(other)} ...{other[-40:].hex()}"


def _lost(
    harness: LogHarness, workload: Workload, partition_dir: Path, stop: Stop, before: Records, draft: PlanDraft
) -> list[int]:
    """Offsets that could be read before, are read no more, and that no loss of the plan names.

    A record counts as read where a batch got back the offsets that its neighbours show it had, also if these are below
    the log start offset. One whose offset was never appended is named by an offset that is missing in its place, and
    that the plan names: each by another one.
    """
    out = partition_dir.parent / f"{partition_dir.name}.records"
    words = {"clean": 1, "rp": stop.recovery_point, "start": stop.log_start, "out": out}
    answer = harness.run("read", partition_dir, workload.stages[-1].now_ms, workload.settings, **words)
    after: Records = defaultdict(set)
    for line in out.read_text().splitlines():
        offset, key, value = line.split(" ")
        after[int(offset)].add((_bytes(key), _bytes(value)))
    own_start = int(answer["start"])
    below = {offset: copies for offset, copies in readable(partition_dir).items() if offset < own_start}
    found = [*after.items(), *below.items()]
    moved = {copy for offset, copies in found for copy in copies - before.get(offset, set())}
    ranges = [(each.first_offset or 0, each.next_offset or 0) for each in draft.plan.report.losses]
    lost = [
        offset
        for offset, copies in sorted(before.items())
        if own_start <= offset
        and not copies & (after.get(offset, set()) | moved)
        and not any(first <= offset < end for first, end in ranges)
    ]
    appended = workload.stages[-1].end_offset
    missing = {each for first, end in ranges for each in range(first, min(end, appended)) if each not in before}
    never_appended = [offset for offset in lost if offset >= appended]
    return lost if len(never_appended) > len(missing) else [offset for offset in lost if offset < appended]


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text.removeprefix("x"))


def readable(partition_dir: Path) -> Records:
    """Each record that can be read past damage, as `dump --records --resync` reads."""
    found: Records = defaultdict(set)
    for segment in read_partition(str(partition_dir)).segments:
        if segment.log is not None:
            for offset, copies in _records(segment.log.path, segment.base_offset).items():
                found[offset] |= copies
    return found


def _records(path: str, base_offset: int | None) -> Records:
    found: Records = defaultdict(set)
    with Source.open(path) as source:
        for item in scan(source, base_offset=base_offset, options=ScanOptions(check=True, resync=True)):
            if isinstance(item, Run):
                for piece in decode_run(item.memory, item.batches, max_bytes=MAX_BATCH_BYTES):
                    if isinstance(piece, RecordRun):
                        _add(piece, found)
    return found


def _add(run: RecordRun, found: Records) -> None:
    attributes = run.batches.column("attributes")
    names = ("batch", "offset", "key_start", "key_size", "value_start", "value_size")
    for batch, offset, *places in zip(*map(run.records.column, names), strict=True):
        if not attributes[batch] & CONTROL_BIT:
            key, value = (
                None if size < 0 else bytes(run.memory[at : at + size]) for at, size in (places[:2], places[2:])
            )
            found[offset].add((key, value))
