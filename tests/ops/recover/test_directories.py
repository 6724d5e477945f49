"""What recover and preflight make of whole directories: empty ones, lost ones, and a partition that is in two."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.assigned_disks import DIRECTORY, GOOD, OTHER, an_id, disk, partition, registered, text, topic
from tests.support.build import meta_properties
from tests.support.repairs import snapshot
from tests.support.truncating import write_log

RELEASE: Final = ("--kafka", "4.3.1")
NODE: Final = Path(__file__).parents[3] / "fixtures" / "quorum" / "1"
EMPTY: Final = "The log directory is empty: it is new, or its disk is not mounted."


def said(*words: object, status: int | None = None) -> str:
    ended = CliRunner(env={"COLUMNS": "4000"}).invoke(cli, [*map(str, words)], catch_exceptions=False)
    assert status in {None, ended.exit_code}, ended.output
    return " ".join(ended.output.split())


# --- empty log directories --------------------------------------------------------------------------------------------
def test_a_broker_does_not_start_beside_an_empty_directory(tmp_path: Path) -> None:
    """4.3.1: `No meta.properties found in` (modern/07b-two-log-dirs-4.3.1, B.dir_empty)."""
    first, empty = disk(tmp_path / "a", *GOOD), tmp_path / "b"
    empty.mkdir()
    shown = said("preflight", *RELEASE, first, empty, status=4)
    assert f"A 4.3.1 broker does not start: {empty}: {EMPTY}" in shown
    assert f"findmnt --target {empty}" in shown
    planned = said("recover", *RELEASE, empty, first, status=4)
    assert f"by itself the broker does not start, because of {empty}" in planned
    assert EMPTY in planned
    assert [*empty.iterdir()] == []


def test_an_empty_directory_alone_is_a_new_disk(tmp_path: Path) -> None:
    """A broker with ZooKeeper starts on it, one of KRaft does not (`KafkaRaftServer.initializeLogDirs`)."""
    assert f"A 4.3.1 broker does not start: {tmp_path}: {EMPTY}" in said("preflight", *RELEASE, tmp_path, status=4)
    assert "A 2.8 broker starts: no record is lost" in said("preflight", "--kafka", "2.8", tmp_path, status=0)
    assert "because of" in said("recover", *RELEASE, "--apply", tmp_path, status=4)
    assert "nothing has to be recovered" in said("recover", "--kafka", "2.8", "--apply", tmp_path, status=0)
    assert [*tmp_path.iterdir()] == []


def test_other_commands_read_no_empty_directory(tmp_path: Path) -> None:
    said("verify", tmp_path, status=3)
    said("truncate", "--as-broker", tmp_path, status=3)


# --- directories of partitions that are lost or not kept --------------------------------------------------------------
def test_a_lost_directory_is_said_in_the_first_sentence(tmp_path: Path) -> None:
    path = disk(tmp_path / "a", *GOOD)
    said("recover", *RELEASE, "--only-copy", "--apply", path)
    assert "nothing has to be recovered" in said("recover", *RELEASE, path)
    shutil.rmtree(path / "t-0")
    shown = said("recover", *RELEASE, path)
    assert "nothing has to be recovered" not in shown
    assert "create empty partitions in the place of directories that are missing" in shown


def test_an_empty_partition_directory_gets_its_topic_id(tmp_path: Path) -> None:
    """Fault `dir.partition_empty`: preflight named recover, which changed nothing and named recover."""
    path = disk(tmp_path / "a", *GOOD)
    shutil.rmtree(path / "t-0")
    (path / "t-0").mkdir()
    assert "renames it to -stray" in said("preflight", *RELEASE, path, status=4)
    shown = said("recover", *RELEASE, "--only-copy", "--apply", "--details", path)
    assert "INFO partition-metadata.missing: Before this run: " in shown
    assert (path / "t-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {text(an_id(1))}"
    assert "-stray" not in said("preflight", *RELEASE, path)
    (path / "u-0").mkdir()
    said("recover", *RELEASE, "--only-copy", "--apply", path)
    assert [*(path / "u-0").iterdir()] == []  # of no topic


def test_a_stray_partition_is_one_place(tmp_path: Path) -> None:
    """However many of its files are wrong too."""
    path = disk(tmp_path / "a", *GOOD, topic_id=an_id(7))
    (path / "t-0").rename(path / "u-0")
    shutil.copytree(path / "u-0", path / "u-1")
    (path / "u-1" / "partition.metadata").write_text("version: 0\ntopic_id: no id")
    shown = said("recover", *RELEASE, path)
    assert "2 places are left that a person has to repair first: " in shown


# --- a controller -----------------------------------------------------------------------------------------------------
def test_a_controller_without_its_ids_does_not_start(tmp_path: Path) -> None:
    """Its directory has the metadata log and meta.properties, and nothing else that only Kafka writes."""
    path, other = tmp_path / "controller", tmp_path / "broker"
    shutil.copytree(NODE, path)
    meta = (path / "meta.properties").read_text()
    (path / "meta.properties").unlink()
    shown = said("preflight", path, status=4)
    assert "does not start: meta.properties: The log directory belongs to a KRaft broker" in shown
    planned = said("recover", path, status=4)
    assert "a person has to repair first: meta.properties" in planned
    assert planned.count("meta.missing-kraft") == 1
    other.mkdir()
    values = dict(line.split("=", 1) for line in meta.splitlines() if "=" in line)
    (other / "meta.properties").write_bytes(meta_properties(values | {"directory.id": text(an_id(9))}))
    said("recover", *RELEASE, "--apply", path, other, status=0)
    mended = dict(line.split("=", 1) for line in (path / "meta.properties").read_text().splitlines() if "=" in line)
    assert mended == values


# --- the unfinished copy of a partition that is nowhere else ----------------------------------------------------------
def test_a_copy_that_is_all_there_is_gets_the_name_of_its_partition(tmp_path: Path) -> None:
    """2.8.2, 3.9.2 and 4.3.1 truncate it to nothing, and serve all of it under this name."""
    first, second = two_copies(tmp_path, {0: [(0, 4)]})
    shutil.rmtree(first / "t-0")
    copy = (second / "t-0").rename(second / "t-0.0123456789abcdef0123456789abcdef-future")
    assert "truncates 1 unfinished copy to nothing" in said("preflight", *RELEASE, first, second, status=4)
    shown = said("recover", *RELEASE, "--only-copy", first, second, status=4)
    assert f"and truncate {copy.name} to nothing; " in shown
    assert f"mv -n -- {copy} {second}/t-0" in shown
    copy.rename(second / "t-0")
    assert "to nothing" not in said("preflight", *RELEASE, first, second)


# --- a partition in two log directories -------------------------------------------------------------------------------
def two_copies(tmp_path: Path, kept: dict[int, list[tuple[int, int]]]) -> tuple[Path, Path]:
    """Partition t-0 with offsets 0 to 4 in one log directory, and with these batches in another one."""
    records = (topic("t", an_id(1)), partition(an_id(1), directories=(DIRECTORY,)), registered(DIRECTORY, OTHER))
    first = disk(tmp_path / "a", *records)
    second = disk(tmp_path / "b", directory=OTHER)
    shutil.rmtree(second / "__cluster_metadata-0")
    shutil.rmtree(second / "t-0")
    write_log(second / "t-0", kept)
    shutil.copy(first / "t-0" / "partition.metadata", second / "t-0")
    return first, second


def test_the_copy_that_the_other_one_contains_makes_way(tmp_path: Path) -> None:
    """4.3.1 does not start: `Duplicate log directories` (modern/07b-two-log-dirs-4.3.1, both.same_partition_twice)."""
    first, second = two_copies(tmp_path, {0: [(0, 4), (5, 7)]})
    before = snapshot(tmp_path)
    shown = said("recover", *RELEASE, "--only-copy", first, second, status=4)
    assert f"The partition is also in {second}/t-0, which has every record of this copy, and 3 offsets more." in shown
    assert f"mv -n -- {first}/t-0 {first}/.." in shown
    assert snapshot(tmp_path) == before
    (first / "t-0").rename(first.parent / "t-0")
    assert "place" not in said("recover", *RELEASE, "--only-copy", first, second).partition("Findings")[0]
    assert "broker starts" in said("preflight", *RELEASE, first, second)


def test_of_equal_copies_one_makes_way(tmp_path: Path) -> None:
    first, second = two_copies(tmp_path, {0: [(0, 4)]})
    shown = said("recover", *RELEASE, first, second, status=4)
    assert "which has every record of this copy." in shown
    assert shown.count("mv -n -- ") >= 1


def test_of_a_copied_log_directory_every_plan_names_the_same_copy(tmp_path: Path) -> None:
    """4.3.1 does not start: `Duplicate directory ID`. Whoever runs the commands of both plans still has a copy."""
    first = disk(tmp_path / "a", *GOOD)
    second = tmp_path / "b"
    shutil.copytree(first, second)
    shown = said("recover", *RELEASE, first, second, status=4)
    for step in ("mv -n -- {}/__cluster_metadata-0", "mv -n -- {}/t-0", "sed -i.before /^directory.id=/d {}/"):
        assert step.format(second) in shown
        assert step.format(first) not in shown


def test_where_each_copy_has_records_of_its_own_a_person_decides(tmp_path: Path) -> None:
    first, second = two_copies(tmp_path, {0: [(0, 2), (3, 5)]})
    log = second / "t-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    (first / "t-0" / log.name).write_bytes(bytes(data))
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(bytes(data))
    shown = said("recover", *RELEASE, "--only-copy", first, second, status=4)
    assert f"kafkalog replicas {first}/t-0 {second}/t-0" in shown
    assert "mv -n" not in shown
