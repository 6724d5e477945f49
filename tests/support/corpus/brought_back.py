"""Every broken disk of the corpus, what can be read of it, and what a broker's start makes of it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from kafkalog_core.engine.targets import resolve
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAX_BATCH_BYTES
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.disk import effect_of
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace
from tests.support.corpus import archives, faults, recovering
from tests.support.corpus.faults import BEFORE, SHEET, Fault
from tests.support.corpus.recovering import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.kafka.sim.start.results import LoadResult

Offsets = set[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One log directory as a crash or a person left it: a `Pair` of which only the state before matters."""

    pair: Pair

    @property
    def id(self) -> str:
        """The name of the test."""
        return self.pair.id

    def lay(self, corpus: Path, into: Path) -> Path:
        """Put it below a directory; it may be written to."""
        pair, place = self.pair, into / "disk"
        if pair.fault is None:
            shutil.copytree(corpus / pair.before, place)
        else:
            built = into / "built"
            faults.build(corpus, pair.fault, BEFORE, built)
            shutil.copytree(built / pair.before, place)
        if pair.is_alone:
            names = [path.name.rpartition("-") for path in place.iterdir()]
            lines = [f"{topic} {number} {2**40}" for topic, _, number in names]
            text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
            (place / recovering.RECOVERY_POINTS).write_text(text)
        return place

    def options(self, corpus: Path, into: Path) -> dict[str, Any]:
        """The options of a plan: the release and the settings that the broker had."""
        options = self.pair.options(recovering.sheet_of(corpus, self.pair), into)
        there = {path.name.rpartition("-")[0] for path in (into / "disk").iterdir()}
        kafka = options["kafka"]
        given = [each for each in kafka["topic_assignments"] if each.partition(":")[0] in there]
        return {"kafka": {**kafka, "topic_assignments": given}}


def disks() -> list[Disk]:
    """All of them, in a stable order: those a broker was started on, and those on which it did not start."""
    contents = archives.contents(archives.source())
    found = {pair.id: pair for pair in recovering.pairs()}
    for path, text in contents.texts.items():
        if path.endswith(f"/{SHEET}"):
            fault = Fault.parse(path.removesuffix(f"/{SHEET}"), text)
            if BEFORE in fault.states:
                for pair in _of_fault(fault, contents.files):
                    found.setdefault(pair.id, pair)
    return [Disk(pair=found[name]) for name in sorted(found)]


def _of_fault(fault: Fault, files: frozenset[str]) -> Iterator[Pair]:
    prefix = f"{fault.base}/"
    below = [name.removeprefix(prefix) for name in files if name.startswith(prefix)]
    names = fault.origins(BEFORE, below)
    tops = {name.partition("/")[0] for name in names}
    is_one = any(not PurePosixPath(name).parent.name for name in names)
    case = "/".join(fault.path.split("/")[:2])
    for home in ["."] if is_one else sorted(tops):
        name = fault.path if home == "." else f"{fault.path}/{home}"
        yield Pair(id=name, case=case, before=home, after=home, fault=fault)


def readable(log_dir: Path) -> Offsets:
    """Partition and offset of each record that can be read past damage, as `dump --records --resync` reads."""
    found: Offsets = set()
    for place in read_log_dir(str(log_dir)).partitions:
        if place.name.state is DirectoryState.DELETE:
            continue
        for segment in read_partition(place.path).segments:
            if segment.log is not None:
                found |= {(place.name.raw, offset) for offset in _offsets(segment.log.path, segment.base_offset)}
    return found


def _offsets(path: str, base_offset: int, end: int | None = None) -> Iterator[int]:
    """Offsets of the records of a log, up to a byte."""
    with Source.open(path) as source:
        is_v07 = path.endswith(".kafka")
        options = ScanOptions(check=True, resync=True)
        end = source.size_bytes if end is None else end
        for item in scan(source, base_offset=base_offset, is_v07=is_v07, options=options, end=end):
            if not isinstance(item, Run):
                continue
            for piece in decode_run(item.memory, item.batches, max_bytes=MAX_BATCH_BYTES):
                if isinstance(piece, RecordRun):
                    attributes = piece.batches.column("attributes")
                    rows = zip(piece.records.column("batch"), piece.records.column("offset"), strict=True)
                    yield from (offset for batch, offset in rows if not attributes[batch] & CONTROL_BIT)


def starts(log_dir: Path, options: dict[str, Any], now_ms: int, *, is_clean: bool) -> dict[str, LoadResult]:
    """The simulated start of a broker on each partition, after a shutdown of this kind."""
    request = SettingsRequest(**options["kafka"])
    release = parse_release(options["kafka"]["kafka"])
    settings = read_settings(request, release)
    expiration = settings.producer_expiration_ms
    broker_dir = read_broker_dir(read_log_dir(str(log_dir)))
    found = {}
    for place in broker_dir.log_dir.partitions:
        partition = read_partition(place.path)
        if partition.format == "v07" or place.name.state is DirectoryState.DELETE:
            continue
        context = broker_dir.context(place.name, as_loaded=True)
        context = replace(context, is_clean=is_clean, recovery_point=context.recovery_point if is_clean else None)
        load = PartitionLoad(
            partition,
            context,
            LoadOptions(
                release=release,
                settings=settings.for_topic(partition.topic),
                snapshots=SnapshotOptions.of_release(release, now_ms=now_ms, expiration_ms=expiration),
            ),
        )
        for _ in load.run():
            pass
        found[place.name.raw] = load.result
    return found


def state(log_dir: Path) -> dict[str, tuple[bytes, int]]:
    """Content and modification time of every file."""
    return {
        str(path.relative_to(log_dir)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in log_dir.rglob("*")
        if path.is_file() and not os.path.islink(path)
    }


def served(log_dir: Path, options: dict[str, Any], now_ms: int) -> int:
    """How many records, by partition and offset, a broker has after an unclean start; none where it does not start.

    A record that the log has twice is one record.
    """
    results = starts(log_dir, options, now_ms, is_clean=False)
    if any(result.problem is not None for result in results.values()) or _stops(log_dir, options, now_ms):
        return 0
    found: Offsets = set()
    for name, result in results.items():
        for each in result.segments:
            if each.segment is not None and each.segment.log is not None:
                offsets = _offsets(each.segment.log.path, each.base_offset, each.size_bytes)
                found |= {(name, offset) for offset in offsets if offset >= result.log_start_offset}
    return len(found)


def _stops(log_dir: Path, options: dict[str, Any], now_ms: int) -> bool:
    """Whether the broker does not start because of a file outside of the logs."""
    request = VerifyRequest(
        targets=tuple(resolve([str(log_dir)])),
        now_ms=now_ms,
        level="headers",
        kafka=SettingsRequest(kafka=options["kafka"]["kafka"]),
    )
    rules = rules_of(parse_release(options["kafka"]["kafka"]))
    effects = {effect_of(finding, rules) for verdict in verify(request) for finding in verdict.findings}
    return bool(effects & {"stops", "offline"})
