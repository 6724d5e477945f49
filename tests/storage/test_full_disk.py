"""0 bytes free: repairs that free room are applied, killed, failed, taken back and finished there."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import RefusedError, UnfinishedError
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing.journal import write_intent
from kafkalog_core.storage.changing.writer import Attributes, Disk
from tests.support.full_disk import CASES, Case, FullDisk, NewDirRounds, Rounds, mounted_disk, write_patient
from tests.support.repairs import CountingDisk, DyingDisk, Killed, names_of_ours, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("no_waiting")

SAMPLE = 3
"""Points of each case; the long run takes all."""
TIGHT = tuple(case for case in CASES if case.room != "room")
FULL = tuple(case for case in CASES if case.room == "full")
LEAST = tuple(case for case in CASES if case.room == "least")
BLOCK_BYTES = 4096
PLACES = {"partition": "partition", "undo-to": "elsewhere"}
RETAIN = {"assignment": "retention.bytes=45000"}


@pytest.fixture(scope="module")
def disk() -> Iterator[FullDisk]:
    with mounted_disk() as mounted:
        yield mounted


@pytest.mark.slow
@pytest.mark.parametrize("case", TIGHT, ids=str)
def test_a_sample_of_the_long_run(case: Case, disk: FullDisk, tmp_path: Path) -> None:
    rounds = Rounds(case, disk, tmp_path)
    assert rounds.new != rounds.old
    count = len(rounds.steps)
    for at in range(count - 1, 0, -(count // SAMPLE)):
        rounds.check_killed(at)
    rounds.check_failed(count // 2, errno.ENOSPC, forever=True)
    rounds.check_failed(count // 3, errno.EIO, forever=False)
    for part in (1, 2) if rounds.undo_steps else ():
        rounds.check_undo_killed(part * len(rounds.undo_steps) // 3)


@pytest.mark.parametrize("command", ["roll", "compact"])
def test_a_new_directory_is_not_made_on_the_full_disk_and_made_elsewhere(
    command: str, disk: FullDisk, tmp_path: Path
) -> None:
    rounds = NewDirRounds(command, disk, tmp_path)
    rounds.check_refused()
    for part in (1, 2):
        rounds.check_killed(part * len(rounds.steps) // 3)


@pytest.mark.parametrize("case", LEAST, ids=str)
def test_with_one_block_less_than_it_needs_it_is_refused_with_the_bytes_that_are_missing(
    case: Case, disk: FullDisk, tmp_path: Path
) -> None:
    rounds = Rounds(case, disk, tmp_path)
    assert rounds.free_bytes
    rounds.free_bytes -= BLOCK_BYTES
    rounds.reset()
    draft = rounds.draft()
    (obstacle,) = map(str, draft.plan.obstacles)
    if case.command in {"checkpoint", "recover"}:
        assert "4,096 bytes have to be freed first, because a new file is complete before it replaces" in obstacle
        assert f"kafkalog retain {rounds.root} --undo-to DIR --apply" in obstacle
    else:
        assert "or write the cleaned logs elsewhere: --to DIR" in obstacle
        assert (
            "because the cleaned segments are complete before the old ones are deleted" in obstacle
            or not case.keeps_undo
        )
    with pytest.raises(RefusedError, match="nothing has been changed"):
        apply_plan(draft, Disk(), now_ms=0)
    assert snapshot(disk.root) == rounds.old
    assert names_of_ours(disk.root) == []


@pytest.mark.parametrize("torn", [False, True])
def test_what_a_run_left_that_died_while_it_staged_is_room_for_the_next_one(
    torn: bool, disk: FullDisk, tmp_path: Path
) -> None:
    rounds = Rounds(
        next(case for case in LEAST if case.command == "checkpoint" and not case.keeps_undo), disk, tmp_path
    )
    rounds.reset()
    with suppress(Killed):
        rounds.apply(DyingDisk(rounds.steps.index("rename"), torn=torn))
    assert disk.free_bytes == 0
    assert names_of_ours(disk.root)
    rounds.apply(Disk())
    assert names_of_ours(disk.root) == []
    assert {name: row[0] for name, row in snapshot(disk.root).items()} == {
        name: row[0]
        for name, row in rounds.new.items()  # type: ignore[index]  # rows of a snapshot begin with the content
    }


@pytest.mark.parametrize("case", TIGHT, ids=str)
def test_nothing_is_written_there_before_something_is_freed(case: Case, disk: FullDisk, tmp_path: Path) -> None:
    class Watching(Disk):
        """Notes what is written on the full disk while 0 bytes are free."""

        def step(self, what: str, path: str) -> None:
            if what == "write" and path.startswith(f"{disk.root}/") and not disk.free_bytes:
                early.append(path)

    early: list[str] = []
    rounds = Rounds(case, disk, tmp_path)
    rounds.reset()
    rounds.apply(Watching())
    assert early == []


def test_a_file_that_changes_after_the_changes_ahead_the_message_says_what_has_been_done(
    disk: FullDisk, tmp_path: Path
) -> None:
    class Meddling(Disk):
        """Another process changes a file of the plan once the first file is deleted."""

        def unlink(self, path: str) -> None:
            super().unlink(path)
            if path == draft.plan.changes[0].path:
                os.truncate(last, 3)

    rounds = Rounds(Case("retain", RETAIN, keeps_undo=False), disk, tmp_path)
    rounds.reset()
    draft = rounds.draft()
    last = [change.path for change in draft.plan.changes if change.before is not None][-1]
    with pytest.raises(UnfinishedError) as caught:
        apply_plan(draft, Meddling(), now_ms=0)
    text = str(caught.value)
    gone = [change.path for change in draft.plan.changes if not Path(change.path).exists()]
    assert text.startswith(last)
    assert "nothing has been changed" not in text
    count = len(draft.plan.changes)
    assert f"{len(gone)} of the {count} changes of the plan " in text
    assert f"to free space for the others: {gone[0]} (deleted)" in text
    assert all(f"{path} (deleted)" in text for path in gone)
    assert "nothing else has been changed. When the cause is repaired, finish the plan with the same command" in text
    assert names_of_ours(disk.root) == []


def test_without_either_option_it_is_refused_and_both_are_named(disk: FullDisk, tmp_path: Path) -> None:
    rounds = Rounds(Case("retain", RETAIN, keeps_undo=True), disk, tmp_path)
    rounds.reset()
    draft = rounds.draft(beside=True)
    assert not draft.plan.changes[0].size_bytes
    with pytest.raises(RefusedError, match=r"0 B are free; .*: --undo-to DIR; or keep none, .*: --no-undo"):
        apply_plan(draft, Disk(), now_ms=0)
    assert snapshot(disk.root) == rounds.old
    assert names_of_ours(disk.root) == []


def test_an_undo_says_how_much_room_it_lacks_before_it_changes_anything(disk: FullDisk, tmp_path: Path) -> None:
    rounds = Rounds(Case("retain", RETAIN, keeps_undo=True), disk, tmp_path)
    rounds.reset()
    rounds.apply(Disk())
    disk.fill()
    new = snapshot(disk.root)
    plan = plan_undo(scope_of(rounds.root))
    (obstacle,) = map(str, plan.obstacles)
    assert "KiB on its file system, and 0 B are free. Move other files away first" in obstacle
    with pytest.raises(RefusedError, match="nothing has been changed"):
        apply_undo(plan, Disk())
    assert snapshot(disk.root) == new
    (disk.path / "filler").unlink()
    apply_undo(plan_undo(scope_of(rounds.root)), Disk())
    assert snapshot(disk.root) == rounds.old


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["partition", "top", "undo-to", "interrupted"])
def test_a_journal_is_pruned_at_0_bytes_free_and_killed_at_every_step(
    layout: str, disk: FullDisk, tmp_path: Path
) -> None:
    """Nothing is written, and from the first step on no run is offered that is gone in part."""
    write_patient(tmp_path / "pristine", "reindex" if layout == "partition" else "retain")
    root, partition = str(disk.root), disk.root / "t-0"
    line = ["reindex"] if layout == "partition" else ["truncate", "--to-offset", "11"]
    line += [str(partition), "--kafka", "4.3", "--assume-defaults", "--jobs", "1", "--apply", "--ndjson"]
    line += ["--undo-to", str(disk.path / "undo")] if layout == "undo-to" else []
    prune = ["undo", root, "--prune", "--apply"]

    def applied() -> None:
        disk.reset(tmp_path / "pristine", free_bytes=None)
        result = CliRunner().invoke(cli, line)
        assert '"state":"applied"' in result.stdout, result.output
        (journal,) = scope_of(root).found.journals
        assert journal.layout.place == PLACES.get(layout, "top")
        if layout == "interrupted":
            write_intent(Disk(), journal, "prepared", Attributes.of(journal.layout.intent))
            with open(partition / f"{10:020}.log", "ab") as log:
                log.write(b"appended")
            prune[3:] = ["--run", journal.run, "--apply"]
        disk.fill()

    applied()
    counting = CountingDisk()
    apply_prune(plan_prune(scope_of(root), prune[4] if layout == "interrupted" else None), counting)
    assert counting.steps[0] == "rename"
    assert not {"write", "create"} & set(counting.steps)
    for at in range(len(counting.steps) + 1):
        applied()
        new = snapshot(disk.root)
        with suppress(Killed):
            apply_prune(plan_prune(scope_of(root), prune[4] if layout == "interrupted" else None), DyingDisk(at))
        if 0 < at < len(counting.steps) - 3:
            states = [journal.state for journal in scope_of(root).found.journals]
            assert states == ["pruning"] or (not states and layout == "undo-to"), at
        if layout == "undo-to" and not names_of_ours(disk.root):  # the pointer is deleted before the intent
            prune[1:2] = [str(disk.path / "undo"), root]
        result = CliRunner().invoke(cli, prune)
        assert result.exit_code == 0 or layout == "interrupted", result.output
        assert names_of_ours(disk.path) == [], at
        assert snapshot(disk.root) == new


DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
DEMO_COMMANDS = {
    "retain": ("--topic", "orders", "--topic-config", "orders:retention.ms=86400000", "--set", "cleanup.policy=delete"),
    "truncate": ("--to-offset", "17", "--topic", "orders", "--partition", "0"),
    "reindex": ("--topic", "orders"),
}


@pytest.mark.parametrize("way", ["--undo-to", "--no-undo"])
@pytest.mark.parametrize("command", DEMO_COMMANDS)
def test_the_demo_is_repaired_at_0_bytes_free_as_the_readme_says(
    command: str, way: str, disk: FullDisk, tmp_path: Path
) -> None:
    disk.reset(DEMO, free_bytes=None)
    if command == "reindex":
        for suffix in ("index", "timeindex"):
            (disk.root / "orders-1" / f"{39:020}.{suffix}").write_bytes(b"x" * 24)
    disk.fill()
    where = (way, str(tmp_path / "undo")) if way == "--undo-to" else (way,)
    result = CliRunner().invoke(cli, [command, *DEMO_COMMANDS[command], *where, "--apply", "--ndjson", str(disk.root)])
    assert '"state":"applied"' in result.stdout, result.output
    assert names_of_ours(disk.root) == [] or way == "--undo-to"


def test_an_offset_index_that_is_wrong_alone_is_rebuilt_at_0_bytes_free(disk: FullDisk) -> None:
    disk.reset(DEMO, free_bytes=None)
    (disk.root / "orders-1" / f"{39:020}.index").write_bytes(b"x" * 24)
    disk.fill()
    line = ["reindex", "--topic", "orders", "--no-undo", "--apply", "--ndjson", str(disk.root)]
    result = CliRunner().invoke(cli, line)
    assert '"state":"applied"' in result.stdout, result.output
    assert CliRunner().invoke(cli, ["verify", "--quiet", str(disk.root / "orders-1")]).exit_code == 0


def test_without_undo_nothing_is_left_of_a_journal(disk: FullDisk, tmp_path: Path) -> None:
    Rounds(Case("retain", RETAIN, keeps_undo=False), disk, tmp_path)
    assert names_of_ours(disk.root) == []
