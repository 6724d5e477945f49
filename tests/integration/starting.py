"""Random faults of a partition directory, and the start of Kafka's own classes on it next to the simulated one."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checkpoint import encode_epoch_checkpoint
from kafkalog_core.format.snapshot import decode_snapshot
from kafkalog_core.kafka.rules.releases import Release, parse_release
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
from tests.integration.log_harness import HarnessError
from tests.support.build import meta_properties, offset_checkpoint, offset_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.kafka.sim.start.results import LoadResult
    from tests.integration.log_harness import LogHarness
    from tests.integration.workloads import Workload

CASES: Final = 6  # damaged copies of each log
_EXPIRATIONS_MS: Final = {4: 86_400_000, 2: 604_800_000}  # as the harness of each release has it
_LEFT_ALONE: Final = {"truncate.end-lost", "truncate.end-misled", "truncate.not-foreseen", "truncate.split-first"}
_STOPS: Final = {"fatal", "offline"}  # Kafka's class throws for both; a broker runs on after the second
_EPOCHS: Final = "leader-epoch-checkpoint"
_MAGIC: Final = 16
_SIZE: Final = 8
_ENTRY: Final = 8


@dataclass(frozen=True, kw_only=True)
class Stop:
    """How the broker stopped, and what its checkpoints say."""

    is_clean: bool
    recovery_point: int
    log_start: int


class Faults:
    """What is done to a copy of a partition directory, drawn one after another.

    `told` describes each fault in a few words.
    """

    def __init__(self, rng: random.Random, partition_dir: Path) -> None:
        self._rng = rng
        self._dir = partition_dir
        self.told: list[str] = []

    @property
    def bases(self) -> list[int]:
        """Base offsets of the segments that are there."""
        return sorted(int(path.stem) for path in self._dir.glob("*.log"))

    def inflict(self) -> None:
        """Up to three faults."""
        kinds: list[Callable[[], str]] = [
            *[self._swap] * 4,
            self._cleaned,
            self._deleted,
            *[self._tail] * 2,
            *[self._field] * 3,
            self._magic,
            *[self._index] * 2,
            self._missing,
            self._flip,
        ]
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            if self.bases:
                self.told.append(self._rng.choice(kinds)())

    def stop(self, end_offset: int) -> Stop:
        """A stop of any kind; the log start is 0 more often than not."""
        rng = self._rng
        start = rng.choice((0, 0, 0, 0, rng.randrange(end_offset + 1), end_offset + rng.choice((0, 1, 10))))
        point = rng.choice((0, rng.randrange(end_offset + 1), end_offset))
        return Stop(is_clean=rng.random() < 0.5, recovery_point=point, log_start=start)

    # --- leftovers ---------------------------------------------------------------------------------------------------
    def _swap(self) -> str:
        """A replacement of one to three segments, in any state."""
        rng, bases = self._rng, self.bases
        first = rng.randrange(len(bases))
        taken = bases[first : first + rng.choice((1, 1, 2, 3))]
        batches = [each for base in taken for each in _entries(self._log(base).read_bytes())]
        share = rng.choice((1.0, 1.0, 0.7, 0.3, 0.0))
        batches = [each for each in batches if rng.random() < share]
        if rng.random() < 0.2:
            batches = batches[: rng.randrange(len(batches) + 1)]
        data = bytearray(b"".join(batches))
        what = f"swap of {taken} with {len(batches)} batches"
        if data and rng.random() < 0.25:
            what += self._spoil(data)
        base = taken[0] + rng.choice((0, 0, 0, 0, 0, 1, 7))
        self._log(base, ".log.swap").write_bytes(data)
        if rng.random() < 0.8:
            index = self._log(taken[0], ".index")
            entries = index.read_bytes() if index.exists() else b""
            count = rng.choice((0, 0, 1, len(entries) // _ENTRY))
            self._log(base, ".index.swap").write_bytes(entries[: count * _ENTRY])
            what += f", {count} index entries"
        if rng.random() < 0.8:
            self._log(base, ".timeindex.swap").write_bytes(b"")
        if rng.random() < 0.3:
            gone = taken if rng.random() < 0.5 else taken[:1]
            for each in gone:
                for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                    self._log(each, suffix).unlink(missing_ok=True)
            what += f", {gone} gone"
        return f"{what}, at {base}"

    def _cleaned(self) -> str:
        base = self._some_base() + self._rng.choice((0, 0, 1))
        suffix = self._rng.choice((".log", ".index"))
        self._log(base, f"{suffix}.cleaned").write_bytes(b"x")
        return f"{base}{suffix}.cleaned"

    def _deleted(self) -> str:
        base, suffix = self._some_base(), self._rng.choice((".log", ".index", ".timeindex", ".snapshot"))
        path = self._log(base, suffix)
        if path.exists():
            path.rename(self._log(base, f"{suffix}.deleted"))
        return f"{base}{suffix}.deleted"

    # --- bytes -------------------------------------------------------------------------------------------------------
    def _tail(self) -> str:
        """The last log is cut anywhere, or bytes follow its end."""
        path, rng = self._log(self.bases[-1]), self._rng
        data = path.read_bytes()
        if rng.random() < 0.5 and data:
            size = rng.randrange(len(data))
            path.write_bytes(data[:size])
            return f"last log cut to {size} of {len(data)}"
        count = rng.choice((1, 11, 12, 16, 17, 18, 40, 61, 500))
        tail = rng.choice((bytes(count), rng.randbytes(count), data[-count:]))
        path.write_bytes(data + tail)
        return f"{len(tail)} bytes after byte {len(data)} of the last log"

    def _field(self) -> str:
        """A size of a batch in the last segments; often of the one that the last index entry leads to."""
        rng = self._rng
        base = self.bases[-1] if rng.random() < 0.8 else self._some_base()
        data = bytearray(self._log(base).read_bytes())
        position = self._some_batch(base, data)
        if position is None:
            return "nothing"
        size = rng.choice((0, 5, 13, 14, 48, 49, len(data), 2**31 - 1, -1, rng.randrange(2000)))
        data[position + _SIZE : position + _SIZE + 4] = size.to_bytes(4, "big", signed=True)
        self._log(base).write_bytes(data)
        return f"size {size} at byte {position} of {base}, of {len(data)} bytes"

    def _magic(self) -> str:
        base = self.bases[-1] if self._rng.random() < 0.8 else self._some_base()
        data = bytearray(self._log(base).read_bytes())
        position = self._some_batch(base, data)
        if position is None:
            return "nothing"
        magic = self._rng.choice((0, 1, 1, 2, 3, 127, 128, 255))
        before, data[position + _MAGIC] = data[position + _MAGIC], magic
        self._log(base).write_bytes(data)
        return f"magic {before} to {magic} at byte {position} of {base}"

    def _flip(self) -> str:
        base = self._some_base()
        data = bytearray(self._log(base).read_bytes())
        if not data:
            return "nothing"
        what = self._spoil(data)
        self._log(base).write_bytes(data)
        return f"{base}{what}"

    def _spoil(self, data: bytearray) -> str:
        if self._rng.random() < 0.3:
            size = self._rng.randrange(len(data))
            del data[size:]
            return f", torn at {size}"
        position = self._rng.randrange(len(data))
        data[position] ^= self._rng.choice((0xFF, 1, 0x80))
        return f", byte {position} flipped"

    # --- indexes -----------------------------------------------------------------------------------------------------
    def _index(self) -> str:
        rng = self._rng
        base = self.bases[-1] if rng.random() < 0.8 else self._some_base()
        path = self._log(base, ".index")
        if not path.exists() or rng.random() < 0.2:
            path.unlink(missing_ok=True)
            return f"{base}.index gone"
        entries, size = path.read_bytes(), self._log(base).stat().st_size
        kind = rng.choice(("cut", "zeros", "beyond", "within", "uneven"))
        if kind == "cut":
            entries = entries[: _ENTRY * rng.randrange(len(entries) // _ENTRY + 1)]
        elif kind == "zeros":
            entries += bytes(_ENTRY * rng.choice((1, 3, 10)))
        elif kind == "beyond":
            entries += offset_index([(100_000, size + rng.choice((-1, 0, 1, 1000)))])
        elif kind == "within":
            entries += offset_index([(rng.choice((1, 50, 100_000)), rng.randrange(size + 1))])
        else:
            entries += bytes(rng.choice((1, 7)))
        path.write_bytes(entries)
        return f"{base}.index {kind}"

    def _missing(self) -> str:
        base, suffix = self._some_base(), self._rng.choice((".log", ".index", ".timeindex", ".txnindex", ".snapshot"))
        if suffix != ".log" or len(self.bases) > 1:
            self._log(base, suffix).unlink(missing_ok=True)
        return f"{base}{suffix} gone"

    # --- places ------------------------------------------------------------------------------------------------------
    def _log(self, base: int, suffix: str = ".log") -> Path:
        return self._dir / f"{base:020d}{suffix}"

    def _some_base(self) -> int:
        return self._rng.choice(self.bases)

    def _some_batch(self, base: int, data: bytes) -> int | None:
        """Position of a batch, in half of the cases of the one at the last index entry; none in a log without one."""
        index = self._log(base, ".index")
        entries = index.read_bytes() if index.exists() else b""
        last = int.from_bytes(entries[-4:], "big") if len(entries) >= _ENTRY else len(data)
        if self._rng.random() < 0.5 and last + _MAGIC < len(data):
            return last
        found = [0]
        for each in _entries(data):
            found.append(found[-1] + len(each))
        return self._rng.choice(found[:-1]) if len(found) > 1 else None


def _entries(log: bytes) -> list[bytes]:
    """The batches and messages of a log, as far as their sizes lead."""
    found, position = [], 0
    while position + _MAGIC < len(log):
        size = int.from_bytes(log[position + _SIZE : position + _SIZE + 4], "big", signed=True)
        if size < 0:
            break
        found.append(log[position : position + size + _SIZE + 4])
        position += size + _SIZE + 4
    return found


def compare_starts(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """Append everything; then damage some copies, and start on each."""
    verdict, rng = Verdict(), random.Random(workload.seed)
    whole = work_dir / "whole" / f"{TOPIC}-0"
    whole.mkdir(parents=True)
    (stage,) = workload.stages
    harness.append(whole, stage.sets, stage.now_ms, workload.settings)
    for number in range(CASES):
        damaged, real = work_dir / f"damaged-{number}" / f"{TOPIC}-0", work_dir / f"real-{number}" / f"{TOPIC}-0"
        shutil.copytree(whole, damaged)
        faults = Faults(rng, damaged)
        faults.inflict()
        stop = faults.stop(stage.end_offset)
        shutil.copytree(damaged, real)
        load = simulate(harness, workload, damaged, stop)
        answer = start(harness, workload, real, stop)
        found = _compare(answer, load, real, verdict)
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
    """What kafkalog says of the same start."""
    release = Release(*parse_release(harness.version))
    load = PartitionLoad(
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
    for _ in load.run():
        pass
    return load


def _compare(answer: dict[str, str] | str, load: PartitionLoad, real: Path, verdict: Verdict) -> list[str]:
    result = load.result
    problem = result.problem
    if problem is not None and problem.kind not in _STOPS:
        verdict.given_up += 1
        return []
    if isinstance(answer, str) or problem is not None:
        if isinstance(answer, str) and problem is not None:
            return []
        return [f"Kafka: {answer}, ours: {problem or result.end_offset}"]
    ours = {
        "start": str(result.log_start_offset),
        "rp": str(result.recovery_point),
        "end": str(result.end_offset),
        "bases": ",".join(str(each.base_offset) for each in result.segments),
    }
    found = [f"{name}: {answer[name]}, ours {told}" for name, told in ours.items() if answer[name] != told]
    return found or [*_log_differences(result, real, verdict), *_small_differences(load, result, real)]


def _compare_mended(
    harness: LogHarness, workload: Workload, damaged: Path, stop: Stop, before: tuple[dict[str, str], Path]
) -> list[str]:
    """What `truncate --as-broker` makes of the directory is what a start makes of it."""
    answer, real = before
    log_dir = damaged.parent
    (log_dir / "meta.properties").write_bytes(meta_properties({"version": "1", "node.id": "1"}))
    point, start_offset = [(TOPIC, 0, stop.recovery_point)], [(TOPIC, 0, stop.log_start)] if stop.log_start else []
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(offset_checkpoint(point))
    (log_dir / "log-start-offset-checkpoint").write_bytes(offset_checkpoint(start_offset))
    if stop.is_clean:
        (log_dir / ".kafka_cleanshutdown").touch()
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
        if path.read_bytes() != (damaged / path.name).read_bytes()
    ]


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
    return ours is None or set(decode_snapshot(real)) != set(decode_snapshot(ours))


def _small_differences(load: PartitionLoad, result: LoadResult, real: Path) -> list[str]:
    found = []
    snapshots = {int(path.stem): path.read_bytes() for path in real.glob("*.snapshot")}
    ours = {offset: load.snapshots.read(offset) for offset in load.snapshots}
    if snapshots.keys() != ours.keys():
        found.append(f"snapshots {sorted(snapshots)}, ours {sorted(ours)}")
    found += [f"snapshot {each}" for each in snapshots.keys() & ours.keys() if _differ(snapshots[each], ours[each])]
    epochs = (real / _EPOCHS).read_bytes()
    if result.epochs is not None and (encode_epoch_checkpoint(result.epochs) != epochs) and (result.epochs or epochs):
        found.append(f"epochs {epochs!r}, ours {result.epochs}")
    left = sorted(path.name for path in real.iterdir() if path.name.endswith((".swap", ".cleaned", ".deleted")))
    return found + ([f"left: {left}"] if left else [])
