"""`kafkalog preflight` on small disks: the verdict, the rows, the exit status, and that nothing is written."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.findings import found
from kafkalog_core.ops.verify import logdir
from tests.support.log_dirs import tree_hash

if TYPE_CHECKING:
    from click.testing import Result

_FIXTURES: Final = Path(__file__).resolve().parents[3] / "fixtures"
_LOG: Final = f"{204:020d}.log"
Row = dict[str, Any]


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """The disk of a killed broker of 4.3.1, with a damaged batch in the middle of a log."""
    shutil.copytree(_FIXTURES / "crashed", tmp_path / "disk")
    return tmp_path / "disk"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """The disk of a broker that was stopped cleanly."""
    shutil.copytree(_FIXTURES / "demo", tmp_path / "demo")
    return tmp_path / "demo"


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(
        cli, ["preflight", "--now", "2026-11-23", "--kafka", "4.3.1", *map(str, arguments)], catch_exceptions=False
    )


def rows(*arguments: object) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for line in run("--ndjson", *arguments).stdout.splitlines():
        row = json.loads(line)
        found.setdefault(row["type"], []).append(row)
    return found


def verdict(*arguments: object) -> str:
    return " ".join(run(*arguments).stdout.partition("\n\n")[0].split())


def test_the_first_line_has_the_loss(crashed: Path) -> None:
    """The record counts are those of what a consumer read of the base; 9 of 117 offsets are in the damaged batch."""
    before = tree_hash(crashed)
    ended = run(crashed)
    assert ended.exit_code == 4
    assert verdict(crashed).startswith(
        "A 4.3.1 broker starts, and truncates 1 log: 108 records of orders-0 from offset 218 on are lost, none of them "
        "known to be committed. "
    )
    assert f"kafkalog recover --kafka 4.3.1 {crashed}" in ended.stdout
    assert tree_hash(crashed) == before


def test_what_was_damaged_before_is_not_counted_as_no_loss(demo: Path) -> None:
    (demo / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (demo / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    log = max((demo / "orders-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + b"\0\0\0\0\0\0\0\1" + bytes(200))
    assert "truncates 1 log: no record that can be read is lost." in verdict(demo)


def test_the_rows_have_it_in_parts(crashed: Path) -> None:
    found = rows(crashed)
    (head,) = found["preflight"]
    assert (head["starts"], head["lost_records"], head["lost_committed_records"]) == (True, 108, 0)
    (partition,) = found["partition_start"]
    assert (partition["fate"], partition["log_end_offset"], partition["lost_records"]) == ("loaded", 218, 108)
    steps = {Path(row["file"]).name: row for row in found["start_step"]}
    assert (steps[_LOG]["step"], steps[_LOG]["position"], steps[_LOG]["reason"]) == ("truncated", 1825, "crc-mismatch")
    deleted = [name for name, row in steps.items() if row["step"] == "deleted" and name.endswith(".log")]
    assert deleted == [f"{base:020d}.log" for base in (235, 267, 308)]
    (loss,) = found["loss"]
    assert (loss["first_offset"], loss["next_offset"]) == (227, 335)


def test_records_below_the_high_watermark_are_told_apart(crashed: Path) -> None:
    (crashed / "replication-offset-checkpoint").write_text("0\n1\norders 0 300\n")
    (head,) = rows(crashed)["preflight"]
    assert 0 < head["lost_committed_records"] < head["lost_records"]
    assert f"are lost, at least {head['lost_committed_records']} of them committed" in verdict(crashed)


def test_after_a_clean_stop_the_damage_remains(crashed: Path) -> None:
    """A start reads no batch then: nothing is lost, and consumers meet the batch, so the exit status is not 0."""
    (crashed / ".kafka_cleanshutdown").touch()
    ended = run(crashed)
    assert ended.exit_code == 4
    assert "no record is lost; it does not notice what is wrong in orders-0: damage in the log" in verdict(crashed)
    assert "batch.crc-mismatch" in ended.stdout


def test_an_index_that_the_start_builds_again_is_not_wrong_afterwards(demo: Path) -> None:
    """The broker of 4.3.1 says that it found no index, recovers the segment, and writes both indexes."""
    log = min(path for path in (demo / "orders-0").glob("*.log"))
    log.with_suffix(".index").unlink()
    log.with_suffix(".timeindex").unlink()
    ended = run(demo)
    assert verdict(demo) == "A 4.3.1 broker starts: no record is lost."
    assert f"{log.name}: it has no offset index" in ended.stdout
    assert "segment.index-missing" not in ended.stdout


def test_a_file_of_another_user(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which user the broker runs as is not on the disk: as the owner of the other files, 4.3.1 ends."""
    path = str(demo / "recovery-point-offset-checkpoint")
    denied = found("file.no-access", path, uid=0, broker_uid=7, mode="0600", refused="read")
    monkeypatch.setattr(logdir, "check_files", lambda *_: [denied])
    ended = run(demo)
    assert ended.exit_code == 4
    assert verdict(demo) == "A 4.3.1 broker whose user may open 1 file of another user starts."


