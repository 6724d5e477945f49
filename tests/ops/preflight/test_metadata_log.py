"""What preflight and recover say of partitions and directories that the metadata log has, and the disk has not.

`tests/integration/test_lost_directories.py` asks a real broker.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.assigned_disks import DIRECTORY, GOOD, OTHER, an_id, disk, partition, registered, text, topic
from tests.support.build import Record, batch_v2, meta_properties

if TYPE_CHECKING:
    from pathlib import Path

TWO = (topic("t", an_id(1)), partition(an_id(1), directories=(DIRECTORY,)), registered(DIRECTORY, OTHER, level=30))
SECOND = (topic("u", an_id(2)), partition(an_id(2), directories=(OTHER,)))


def said(command: str, *paths: object) -> str:
    release = ("--kafka", "4.3.1") if command == "preflight" else ()
    ended = CliRunner(env={"COLUMNS": "4000"}).invoke(
        cli, [command, *release, *map(str, paths)], catch_exceptions=False
    )
    return " ".join(ended.output.split())


def verdict(*paths: object) -> str:
    return said("preflight", *paths).partition(". ")[0]


def second(path: Path, directory: bytes = OTHER, name: str = "u-0", topic_id: bytes = an_id(2)) -> Path:
    """Another log directory of node 1, without a metadata log."""
    made = disk(path, directory=directory, topic_id=topic_id)
    shutil.rmtree(made / "__cluster_metadata-0")
    (made / "t-0").rename(made / name)
    return made


def test_a_lost_directory_becomes_an_empty_partition(tmp_path: Path) -> None:
    path = disk(tmp_path / "a", *GOOD)
    assert "empty partitions" not in verdict(path)
    shutil.rmtree(path / "t-0")
    assert verdict(path).endswith("creates empty partitions in the place of directories that are missing")
    assert "assigns t-0 to this log directory" in said("recover", path)


def test_a_file_in_its_place_takes_the_directory_offline(tmp_path: Path) -> None:
    first, other = disk(tmp_path / "a", *TWO, *SECOND), second(tmp_path / "b")
    shutil.rmtree(other / "u-0")
    (other / "u-0").touch()
    assert f"takes {other} offline" in verdict(first, other)
    assert "empty partitions" not in verdict(first, other)


def test_what_is_renamed_to_stray_is_neither_hidden_nor_wrong(tmp_path: Path) -> None:
    """Nobody reads it any more, so no offset of it is assigned again."""
    path = disk(tmp_path / "a", *GOOD, topic_id=an_id(7))
    log = path / "t-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + log.read_bytes()[:40])
    (path / ".kafka_cleanshutdown").touch()
    shown = verdict(path)
    assert "renames it to -stray" in shown
    assert "assigned again" not in shown
    assert "without a message" not in shown


def test_the_rest_of_a_damaged_metadata_log_leaves_partitions_in_doubt(tmp_path: Path) -> None:
    path = disk(tmp_path / "a", *GOOD)
    log = path / "__cluster_metadata-0" / f"{0:020d}.log"
    whole = log.read_bytes()
    log.write_bytes(whole + batch_v2([Record(offset=3, timestamp_ms=1, value=GOOD[2])])[:-5])
    assert "unknown" not in verdict(path), "the part that can be read assigns it"
    log.write_bytes(whole[:60])
    shown = said("preflight", path)
    assert "what happens to t-0 is unknown" in shown
    assert "does not assign 1 partition to the broker" in shown


def test_what_follows_the_first_damage_of_a_metadata_log_assigns_nothing(tmp_path: Path) -> None:
    """A node truncates its metadata log at the first damage, at each start."""
    path = disk(tmp_path / "a", registered(OTHER), *GOOD)
    log = path / "__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    assert "does not assign 1 partition to the broker, which it renames to -stray" in said("preflight", path)


def test_offsets_that_go_back_in_the_metadata_log_are_in_doubt(tmp_path: Path) -> None:
    """4.3.1 dies at a doubled TopicRecord, and starts with others (`tests/integration/mutated_starts.py`)."""
    path = disk(tmp_path / "a", *GOOD)
    log = path / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + log.read_bytes())
    assert " broker may start: " in verdict(path)
    assert "whether a node gets past such records is not simulated" in said("preflight", path)


def test_directories_that_are_not_named_are_in_doubt(tmp_path: Path) -> None:
    first, other = disk(tmp_path / "a", *TWO, *SECOND), second(tmp_path / "b")
    assert "name all of them" in said("preflight", first)
    assert "none of these log directories has the metadata log" in said("preflight", other)
    assert "in doubt" not in said("preflight", first, other)


@pytest.mark.parametrize("lost", [b"", b"\0" * 60, None], ids=["empty", "zeros", "missing"])
def test_a_directory_that_has_lost_its_ids_is_of_the_one_broker(tmp_path: Path, lost: bytes | None) -> None:
    """4.3.1: `node ID not found in`, or `No meta.properties found in`; recover repairs it with the other directory."""
    first, other = disk(tmp_path / "a", *TWO, *SECOND), second(tmp_path / "b")
    meta = other / "meta.properties"
    meta.unlink() if lost is None else meta.write_bytes(lost)
    (other / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    assert "broker does not start: " in verdict(first, other)
    planned = said("recover", first, other)
    assert "not certain" not in planned
    assert "a person has to repair" not in planned
    assert "by itself the broker does not start, because of meta.properties" in planned


def test_a_directory_without_the_metadata_log_goes_offline_alone(tmp_path: Path) -> None:
    """And recover says the same: the broker starts with the other one."""
    first, other = disk(tmp_path / "a", *TWO, *SECOND), second(tmp_path / "b")
    for home, starts in ((other / "u-0", True), (first / "t-0", False)):
        epochs = home / "leader-epoch-checkpoint"
        epochs.write_bytes(bytes(8))
        assert (f"takes {other} offline" in verdict(first, other)) is starts
        assert ("does not start" in verdict(first, other)) is not starts
        alone = "takes this log directory offline" if starts else "does not start"
        assert f"by itself the broker {alone}, because of {home.name}" in said("recover", first, other)
        epochs.unlink()


def test_the_metadata_log_in_another_directory_than_the_settings_have(tmp_path: Path) -> None:
    """4.3.1: `Found unexpected metadata location in data directory`."""
    first, other = disk(tmp_path / "a", *TWO, *SECOND), second(tmp_path / "b")
    config = tmp_path / "server.properties"
    for names, starts in (((first, other), True), ((other, first), False)):
        config.write_text(f"process.roles=broker,controller\nnode.id=1\nlog.dirs={names[0]},{names[1]}\n")
        assert ("does not start" in verdict("--config", config, first, other)) is not starts


def test_a_file_without_a_version_has_no_id_of_the_node(tmp_path: Path) -> None:
    """4.3.1 and 3.9.2: `node ID not found in`; of version 0 only broker.id is read."""
    path = disk(tmp_path / "a", *GOOD)
    ids = {"cluster.id": "c", "directory.id": text(DIRECTORY)}
    for more, starts in (({"node.id": "1"}, False), ({"broker.id": "1"}, True), ({"version": "0"}, False)):
        (path / "meta.properties").write_bytes(meta_properties(ids | more))
        assert ("does not start" in verdict(path)) is not starts, more


def test_a_directory_in_the_place_of_a_lost_one_gets_empty_partitions(tmp_path: Path) -> None:
    first, other = disk(tmp_path / "a", *TWO, *SECOND), second(tmp_path / "b", directory=an_id(77), name="v-0")
    shutil.rmtree(other / "v-0")
    assert verdict(first, other).endswith("creates empty partitions in the place of directories that are missing")
    assert "assigns u-0 to the log directory with directory.id" in said("preflight", first, other)
    assert "empty partitions" not in verdict(first)
