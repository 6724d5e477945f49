"""What a command stages becomes changes, with hashes; nothing is written."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import AccessError, RefusedError
from kafkalog_core.ops.planners import PLANNERS
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.storage.changing import changes as fingerprint_module
from kafkalog_core.storage.changing.changes import Change, DryRunStage, Fingerprint, fingerprint
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.source import Source  # noqa: TC001 -- patched
from tests.support.repairs import LATER, LOG, apply_to, make_dir, snapshot, undo_all

if TYPE_CHECKING:
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.storage.changing.changes import Stage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "log")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def print_of(path: Path) -> Fingerprint:
    return Fingerprint(path.stat().st_size, path.stat().st_mtime_ns, sha(path.read_bytes()))


def test_every_kind(root: Path) -> None:
    log, index = root / "t-0" / LOG, root / "t-0" / "00000000000000000000.index"
    before = snapshot(root)
    outline = DryRunStage(str(root))
    written = outline.write(str(index), iter([b"ab", b"c"]), why="w", like=str(log))
    assert written == Change(
        kind="replace", path=str(index), before=print_of(index), size_bytes=3, sha256=sha(b"abc"), why="w"
    )
    made = outline.write(str(root / "t-0" / "x"), [], why="w", like=str(log))
    assert made == Change(
        kind="create", path=str(root / "t-0" / "x"), before=None, size_bytes=0, sha256=sha(b""), why="w"
    )
    cut = outline.cut(str(log), 100, why="c")
    assert cut == Change(kind="cut", path=str(log), before=print_of(log), size_bytes=100, sha256=None, why="c")
    gone = outline.remove(str(root / "meta.properties"), why="r")
    assert gone is not None
    assert (gone.kind, gone.size_bytes, gone.sha256) == ("remove", None, None)
    assert outline.changes == [written, made, cut, gone]
    assert snapshot(root) == before


def test_what_is_so_already_is_no_change(root: Path) -> None:
    log, index = root / "t-0" / LOG, root / "t-0" / "00000000000000000000.index"
    outline = DryRunStage(str(root))
    assert outline.write(str(index), [index.read_bytes()], why="w", like=str(log)) is None
    assert outline.cut(str(log), log.stat().st_size, why="c") is None
    assert outline.cut(str(log), log.stat().st_size + 1, why="c") is None
    assert outline.cut(str(root / "t-0" / "none"), 1, why="c") is None
    assert outline.remove(str(root / "t-0" / "none"), why="r") is None
    assert outline.changes == []
    assert outline.replay(DryRunStage(str(root)))


def plan_same(request: PlanRequest, stage: Stage, progress: object) -> PlanReport:
    """The planner: a file that has its content already, before a new file and after it."""
    del progress
    partition = f"{request.target.root}/t-0"
    same, log = f"{partition}/leader-epoch-checkpoint", f"{partition}/{LOG}"
    content = Path(same).read_bytes()
    stage.write(same, [content], why="same", like=log)
    stage.write(f"{partition}/new", [b"abc"], why="new", like=log)
    stage.write(same, [content], why="same", like=log)
    return PlanReport()


@pytest.mark.usefixtures("no_waiting")
def test_what_is_so_already_leaves_nothing_in_the_journal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written next to the journal to be compared, under the number of the change that comes next."""
    monkeypatch.setitem(PLANNERS, "reindex", "tests.storage.test_dry_run:plan_same")
    before = snapshot(root)
    journal = apply_to(root, Disk())
    assert [entry.path for entry in journal.entries] == ["new"]
    assert os.listdir(os.path.dirname(journal.layout.intent)) == [os.path.basename(journal.layout.intent)]
    undo_all(root)
    assert snapshot(root) == before


def test_a_part_of_a_replacement_is_taken_even_where_it_is_so_already(root: Path) -> None:
    """Else a start that completes the replacement would find no such file among what takes the old ones' place."""
    log, index = root / "t-0" / LOG, root / "t-0" / "00000000000000000000.index"
    path, content = str(index), index.read_bytes()
    outline, again = DryRunStage(str(root)), DryRunStage(str(root))
    change = outline.write(path, [content], why="", like=str(log), swap=0)
    gone = outline.remove(str(root / "t-0" / LATER), why="", swap=0)
    assert change is not None
    assert gone is not None
    assert (change.kind, change.swap, gone.swap) == ("replace", 0, 0)
    assert outline.replay(again)
    assert again.changes == outline.changes


def test_a_log_with_a_second_name_is_not_cut_in_place(root: Path) -> None:
    """A backup of hard links would be cut too."""
    log = root / "t-0" / LOG
    (root.parent / "backup").mkdir()
    os.link(log, root.parent / "backup" / LOG)
    change = DryRunStage(str(root)).cut(str(log), 100, why="cut")
    assert change is not None
    assert (change.kind, change.size_bytes, change.sha256) == ("replace", 100, sha(log.read_bytes()[:100]))
    assert "another hard link" in change.why


@pytest.mark.parametrize("kept_bytes", [10_000, 5, -1])
def test_replay(root: Path, kept_bytes: int) -> None:
    log, index = root / "t-0" / LOG, root / "t-0" / "00000000000000000000.index"
    os.link(log, root.parent / "backup.log")
    outline = DryRunStage(str(root), kept_bytes=kept_bytes)
    outline.write(str(index), iter([b"ab", bytearray(b"c" * 9)]), why="w", like=str(log), mtime_ns=5)
    outline.write(
        str(root / "t-0" / "leader-epoch-checkpoint"),
        [snapshot(root)["t-0/leader-epoch-checkpoint"][0]],
        why="same",
        like=str(log),
    )
    outline.cut(str(log), 100, why="c")
    outline.remove(str(root / "meta.properties"), why="r")
    again = DryRunStage(str(root))
    if outline.replay(again):
        assert kept_bytes == 10_000
        assert again.changes == outline.changes
    else:
        assert kept_bytes < 10_000
        assert again.changes == []


