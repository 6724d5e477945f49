"""Every flip and cut of a leader-epoch-checkpoint and a cleaner-offset-checkpoint that brokers wrote, with their logs.

What verify does not find is exactly what a second reading of the log, written here, cannot prove either, and each such
change is of a kind that the manual lists under WHAT NO CHECK CAN SEE.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.storage.scan import Run, scan
from kafkalog_core.storage.source import Source
from tools.untraceable import UNTRACEABLE, UNTRACEABLE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding

FIXTURES: Final = Path(__file__).parents[3] / "fixtures" / "modern"
SEEN: Final = frozenset({"warning", "error"})
MASKS: Final = (0xFF, *(1 << bit for bit in range(8)))
EPOCHS: Final = "leader-epoch-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
OFFSETS: Final = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", LOG_START, CLEANER)
BLANKS: Final = r"[ \t\x0b\f\r]+"
"""White space by Java's regular expressions, but for the end of a line; \\x1c to \\x1f are not."""
Entries = list[tuple[int, int]]


class Batch(NamedTuple):
    """What the header of a batch says."""

    base: int
    last: int
    epoch: int


class Disk(NamedTuple):
    """One partition in its log directory, and what its log says.

    `start` is the log start offset, `first_base` the base offset of the first segment.
    """

    home: Path
    partition: str
    batches: list[Batch]
    first_base: int
    start: int
    end: int
    is_clean: bool

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner's checkpoint names the partition."""
        return len((self.home / CLEANER).read_text(encoding="utf-8").splitlines()) > 2


CASES: Final = (
    ("04-compaction-4.3.1", "after-1", "cmp.idem-0"),  # compacted; the last epoch has no batch
    ("05-retention-4.3.1", "after", "ret.delete_records.middle-0"),  # the log start offset was raised
    ("06-crash-4.3.1", "round-1-killed", "crash.idem-0"),
)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[2]}")
def disk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    """A log directory of one of the fixtures with one of its partitions, and its checkpoints with that one's lines."""
    case, stage, partition = request.param
    place = tmp_path_factory.mktemp("flips")
    with tarfile.open(FIXTURES / f"{case}.tar.gz") as archive:
        archive.extractall(place, filter="data")
    source, home = place / case / stage, place / "log-dir"
    home.mkdir()
    shutil.copytree(source / partition, home / partition)
    for file in source.iterdir():
        if file.is_file():
            shutil.copy(file, home)
    topic, _, number = partition.rpartition("-")
    for name in OFFSETS:
        lines = (source / name).read_text(encoding="utf-8").splitlines()[2:]
        own = [line for line in lines if line.split()[:2] == [topic, number]]
        (home / name).write_text("".join(f"{line}\n" for line in ["0", str(len(own)), *own]), encoding="utf-8")
    logs = sorted((home / partition).glob("*.log"))
    batches = [batch for log in logs for batch in batches_of(log)]
    first_base = int(logs[0].stem)
    raised = [int(line.split()[-1]) for line in (home / LOG_START).read_text(encoding="utf-8").splitlines()[2:]]
    end = max([int(logs[-1].stem), *(batch.last + 1 for batch in batches)])
    is_clean = (home / ".kafka_cleanshutdown").exists()
    return Disk(home, partition, batches, first_base, max([first_base, *raised]), end, is_clean)


def batches_of(log: Path) -> Iterator[Batch]:
    with Source.open(str(log)) as source:
        for run in scan(source, base_offset=int(log.stem)):
            if isinstance(run, Run):
                columns = (run.batches.column(name) for name in ("base_offset", "last_offset", "leader_epoch"))
                yield from (Batch(*each) for each in zip(*columns, strict=True))


def findings(home: Path) -> set[tuple[str, str, str]]:
    request = VerifyRequest(targets=tuple(resolve([str(home)])), now_ms=2**41, level="headers")
    found: list[Finding] = [one for verdict in verify(request) for one in verdict.findings]
    return {(one.code, one.path, one.message) for one in found if one.severity in SEEN}


def changes(data: bytes) -> Iterator[bytes]:
    """Yield the content with each byte flipped, as a whole and bit by bit, and cut to each length."""
    for position, byte in enumerate(data):
        for mask in MASKS:
            yield data[:position] + bytes([byte ^ mask]) + data[position + 1 :]
    for size in range(len(data)):
        yield data[:size]


def unnoticed(disk: Disk, path: Path, others: Iterator[bytes]) -> set[bytes]:
    """Return the contents of a file of which verify says no more than of the content that it has."""
    data, before = path.read_bytes(), findings(disk.home)
    silent = set()
    try:
        for other in others:
            path.write_bytes(other)
            if findings(disk.home) <= before:
                silent.add(other)
    finally:
        path.write_bytes(data)
    return silent


def values(data: bytes, line: str) -> list[tuple[str, ...]] | None:
    """Return the groups of each line below the version and the count; `None`: a broker refuses the file."""
    try:
        version, count, *rest = data.decode().split("\n")
    except (UnicodeDecodeError, ValueError):
        return None
    if rest and not rest[-1]:
        del rest[-1]
    matches = [re.fullmatch(line, text) for text in rest]
    if version != "0" or not re.fullmatch(r"\d+", count) or int(count) != len(rest):
        return None
    return None if None in matches else [match.groups() for match in matches if match is not None]


# --- leader-epoch-checkpoint ------------------------------------------------------------------------------------------
def entries_of(data: bytes) -> Entries | None:
    found = values(data, rf"(\d+){BLANKS}(\d+)(?:{BLANKS})?")
    return None if found is None else [(int(epoch), int(start)) for epoch, start in found]