def test_a_whole_disk(demo: Path) -> None:
    ended = run(demo)
    assert ended.exit_code == 0
    assert ended.stdout.startswith("A 4.3.1 broker starts: no record is lost.\n\n7 partitions: nothing is lost\n")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("lost+found/", "", "does not start: lost+found: "),
        ("orders-0/backup.log", "x", "does not start: orders-0/backup.log: "),
        ("orders-0/leader-epoch-checkpoint", "9\n", "no other log directory is left"),
        ("meta.properties", "version=1\n", "does not start: meta.properties"),
    ],
)
def test_what_stops_a_broker_is_named_with_the_next_command(demo: Path, name: str, content: str, text: str) -> None:
    if name.endswith("/"):
        (demo / name).mkdir()
    else:
        (demo / name).write_text(content)
    ended = run(demo)
    assert ended.exit_code == 4
    assert text in verdict(demo)
    (head,) = rows(demo)["preflight"]
    assert (head["starts"], head["stopped_by"]) == (False, f"{demo}/{name.rstrip('/')}")
    assert all(row["next_command"] for row in rows(demo)["start_event"])


def test_the_line_in_the_brokers_log_is_named(demo: Path) -> None:
    (demo / "lost+found").mkdir()
    (event,) = rows(demo)["start_event"]
    assert event["log_line"] == f"Found directory {demo}/lost+found, '...' is not in the form of topic-partition"
    assert "The broker's log then has: Found directory" in run(demo).stdout


def test_the_line_of_a_broker_that_has_no_meta_properties_at_all(demo: Path, crashed: Path) -> None:
    """4.3.1 looks for one that can be read first, and only then for those that are missing."""
    (demo / "meta.properties").unlink()
    assert "The broker's log then has: No readable meta.properties files found." in run(demo).stdout
    assert f"No `meta.properties` found in {demo}" in run(demo, crashed).stdout


def test_the_line_of_a_broker_whose_meta_properties_can_be_read(demo: Path, tmp_path: Path) -> None:
    """4.3.1 finds no id of the node then, or compares the ids (tests/integration/test_said_of_settings.py)."""
    config = tmp_path / "server.properties"
    config.write_text(f"process.roles=broker,controller\nnode.id=7\nlog.dirs={demo}\n")
    ended = run("--config", config, demo)
    assert "does not start" in ended.stdout
    assert "No readable meta.properties" not in ended.stdout
    (demo / "meta.properties").write_bytes(b"")
    assert f"The broker's log then has: Error: node ID not found in {demo}" in run(demo).stdout
    (demo / "meta.properties").write_text("version=9\n")
    assert "The broker's log then has: No readable meta.properties files found." in run(demo).stdout


def test_with_another_log_directory_the_broker_starts_without_one(demo: Path, crashed: Path) -> None:
    (demo / "log-start-offset-checkpoint").write_text("9\n")
    text = verdict(demo, crashed)
    assert "takes" in text
    assert "offline" in text
    assert rows(demo, crashed)["preflight"][0]["offline"] == str(demo)