def test_replay_of_a_part_makes_the_changes_of_that_part(root: Path) -> None:
    """A run without undo makes the first changes ahead of its intent, and stages the others."""
    partition, outline = root / "t-0", DryRunStage(str(root))
    log = str(partition / LOG)
    outline.write(str(partition / "a"), [b"a"], why="w", like=log)
    same = partition / "leader-epoch-checkpoint"
    outline.write(str(same), [same.read_bytes()], why="same", like=log)
    outline.cut(log, 100, why="c")
    outline.remove(str(partition / LATER), why="r")
    outline.write(str(partition / "b"), [b"b"], why="w", like=log)
    outline.write(str(root / "c"), [b"c"], why="w", like=str(root / "meta.properties"))
    assert len(outline.changes) == 5
    for skip in range(6):
        for most in (None, *range(6)):
            again = DryRunStage(str(root))
            assert outline.replay(again, skip=skip, most=most)
            assert again.changes == outline.changes[skip:most], (skip, most)


def test_new_content_is_kept_for_a_replay_up_to_32_mib(root: Path) -> None:
    """More would fill the memory; an apply reads the logs a second time then."""
    log, piece = str(root / "t-0" / LOG), bytes(1024 * 1024)
    outline = DryRunStage(str(root))
    outline.write(str(root / "t-0" / "large"), (piece for _ in range(32)), why="w", like=log)
    assert outline.is_kept
    outline.write(str(root / "t-0" / "small"), [b"x"], why="w", like=log)
    assert not outline.is_kept
    assert not outline.replay(DryRunStage(str(root)))


@pytest.mark.parametrize(("kept_bytes", "is_kept"), [(11, True), (10, False)])
def test_new_content_of_exactly_the_size_that_is_kept_is_kept(root: Path, kept_bytes: int, is_kept: bool) -> None:
    outline, again = DryRunStage(str(root), kept_bytes=kept_bytes), DryRunStage(str(root))
    log = str(root / "t-0" / LOG)
    outline.write(str(root / "t-0" / "a"), iter([b"abc", bytearray(b"defgh")]), why="w", like=log)
    outline.write(str(root / "t-0" / "b"), [b"ijk"], why="w", like=log)
    assert [outline.is_kept, outline.replay(again)] == [is_kept, is_kept]
    assert again.changes == (outline.changes if is_kept else [])


@pytest.mark.parametrize("name", ["a/b/c", "../x", "t-0/../../x", "", "./x", "t-0//x", "x/"])
def test_nowhere_else(root: Path, name: str) -> None:
    with pytest.raises(RefusedError, match="is not a file of"):
        DryRunStage(str(root)).write(f"{root}/{name}", [], why="w", like=str(root / "t-0" / LOG))


def test_not_twice(root: Path) -> None:
    outline = DryRunStage(str(root))
    outline.remove(str(root / "t-0" / LOG), why="r")
    with pytest.raises(RefusedError, match="changed twice"):
        outline.write(str(root / "t-0" / LOG), [b"x"], why="w", like=str(root / "meta.properties"))


def test_links_and_directories_are_not_changed(root: Path) -> None:
    (root / "t-0" / "link").symlink_to(root / "meta.properties")
    (root / "t-0" / "sub").mkdir()
    outline = DryRunStage(str(root))
    with pytest.raises(AccessError, match="symbolic link"):
        outline.remove(str(root / "t-0" / "link"), why="r")
    with pytest.raises(AccessError, match="not a regular file"):
        outline.cut(str(root / "t-0" / "sub"), 0, why="r")


def test_large_files_are_hashed_at_both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint_module, "WHOLE_BYTES", 100)
    monkeypatch.setattr(fingerprint_module, "SAMPLE_BYTES", 10)
    path = tmp_path / "x"
    path.write_bytes(bytes(range(101)))
    assert fingerprint(str(path)) == Fingerprint(
        101, path.stat().st_mtime_ns, sha(bytes(range(10)) + bytes(range(91, 101)))
    )
    path.write_bytes(bytes(range(100)))
    assert fingerprint(str(path)) == print_of(path)
    assert fingerprint(str(tmp_path / "none")) is None


def test_what_the_disk_cannot_read_has_a_fingerprint_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from kafkalog_core.storage.source import Source  # noqa: PLC0415

    def broken(self: Source, target: memoryview, position: int) -> int:
        if position >= 4096:
            raise OSError(errno.EIO, "eio")
        return read(self, target[: 4096 - position], position)

    read = Source._pread
    log = str(root / "t-0" / LOG)
    whole = fingerprint(log)
    monkeypatch.setattr(Source, "_pread", broken)
    part = fingerprint(log)
    assert part is not None
    assert part != whole
    assert part == fingerprint(log)
    monkeypatch.setattr(Source, "_pread", read)
    with open(log, "r+b") as file:
        file.truncate(4096)
    os.utime(log, ns=(part.mtime_ns, part.mtime_ns))
    assert part.sha256 != sha((root / "t-0" / LOG).read_bytes()), "what cannot be read is not what is not there"
