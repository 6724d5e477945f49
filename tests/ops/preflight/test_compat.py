"""`preflight --compat` and what preflight says of coordinators, the metadata log and limits, over small disks."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.kafka.rules.releases import RELEASES, bug_fixes
from kafkalog_core.kafka.sim.start import limits
from tests.support.clusters import TOPIC, config_record, topic_record, write_meta, write_metadata_log
from tests.support.coordinator_cases import GROUP_CASES
from tests.support.groups import GroupLog

RELEASE_DISKS = Path(__file__).parents[3] / "fixtures" / "releases"


def level(name: str, number: int) -> bytes:
    """A FeatureLevelRecord."""
    return b"\1\x0c\0" + bytes([len(name) + 1]) + name.encode() + number.to_bytes(2, "big") + b"\0"


def node(place: Path, *records: bytes, case: str | None = None) -> Path:
    """The log directory of a KRaft node that was stopped cleanly; with a coordinator's partition of some case."""
    write_meta(place)
    (place / ".kafka_cleanshutdown").touch()
    write_metadata_log(place, topic_record("__consumer_offsets"), *records)
    if case is not None:
        group_log(place, case)
    return place


def group_log(place: Path, case: str) -> None:
    """Write the log of a case."""
    number = next(n for n, name in enumerate(GROUP_CASES) if case in name)
    log = GroupLog(place, number)
    list(GROUP_CASES.values())[number](log)
    (log.path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")


def run(*words: object) -> tuple[int, str]:
    """The exit status, and what people read."""
    done = CliRunner().invoke(cli, ["preflight", *map(str, words)], env={"COLUMNS": "250"})
    return done.exit_code, done.output


def releases(*words: object) -> dict[str, dict[str, Any]]:
    """The row of each release."""
    return {row["release"]: row for row in _rows("--compat", *words) if row["type"] == "release_start"}


def findings(*words: object) -> dict[str, dict[str, Any]]:
    """The findings by code, without those of the small disk itself."""
    found = {row["code"]: row for row in _rows(*words) if row["type"] == "finding"}
    return {code: row for code, row in found.items() if code.startswith(("coordinator.", "start.", "metadata-log."))}


def _rows(*words: object) -> list[dict[str, Any]]:
    done = CliRunner().invoke(cli, ["preflight", *map(str, words), "--ndjson"])
    assert done.exit_code in {0, 4}, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


# --- releases ---------------------------------------------------------------------------------------------------------
def test_there_is_a_row_for_each_minor_release(tmp_path: Path) -> None:
    found = releases(node(tmp_path, level("metadata.version", 30)))
    minor = [str(each) for each in RELEASES][1:]
    assert [each for each in found if each in minor] == minor
    assert set(found) <= {*minor, *map(str, bug_fixes())}
    assert [release for release, row in found.items() if row["outcome"] == "starts"] == ["4.3", "4.4"]


def test_the_rollback_from_4_4_to_4_3(tmp_path: Path) -> None:
    """On the disk of a real 4.4.0: release_pairs.txt has what a real 4.3.1 did on such a disk."""
    with tarfile.open(RELEASE_DISKS / "4.4.0.tgz") as archive:
        archive.extractall(tmp_path, filter="data")
    disk = tmp_path / "clean"
    found = releases(disk)
    assert found["4.4"]["outcome"] == "starts"
    row = found["4.3"]
    assert (row["outcome"], row["offset"], row["feature"]) == ("dies", 4, "metadata.version")
    assert row["file"].endswith("__cluster_metadata-0/00000000000000000000.log")
    assert row["way_out"].startswith("no downgrade")
    status, text = run("--compat", disk)
    assert status == 0
    assert text.startswith("Kafka 4.4 starts and loses nothing; back: none, 4.3 does not start (metadata.version has")
    status, text = run("--kafka", "4.3.1", disk)
    assert status == 4
    assert text.startswith("A 4.3.1 broker does not start: __cluster_metadata-0/00000000000000000000.log")
    assert f"kafkalog preflight {disk} --compat" in text


def test_a_level_that_can_be_lowered_names_the_way(tmp_path: Path) -> None:
    """Taken with real brokers: 4.1.1 starts on the disk of 4.2.2 after both, in release_pairs.txt."""
    found = releases(node(tmp_path / "a", level("metadata.version", 29)))
    way = (
        "lower metadata.version to 27 on 4.2 (kafka-features.sh downgrade), and wait for a snapshot of the metadata log"
    )
    assert found["4.1"]["way_out"].startswith(way)
    found = releases(node(tmp_path / "b", level("metadata.version", 27), level("streams.version", 1)))
    assert found["4.1"]["way_out"].startswith("lower streams.version to 0 (kafka-features.sh downgrade)")


def test_a_level_below_the_first_one_is_raised_first(tmp_path: Path) -> None:
    row = releases(node(tmp_path, level("metadata.version", 6)))["4.0"]
    assert (row["outcome"], row["way_out"]) == ("dies", "raise metadata.version to 7 with an older release first")


def test_settings_that_a_release_does_not_accept(tmp_path: Path) -> None:
    """Seen of 4.2.2, 4.3.1 and 4.4.0 on the disk of 3.9.2, which start once the settings are changed."""
    settings = [config_record(TOPIC, "__consumer_offsets", "segment.bytes", "3000")]
    disk = node(tmp_path, level("metadata.version", 21), *settings, case="a classic group and commits")
    found = releases(disk)
    assert found["4.0"]["outcome"] == "starts"
    assert (found["4.1"]["outcome"], found["4.1"]["offset"]) == ("dies", 2)
    assert found["4.1"]["way_out"].startswith("set segment.bytes of topic __consumer_offsets to a value")
    status, text = run("--kafka", "4.4", disk)
    assert status == 4
    assert "topic __consumer_offsets has segment.bytes=3000: the release requires at least 1048576" in text


def test_a_bug_fix_has_a_row_where_it_differs(tmp_path: Path) -> None:
    disk = node(tmp_path, level("metadata.version", 27), case="KAFKA-20254")
    found = releases(disk)
    assert [found[each]["outcome"] for each in ("4.1", "4.2", "4.2.1", "4.3")] == [
        "harmed",
        "harmed",
        "starts",
        "starts",
    ]
    assert "4.2.2" not in found
    row = found["4.2"]
    assert (row["offset"], row["unserved_coordinators"]) == (1, 1)
    assert "is not a streams group" in row["why"]
    assert row["way_out"] == f"kafkalog preflight {disk} --kafka 4.2"


def test_a_disk_with_zookeeper_starts_up_to_3_9(tmp_path: Path) -> None:
    write_meta(tmp_path, key="broker.id")
    (tmp_path / ".kafka_cleanshutdown").touch()
    group_log(tmp_path, "a classic group and commits")
    found = releases(tmp_path)
    assert [found[each]["outcome"] for each in ("2.2", "2.3", "3.9", "4.0")] == ["harmed", "starts", "starts", "waits"]
    assert found["4.0"]["way_out"] == "migrate the cluster to KRaft with 3.9 first"
    assert found["0.10.2"]["outcome"] == "unknown"


def test_a_kraft_disk_does_not_start_with_zookeeper(tmp_path: Path) -> None:
    found = releases(node(tmp_path, level("metadata.version", 7)))
    assert [found[each]["outcome"] for each in ("2.7", "2.8", "3.2", "3.3")] == ["dies", "unknown", "unknown", "starts"]


def test_a_quorum_state_of_version_1_stops_the_previews_that_read_it(tmp_path: Path) -> None:
    """Seen of 3.0.2 and 3.2.3 on the disk of 3.9.2; 2.8.2 has a metadata log of its own, and does not read it."""
    disk = node(tmp_path, level("metadata.version", 7))
    (disk / "__cluster_metadata-0" / "quorum-state").write_text(
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    found = releases(disk)
    outcomes = [found[each]["outcome"] for each in ("2.7", "2.8", "3.0", "3.2", "3.7", "3.8")]
    assert outcomes == ["dies", "unknown", "dies", "dies", "dies", "starts"]


def test_releases_with_the_same_result_are_one_paragraph(tmp_path: Path) -> None:
    text = run("--compat", node(tmp_path, level("metadata.version", 30)))[1]
    assert "\n4.3 to 4.4: starts\n" in text
    assert "\n0.8.0 to 2.7: does not start\n" in text


# --- one release ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("release", "level_number", "case", "code", "action"),
    [
        ("4.4", 30, "a consumer group after its downgrade", "coordinator.not-served", "get NOT_COORDINATOR"),
        ("3.3", 7, "a commit of version 4", "coordinator.served-empty", "begin where auto.offset.reset says"),
    ],
)
def test_a_coordinator_that_does_not_load(
    tmp_path: Path, release: str, level_number: int, case: str, code: str, action: str
) -> None:
    disk = node(tmp_path, level("metadata.version", level_number), case=case)
    (row,) = findings("--kafka", release, disk).values()
    assert (row["code"], row["severity"], row["topic"]) == (code, "error", "__consumer_offsets")
    assert row["offset"] is not None
    assert action in row["broker_action"]
    assert row["next_command"] == f"kafkalog preflight {disk} --compat"
    assert run("--kafka", release, disk)[0] == 4


def test_a_coordinator_that_forgets_groups(tmp_path: Path) -> None:
    disk = node(tmp_path, level("metadata.version", 21), case="a consumer group")
    found = findings("--kafka", "3.9", disk)
    assert {row["severity"] for row in found.values()} == {"warning"}
    assert "modern-" in found["coordinator.forgets"]["broker_action"]
    assert findings("--kafka", "4.0", disk) == {}


def test_limits_are_given_or_read(tmp_path: Path) -> None:
    disk = node(tmp_path, level("metadata.version", 30), case="a classic group and commits")
    assert findings("--kafka", "4.3", "--max-map-count", 65530, "--open-files", 100_000, disk) == {}
    found = _rows("--kafka", "4.3", "--max-map-count", 10, "--open-files", 10, disk)
    messages = [row["message"] for row in found if row["type"] == "finding" and row["code"] == "start.limit"]
    assert len(messages) == 2
    assert any(re.search(r"vm\.max_map_count: it needs \d+, and the machine has 10\.", each) for each in messages)


def test_indexes_have_the_size_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real broker preallocates both indexes of an active segment; those of its metadata log have the default."""
    monkeypatch.setattr(limits, "free_bytes", lambda path: 30 << 20)
    disk = node(tmp_path, level("metadata.version", 30), case="a classic group and commits")
    assert "free bytes: it needs 41" in findings("--kafka", "4.3", disk)["start.limit"]["message"]
    assert findings("--kafka", "4.3", "--set", "log.index.size.max.bytes=1048576", disk) == {}
