"""Where journals go, how they are found again, what they hold, and the commands that name them."""

from __future__ import annotations

import errno
import json
import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import DeniedError, NotFoundError
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing import journal_search as journals_module
from kafkalog_core.storage.changing.changes import Change
from kafkalog_core.storage.changing.journal import layout_for
from kafkalog_core.storage.changing.journal_search import (
    FoundJournals,
    UntrustedPlace,
    find_journals,
    held_bytes,
    leading_directory,
    prune_command,
    remains_bytes,
    resume_command,
    undo_command,
    untrusted_places,
)
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import replace
from tests.support.repairs import Killed, UnlinkingDisk, apply_to, make_dir, sealed, snapshot

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("fake_planner", "no_waiting")

RUN: Final = "kafkalog-undo-20260102T030405Z-1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "log")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    (tmp_path / "undo").mkdir(mode=0o755)
    return tmp_path / "undo"


def reason(root: Path, *also: Path) -> str:
    """Why the file that is there is not a journal."""
    found = find_journals(str(root), [str(each) for each in also])
    assert found.journals == ()
    (remains,) = found.remains
    return remains.reason


# --- where they go ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("paths", "is_log_dir", "undo_to", "expected"),
    [
        (["/log/t-0/a"], True, None, ("partition", "/log/t-0", "/log/t-0")),
        (["/log/t-0/a", "/log/t-0/b"], True, None, ("partition", "/log/t-0", "/log/t-0")),
        (["/log/t-0/a", "/log/t-1/a"], True, None, ("top", "/log", "/log")),
        (["/log/a"], True, None, ("top", "/log", "/log")),
        (["/log/t-0/a", "/log/a"], True, None, ("top", "/log", "/log")),
        (["/log/a"], False, None, ("partition", "/log", "/log")),
        (["/log/t-0/a", "/log/t-1/a"], True, "/undo", ("elsewhere", "/log", "/undo")),
        (["/log/t-0/a"], True, "/undo", ("elsewhere", "/log", "/undo")),
        (["/log/a"], False, "/undo", ("elsewhere", "/log", "/undo")),
    ],
)
def test_a_journal_is_in_the_partition_where_that_is_the_only_one(
    paths: list[str], is_log_dir: bool, undo_to: str | None, expected: tuple[str, str, str]
) -> None:
    changes = [Change(kind="remove", path=path, before=None, size_bytes=None, sha256=None, why="") for path in paths]
    layout = layout_for(RUN, "/log", changes, is_log_dir=is_log_dir, undo_to=undo_to)
    assert (layout.place, layout.root, layout.home) == expected


# --- what names them --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_wide", [True, False])
def test_a_journal_next_to_its_files_is_named_by_the_directory_that_leads_to_it(root: Path, is_wide: bool) -> None:
    apply_to(root, Disk(), is_wide=is_wide)
    (journal,) = find_journals(str(root)).journals
    assert undo_command(str(root), journal) == f"kafkalog undo {shell_path(str(root))} --run {RUN} --apply"
    assert undo_command(str(root), journal, "--partial").endswith(f" --run {RUN} --partial --apply")
    assert prune_command(str(root), journal) == f"kafkalog undo {shell_path(str(root))} --prune --run {RUN} --apply"
    assert resume_command(str(root), journal) == f"kafkalog apply --resume {shell_path(str(root))}"
    assert leading_directory(journal) == str(root if is_wide else root / "t-0")


def test_one_elsewhere_is_named_with_what_it_changes_and_with_what_others_can_write(
    root: Path, elsewhere: Path
) -> None:
    apply_to(root, Disk(), undo_to=elsewhere)
    (journal,) = find_journals(str(root)).journals
    command = f"kafkalog undo {root} --run {RUN} --apply"
    assert undo_command(str(root), journal) == command
    assert undo_command(str(elsewhere), journal) == command.replace(str(root), f"{elsewhere} {root}")
    assert leading_directory(journal) == str(root)
    (elsewhere / RUN).chmod(0o777)
    assert undo_command(str(root), journal) == command.replace(str(root), f"{root} {elsewhere}")
    (elsewhere / RUN).chmod(0o755)
    (elsewhere / RUN).rename(elsewhere / "moved")
    assert undo_command(str(root), journal) == command.replace(str(root), f"{root} {elsewhere}")
    (elsewhere / "moved").rename(elsewhere / RUN)
    (root / RUN).unlink()
    assert leading_directory(journal) == str(elsewhere)


