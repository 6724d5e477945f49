"""What a freeze keeps, where it refuses to work, and what is left of one that is killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.usage import freeze_place
from kafkalog_core.ops.usage.freeze import FreezeRequest, Frozen, freeze
from kafkalog_core.ops.usage.frozen_dir import MANIFEST
from kafkalog_core.storage.changing import writer
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import CountingDisk, DyingDisk, FailingDisk, Killed, UnlinkingDisk

if TYPE_CHECKING:
    from click.testing import Result

DEMO = Path(__file__).resolve().parents[3] / "fixtures" / "demo"
DELETED = "orders-0.0123456789abcdef0123456789abcdef-delete"
LOG = "00000000000000000000.log"
SHM = "/dev/shm"  # noqa: S108 -- another file system than that of the test's own directory


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """A log directory in which a topic waits for its deletion, and a segment of another one."""
    root = tmp_path / "kafka"
    shutil.copytree(DEMO, root)
    (root / "orders-0").rename(root / DELETED)
    for path in (root / "orders-1").glob("00000000000000000000.*"):
        path.rename(f"{path}.deleted")
    return root


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(cli, ["freeze", *map(str, arguments)])


def frozen(root: Path, to: Path, disk: Disk | None = None, *, takes_all: bool = False) -> list[Frozen]:
    request = FreezeRequest(resolve=lambda: resolve([str(root)]), paths=(str(root),), to=str(to), takes_all=takes_all)
    return [each for each in freeze(request, Report(), disk) if isinstance(each, Frozen)]


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def codes(result: Result) -> set[str]:
    rows = map(json.loads, result.stdout.splitlines())
    return {row["code"] for row in rows if row["type"] == "finding"}


def test_what_waits_for_deletion_is_linked_under_the_names_that_it_had(kafka: Path, tmp_path: Path) -> None:
    to = tmp_path / "frozen"
    result = run(kafka, "--to", to)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("FROZEN: 15 files (")
    assert sorted(path.name for path in to.iterdir()) == [MANIFEST, "orders-0", "orders-1"]
    assert content(to / "orders-0") == content(DEMO / "orders-0")
    assert (to / "orders-0" / LOG).samefile(kafka / DELETED / LOG)
    assert (to / "orders-1" / LOG).samefile(kafka / "orders-1" / f"{LOG}.deleted")
    assert {path.suffix for path in (to / "orders-1").iterdir()} == {".log", ".index", ".timeindex", "", ".metadata"}
    shutil.rmtree(kafka)
    dumped = CliRunner().invoke(cli, ["dump", "--records", "--ndjson", str(to / "orders-0")])
    wanted = CliRunner().invoke(cli, ["dump", "--records", "--ndjson", str(DEMO / "orders-0")])
    assert dumped.stdout == wanted.stdout
    assert CliRunner().invoke(cli, ["verify", str(to)]).exit_code == 0
    origins = [json.loads(line) for line in (to / MANIFEST).read_text().split("\n") if line]
    assert [each["from"] for each in origins] == [str(kafka / DELETED), str(kafka / "orders-1")]


def test_nothing_in_the_log_directory_changes(kafka: Path, tmp_path: Path) -> None:
    def shown() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in kafka.rglob("*")}

    before = shown()
    assert run(kafka, "--all", "--to", tmp_path / "frozen").exit_code == 0
    assert shown() == before


def test_a_dry_run_makes_nothing_and_says_what_is_copied(kafka: Path, tmp_path: Path) -> None:
    to = tmp_path / "frozen"
    result = run(kafka, "--all", "--dry-run", "--to", to)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("WOULD FREEZE: ")
    assert "by copies" in result.stdout
    assert not to.exists()


def test_all_keeps_logs_in_use_and_copies_what_changes_in_place(kafka: Path, tmp_path: Path) -> None:
    """customers-0 has one segment, the active one; of the deleted topic a broker changes nothing."""
    to = tmp_path / "frozen"
    assert run(kafka, "--all", "--to", to).exit_code == 0
    assert not (to / "customers-0" / LOG).samefile(kafka / "customers-0" / LOG)
    assert (to / "orders-0" / LOG).samefile(kafka / DELETED / LOG)
    before = (to / "customers-0" / LOG).read_bytes()
    os.truncate(kafka / "customers-0" / LOG, 100)
    assert (to / "customers-0" / LOG).read_bytes() == before
    again = run(kafka, "--all", "--to", to)
    assert again.stdout.startswith("NOTHING NEW: ")  # the longer one of the two is kept
    assert (to / "customers-0" / LOG).read_bytes() == before


def test_closed_segments_are_copied_from_the_recovery_point_on(kafka: Path, tmp_path: Path) -> None:
    shutil.copytree(DEMO / "orders-0", kafka / "orders-0")
    checkpoint = kafka / "recovery-point-offset-checkpoint"
    first = run(kafka / "orders-0", "--all", "--to", tmp_path / "flushed")
    assert first.exit_code == 0, first.output
    assert (tmp_path / "flushed" / "orders-0" / LOG).samefile(kafka / "orders-0" / LOG)
    checkpoint.write_text("0\n1\norders 0 40\n")  # in the first segment, which ends at 41
    run(kafka / "orders-0", "--all", "--to", tmp_path / "unflushed")
    assert not (tmp_path / "unflushed" / "orders-0" / LOG).samefile(kafka / "orders-0" / LOG)


def test_a_log_that_has_grown_is_copied_again(kafka: Path, tmp_path: Path) -> None:
    to, log = tmp_path / "frozen", kafka / "customers-0" / LOG
    whole = log.read_bytes()
    os.truncate(log, 100)
    run(kafka / "customers-0", "--all", "--to", to)
    log.write_bytes(whole)
    run(kafka / "customers-0", "--all", "--to", to)
    assert (to / "customers-0" / LOG).read_bytes() == whole
    assert not list(to.rglob("*.tmp"))


def test_a_text_of_the_same_size_that_a_broker_has_replaced_is_frozen_again(kafka: Path, tmp_path: Path) -> None:
    path = kafka / "orders-1" / "leader-epoch-checkpoint"
    frozen(kafka, tmp_path / "frozen", takes_all=True)
    changed = path.read_bytes()[:-2] + b"9\n"
    (kafka / "new").write_bytes(changed)
    (kafka / "new").rename(path)
    frozen(kafka, tmp_path / "frozen", takes_all=True)
    assert (tmp_path / "frozen" / "orders-1" / path.name).read_bytes() == changed


def test_two_files_of_one_name_are_both_kept(kafka: Path, tmp_path: Path) -> None:
    """The cleaner gives the cleaned segment the name of the first one that it replaces."""
    to = tmp_path / "frozen"
    (kafka / "customers-0" / f"{LOG}.deleted").write_bytes(b"before it was cleaned")
    result = run(kafka / "customers-0", "--all", "--ndjson", "--to", to)
    assert codes(result) == {"freeze.name-taken"}
    assert (to / "customers-0" / LOG).read_bytes() == (kafka / "customers-0" / LOG).read_bytes()
    assert (to / "2" / "customers-0" / LOG).read_bytes() == b"before it was cleaned"
    assert run(kafka / "customers-0", "--all", "--to", to).stdout.startswith("NOTHING NEW: ")


def test_a_file_with_names_in_two_partitions_is_kept_in_both(kafka: Path, tmp_path: Path) -> None:
    """As after `cp -al` of a partition."""
    to, copy = tmp_path / "frozen", kafka / "copied-0.0123456789abcdef0123456789abcdef-delete"
    shutil.copytree(kafka / DELETED, copy, copy_function=os.link)
    assert run(kafka, "--to", to).exit_code == 0
    assert content(to / "copied-0") == content(to / "orders-0") == content(copy)


def test_a_text_that_was_replaced_by_one_of_the_same_length_is_kept(kafka: Path, tmp_path: Path) -> None:
    to, text = tmp_path / "frozen", kafka / "customers-0" / "leader-epoch-checkpoint"
    run(kafka / "customers-0", "--all", "--to", to)
    new = text.with_name("leader-epoch-checkpoint.tmp")  # CheckpointFile.write
    new.write_bytes(text.read_bytes()[::-1])
    new.replace(text)
    run(kafka / "customers-0", "--all", "--to", to)
    assert (to / "customers-0" / text.name).read_bytes() == text.read_bytes()


def test_a_topic_that_was_created_again_is_not_mixed_with_the_deleted_one(kafka: Path, tmp_path: Path) -> None:
    to = tmp_path / "frozen"
    shutil.copytree(DEMO / "customers-0", kafka / "orders-0")
    (kafka / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert run(kafka, "--all", "--to", to).exit_code == 0
    assert content(to / "orders-0") == content(kafka / DELETED)
    assert content(to / "2" / "orders-0")[LOG] == content(kafka / "orders-0")[LOG]


def test_a_topic_that_is_deleted_between_two_runs_is_the_same_one(kafka: Path, tmp_path: Path) -> None:
    to = tmp_path / "frozen"
    run(kafka, "--all", "--to", to)
    (kafka / "payments-0").rename(kafka / "payments-0.0123456789abcdef0123456789abcdef-delete")
    result = run(kafka, "--to", to)
    assert result.exit_code == 0, result.output
    assert not (to / "2").exists()


def test_a_directory_in_a_log_directory_is_refused_with_another_one(kafka: Path, tmp_path: Path) -> None:
    for place in (kafka / "frozen", kafka / "orders-1" / "frozen", kafka):
        result = run(kafka, "--to", place)
        assert result.exit_code == 3
        assert "stops the broker" in result.stderr
        command = result.stderr.splitlines()[-1].split()
        assert command[:5] == ["kafkalog", "freeze", str(kafka), "--to", command[-1]]
        assert Path(command[-1]).parent == tmp_path
    assert not list(kafka.rglob("frozen"))
    assert run(*command[2:]).exit_code == 0


@pytest.mark.skipif(not os.path.isdir(SHM), reason="no second file system at hand")
def test_a_file_that_is_a_symbolic_link_is_reported_and_not_frozen(kafka: Path, tmp_path: Path) -> None:
    for directory in (kafka / DELETED, kafka / "customers-0"):
        shutil.move(directory / LOG, tmp_path / directory.name)
        (directory / LOG).symlink_to(tmp_path / directory.name)
    for number, options in enumerate((["--dry-run"], [], ["--all"])):
        result = run(kafka, "--ndjson", *options, "--to", tmp_path / f"frozen-{number}")
        assert result.exit_code == 4, result.output
        rows = [row for row in map(json.loads, result.stdout.splitlines()) if row["type"] == "finding"]
        assert {row["code"] for row in rows} == {"freeze.symbolic-link"}
        named = {row["file"] for row in rows}
        assert named == {str(kafka / name / LOG) for name in [DELETED, *["customers-0"] * ("--all" in options)]}
    assert not [path for path in tmp_path.rglob("frozen-*/**/*") if path.is_symlink()]


def test_the_copy_that_is_the_last_way_out_works_and_is_outside_of_log_directories(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freeze_place, "_near", lambda root, name: None)  # the whole file system is the log directory
    inside = run(kafka, "--to", kafka / "frozen")
    assert inside.exit_code == 3
    assert inside.stderr.splitlines()[-1].endswith(" DIR")
    to = tmp_path / "none" / "to"
    subprocess.run(["sh", "-c", run(kafka, "--to", to).stderr.splitlines()[-1]], check=True)
    assert (to / DELETED / LOG).read_bytes() == (kafka / DELETED / LOG).read_bytes()


def test_another_file_system_is_refused_with_a_directory_that_works(kafka: Path, tmp_path: Path) -> None:
    if os.stat(SHM).st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system at hand")
    to = Path(SHM) / f"kafkalog-{os.getpid()}"
    result = run(kafka, "--to", to)
    assert result.exit_code == 3
    assert "another file system" in result.stderr
    assert not to.exists()
    assert run(*result.stderr.splitlines()[-1].split()[2:]).exit_code == 0


def test_where_no_link_can_be_made_nothing_is_left(kafka: Path, tmp_path: Path) -> None:
    to = tmp_path / "frozen"
    with pytest.raises(writer.RefusedError, match="different mounts"):
        frozen(kafka, to, UnlinkingDisk())
    assert not to.exists()


def test_a_directory_with_other_files_and_one_that_is_missing_are_refused(kafka: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    assert "no kafkalog freeze has put there" in run(kafka, "--to", tmp_path / "other").stderr
    assert "there is no directory" in run(kafka, "--to", tmp_path / "a" / "b").stderr
    assert run(kafka / "orders-1" / f"{LOG}.deleted", "--to", tmp_path / "f").exit_code == 3


def test_nothing_to_freeze_names_the_option_that_keeps_more(tmp_path: Path) -> None:
    result = run(DEMO, "--to", tmp_path / "frozen")
    assert result.exit_code == 0
    assert result.stdout.startswith("NOTHING TO FREEZE: ")
    assert "--all" in result.stdout
    assert not (tmp_path / "frozen").exists()


class RacingDisk(Disk):
    """A broker deletes, or renames, while links are made."""

    def __init__(self, act: object) -> None:
        self._act = act

    def step(self, what: str, path: str) -> None:
        if what == "link" and path.endswith(LOG) and callable(self._act):
            act, self._act = self._act, None
            act()


def test_files_that_vanish_are_named(kafka: Path, tmp_path: Path) -> None:
    (result,) = frozen(kafka / DELETED, tmp_path / "frozen", RacingDisk((kafka / DELETED / LOG).unlink))
    assert [(each.code, each.severity) for each in result.findings] == [("freeze.vanished", "error")]
    assert LOG in result.findings[0].message
    assert "00000000000000000041.log" in content(tmp_path / "frozen" / "orders-0")


def test_a_topic_that_is_deleted_meanwhile_is_found_under_its_new_name(kafka: Path, tmp_path: Path) -> None:
    def delete() -> None:
        (kafka / "payments-0").rename(kafka / "payments-0.0123456789abcdef0123456789abcdef-delete")

    results = frozen(kafka, tmp_path / "frozen", RacingDisk(delete), takes_all=True)
    assert not [finding for each in results for finding in each.findings]
    assert content(tmp_path / "frozen" / "payments-0")[LOG] == content(DEMO / "payments-0")[LOG]


class GrowingDisk(Disk):
    """A broker appends to a log while it is copied."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def step(self, what: str, path: str) -> None:
        if what == "fsync" and self._log.name in path and path.endswith(".tmp"):
            with self._log.open("ab") as file:
                file.write(b"\0")


