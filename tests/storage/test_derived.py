"""Files that a start makes again from the log: which logs a run remembers, and when it knows them again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.storage.changing.changes import Change, Fingerprint, fingerprint, fingerprint_start
from kafkalog_core.storage.changing.derived import (
    bases_of_logs,
    checkpoints_next_to_clean_shutdown,
    has_broker_run,
    is_rebuilt,
    logs_of_derived,
    recovery_markers,
    unrecovered_ends,
)
from kafkalog_core.storage.changing.journal import Journal, JournalEntry, JournalLayout, State
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FIRST, SECOND, THIRD = (f"{base:020d}" for base in (0, 10, 20))
EPOCHS, CLEAN_SHUTDOWN_CONTENT = "leader-epoch-checkpoint", ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS, STARTS = "replication-offset-checkpoint", "log-start-offset-checkpoint"
FILES = (
    *(f"t-0/{base}.{suffix}" for base in (FIRST, SECOND, THIRD) for suffix in ("log", "index", "timeindex")),
    *(f"t-0/{name}" for name in (f"{SECOND}.snapshot", EPOCHS, "partition.metadata", f"{THIRD}.log.deleted", "7.log")),
    *("meta.properties", HIGH_WATERMARKS, STARTS, "1-offset-checkpoint.tmp"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t-0").mkdir()
    for name in FILES:
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def trusted(root: Path) -> TrustedDirectories:
    return TrustedDirectories((str(root),))


def of(root: Path, names: Iterable[str]) -> dict[str, Fingerprint | None]:
    """Fingerprints by path."""
    return {f"{root}/{name}": fingerprint(f"{root}/{name}") for name in names}


@pytest.mark.parametrize(
    ("changed", "known"),
    [
        ([f"{FIRST}.index"], [FIRST, THIRD]),
        ([f"{FIRST}.index", f"{FIRST}.timeindex", f"{SECOND}.txnindex"], [FIRST, SECOND, THIRD]),
        ([f"{THIRD}.timeindex"], [THIRD]),
        ([f"{SECOND}.snapshot"], [THIRD]),
        ([EPOCHS], [THIRD]),
        ([f"{FIRST}.index", f"{FIRST}.log"], [THIRD]),
        ([f"{FIRST}.index", f"{THIRD}.log"], [FIRST, SECOND]),
        ([EPOCHS, *(f"{base}.log" for base in (FIRST, SECOND, THIRD))], []),
        ([f"{5:020d}.index"], [THIRD]),
        ([f"{FIRST}.log", "partition.metadata"], []),
    ],
)
def test_a_run_remembers_the_log_of_an_index_and_the_last_log_but_those_that_it_changes(
    root: Path, changed: list[str], known: list[str]
) -> None:
    found = logs_of_derived([f"{root}/t-0/{name}" for name in changed], trusted(root))
    assert found == of(root, [f"t-0/{base}.log" for base in known])


def test_a_run_that_makes_a_clean_shutdown_file_remembers_the_checkpoints_that_it_does_not_change(root: Path) -> None:
    paths = [f"{root}/t-0/{FIRST}.index", f"{root}/{CLEAN_SHUTDOWN_CONTENT}", f"{root}/{STARTS}"]
    assert checkpoints_next_to_clean_shutdown(paths, trusted(root)) == of(root, [HIGH_WATERMARKS])
    assert checkpoints_next_to_clean_shutdown(paths[:2], trusted(root)) == of(root, [HIGH_WATERMARKS, STARTS])
    assert checkpoints_next_to_clean_shutdown([paths[0], paths[2]], trusted(root)) == {}


@pytest.mark.parametrize(("kind", "name"), [("cut", f"{THIRD}.log"), ("remove", f"{THIRD}.log")])
def test_a_run_that_deletes_the_end_of_a_log_remembers_the_recovery_markers(root: Path, kind: str, name: str) -> None:
    for each in (CLEAN_SHUTDOWN_CONTENT, RECOVERY_POINTS):
        (root / each).write_bytes(b"")
    one = change(root, kind, f"t-0/{name}")
    other = change(root, "replace", RECOVERY_POINTS)
    assert recovery_markers([one], str(root), trusted(root)) == of(root, [CLEAN_SHUTDOWN_CONTENT, RECOVERY_POINTS])
    assert recovery_markers([one, other], str(root), trusted(root)) == of(root, [CLEAN_SHUTDOWN_CONTENT])
    assert recovery_markers([other, change(root, "cut", f"t-0/{THIRD}.index")], str(root), trusted(root)) == {}
    (root / CLEAN_SHUTDOWN_CONTENT).unlink()
    assert recovery_markers([one], str(root), trusted(root)) == of(root, [RECOVERY_POINTS])


def test_the_base_offsets_of_a_directory(root: Path) -> None:
    assert bases_of_logs(f"{root}/t-0", trusted(root)) == [0, 10, 20]
    assert bases_of_logs(f"{root}/t-1", trusted(root)) == []


def change(root: Path, kind: str, name: str) -> Change:
    size = None if kind == "remove" else 0
    return Change(kind=kind, path=f"{root}/{name}", before=None, size_bytes=size, sha256=None, why="")  # type: ignore[arg-type]


# --- what has become of them ------------------------------------------------------------------------------------------
def entry(number: int, name: str, kind: str = "replace", after: Fingerprint | None = None) -> JournalEntry:
    before = Fingerprint(1, 1, "before")
    return JournalEntry(number=number, kind=kind, path=f"t-0/{name}", why="", before=before, after=after)  # type: ignore[arg-type]


def journal_of(root: Path, *entries: JournalEntry, state: State = "prepared", logs: Iterable[str] = ()) -> Journal:
    """A journal that remembers some files as they are now."""
    found = {name: fingerprint(f"{root}/{name}") for name in logs}
    layout = JournalLayout(run="kafkalog-undo-20260102T030405Z-1", root=str(root), place="top", home=str(root))
    known = {name: log for name, log in found.items() if log is not None}
    return Journal(
        layout=layout,
        command="",
        created_ms=0,
        state=state,
        entries=entries,
        trusted=trusted(root),
        logs=known,
        pointer_is_directory=False,
        keeps_old=True,
    )


def asked(journal: Journal, answer: bool = True) -> tuple[bool, list[str]]:
    """Whether the first file of a run counts as made again, and the logs of the run that this depends on."""
    names: list[str] = []

    def is_known(log: JournalEntry) -> bool:
        names.append(os.path.basename(log.path))
        return answer

    return is_rebuilt(journal, journal.entries[0], is_known), names


def is_again(journal: Journal) -> bool:
    found, names = asked(journal)
    assert names == [], "no log is one of the run"
    return found


BOTH = (f"t-0/{FIRST}.log", f"t-0/{THIRD}.log")


@pytest.mark.parametrize(
    ("name", "state", "wanted"),
    [
        (f"{FIRST}.index", "prepared", True),
        (f"{FIRST}.timeindex", "undoing", True),
        (f"{FIRST}.index", "complete", False),
        (f"{SECOND}.snapshot", "prepared", True),
        (EPOCHS, "undoing", True),
        (EPOCHS, "undone", False),
        ("partition.metadata", "prepared", False),
        (f"{FIRST}.log", "prepared", False),
    ],
)
def test_only_an_interrupted_run_takes_a_file_for_one_that_a_start_has_made(
    root: Path, name: str, state: State, wanted: bool
) -> None:
    assert is_again(journal_of(root, entry(1, name), state=state, logs=BOTH)) == wanted


@pytest.mark.parametrize("log", BOTH)
@pytest.mark.parametrize("what", ["forgotten", "appended", "touched", "gone"])
def test_a_log_that_is_not_as_it_was_gives_an_index_up(root: Path, log: str, what: str) -> None:
    logs = [name for name in BOTH if name != log or what != "forgotten"]
    journal = journal_of(root, entry(1, f"{FIRST}.index"), logs=logs)
    if what == "appended":
        (root / log).write_bytes(b"longer than it was before")
    elif what == "touched":
        os.utime(root / log, ns=(7, 7))
    elif what == "gone":
        (root / log).unlink()
    assert not is_again(journal)


def test_a_snapshot_needs_the_last_log_alone_and_there_must_be_one(root: Path) -> None:
    journal = journal_of(root, entry(1, f"{FIRST}.snapshot"), logs=BOTH[1:])
    (root / BOTH[0]).unlink()
    assert is_again(journal)
    for path in root.glob("t-0/*.log"):
        path.unlink()
    assert not is_again(journal)
    for path in root.glob("t-0/*"):
        path.unlink()
    (root / "t-0").rmdir()
    assert not is_again(journal)


@pytest.mark.parametrize("answer", [True, False])
def test_a_log_that_the_run_changes_has_to_be_one_of_its_two_sides(root: Path, answer: bool) -> None:
    journal = journal_of(root, entry(1, f"{FIRST}.index"), entry(2, f"{THIRD}.log", "cut"), logs=BOTH[:1])
    assert asked(journal, answer) == (answer, [f"{THIRD}.log"])
    journal = journal_of(root, entry(1, f"{FIRST}.index"), entry(2, f"{FIRST}.log"), logs=BOTH[1:])
    assert asked(journal, answer) == (answer, [f"{FIRST}.log"])


@pytest.mark.parametrize(
    ("there", "wanted"),
    [(b"12345678", True), (b"12345678more", True), (b"1234567", False), (b"12345679more", False), (None, False)],
)
def test_an_index_that_was_cut_has_to_begin_with_what_the_cut_kept(
    root: Path, there: bytes | None, wanted: bool
) -> None:
    """It is saved nowhere else."""
    path = root / "t-0" / f"{FIRST}.index"
    path.write_bytes(b"12345678 and its tail")
    after = fingerprint_start(str(path), 8, 1_600_000_000_000_000_000)
    path.unlink() if there is None else path.write_bytes(there)
    assert is_again(journal_of(root, entry(1, path.name, "cut", after), logs=BOTH)) == wanted
    assert not is_again(journal_of(root, entry(1, path.name, "cut"), logs=BOTH))


def test_a_broker_is_seen_by_the_checkpoints_that_it_writes_and_by_nothing_else(root: Path) -> None:
    journal = journal_of(root, logs=[HIGH_WATERMARKS, *BOTH])
    assert not has_broker_run(journal)
    (root / STARTS).write_bytes(b"not remembered")
    (root / BOTH[0]).write_bytes(b"appended")
    assert not has_broker_run(journal)
    (root / HIGH_WATERMARKS).write_bytes(b"0\n1\nt 0 5\n")
    assert has_broker_run(journal)
    (root / HIGH_WATERMARKS).unlink()
    assert has_broker_run(journal)


def test_the_undo_of_a_truncation_restores_the_end_of_a_log_and_that_of_retention_does_not(root: Path) -> None:
    (root / f"t-0/{THIRD}.log").unlink()
    (root / CLEAN_SHUTDOWN_CONTENT).write_bytes(b"")
    kinds = {
        ("cut", f"{SECOND}.log"): True,
        ("cut", f"{SECOND}.index"): False,
        ("remove", f"{THIRD}.log"): True,
        ("remove", f"{FIRST}.log"): False,
        ("remove", f"{THIRD}.index"): False,
        ("replace", f"{SECOND}.log"): False,
    }
    for (kind, name), answer in kinds.items():
        one = entry(7, name, kind)
        wanted = ([one], [str(root / CLEAN_SHUTDOWN_CONTENT)]) if answer else ([], [])
        assert unrecovered_ends(journal_of(root, one), [one]) == wanted, (kind, name)
    swapped = replace(entry(0, f"{THIRD}.log", "remove"), swap=0)
    assert unrecovered_ends(journal_of(root, swapped), [swapped]) == ([], [])


def test_a_recovery_marker_was_written_after_a_run(root: Path) -> None:
    marker, points = root / CLEAN_SHUTDOWN_CONTENT, root / RECOVERY_POINTS
    points.write_bytes(b"0\n0\n")
    cut = entry(0, f"{THIRD}.log", "cut")

    def written(journal: Journal) -> list[str]:
        ends, markers = unrecovered_ends(journal, [cut])
        assert ends == [cut] * len(markers[:1])
        return markers

    journal = journal_of(root, cut, logs=[RECOVERY_POINTS])
    assert written(journal) == []
    marker.write_bytes(b"")
    assert written(journal) == [str(marker)]
    assert written(journal_of(root, cut, logs=[RECOVERY_POINTS, CLEAN_SHUTDOWN_CONTENT])) == []
    marker.unlink()
    points.write_bytes(b"0\n1\nt 0 5\n")
    assert written(journal) == [str(points)]
    marker.write_bytes(b"")
    assert written(journal) == [str(marker), str(points)]
    marker.unlink()
    points.unlink()
    assert written(journal) == [], "a start without recovery points checks everything"
    points.write_bytes(b"0\n0\n")
    own = JournalEntry(
        number=1,
        kind="replace",
        path=RECOVERY_POINTS,
        why="",
        before=Fingerprint(1, 1, ""),
        after=fingerprint(str(points)),
    )
    assert written(journal_of(root, cut, own)) == [], "the run itself wrote it"