def test_a_log_directory_that_the_configuration_names_must_have_its_ids(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    config = tmp_path / "server.properties"
    for name in ("empty", "missing"):
        config.write_text(f"node.id=1\nlog.dirs={demo},{tmp_path}/{name}\n")
        assert f"does not start: {tmp_path}/{name}/meta.properties" in verdict("--config", config, demo)
    config.write_text(f"node.id=1\nlog.dirs={demo}\n")
    assert "no record is lost" in verdict("--config", config, demo)


def test_a_disk_of_a_broker_with_zookeeper(demo: Path) -> None:
    """4.4.0 with process.roles waited on such a disk of 3.9.2, and ended without them."""
    shutil.rmtree(demo / "__cluster_metadata-0")
    (demo / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    ended = run(demo)
    assert ended.output.startswith("A 4.3.1 broker never serves a request: a broker with ZooKeeper wrote the directory")
    assert ended.exit_code == 4


def test_a_disk_that_is_not_where_the_configuration_has_it(demo: Path, tmp_path: Path) -> None:
    """A disk of another machine: its broker reads what log.dirs names there."""
    config = tmp_path / "server.properties"
    for names in (f"{tmp_path}/one", f"{tmp_path}/one,{tmp_path}/two"):
        config.write_text(f"process.roles=broker,controller\nnode.id=1\nlog.dirs={names}\n")
        shown = " ".join(run("--config", config, demo).stdout.split())
        assert "starts: no record is lost" in shown
        of_config = ", ".join(names.split(","))
        assert f"the server.properties names {of_config}: what is named here is taken for all of that" in shown


def test_a_partition_of_a_disk_is_refused(crashed: Path) -> None:
    ended = CliRunner().invoke(cli, ["preflight", str(crashed / "orders-0")])
    assert ended.exit_code != 0
    assert "name its log directories" in ended.output


def test_a_relative_path_is_the_same(crashed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (crashed / "lost+found").mkdir()
    monkeypatch.chdir(crashed.parent)
    assert verdict("disk") == verdict(crashed)


def test_one_command_instead_of_a_repair_of_each_file(crashed: Path) -> None:
    """With all log directories: the metadata log in one of them shows which other replicas there are."""
    other = crashed.with_name("other")
    other.mkdir()
    shutil.copy(crashed / "meta.properties", other)
    (crashed / "recovery-point-offset-checkpoint").write_text("0\nx\n")
    (crashed / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\nx y\n")
    (crashed / "lost+found").mkdir()
    shown = run(crashed, other).stdout
    commands = [line.strip() for line in shown.splitlines() if line.startswith(("    kafkalog ", "    mv "))]
    recover = f"kafkalog recover --kafka 4.3.1 {crashed} {other}"
    assert commands == [f"mv -n -- {crashed}/lost+found {crashed}/..", recover]


def test_damage_that_the_start_does_not_notice_leads_to_recover_too(crashed: Path) -> None:
    (crashed / ".kafka_cleanshutdown").touch()
    found = rows(crashed)
    assert {row["next_command"] for row in found["partition_start"]} == {f"kafkalog recover --kafka 4.3.1 {crashed}"}
    named = {row["next_command"] for row in found["finding"] if row["severity"] == "error"}
    assert named == {f"kafkalog recover --kafka 4.3.1 {crashed}"}


def test_what_recover_leaves_does_not_lead_back_to_recover(tmp_path: Path) -> None:
    """The first messages of these logs do not open, which stops a broker of 4.1 and later (`fixtures/field`)."""
    with tarfile.open(_FIXTURES / "field" / "c24-unclean.tgz") as tar:
        tar.extractall(tmp_path, filter="data")
    disk = tmp_path / "c24-unclean"
    result = CliRunner().invoke(cli, ["recover", "--kafka", "4.3", "--ndjson", str(disk)], catch_exceptions=False)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    errors = [row for row in found if row["type"] == "finding" and row["severity"] == "error"]
    assert errors
    assert not [row for row in errors if (row["next_command"] or "").startswith("kafkalog recover")]


def test_what_was_lost_before_the_start_is_not_passed_as_no_loss(demo: Path) -> None:
    """A real broker of 4.3.1 lowers such a high watermark without a warning in its log, and serves what is left."""
    log_end = max(int(row["log_end_offset"]) for row in _starts(demo) if row["topic"] == "orders")
    (demo / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {log_end + 50}\n")
    ended = run(demo)
    assert ended.exit_code == 4
    assert "high-watermark.beyond-end" in ended.stdout
    assert "the start loses no record; it does not notice what is wrong in orders-0" in verdict(demo)
    assert "a high watermark after the log end offset" in verdict(demo)


def _starts(log_dir: Path) -> list[Row]:
    (log_dir / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n")  # so that its row is shown
    return rows(log_dir)["partition_start"]


@pytest.mark.parametrize(("is_directory", "deleted"), [(True, 0), (False, 2)], ids=["directory", "nothing"])
def test_a_directory_in_the_place_of_a_log_keeps_its_indexes(demo: Path, is_directory: bool, deleted: int) -> None:
    """Seen of 4.3.1: it left the .index and .timeindex next to a directory with the name of their log."""
    log = min((demo / "orders-0").glob("*.log"))
    log.unlink()
    if is_directory:
        log.mkdir()
    steps = [row for row in rows(demo)["start_step"] if row["why"] == "it has no log"]
    assert len([row for row in steps if Path(row["file"]).stem == log.stem]) == deleted
