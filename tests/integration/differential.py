"""The same log through Kafka's own classes and through kafkalog, and what differs afterwards."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError
from kafkalog_core.kafka.rules.append import Appender, limits_of
from kafkalog_core.kafka.rules.releases import Release, parse_release
from kafkalog_core.kafka.rules.rule_table import append_rules
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.retention.forecast import Forecast
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.retain.forecaster import RetentionForecaster, RetentionOptions
from kafkalog_core.ops.roll.roll import RollRequest, roll
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.scan import Run, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import asdict, replace
from tests.integration.log_harness import HarnessError
from tests.integration.same_files import differences, split_batches
from tests.integration.workloads import (
    FIRST_MS,
    draw_appends,
)
from tests.support.build import meta_properties, offset_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.kafka.rules.append import OpenSegment, Roll
    from tests.integration.log_harness import LogHarness
    from tests.integration.workloads import Stage, Workload

TOPIC: Final = "t"
ROUNDS: Final = 4  # of the cleaner after each stage, unless there is nothing to do sooner
_GIVES_UP: Final = (
    "Empty batches are only supported",  # the last batch of a round is of the old formats, and nothing of it remains
    "exceeds the configured maximum record size",  # a record is above max.decompressed.message.bytes
    "Attempt to append to a full",  # two segments that are put together have more index entries than both had
)
_STRAYS: Final = Release(3, 0)  # before, opening a log takes snapshots away that a cleaner leaves
_REAL_CLOCK_NS: Final = (FIRST_MS + 500_000_000_000) * 1_000_000  # later times are of files written just now
_APPENDED: Final = {".log", ".index", ".timeindex"}
_CLEANER: Final = "cleaner-offset-checkpoint"
_BETWEEN_SEGMENTS_MS: Final = 5_000  # from one file's last change to the next one's


@dataclass
class Verdict:
    """What became of one workload.

    `rounds`: those that were compared; `given_up`: by Kafka; `same`: logs whose bytes are the same; `recompressed`:
    those whose bytes are not.
    """

    rounds: int = 0
    given_up: int = 0
    same: int = 0
    recompressed: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, where: str, found: list[str]) -> None:
        """What a round came to."""
        self.differences += [f"{where}: {each}" for each in found]

    def count_logs(self, real: Path, ours: Path) -> None:
        """After a round: which logs have the same bytes."""
        for path in real.glob("*.log"):
            other = ours / path.name
            is_same = other.exists() and other.read_bytes() == path.read_bytes()
            self.same += is_same
            self.recompressed += not is_same


@dataclass(frozen=True)
class _Bench:
    """One workload on its way: Kafka's directory, and room for a copy of it."""

    harness: LogHarness
    workload: Workload
    work_dir: Path

    @property
    def real(self) -> Path:
        return self.work_dir / "real"

    @property
    def partition_dir(self) -> Path:
        return self.real / f"{TOPIC}-0"

    def stages(self) -> Iterator[tuple[int, Stage, dict[str, int]]]:
        """Number, stage, high watermark (hw) and log start (start), when the stage's sets have been appended."""
        self.partition_dir.mkdir(parents=True)
        for number, stage in enumerate(self.workload.stages):
            answer = self.harness.append(self.partition_dir, stage.sets, stage.now_ms, self.workload.settings)
            assert answer["end"] == str(stage.end_offset), answer
            high_watermark = max(0, stage.end_offset - self.workload.hw_lag)
            offsets = {"hw": high_watermark, "start": int(high_watermark * self.workload.start_share)}
            # Whatever Kafka takes away when it begins with a later log start is gone before anything is compared.
            self.harness.run("open", self.partition_dir, stage.now_ms, self.workload.settings, **offsets)
            self._write_log_dir_files(offsets)
            set_times(self.partition_dir, stage.now_ms)
            yield number, stage, offsets

    def _write_log_dir_files(self, offsets: dict[str, int]) -> None:
        """What a broker has next to the partition after a clean stop."""
        (self.real / "meta.properties").write_bytes(
            meta_properties({"version": "1", "node.id": "1", "cluster.id": "aW50ZWdyYXRpb24tdGVzdA"})
        )
        (self.real / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        for name, kind in (("replication-offset-checkpoint", "hw"), ("log-start-offset-checkpoint", "start")):
            (self.real / name).write_bytes(offset_checkpoint([(TOPIC, 0, offsets[kind])]))

    def copy(self) -> Path:
        """Kafka's directory as it is now, in another place."""
        copied = self.work_dir / "ours"
        shutil.rmtree(copied, ignore_errors=True)
        return shutil.copytree(self.real, copied)


def request_of(harness: LogHarness, workload: Workload) -> SettingsRequest:
    """The same settings for kafkalog, but for the memory of the offset map."""
    buffers = f"log.cleaner.io.buffer.size={2 * workload.io_bytes}"  # one half is to read with
    return SettingsRequest(
        kafka=harness.version,
        assignments=(buffers,) if workload.io_bytes else (),
        topic_assignments=tuple(f"{TOPIC}:{name}={value}" for name, value in harness.spell(workload.settings).items()),
        assume_defaults=True,  # the harness gives its log these settings and no others
    )


# --- the cleaner -----------------------------------------------------------------------------------------------------
def compare_cleaning(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """Append and clean, stage by stage; kafkalog begins with what Kafka left of the stage before.

    Of every second seed it begins each round of a stage so, of the others it does all of them at once.
    """
    verdict, bench = Verdict(), _Bench(harness, workload, work_dir)
    at_once = ROUNDS if workload.seed % 2 and Release(*parse_release(harness.version)) >= _STRAYS else 1
    for number, stage, offsets in bench.stages():
        if stage.checkpoint is not None:
            (bench.real / _CLEANER).write_bytes(offset_checkpoint([(TOPIC, 0, stage.checkpoint), ("gone", 1, 5)]))
        done, where = 0, f"stage {number}"
        while done < ROUNDS:
            harness.run("open", bench.partition_dir, stage.now_ms, workload.settings, **offsets)
            set_times(bench.partition_dir, stage.now_ms)
            ours, answers = bench.copy(), []
            while len(answers) < at_once and (not answers or answers[-1]):
                answers.append(_clean_really(bench, stage.now_ms, **offsets))
            changes = clean_as_kafkalog(harness, ours, workload, stage.now_ms, rounds=at_once)
            set_times(bench.partition_dir, stage.now_ms)
            if answers[-1] is None or changes is None:
                verdict.given_up += 1
                verdict.add(where, [] if answers[-1] == changes else [f"Kafka: {answers}, changes of ours: {changes}"])
                break
            verdict.add(f"{where}, round {done}", _round_differences(answers, bench.real, ours))
            verdict.count_logs(bench.partition_dir, ours / f"{TOPIC}-0")
            verdict.rounds += sum(map(bool, answers))
            done += at_once
            if not answers[-1]:
                break
    return verdict


def _clean_really(bench: _Bench, now_ms: int, **offsets: int) -> dict[str, str] | None:
    """None: it failed, and a broker would not clean this partition again before its next start."""
    workload = bench.workload
    sizes = {"map": workload.map_bytes, "io": workload.io_bytes}
    try:
        return bench.harness.run("clean", bench.partition_dir, now_ms, workload.settings, **offsets, **sizes)
    except HarnessError as error:
        if any(why in str(error) for why in _GIVES_UP):
            return None
        raise


def _round_differences(answers: list[dict[str, str]], real: Path, ours: Path) -> list[str]:
    found = differences(real / f"{TOPIC}-0", ours / f"{TOPIC}-0")
    checkpoints = [(each / _CLEANER).read_text() if (each / _CLEANER).exists() else "" for each in (real, ours)]
    if checkpoints[0] != checkpoints[1]:
        found.append(f"{_CLEANER}: {checkpoints[0]!r}, ours {checkpoints[1]!r}")
    return [f"{each} (Kafka: {answers})" for each in found]


def clean_as_kafkalog(
    harness: LogHarness, log_dir: Path, workload: Workload, now_ms: int, *, rounds: int
) -> int | None:
    """Some rounds at most; how many changes that made. None: it refuses, as Kafka's cleaner would fail."""
    try:
        sizes = {"memory_bytes": workload.map_bytes, "max_passes": rounds}
        return _carry_out("compact", log_dir, request_of(harness, workload), now_ms, **sizes)
    except RefusedError:
        return None


def _carry_out(command: str, log_dir: Path, kafka: SettingsRequest, now_ms: int, **options: int) -> int:
    request = PlanRequest(target=target_dir([str(log_dir)]), options={"kafka": asdict(kafka), **options}, now_ms=now_ms)
    draft = make_plan(command, request)
    if draft.plan.changes:
        apply_plan(draft, Disk(), now_ms=now_ms)
    return len(draft.plan.changes)


# --- retention -------------------------------------------------------------------------------------------------------
def compare_retention(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """Append and delete, stage by stage, with a log start somewhere."""
    verdict, bench = Verdict(), _Bench(harness, workload, work_dir)
    for number, stage, offsets in bench.stages():
        ours = bench.copy()
        kafka = request_of(harness, workload)
        foreseen = foresee(ours, kafka, stage.now_ms)
        answer = harness.run("retain", bench.partition_dir, stage.now_ms, workload.settings, **offsets)
        _carry_out("retain", ours, kafka, stage.now_ms)
        for each in (bench.partition_dir, ours / f"{TOPIC}-0"):
            set_times(each, stage.now_ms)
        found = differences(bench.partition_dir, ours / f"{TOPIC}-0")
        log = foreseen.checked.log
        bases = ",".join(str(segment.base_offset) for segment in log.segments)
        if (answer["bases"], answer["start"]) != (bases, str(log.start_offset)):
            found.append(f"foreseen: start={log.start_offset} bases={bases}")
        verdict.add(f"stage {number}", [f"{each} (Kafka: {answer})" for each in found])
        verdict.count_logs(bench.partition_dir, ours / f"{TOPIC}-0")
        verdict.rounds += 1
    return verdict


def foresee(log_dir: Path, kafka: SettingsRequest, now_ms: int) -> Forecast:
    """What kafkalog says of the one partition."""
    forecaster = RetentionForecaster(target_dir([str(log_dir)]), RetentionOptions(kafka=kafka, now_ms=now_ms))
    (foreseen,) = forecaster.forecasts(NO_PROGRESS)
    assert isinstance(foreseen, Forecast), foreseen
    return foreseen


# --- appends ---------------------------------------------------------------------------------------------------------
class _Files:
    """Files of each segment, as an appender makes them."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self._log = bytearray()

    def begin(self, segment: OpenSegment) -> None:
        """A new segment."""
        self._log.clear()

    def append(self, data: memoryview, run: Run, first: int, last: int) -> None:
        """More of its log."""
        self._log += data

    def end(self, segment: OpenSegment, roll: Roll | None) -> None:
        """It is complete."""
        name = f"{segment.base_offset:020}"
        self.contents[f"{name}.log"] = bytes(self._log)
        self.contents[f"{name}.index"] = bytes(segment.indexes.offset_index)
        self.contents[f"{name}.timeindex"] = bytes(segment.indexes.time_index)

    def flush(self, end_offset: int) -> None:
        """Everything is where it belongs."""


def compare_appends(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """Append set by set; compare the segments and their indexes."""
    verdict, bench = Verdict(), _Bench(harness, workload, work_dir)
    release = Release(*parse_release(harness.version))
    for number, stage, _ in bench.stages():
        ours, settings = _Files(), read_settings(request_of(harness, workload), release).for_topic(TOPIC)
        first_offset = min(int(path.stem) for path in bench.partition_dir.glob("*.log"))
        appender = Appender(ours, first_offset, limits=limits_of(settings), rules=append_rules(release))
        for each in stage.sets:
            for run in _runs(work_dir / "set", each):
                appender.append_set(run)
        appender.close()
        real = {path.name: path.read_bytes() for path in bench.partition_dir.iterdir() if path.suffix in _APPENDED}
        names = sorted(real.keys() | ours.contents.keys())
        verdict.same += sum(
            real.get(name) == content for name, content in ours.contents.items() if name.endswith("log")
        )
        found = [
            f"{name}: {_hex(real.get(name))}, ours {_hex(ours.contents.get(name))}"
            for name in names
            if real.get(name) != ours.contents.get(name)
        ]
        verdict.add(f"stage {number}", found)
        verdict.rounds += 1
    return verdict


def compare_rolling(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """Append everything; then kafkalog makes other segments of that log, and Kafka appends its batches again."""
    verdict, bench = Verdict(), _Bench(harness, workload, work_dir / "before")
    other = draw_appends(workload.seed + 1).settings
    for number, stage, _ in bench.stages():
        real, ours = work_dir / "real" / f"{TOPIC}-0", work_dir / "ours"
        real.mkdir(parents=True)
        batches = [each for group in stage.sets for each in split_batches(group)]
        harness.append(real, batches, stage.now_ms, other)
        request = request_of(harness, replace(workload, settings=other))
        for _ in roll(RollRequest(targets=tuple(resolve([str(bench.real)])), kafka=request, to=str(ours)), Report()):
            pass
        harness.run("open", real, stage.now_ms, other)
        for path in (*real.iterdir(), *(ours / f"{TOPIC}-0").iterdir()):
            os.utime(path, ns=(0, 0))  # those of the new segments are nobody's
        verdict.add(f"stage {number}", differences(real, ours / f"{TOPIC}-0"))
        verdict.count_logs(real, ours / f"{TOPIC}-0")
        verdict.rounds += 1
    return verdict


def _runs(path: Path, batches: bytes) -> Iterator[Run]:
    path.write_bytes(batches)
    with Source.open(str(path)) as source:
        for item in scan(source, base_offset=None):
            assert isinstance(item, Run), item
            yield item


def _hex(content: bytes | None) -> str:
    return "no such file" if content is None else content.hex()


# --- files -----------------------------------------------------------------------------------------------------------
def set_times(partition_dir: Path, now_ms: int) -> None:
    """Files that were written just now get times by the workload's clock: the newest segment's now, others before."""
    stems = sorted((path.stem for path in partition_dir.glob("*.log")), reverse=True)
    for path in partition_dir.iterdir():
        if path.stat().st_mtime_ns > _REAL_CLOCK_NS:
            age = stems.index(path.stem) if path.stem in stems else 0
            time_ns = (now_ms - _BETWEEN_SEGMENTS_MS * age) * 1_000_000
            os.utime(path, ns=(time_ns, time_ns))