def test_a_directory_whose_name_begins_as_another_is_not_in_it(tmp_path: Path, elsewhere: Path) -> None:
    """A command names both: the journals' directory does not hold the log directory."""
    root = make_dir(tmp_path / "undo-of")
    apply_to(root, Disk(), undo_to=elsewhere)
    (journal,) = find_journals(str(root)).journals
    assert undo_command(str(elsewhere), journal) == f"kafkalog undo {elsewhere} {root} --run {RUN} --apply"


# --- how they are found -----------------------------------------------------------------------------------------------
def test_a_directory_that_is_a_link_to_the_log_directory_shows_nothing_twice(root: Path) -> None:
    (root / "again-0").symlink_to(".")
    (root / "t-2").symlink_to("t-0")
    (root / f"{RUN}.new-0001").write_bytes(b"new")
    (root / "t-0" / f"{RUN[:-1]}2").mkdir()
    found = find_journals(str(root))
    assert [remains.paths for remains in found.remains] == [
        (f"{root}/{RUN}.new-0001",),
        (f"{root}/t-0/{RUN[:-1]}2",),
    ]


def test_what_is_no_directory_and_what_is_not_there(root: Path) -> None:
    for name in ("meta.properties", "none", "meta.properties/none"):
        with pytest.raises(NotFoundError) as caught:
            find_journals(f"{root}/{name}")
        assert str(caught.value) == f"{root}/{name}: no such file or directory"


@pytest.mark.parametrize("is_root", [False, True])
def test_a_partition_that_cannot_be_listed_has_none_and_the_directory_itself_has_to_be(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_root: bool
) -> None:
    apply_to(root, Disk())
    denied, really = os.stat(root if is_root else root / "t-0"), os.listdir

    def deny(path: int) -> list[str]:
        if os.path.samestat(os.fstat(path), denied):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return really(path)

    monkeypatch.setattr(os, "listdir", deny)
    if is_root:
        with pytest.raises(DeniedError):
            find_journals(str(root))
    else:
        assert find_journals(str(root)) == FoundJournals()


def test_a_link_is_the_one_place_that_was_not_named(root: Path, tmp_path: Path) -> None:
    """Not what is behind it as well: who names its target names all."""
    apply_to(root, Disk())
    (root / "t-0").rename(tmp_path / "t-0")
    (root / "t-0").symlink_to(tmp_path / "t-0")
    (journal,) = find_journals(str(root)).journals
    assert untrusted_places(journal) == [UntrustedPlace(f"{root}/t-0", f"{tmp_path}/t-0")]
    assert undo_command(leading_directory(journal), journal) == f"kafkalog undo {root}/t-0 --run {RUN} --apply"
    (journal,) = find_journals(str(root), [f"{tmp_path}/t-0"]).journals
    assert untrusted_places(journal) == []


def test_a_partition_that_is_gone_hides_no_link_after_it(root: Path, tmp_path: Path) -> None:
    apply_to(root, Disk(), is_wide=True)
    shutil.rmtree(root / "t-0")
    (root / "t-1").rename(tmp_path / "t-1")
    (root / "t-1").symlink_to(tmp_path / "t-1")
    (journal,) = find_journals(str(root)).journals
    assert untrusted_places(journal) == [UntrustedPlace(f"{root}/t-1", f"{tmp_path}/t-1")]


@pytest.mark.parametrize("of_partition", [False, True])
def test_a_link_in_place_of_a_journal_is_not_one(root: Path, tmp_path: Path, of_partition: bool) -> None:
    apply_to(root, Disk(), is_wide=not of_partition)
    path = root / "t-0" / RUN if of_partition else root / RUN
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert reason(root) == f"its journal cannot be read ({path}: is a symbolic link, which kafkalog does not create)"