def test_a_log_that_changes_while_it_is_copied_ends_with_a_whole_batch(kafka: Path, tmp_path: Path) -> None:
    log, to = kafka / "customers-0" / LOG, tmp_path / "frozen"
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:70])  # a batch of which a part is there
    (result,) = frozen(kafka / "customers-0", to, GrowingDisk(log), takes_all=True)
    assert [each.code for each in result.findings] == ["freeze.cut"]
    assert (to / "customers-0" / LOG).read_bytes() == whole


def test_a_torn_tail_that_nobody_is_writing_is_kept(kafka: Path, tmp_path: Path) -> None:
    log = kafka / "customers-0" / LOG
    log.write_bytes(log.read_bytes() + b"torn" * 20)
    frozen(kafka / "customers-0", tmp_path / "frozen", takes_all=True)
    assert (tmp_path / "frozen" / "customers-0" / LOG).read_bytes() == log.read_bytes()


def test_without_space_for_a_copy_the_link_is_kept_and_reported(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, to = kafka / "customers-0" / LOG, tmp_path / "frozen"
    monkeypatch.setattr("kafkalog_core.ops.usage.freeze.free_bytes", lambda path: 100)
    result = run(kafka / "customers-0", "--all", "--ndjson", "--to", to)
    assert codes(result) == {"freeze.still-linked"}
    assert (to / "customers-0" / LOG).samefile(log)
    monkeypatch.undo()
    run(kafka / "customers-0", "--all", "--to", to)
    assert not (to / "customers-0" / LOG).samefile(log)


def test_a_disk_that_fails_a_copy_leaves_the_link(kafka: Path, tmp_path: Path) -> None:
    counting = CountingDisk()
    frozen(kafka / "customers-0", tmp_path / "counted", counting, takes_all=True)
    at = len(counting.steps) - 1 - counting.steps[::-1].index("write")
    (result,) = frozen(kafka / "customers-0", tmp_path / "frozen", FailingDisk(at, 28), takes_all=True)
    assert [each.code for each in result.findings] == ["freeze.still-linked"]
    assert not list((tmp_path / "frozen").rglob("*.tmp"))


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_anywhere_the_same_command_does_the_rest(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    monkeypatch.setattr(writer, "_sync", lambda number: None)  # only a machine that stops loses what it has taken
    for name in ("__cluster_metadata-0", "__consumer_offsets-0", "__transaction_state-0", "payments-0"):
        shutil.rmtree(kafka / name)
    (kafka / "customers-0" / f"{LOG}.deleted").write_bytes(b"before it was cleaned")
    whole, counting = tmp_path / "whole", CountingDisk()
    frozen(kafka, whole, counting, takes_all=True)
    wanted = {str(path.relative_to(whole)): path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    del wanted[MANIFEST]
    for torn in (False, True):
        for at in range(0, len(counting.steps), stride):
            to = tmp_path / f"{at}-{torn}"
            with suppress(Killed):
                frozen(kafka, to, DyingDisk(at, torn=torn), takes_all=True)
            frozen(kafka, to, takes_all=True)
            found = {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}
            del found[MANIFEST]
            assert found == wanted, (at, counting.steps[at])
            log = to / "customers-0" / LOG
            assert not log.samefile(kafka / "customers-0" / LOG), (at, counting.steps[at])
            shutil.rmtree(to)
