"""What verify says that a broker does with damage is what truncate plans with: one simulation, one answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.targets import resolve
from kafkalog_core.findings.client_reads import consumers
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.kafka.sim.start.candidates import first_recovered
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.support.truncating import NOW_MS, batch, plan, write_log, write_tops

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding

RELEASES = ("0.8.0", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.11", "1.1", "2.0", "2.8", "3.0", "3.9", "4.0", "4.4")
SEGMENTS = {0: [(0, 4), (5, 9)], 10: [(10, 14), (15, 19)], 20: [(20, 24), (25, 29)]}


class Disk:
    """A log directory with a partition of three segments."""

    def __init__(self, root: Path, *, is_clean: bool, recovery: int = 0) -> None:
        self.root = write_tops(root, is_clean=is_clean, recovery=[("t", 0, recovery)])
        self.partition = write_log(root / "t-0", SEGMENTS)

    def log(self, base: int) -> Path:
        return self.partition / f"{base:020}.log"

    def flip(self, base: int, position: int = 90) -> None:
        data = bytearray(self.log(base).read_bytes())
        data[position] ^= 1
        self.log(base).write_bytes(data)

    def append(self, data: bytes) -> None:
        with self.log(20).open("ab") as file:
            file.write(data)

    def remove(self, suffix: str) -> None:
        for path in self.partition.glob(f"*{suffix}"):
            path.unlink()

    def found(self, code: str, kafka: str = "4.3", **options: Any) -> Finding:
        request = VerifyRequest(
            targets=tuple(resolve([str(options.pop("path", self.root))])),
            now_ms=NOW_MS,
            kafka=SettingsRequest(kafka=kafka),
            **options,
        )
        (finding,) = (one for each in verify(request) for one in each.findings if one.code == code)
        return finding

    def action(self, code: str, kafka: str = "4.3", **options: Any) -> str:
        return self.found(code, kafka, **options).broker_action or ""


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("indexes", ["there", "gone"])
@pytest.mark.parametrize("base", [0, 10, 20])
def test_verify_and_truncate_say_the_same(tmp_path: Path, kafka: str, is_clean: bool, indexes: str, base: int) -> None:
    disk = Disk(tmp_path, is_clean=is_clean, recovery=12)
    disk.flip(base)
    if indexes == "gone":
        disk.remove(".index")
    finding = disk.found("batch.crc-mismatch", kafka)
    action = finding.broker_action or ""
    planned = plan(disk.root, kafka=kafka, as_broker=True).plan
    refusals = {one.code for one in planned.report.refusals}
    lost = sum(loss.bytes for loss in planned.report.losses)
    if "truncate.broker-stops" in refusals:
        assert action.startswith("Does not start")
        assert finding.severity == "error"
    elif action.startswith(("Truncates", "Deletes")):
        assert lost > 0
        assert any(change.path == str(disk.log(base)) for change in planned.changes)
    else:
        assert action.startswith(("Computes no checksum", "Recovers the segment"))
        assert all(change.path != str(disk.log(base)) for change in planned.changes)


@pytest.mark.parametrize(("index_bytes", "opening"), [(16, "Does not start"), (64, "Computes no checksum")])
def test_verify_and_truncate_start_with_the_same_settings(tmp_path: Path, index_bytes: int, opening: str) -> None:
    """An offset index of four entries has more than segment.index.bytes allows, or not."""
    disk = Disk(tmp_path, is_clean=True, recovery=100)
    write_log(disk.partition, {20: [(first, first + 4) for first in range(20, 80, 5)]})
    disk.flip(20)
    given = f"t:segment.index.bytes={index_bytes}"
    result = CliRunner().invoke(cli, ["verify", "--output", "ndjson", "--topic-config", given, str(disk.root)])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    (action,) = (row["broker_action"] for row in rows if row.get("code") == "batch.crc-mismatch")
    assert action.startswith(opening)
    refusals = {one.code for one in plan(disk.root, as_broker=True, topic_assignments=[given]).plan.report.refusals}
    assert ("truncate.broker-stops" in refusals) == (opening == "Does not start")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--topic-config", "u:segment.index.bytes=16"], "no partition of this topic"),
        (["--topic-config", "t:segment.index.bytes=few"], "segment.index.bytes"),
        (["--set", "log.index.interval.bytes=-1"], "log.index.interval.bytes"),
        (["--config", "/nowhere/server.properties"], "/nowhere/server.properties"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_read(
    tmp_path: Path, given: list[str], text: str
) -> None:
    disk = Disk(tmp_path, is_clean=True, recovery=30)
    result = CliRunner().invoke(cli, ["verify", "--output", "ndjson", *given, str(disk.root)])
    assert result.exit_code in {2, 3}
    assert text in result.stderr
    assert result.stdout == ""


def test_a_directory_without_indexes_is_another_one_to_each_release(tmp_path: Path) -> None:
    """Verify used to give one answer for all, and truncate one for each."""
    disk = Disk(tmp_path, is_clean=False, recovery=12)
    disk.flip(10)
    disk.remove(".index")
    assert disk.action("batch.crc-mismatch", "0.8.0").startswith("Does not start because of")
    assert "deletes the segment after it" in disk.action("batch.crc-mismatch", "0.10.0")
    kept = disk.action("batch.crc-mismatch", "4.3")  # recovered for itself before the log is: what follows is kept
    assert kept.startswith("Truncates the log here")
    assert "deletes" not in kept


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize("code", ["segment.index-missing", "partition.no-companions"])
def test_a_missing_index_is_what_the_loader_makes_of_it(tmp_path: Path, kafka: str, code: str) -> None:
    disk = Disk(tmp_path, is_clean=True, recovery=30)
    disk.remove(".index" if code == "partition.no-companions" else "10.index")
    request = VerifyRequest(targets=tuple(resolve([str(disk.root)])), now_ms=NOW_MS, kafka=SettingsRequest(kafka=kafka))
    found = [one for each in verify(request) for one in each.findings if one.code == code]
    openings = {"fatal": "Does not start", "recover": "Recovers each segment", "empty": "Creates an empty offset index"}
    rule = rules_of(parse_release(kafka)).missing_index
    assert {(one.broker_action or "").startswith(openings[rule]) for one in found} == {True}
    assert rule != "fatal" or {one.severity for one in found} == {"error"}


@pytest.mark.parametrize(
    ("kafka", "opening"), [("0.8.0", "Does not start"), ("0.10.0", "Creates an empty"), ("4.3", "Rec")]
)
def test_findings_of_dump_are_those_of_the_release(tmp_path: Path, kafka: str, opening: str) -> None:
    disk = Disk(tmp_path, is_clean=True, recovery=30)
    disk.remove(".index")
    arguments = ["dump", "--segments", "--kafka", kafka, "--output", "ndjson", str(disk.root)]
    rows = [json.loads(line) for line in CliRunner().invoke(cli, arguments).stdout.splitlines()]
    actions = [row["broker_action"] for row in rows if row.get("code") == "segment.index-missing"]
    assert len(actions) == len(SEGMENTS)
    assert all(action.startswith(opening) for action in actions)


@pytest.mark.parametrize(
    ("base", "recovery", "lost_bytes", "text"),
    [
        (0, 0, 2, "Truncates the log here, because the last shutdown was not clean, and the segment"),
        (10, 12, 1, "Truncates the log here, because the last shutdown was not clean, and the segment"),
        (0, 12, 0, "Computes no checksum at its start, because the segment is below the recovery point"),
    ],
)
def test_a_checksum_after_a_crash(tmp_path: Path, base: int, recovery: int, lost_bytes: int, text: str) -> None:
    disk = Disk(tmp_path, is_clean=False, recovery=recovery)
    disk.flip(base)
    action = disk.action("batch.crc-mismatch")
    assert action.startswith(text)
    assert ("segments after it" in action) == (lost_bytes > 1)
    assert ("segment after it" in action) == (lost_bytes == 1)


def test_a_checksum_after_a_clean_shutdown(tmp_path: Path) -> None:
    disk = Disk(tmp_path, is_clean=True)
    disk.flip(10)
    finding = disk.found("batch.crc-mismatch")
    assert finding.broker_action == (
        "Computes no checksum at its start, because the last shutdown was clean, and keeps the batch. "
        + consumers(2, "none", ["batch.crc-mismatch"])
    )
    assert "kafkalog recover" in (finding.cure or "")


@pytest.mark.parametrize(("is_clean", "severity"), [(True, "error"), (False, "info")])
def test_a_torn_tail(tmp_path: Path, is_clean: bool, severity: str) -> None:
    disk = Disk(tmp_path, is_clean=is_clean)
    disk.append(batch(30, 34)[:-5])
    finding = disk.found("log.torn-tail")
    assert finding.severity == severity
    start = "Takes the offset here as the log end offset" if is_clean else "Truncates the log here: "
    assert (finding.broker_action or "").startswith(start)


def test_zeros_after_a_clean_shutdown_stop_the_broker(tmp_path: Path) -> None:
    disk = Disk(tmp_path, is_clean=True)
    disk.append(bytes(500))
    finding = disk.found("log.zero-tail")
    assert (finding.severity, (finding.broker_action or "")[:16]) == ("error", "Does not start: ")
    assert (finding.next_command or "").startswith("kafkalog recover ")


def test_an_earlier_cut_takes_later_damage_with_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path, is_clean=False)
    disk.flip(0)
    disk.append(batch(30, 34)[:-5])
    assert disk.action("log.torn-tail").startswith(
        "Deletes the whole segment: the segment before, of offset 0, is truncated"
    )


def test_a_partition_outside_of_a_log_directory_has_both_answers(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "around", is_clean=True)
    disk.flip(10)
    lonely = disk.partition.rename(tmp_path / "t-0")
    action = disk.action("batch.crc-mismatch", path=lonely)
    assert action.startswith(
        "It is unknown whether the last shutdown was clean. After a clean one, the broker computes"
    )
    assert (
        "After an unclean one, unless the recovery point is after this segment, it truncates the log here: " in action
    )
    assert "because the last shutdown" not in action


@pytest.mark.parametrize(
    ("kafka", "recovery", "first"),
    [("4.3", None, 0), ("4.3", 99, 0), ("4.3", 100, 1), ("4.3", 250, 2), ("0.8.0", 99, 2), ("0.8.2", 99, 0)],
)
def test_what_is_recovered(kafka: str, recovery: int | None, first: int) -> None:
    context = PartitionContext(is_clean=False, recovery_point=recovery, release=parse_release(kafka))
    assert first_recovered((0, 100, 200), context, "t", context.release) == first
    assert first_recovered((), context, "t", context.release) is None
    for is_clean in (True, None):
        other = PartitionContext(is_clean=is_clean, recovery_point=recovery)
        assert first_recovered((0, 100, 200), other, "t", other.release) is None
        assert first_recovered((0, 100, 200), other, "__cluster_metadata", other.release) == 0


def test_a_node_recovers_its_metadata_log_after_a_clean_shutdown_too(tmp_path: Path) -> None:
    disk = Disk(tmp_path, is_clean=True)
    disk.partition = write_log(tmp_path / "__cluster_metadata-0", SEGMENTS)
    disk.flip(10)
    assert disk.action("batch.crc-mismatch").startswith(
        "Truncates the log here, because a node recovers its metadata log at every start: "
    )