@pytest.mark.parametrize("more", [0, 1])
def test_a_file_as_large_as_the_largest_journal_is_read_and_a_larger_one_is_not(
    root: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    intent = f"{root}/t-0/{RUN}/intent.json"
    apply_to(root, Disk())
    monkeypatch.setattr(journals_module, "MOST_BYTES", os.stat(intent).st_size - more)
    if more:
        assert reason(root) == f"its journal cannot be read ({intent}: is larger than any journal)"
    else:
        assert len(find_journals(str(root)).journals) == 1


def test_a_file_of_more_than_256_mib_is_not_read(root: Path) -> None:
    with open(root / RUN, "wb") as file:
        file.truncate(256 * 1024 * 1024 + 1)
    assert reason(root) == f"its journal cannot be read ({root}/{RUN}: is larger than any journal)"


def test_a_partition_leads_to_the_journal_of_all_that_its_run_changed(root: Path) -> None:
    apply_to(root, Disk(), is_wide=True)
    (journal,) = find_journals(str(root / "t-0")).journals
    assert (journal.run, journal.layout.place, journal.layout.root) == (RUN, "top", str(root))
    assert {entry.path.partition("/")[0] for entry in journal.entries} > {"t-0", "t-1"}
    (root / RUN).unlink()
    why = f"{root}/{RUN}, to which this part belongs, is missing"
    assert reason(root / "t-0") == f"its journal cannot be read ({why})"


def test_a_part_of_a_journal_whose_rest_is_missing(root: Path) -> None:
    apply_to(root, Disk(), is_wide=True)
    (root / RUN).unlink()
    assert reason(root) == f"its journal cannot be read ({root}/{RUN}, to which this part belongs, is missing)"


def test_runs_are_in_the_order_of_their_times_and_of_their_numbers(root: Path) -> None:
    """The tenth run of a second is after the second, and its partition is before that of the first."""
    apply_to(root, Disk())
    value = json.loads((root / "t-0" / RUN / "intent.json").read_bytes())
    runs = [RUN, f"{RUN[:-1]}2", f"{RUN[:-1]}10", "kafkalog-undo-20260102T030406Z-1"]
    for partition, run in zip(("a-3", "a-1", "a-0"), runs[1:], strict=True):
        (root / partition / run).mkdir(parents=True)
        (root / partition / run / "intent.json").write_bytes(sealed(value | {"run": run}))
    assert [journal.run for journal in find_journals(str(root)).journals] == runs


# --- elsewhere --------------------------------------------------------------------------------------------------------
def test_a_pointer_to_what_is_gone(root: Path, elsewhere: Path) -> None:
    apply_to(root, Disk(), undo_to=elsewhere)
    elsewhere.rename(elsewhere.parent / "moved")
    expected = f"its journal cannot be read ({elsewhere}: does not exist; if it is on another disk, mount that disk)"
    assert reason(root) == expected
    assert reason(root, root / "t-1") == expected


@pytest.mark.parametrize("of_partition", [False, True])
def test_a_pointer_that_was_copied_or_is_of_another_kind(root: Path, elsewhere: Path, of_partition: bool) -> None:
    """Of a log directory it is a file, and of a partition outside any a directory with a file."""
    place, other = root.parent / ("t-0" if of_partition else "log"), root.parent / "other"
    if of_partition:
        shutil.copytree(root / "t-0", place)
    apply_to(place, Disk(), undo_to=elsewhere)
    shutil.copytree(place, other)
    kept = f"{elsewhere}/{RUN}"
    why = f"{other}/{RUN}: belongs to {place}, of which this directory is a copy; the journal is in {kept}"
    assert reason(other) == f"its journal cannot be read ({why})"
    pointer = place / RUN
    pointer.rename(root.parent / "moved")
    if of_partition:
        (root.parent / "moved" / "intent.json").rename(pointer)
    else:
        pointer.mkdir()
        (root.parent / "moved").rename(pointer / "intent.json")
    why = f"{pointer}: leads to a journal of another kind of directory, {kept}"
    assert reason(place) == f"its journal cannot be read ({why})"


def test_a_directory_that_was_moved_is_the_one_that_is_named_for_it(root: Path, elsewhere: Path) -> None:
    """The journal has the path of then; where the command names the same directory by another path, that counts."""
    old = snapshot(root)
    apply_to(root, Disk(), undo_to=elsewhere)
    (root.parent / "name").symlink_to(root)
    (root / RUN).unlink()
    (journal,) = find_journals(str(elsewhere)).journals
    assert journal.layout.root == str(root)
    (journal,) = find_journals(str(elsewhere), [f"{root}/t-0", f"{root.parent}/name"]).journals
    assert journal.layout.root == f"{root.parent}/name"
    apply_undo(plan_undo(scope_of(str(elsewhere), [f"{root.parent}/name"])), Disk())
    assert snapshot(root) == old


def test_a_journal_next_to_its_files_is_of_the_directory_that_it_is_in(root: Path) -> None:
    apply_to(root, Disk())
    (root.parent / "name").symlink_to(root / "t-0")
    (journal,) = find_journals(str(root), [f"{root.parent}/name"]).journals
    assert (journal.layout.root, journal.layout.home) == (f"{root}/t-0", f"{root}/t-0")


# --- what is no journal -----------------------------------------------------------------------------------------------
def test_why_something_is_no_journal(root: Path) -> None:
    run = root / "t-0" / RUN
    run.mkdir()
    (run / "new-0001").write_bytes(b"n" * 5000)
    assert reason(root) == "the run ended before it changed anything"
    (found,) = find_journals(str(root)).remains
    assert (found.is_new_content, found.is_unreadable) == (True, False)
    (run / "old-0002").write_bytes(b"o" * 100)
    assert reason(root) == (
        "it holds old content of files but no intent: either the run ended while it saved that content, before it "
        "changed anything, or the intent was deleted"
    )
    (found,) = find_journals(str(root)).remains
    assert (found.is_new_content, found.is_unreadable) == (False, False)
    (run / "intent.json").write_bytes(b"x")
    assert reason(root) == f"its journal cannot be read ({run}/intent.json: is not JSON, or is damaged)"
    (found,) = find_journals(str(root)).remains
    assert (found.is_new_content, found.is_unreadable) == (False, True)


def test_a_run_that_had_begun_to_save_and_says_so_changed_nothing(root: Path) -> None:
    class Stopping(Disk):
        def step(self, what: str, path: str) -> None:
            if what == "rename" and path == f"{root}/{RUN}" and list(root.glob(f"t-0/{RUN}/old-*")):
                raise Killed

    with pytest.raises(Killed):
        apply_to(root, Stopping(), is_wide=True)
    assert reason(root) == "the run ended before it changed anything"


# --- what they hold ---------------------------------------------------------------------------------------------------
def size(path: Path) -> int:
    return path.stat().st_size


@pytest.mark.parametrize("door", [Disk, UnlinkingDisk])
def test_what_pruning_frees_is_what_has_no_other_name(root: Path, door: type[Disk]) -> None:
    apply_to(root, door(), is_wide=True)
    (journal,) = find_journals(str(root)).journals
    kept = [root / RUN, *root.glob(f"t-*/{RUN}/*")]
    assert held_bytes(journal) == sum(size(path) for path in kept if path.stat().st_nlink == 1) > 9000
    os.link(max(kept, key=size), root.parent / "backup")
    assert held_bytes(journal) == sum(size(path) for path in kept) - size(root.parent / "backup")


def test_a_pointer_is_freed_too_and_a_directory_that_is_gone_holds_nothing(root: Path, elsewhere: Path) -> None:
    apply_to(root, Disk(), undo_to=elsewhere)
    (journal,) = find_journals(str(root), [str(elsewhere)]).journals
    held = held_bytes(journal)
    assert held == size(root / RUN) + sum(size(path) for path in (elsewhere / RUN).iterdir())
    pointer = size(root / RUN)
    (root / RUN).unlink()
    assert held_bytes(journal) == held - pointer
    (elsewhere / RUN).rename(elsewhere / "moved")
    assert held_bytes(replace(journal, trusted=TrustedDirectories([str(root), str(elsewhere)]))) == 0


def test_what_the_next_run_frees_is_counted_in_blocks(root: Path) -> None:
    run = root / "t-0" / RUN
    run.mkdir()
    (run / "new-0001").write_bytes(b"n" * 5000)
    (root / f"{RUN[:-1]}2.new-0001").write_bytes(b"n" * 70_000)
    (root / "t-1" / f"{RUN[:-1]}3").mkdir()
    (root / "t-1" / f"{RUN[:-1]}3" / "old-0001").write_bytes(b"o" * 90_000)
    paths = [run, run / "new-0001", root / f"{RUN[:-1]}2.new-0001"]
    assert remains_bytes(find_journals(str(root))) == 512 * sum(path.stat().st_blocks for path in paths) >= 75_000


def test_a_journal_of_several_partitions_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its partitions leads to it; reading it for each took minutes for some hundred partitions."""
    apply_to(root, Disk(), is_wide=True)
    read = []
    parse = journals_module.parse_journal

    def counting(content: bytes, *rest: object) -> object:
        read.append(len(content))
        return parse(content, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(journals_module, "parse_journal", counting)
    (journal,) = find_journals(str(root)).journals
    assert len({os.path.dirname(journal.path_of(entry)) for entry in journal.entries}) > 1
    assert len(read) == 1