def is_proven_wrong(disk: Disk, entries: Entries | None) -> bool:
    """Whether the log contradicts the lines, by the rules of `LeaderEpochFileCache`: assign and truncate."""
    if not entries or any(one[0] >= other[0] or one[1] >= other[1] for one, other in pairwise(entries)):
        return True
    (_, first), (_, last) = entries[0], entries[-1]
    if first < disk.first_base or last > disk.end:
        return True
    known_from = disk.start if disk.is_clean else max(disk.start, first)
    for epoch in {batch.epoch for batch in disk.batches if batch.base >= known_from}:
        own = [batch for batch in disk.batches if batch.epoch == epoch and batch.base >= known_from]
        starts = [start for other, start in entries if other == epoch]
        behind = [start for other, start in entries if other > epoch]
        reach = own[0].base if disk.is_compacted else own[-1].last  # the cleaner joins batches of two epochs
        # Where the first epoch starts late, followers are answered rightly all the same
        is_first = epoch == entries[0][0] == disk.batches[0].epoch
        if not starts or (starts[0] > own[0].base and not is_first) or (behind and min(behind) <= reach):
            return True
    return False


def kind_of(disk: Disk, old: Entries, new: Entries) -> str | tuple[str, str]:
    """Return the key of the manual's item that an unproven change is of."""
    if old == new:
        return "spelling"
    if new[:-1] == old[:-1] and new[-1][1] == old[-1][1] == disk.end:
        return EPOCHS, "last_epoch"
    if new[1:] == old[1:] and new[0][0] == old[0][0]:
        return EPOCHS, "first_start"
    return "leader-epoch-of-a-compacted-log"


@pytest.mark.slow
def test_every_change_of_the_leader_epochs_is_noticed_or_documented(disk: Disk) -> None:
    path = disk.home / disk.partition / EPOCHS
    data = path.read_bytes()
    old = entries_of(data)
    assert old is not None
    assert not is_proven_wrong(disk, old)
    others = set(changes(data))
    raised = [*old[:-1], (old[-1][0] + 1, old[-1][1])]
    added = [*old, (old[-1][0] + 1, disk.end)]
    for entries in (raised, added):
        others.add("".join(f"{line}\n" for line in ["0", len(entries), *(f"{a} {b}" for a, b in entries)]).encode())
    silent = unnoticed(disk, path, iter(sorted(others)))
    assert silent == {other for other in others if not is_proven_wrong(disk, entries_of(other))}
    kinds = {kind_of(disk, old, entries_of(other) or []) for other in silent}
    assert kinds <= {*UNTRACEABLE, *UNTRACEABLE_FIELDS}


@pytest.mark.slow
def test_a_raised_last_epoch_is_noticed_where_a_batch_has_it(disk: Disk) -> None:
    path = disk.home / disk.partition / EPOCHS
    old = entries_of(path.read_bytes())
    assert old is not None
    epoch, start = old[-1]
    raised = path.read_bytes().replace(f"\n{epoch} {start}\n".encode(), f"\n{epoch + 1} {start}\n".encode())
    has_batch = any(batch.epoch == epoch for batch in disk.batches if batch.base >= start)
    assert bool(unnoticed(disk, path, iter([raised]))) is not has_batch


# --- cleaner-offset-checkpoint ----------------------------------------------------------------------------------------
def offsets_of(data: bytes) -> dict[str, int] | None:
    found = values(data, rf"(\S+){BLANKS}(\d+){BLANKS}(\d+)(?:{BLANKS})?")
    return None if found is None else {f"{topic}-{number}": int(offset) for topic, number, offset in found}


@pytest.mark.slow
@pytest.mark.parametrize("disk", CASES[:1], indirect=True)
def test_every_change_of_the_cleaner_offset_is_noticed_or_documented(disk: Disk) -> None:
    path = disk.home / CLEANER
    data = path.read_bytes()
    old = (offsets_of(data) or {}).get(disk.partition)
    assert old is not None
    others = set(changes(data)) - {b""}  # it is made so, and then the log alone shows whether the cleaner ran
    others |= {data.replace(b" %d\n" % old, b" %d\n" % new) for new in (old + 1, disk.end, disk.end + 1)}
    silent = unnoticed(disk, path, iter(sorted(others)))
    unproven = {other for other in others if _is_possible(disk, offsets_of(other))}
    assert silent == unproven
    found = [offsets_of(other) or {} for other in silent]
    kinds = {_kind_of_offset(each[disk.partition] - old) for each in found if each}
    assert kinds <= {*UNTRACEABLE, *UNTRACEABLE_FIELDS}
    assert (CLEANER, "offset") in kinds


def _is_possible(disk: Disk, offsets: dict[str, int] | None) -> bool:
    """No more than the end of the log, of a partition that is there; or no line at all, as before the first clean."""
    return (
        offsets is not None and list(offsets) in ([], [disk.partition]) and max(offsets.values(), default=0) <= disk.end
    )


def _kind_of_offset(raised_by: int) -> str | tuple[str, str]:
    return (CLEANER, "offset") if raised_by > 0 else "cleaner-offset" if raised_by < 0 else "spelling"


# --- the list ---------------------------------------------------------------------------------------------------------
def test_the_list_has_no_other_fields_of_these_files() -> None:
    listed = {key for key in UNTRACEABLE_FIELDS if key[0] in {EPOCHS, CLEANER}}
    assert listed == {(EPOCHS, "first_start"), (EPOCHS, "last_epoch"), (CLEANER, "offset")}
