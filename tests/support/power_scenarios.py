"""What is recorded: each changing command, its undo, prune and resume, with the journal in every place it can have."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.storage.changing.writer import Disk
from tests.support import build
from tests.support.repairs import OWNER, Killed
from tests.support.truncating import EPOCHS, write_log, write_tops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["SCENARIOS", "Place", "Scenario", "killed", "write_patient"]

PARTITIONS = ("t-0", "u-0")
VALUE_BYTES = 1500
"""Three records are more than a page."""
KAFKA = ("--kafka", "4.3", "--assume-defaults", "--jobs", "1")
CLEANER = ("--set", "log.cleaner.dedupe.buffer.size=2097152", "--set", "log.cleanup.policy=compact")


@dataclass(frozen=True)
class Place:
    """Where a scenario is played: `top` is emptied before each state; `other` is on another file system."""

    top: Path
    other: Path | None = None

    @property
    def root(self) -> Path:
        """The log directory."""
        return self.top / "data"


@dataclass(frozen=True)
class Case:
    """A command: its arguments, where `{}` is the directory, and what it is used on."""

    arguments: tuple[str, ...]
    write: Callable[[Path], None]
    path: str = ""
    """Below the log directory; a partition outside of any has none."""
    is_new_dir: bool = False

    @property
    def is_alone(self) -> bool:
        """Whether it is used on a partition that is outside any log directory."""
        return self.write is _alone


@dataclass(frozen=True)
class Scenario:
    """A case, what is recorded of it, and where its journal is.

    Args:
        case: its name.
        phase: what is recorded: `apply`, `undo`, `prune`; `resume` and `back`: `apply --resume` and `undo` of a run
            that was killed; `partial`: `undo --partial`.
        journal: `next`: next to the files; `same`, `other`: `--undo-to` on that file system; `none`: `--no-undo`.
        is_split: whether the second partition is a file system of its own.
        unsynced: a file that a broker had appended to and not synced, below the log directory.
        killed_at: after which share of its steps.
        linked: a file of which a backup is made by a hard link after the run, below the log directory.
        damaged: a file of which what was saved loses its last byte after the run, below the log directory.
        sampled_bytes: how much is hashed at both ends of a file; `None`: all of it.
        is_full: whether 0 bytes are free when the command starts; for an undo, no more than it asks for.
    """

    case: str
    phase: str = "apply"
    journal: str = "next"
    is_split: bool = False
    unsynced: str | None = None
    linked: str | None = None
    damaged: str | None = None
    sampled_bytes: int | None = None
    is_full: bool = False
    killed_at: float = 0.85

    @property
    def is_ahead(self) -> bool:
        """Whether the first changes are made without an intent, which there is no room for."""
        return self.is_full and self.journal == "none"

    def __str__(self) -> str:
        """Its name in tables."""
        words = {"next": "", "same": " --undo-to the same file system", "other": " --undo-to another file system"}
        phase = "" if self.phase == "apply" else f", {self.phase}"
        if self.phase == "back":
            phase = f", undo of a run that was killed after {self.killed_at:.0%}"
        more = ", a partition on a file system of its own" if self.is_split else ""
        more += f", {self.unsynced} not synced by the broker" if self.unsynced else ""
        more += f", {self.linked} linked since" if self.linked else ""
        more += f", what was saved of {self.damaged} is damaged" if self.damaged else ""
        more += ", large files" if self.sampled_bytes else ""
        more += ", 0 bytes free" if self.is_full else ""
        return f"{self.case}{words.get(self.journal, ' --no-undo')}{phase}{more}"

    def devices(self, place: Place) -> dict[str, str]:
        """The file systems, as `recorded` takes them."""
        devices = {str(place.top): "first"}
        if place.other is not None and self.journal == "other":
            devices[str(place.other)] = "second"
        if self.is_split:
            devices[f"{place.root}/{PARTITIONS[1]}"] = "second"
        return devices

    def arguments(self, place: Place) -> list[str]:
        """The command line that changes something."""
        case = CASES[self.case]
        path = str(place.root / case.path) if case.path else str(place.root)
        line = [each.format(path=path, new=f"{place.top}/new") for each in case.arguments]
        if self.journal in {"same", "other"}:
            line += ["--undo-to", str(self.undo_to(place))]
        elif self.journal == "none":
            line += ["--no-undo"]
        return [*line, *KAFKA, "--apply"]

    def undo_to(self, place: Place) -> Path | None:
        """The directory that keeps the journal; `None`: it is next to the files."""
        if self.journal == "other" and place.other is not None:
            return place.other / "undo"
        return place.top / "undo" if self.journal == "same" else None

    def named(self, place: Place, exists: Callable[[Path], bool] = os.path.exists) -> list[str]:
        """The directories that a user names to take the run back.

        The first leads to the journal: a full disk has no room for the pointer to one on another file system.
        """
        elsewhere = self.undo_to(place)
        named = [str(place.root), *([str(elsewhere)] if elsewhere is not None and exists(elsewhere) else [])]
        return named[::-1] if self.is_full else named


@contextmanager
def killed(share: float, run: Callable[[], object]) -> Iterator[None]:
    """Run once to count the steps of the door; entered, a run ends after this share of them."""
    steps = 0
    real = Disk.step

    def step(disk: Disk, what: str, path: str) -> None:
        nonlocal steps
        del disk, what, path
        steps += 1
        if steps > limit:
            raise Killed

    limit = 10**9
    Disk.step = step  # type: ignore[method-assign]
    try:
        run()
        limit, steps = int(steps * share), 0
        with suppress(Killed):
            yield
    finally:
        Disk.step = real  # type: ignore[method-assign]


# --- log directories --------------------------------------------------------------------------------------------------
def _value(offset: int) -> build.Record:
    value = bytes((offset * 7 + at) % 251 + 1 for at in range(VALUE_BYTES))
    return build.Record(offset=offset, timestamp_ms=1000 + offset, key=b"k%d" % (offset % 3), value=value)


def _log(partition: Path, last: int = 25) -> Path:
    """Segments 0, 10 and 20, each with batches of one record and of two."""
    bases = (0, 10, 20)
    batches = {
        base: [
            build.batch_v2([_value(offset) for offset in offsets])
            for offsets in ((base,), (base + 1, base + 2), (base + 3, base + 4), (base + 5,))
            if offsets[-1] <= last
        ]
        for base in bases
    }
    write_log(partition, batches)
    for base in bases[1:]:
        (partition / f"{base:020}.snapshot").write_bytes(build.snapshot([]))
    (partition / EPOCHS).write_bytes(build.epoch_checkpoint([(0, 0), (1, 21)]))
    return partition


def _tops(root: Path) -> None:
    offsets = [(name[0], 0, 0) for name in PARTITIONS]
    write_tops(root, recovery=offsets, watermarks=[(name[0], 0, 26) for name in PARTITIONS], starts=offsets)
    (root / ".lock").touch()


def _owned(root: Path) -> None:
    for around, _, names in os.walk(root):
        for number, name in enumerate(sorted(names)):
            path = os.path.join(around, name)
            os.chown(path, *OWNER)
            os.chmod(path, 0o640)
            time_ns = 1_600_000_000_123_456_789 + number * 1_000_000_007
            os.utime(path, ns=(time_ns, time_ns))
        os.chown(around, *OWNER)
        os.chmod(around, 0o750)  # noqa: S103 -- a broker's group may read its log directories


def _plain(root: Path) -> None:
    for name in PARTITIONS:
        _log(root / name)
    _tops(root)


def _damaged(root: Path) -> None:
    """A bad batch in the middle of one log, the torn end of the other."""
    _plain(root)
    middle = root / PARTITIONS[0] / f"{10:020}.log"
    data = bytearray(middle.read_bytes())
    data[5000] ^= 0xFF
    middle.write_bytes(data)
    active = root / PARTITIONS[1] / f"{20:020}.log"
    active.write_bytes(active.read_bytes() + build.batch_v2([_value(at) for at in range(26, 32)])[:-700])


def _sparse(root: Path) -> None:
    """An active segment that ends in a hole, of zeros of which nothing is on the disk."""
    _plain(root)
    active = root / PARTITIONS[1] / f"{20:020}.log"
    os.truncate(active, active.stat().st_size + (64 << 10))


def _unlocked(root: Path) -> None:
    _damaged(root)
    (root / ".lock").unlink()


def _unindexed(root: Path) -> None:
    _plain(root)
    (root / PARTITIONS[0] / f"{10:020}.index").unlink()
    (root / PARTITIONS[0] / f"{0:020}.timeindex").write_bytes(b"\1" * 24)
    (root / PARTITIONS[1] / f"{0:020}.index").write_bytes(b"\1" * 16)


def _misindexed(root: Path) -> None:
    """Indexes that lead beyond their logs: none is missing, so that each can make way for its successor."""
    _plain(root)
    for partition, base in zip(PARTITIONS, (10, 0), strict=True):
        (root / partition / f"{base:020}.index").write_bytes(build.offset_index([(5000, 5000000)]))
        (root / partition / f"{base:020}.timeindex").write_bytes(build.time_index([(10**12, 5000)]))
        (root / partition / f"{26:020}.snapshot").write_bytes(build.snapshot([]))


def _malformed(root: Path) -> None:
    _plain(root)
    (root / "recovery-point-offset-checkpoint").write_bytes(b"0\n2\nt 0 0\nnonsense\n")
    (root / "log-start-offset-checkpoint").write_bytes(b"0\n2\nt 0 0\nu 0 x\n")


def _alone(root: Path) -> None:
    _log(root)


def _without_epochs(root: Path) -> None:
    """Nothing is written to a partition after its old segments are deleted."""
    _plain(root)
    for partition in PARTITIONS:
        (root / partition / EPOCHS).unlink()


RETAIN = ("retain", "{path}", "--set", "retention.bytes=14000", "--set", "cleanup.policy=delete", "--set")
CASES = {
    "truncate": Case(("truncate", "{path}", "--at-damage"), _damaged),
    "truncate without a lock file": Case(("truncate", "{path}", "--at-damage"), _unlocked),
    "truncate a hole": Case(("truncate", "{path}", "--at-damage"), _sparse),
    "truncate a partition": Case(("truncate", "{path}", "--to-offset", "13"), _alone),
    "reindex": Case(("reindex", "{path}"), _unindexed),
    "reindex of wrong indexes": Case(("reindex", "{path}"), _misindexed),
    "retain": Case((*RETAIN, "retention.ms=-1"), _plain),
    "retain without leader epochs": Case((*RETAIN, "retention.ms=-1"), _without_epochs),
    "compact": Case(("compact", "{path}", *CLEANER), _plain),
    "compact a partition": Case(("compact", "{path}", *CLEANER), _alone),
    "checkpoint": Case(("checkpoint", "{path}"), _malformed),
    "compact --to": Case(("compact", "{path}", *CLEANER, "--to", "{new}"), _plain, is_new_dir=True),
    "roll --to": Case(
        ("roll", "{path}", "--set", "internal.segment.bytes=9000", "--to", "{new}"), _plain, is_new_dir=True
    ),
}


def write_patient(scenario: Scenario, place: Place) -> None:
    """Make the log directory of a scenario."""
    CASES[scenario.case].write(place.root)
    _owned(place.root)


def _scenarios() -> Iterator[Scenario]:
    for name, case in CASES.items():
        if case.is_new_dir or name in {"reindex of wrong indexes", "retain without leader epochs", "truncate a hole"}:
            yield Scenario(name)
            continue
        for journal in ("next", "same", "other"):
            for phase in ("apply", "undo", "prune", "resume"):
                yield Scenario(name, phase, journal)
        if name not in {"checkpoint", "truncate without a lock file"}:
            yield Scenario(name, "apply", "none")
            yield Scenario(name, "resume", "none")


def _more() -> Iterator[Scenario]:
    for name in ("truncate", "reindex", "retain", "compact"):
        for journal in ("next", "other"):
            yield Scenario(name, "back", journal)
        for phase in ("apply", "undo", "prune"):
            yield Scenario(name, phase, is_split=True)
    segments = {base: f"t-0/{base:020}" for base in (0, 10, 20)}
    for journal in ("next", "same", "other"):
        yield Scenario("truncate", "partial", journal, damaged=f"{segments[20]}.log")
        yield Scenario("retain", "partial", journal, damaged=f"{segments[0]}.log")
        yield Scenario("reindex", "partial", journal, damaged=f"{segments[0]}.timeindex")
    yield Scenario("truncate", "partial", damaged=f"{segments[10]}.log")
    yield Scenario("compact", "partial", damaged=f"{segments[10]}.log")
    yield Scenario("compact", "partial", "other", damaged=f"{segments[10]}.log")
    yield Scenario("truncate", "partial", damaged=f"u-0/{20:020}.log", is_split=True)
    for share in (0.68, 0.7, 0.72, 0.84):  # where the new files of a replacement are laid down
        yield Scenario("compact", "back", killed_at=share)
    for name, phase in (("truncate", "undo"), ("truncate", "back"), ("compact", "undo")):
        yield Scenario(name, phase, sampled_bytes=64)
    for phase in ("undo", "back"):
        yield Scenario("truncate a hole", phase)
    yield Scenario("truncate", "undo", linked=f"u-0/{20:020}.log")
    for name in ("truncate", "retain", "reindex of wrong indexes"):
        for phase in ("apply", "undo", "prune", "resume"):
            yield Scenario(name, phase, "other", is_full=True)
        yield Scenario(name, "apply", "none", is_full=True)
        yield Scenario(name, "prune", "next", is_full=True)
    yield Scenario("truncate", unsynced=f"t-0/{20:020}.log")
    yield Scenario("truncate", unsynced=f"u-0/{20:020}.log")
    yield Scenario("retain", unsynced=f"t-0/{0:020}.log")
    yield Scenario("compact", unsynced=f"t-0/{10:020}.log")


SCENARIOS = (*_scenarios(), *_more())
