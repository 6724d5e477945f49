"""Staging: what is laid down in each place of a journal, in which order it is fsynced, and how it is given up again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.ops.repair.undo import scope_of
from kafkalog_core.storage.changing import changes as fingerprints
from kafkalog_core.storage.changing import staging as staging_module
from kafkalog_core.storage.changing.changes import fingerprint, fingerprint_of_bytes
from kafkalog_core.storage.changing.journal import OF_SEVERAL, JournalLayout
from kafkalog_core.storage.changing.staging import JournalStage
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import Disk

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.changing.changes import Fingerprint

RUN = "kafkalog-undo-20260102T030405Z-1"
CHECKPOINT, LOG, INDEX = "checkpoint", "t-0/00000000000000000000.log", "t-0/00000000000000000000.index"
CHANGES = {"create", "mkdir", "rename", "unlink", "rmdir", "link", "truncate"}


class StagingDisk(Disk):
    """Knows its changes, and the directories and files of a broker that it fsyncs."""

    def __init__(self, top: Path) -> None:
        self._top = str(top)
        self.steps: list[tuple[str, str]] = []

    def step(self, what: str, path: str) -> None:
        name = os.path.relpath(path, self._top)
        if what in CHANGES or (what == "fsync" and (os.path.isdir(path) or name.startswith("data/t-0/0"))):
            self.steps.append((what, name))

    def take(self) -> list[tuple[str, str]]:
        taken, self.steps = self.steps, []
        return taken


class Run:
    """A log directory in `data`, a place for journals in `far`, and a run that stages changes."""

    def __init__(self, top: Path, place: str, *, modes: tuple[int, int] = (0o755, 0o755)) -> None:
        self.top, self.root, self.far = top, top / "data", top / "far"
        (self.root / "t-0").mkdir(parents=True)
        self.far.mkdir()
        for name in (CHECKPOINT, LOG, INDEX):
            (self.root / name).write_bytes(name.encode() * 3)
        self.root.chmod(modes[0])
        (self.root / "t-0").chmod(modes[1])
        self.disk = StagingDisk(top)
        root = self.root / "t-0" if place == "partition" else self.root
        home = self.far / "undo" if place == "elsewhere" else root
        self.layout = JournalLayout(run=RUN, root=str(root), place=place, home=str(home))  # type: ignore[arg-type]
        self.staging = JournalStage(
            self.layout,
            self.disk,
            command="reindex",
            created_ms=1,
            root=str(root),
            is_log_dir=place != "partition",
            trusted=TrustedDirectories([str(root), str(self.far)]),
        )

    def write(self, name: str, content: bytes = b"new") -> None:
        path = str(self.root / name)
        change = self.staging.write(path, [content], why="a test", like=str(self.root / LOG))
        assert change is not None
        assert (change.path, change.size_bytes) == (path, len(content))

    def names(self) -> list[str]:
        found = [os.path.join(around, name) for around, _, names in os.walk(self.top) for name in names]
        return sorted(os.path.relpath(path, self.top) for path in found if RUN in path)


@pytest.fixture(autouse=True)
def no_mask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_next_to_the_files_of_a_partition(tmp_path: Path) -> None:
    run = Run(tmp_path, "partition")
    run.write(INDEX)
    run.disk.take()
    journal = run.staging.prepare()
    assert [(entry.number, entry.path) for entry in journal.entries] == [(1, os.path.basename(INDEX))]
    assert run.disk.take() == [
        ("fsync", f"data/t-0/{RUN}"),
        ("fsync", "data/t-0"),
        ("create", f"data/t-0/{RUN}/intent.json.tmp"),
        ("rename", f"data/t-0/{RUN}/intent.json"),
        ("fsync", f"data/t-0/{RUN}"),
    ]
    run.staging.discard()
    assert run.disk.take() == [
        ("unlink", f"data/t-0/{RUN}/intent.json"),
        ("unlink", f"data/t-0/{RUN}/old-0001"),
        ("unlink", f"data/t-0/{RUN}/new-0001"),
        ("rmdir", f"data/t-0/{RUN}"),
    ]
    assert run.names() == []


def test_at_the_top_of_a_log_directory_the_beginning_is_there_first_and_goes_last(tmp_path: Path) -> None:
    run = Run(tmp_path, "top")
    run.write(INDEX)
    assert run.disk.take()[:5] == [
        ("create", f"data/{RUN}.tmp"),
        ("rename", f"data/{RUN}"),
        ("fsync", "data"),
        ("mkdir", f"data/t-0/{RUN}"),
        ("create", f"data/t-0/{RUN}/{OF_SEVERAL}"),
    ]
    assert scope_of(str(run.root)).found.journals == ()
    run.write(CHECKPOINT)
    run.write(LOG)
    run.disk.take()
    journal = run.staging.prepare()
    assert [entry.number for entry in journal.entries] == [1, 2, 3]
    assert run.disk.take() == [
        ("fsync", f"data/t-0/{RUN}"),
        ("fsync", "data/t-0"),
        ("fsync", "data"),
        ("create", f"data/{RUN}.tmp"),
        ("rename", f"data/{RUN}"),
        ("fsync", "data"),
    ]
    assert [each.run for each in scope_of(str(run.root)).found.journals] == [RUN]
    run.staging.discard()
    steps = run.disk.take()
    assert steps[:3] == [("create", f"data/{RUN}.tmp"), ("rename", f"data/{RUN}"), ("fsync", "data")]
    assert [path for what, path in steps if what == "unlink"][-1] == f"data/{RUN}"
    assert steps[-1] == ("rmdir", f"data/t-0/{RUN}")
    assert run.names() == []


def test_elsewhere_the_directory_is_fsynced_before_a_file_leads_to_it(tmp_path: Path) -> None:
    run = Run(tmp_path, "elsewhere")
    run.write(INDEX)
    steps = run.disk.take()
    assert steps[: steps.index(("create", f"data/{RUN}.tmp"))] == [
        ("mkdir", "far/undo"),
        ("mkdir", f"far/undo/{RUN}"),
        ("fsync", "far/undo"),
        ("fsync", "far"),
        ("fsync", f"far/undo/{RUN}"),
        ("fsync", "far/undo"),
    ]
    assert mode(run.far / "undo") == 0o700
    run.staging.prepare()
    run.staging.discard()
    assert run.names() == []
    assert os.listdir(run.far) == []


def test_a_directory_that_another_run_has_made_elsewhere_is_left_as_it_is(tmp_path: Path) -> None:
    run = Run(tmp_path, "elsewhere")
    (run.far / "undo" / RUN).mkdir(parents=True)
    (run.far / "undo" / RUN / "intent.json").write_bytes(b"of another run")
    with pytest.raises(RefusedError, match="another run has just taken this name"):
        run.write(INDEX)
    run.staging.discard()
    assert (run.far / "undo" / RUN / "intent.json").read_bytes() == b"of another run"


@pytest.mark.parametrize(
    ("around", "directory", "file"),
    [(0o755, 0o755, 0o644), (0o750, 0o750, 0o640), (0o2770, 0o770, 0o640), (0o500, 0o700, 0o600)],
)
def test_who_may_look_at_the_files_may_look_at_the_journal(
    tmp_path: Path, around: int, directory: int, file: int
) -> None:
    run = Run(tmp_path, "top", modes=(around, around))
    run.write(INDEX)
    assert mode(run.root / "t-0" / RUN) == directory
    assert mode(run.root / RUN) == mode(run.root / "t-0" / RUN / OF_SEVERAL) == file
    run.staging.prepare()
    assert mode(run.root / RUN) == file


def test_a_cut_to_nothing_saves_all_and_leaves_the_time_of_the_file(tmp_path: Path) -> None:
    run = Run(tmp_path, "partition")
    os.utime(run.root / LOG, ns=(7, 1_234_567_890))
    assert run.staging.cut(str(run.root / LOG), 0, why="a test") is not None
    (entry,) = run.staging.prepare().entries
    assert entry.after == fingerprint_of_bytes(b"", 1_234_567_890)
    assert (run.root / "t-0" / RUN / "tail-0001").read_bytes() == LOG.encode() * 3


def test_a_file_at_the_top_is_not_cut(tmp_path: Path) -> None:
    run = Run(tmp_path, "top")
    with pytest.raises(RefusedError, match="a file at the top of a log directory is replaced, not truncated"):
        run.staging.cut(str(run.root / CHECKPOINT), 1, why="a test")


def test_what_a_broker_left_unsynced_is_fsynced_before_it_is_saved(tmp_path: Path) -> None:
    run = Run(tmp_path, "partition")
    assert run.staging.remove(str(run.root / LOG), why="a test") is not None
    steps = run.disk.take()
    assert steps.index(("fsync", f"data/{LOG}")) < steps.index(("link", f"data/t-0/{RUN}/old-0001"))


@pytest.mark.parametrize(("size_bytes", "reads"), [(100, 0), (101, 1)])
def test_a_new_file_is_known_by_what_was_staged_and_a_small_one_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int, reads: int
) -> None:
    monkeypatch.setattr(fingerprints, "WHOLE_BYTES", 100)
    monkeypatch.setattr(fingerprints, "SAMPLE_BYTES", 10)
    read: list[str] = []
    really = staging_module.fingerprint_start

    def noted(path: str, *rest: Any) -> Fingerprint:
        read.append(os.path.basename(path))
        return really(path, *rest)

    monkeypatch.setattr(staging_module, "fingerprint_start", noted)
    run = Run(tmp_path, "partition")
    run.write(INDEX, bytes(range(size_bytes)))
    (entry,) = run.staging.prepare().entries
    assert read == ["new-0001"] * reads
    assert entry.after == fingerprint(str(run.root / "t-0" / RUN / "new-0001"))


@pytest.mark.parametrize("spare_bytes", [-1, 0])
def test_a_file_leads_to_a_journal_elsewhere_from_its_beginning_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare_bytes: int
) -> None:
    """64 MiB are free, or a byte less."""
    monkeypatch.setattr(staging_module, "free_bytes", lambda path: 64 * 1024 * 1024 + spare_bytes)
    run = Run(tmp_path, "elsewhere")
    run.write(INDEX)
    assert (f"data/{RUN}" in run.names()) == (spare_bytes == 0)
