"""The metadata log of a KRaft node next to its snapshots, by the rules of `KafkaRaftLog` 4.3.1."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.format.names import FileKind
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.logdir import LogDirs
from kafkalog_core.ops.verify.metadata_log import quorum_findings, snapshot_findings
from kafkalog_core.ops.verify.request import Depth, VerifyRequest
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict, SegmentEpochStart, SegmentVerdict
from tests.support import build
from tools.untraceable import UNTRACEABLE_FIELDS

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding

DEMO = Path(__file__).parents[3] / "fixtures" / "demo"
NOW_MS = 2_000_000_000_000


def segment(path: Path, base_offset: int, epochs: tuple[SegmentEpochStart, ...]) -> SegmentVerdict:
    return SegmentVerdict(
        path=f"{path}/{base_offset:020d}.log",
        base_offset=base_offset,
        size_bytes=100,
        is_last=True,
        mtime_ms=0,
        batches=1,
        records=1,
        first_offset=base_offset,
        last_offset=99,
        first_timestamp_ms=None,
        max_timestamp_ms=None,
        formats=("v2",),
        epochs=epochs,
        is_thinned=False,
        gaps=(),
        gap_count=0,
        damage=(),
        lost_offsets=(),
        findings=(),
    )


def check(
    path: Path,
    start: int,
    snapshots: list[tuple[int, int]],
    *,
    clean: bool,
    end: int = 100,
    epoch: int | None = 3,
    lines: list[tuple[int, int]] | None = None,
) -> list[Finding]:
    directory = path / "__cluster_metadata-0"
    directory.mkdir()
    for offset, snapshot_epoch in snapshots:
        (directory / f"{offset:020d}-{snapshot_epoch:010d}.checkpoint").touch()
    if lines is not None:
        (directory / "leader-epoch-checkpoint").write_bytes(build.epoch_checkpoint(lines))
    epochs = () if epoch is None else (SegmentEpochStart(epoch, start, 0, start - 1),)
    verdict = PartitionVerdict(
        path=str(directory),
        topic="__cluster_metadata",
        partition=0,
        segments=(segment(directory, start, epochs),),
        findings=(),
        log_start_offset=start,
        log_end_offset=end,
        at_risk_bytes=None,
    )
    return list(snapshot_findings(verdict, PartitionContext(is_clean=clean)))


@pytest.mark.parametrize(
    ("start", "snapshots"),
    [
        (0, []),
        (0, [(0, 0)]),
        (0, [(40, 2), (100, 3)]),
        (40, [(40, 2)]),
        (40, [(10, 1), (60, 3)]),
        (40, [(120, 2), (60, 3)]),  # the newest is that of the highest epoch
    ],
)
def test_healthy(tmp_path: Path, start: int, snapshots: list[tuple[int, int]]) -> None:
    assert check(tmp_path, start, snapshots, clean=True) == []


@pytest.mark.parametrize("snapshots", [[], [(10, 1)]])
def test_a_log_whose_start_is_in_no_snapshot(tmp_path: Path, snapshots: list[tuple[int, int]]) -> None:
    (item,) = check(tmp_path, 40, snapshots, clean=False)
    assert (item.severity, item.code, item.offset) == ("error", "metadata-log.no-snapshot", 40)
    assert (item.topic, item.partition) == ("__cluster_metadata", 0)


@pytest.mark.parametrize(("clean", "severity"), [(True, "error"), (False, "warning")])
@pytest.mark.parametrize("snapshot", [(101, 3), (50, 4)])
def test_a_snapshot_ahead_of_the_log(tmp_path: Path, snapshot: tuple[int, int], clean: bool, severity: str) -> None:
    (item,) = check(tmp_path, 0, [snapshot], clean=clean)
    assert (item.severity, item.code, item.offset) == (severity, "metadata-log.snapshot-ahead", snapshot[0])
    assert item.path.endswith(".checkpoint")


def test_an_epoch_of_the_leader_epoch_checkpoint_counts(tmp_path: Path) -> None:
    assert check(tmp_path, 0, [(50, 4)], lines=[(3, 0), (4, 100)], clean=True) == []


def test_an_empty_log_ends_with_its_snapshot(tmp_path: Path) -> None:
    assert check(tmp_path, 60, [(60, 5)], end=60, epoch=None, clean=True) == []


# --- bootstrap.checkpoint ---------------------------------------------------------------------------------------------
def top_findings(path: Path, level: str = "records") -> tuple[Finding, ...]:
    (target,) = resolve([str(path)])
    depth = Depth(level=level, now_ms=NOW_MS, max_batch_bytes=1 << 20)  # type: ignore[arg-type]
    verdict = LogDirs([target], depth).verdict(target)  # type: ignore[arg-type]
    assert isinstance(verdict, PlaceVerdict)
    return tuple(item for item in verdict.findings if item.path.endswith("bootstrap.checkpoint"))


def test_bootstrap_checkpoint(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    shutil.copytree(DEMO, directory)
    file = directory / "bootstrap.checkpoint"
    file.chmod(0o644)
    assert top_findings(directory) == ()
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)
    (item,) = top_findings(directory)
    assert (item.severity, item.code, item.position) == ("error", "batch.crc-mismatch", 0)
    assert item.broker_action == "A KRaft node reads it when it starts, and may not start."
    assert top_findings(directory, "headers") == ()


# --- quorum-state -----------------------------------------------------------------------------------------------------
def found_in(path: Path, text: str) -> list[tuple[str, str]]:
    """What verify says above info of the metadata log of a healthy node with another quorum-state."""
    home = path / "d"
    shutil.copytree(DEMO, home, dirs_exist_ok=True)
    (home / "__cluster_metadata-0" / "quorum-state").write_text(text, encoding="utf-8")
    request = VerifyRequest(targets=tuple(resolve([str(home / "__cluster_metadata-0")])), now_ms=NOW_MS)
    return [
        (finding.code, finding.severity)
        for verdict in verify(request)
        for finding in verdict.findings
        if finding.severity != "info"
    ]


STATE = (
    '{{"leaderId":{0},"leaderEpoch":{1},"votedId":{2},"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}}'
)
OLD_STATE = (
    '{{"clusterId":"","leaderId":{0},"leaderEpoch":{1},"votedId":{2},"appliedOffset":0,'
    '"currentVoters":[{{"voterId":1}},{{"voterId":2}}],"data_version":0}}'
)


DIRECTORY = "1lgoqec5QCuunnAVe7ki1w"
"""The metadata log directory of the demo's only voter, by its KRaftVoters record."""


@pytest.mark.parametrize("template", [STATE, OLD_STATE])
@pytest.mark.parametrize("epoch", range(4))
@pytest.mark.parametrize(("leader", "voted"), [(1, -1), (2, 2), (-1, 1), (3, -1), (1, 4), (-2, -1)])
def test_quorum_state_is_held_against_the_log_and_its_voters(
    tmp_path: Path, template: str, epoch: int, leader: int, voted: int
) -> None:
    """The log has one epoch, 1, with one voter, which is its leader; the old file lists two voters."""
    is_old = template is OLD_STATE
    expected = [("quorum-state.old-epoch", "warning")] if epoch < 1 else []
    voters = {1, 2} if is_old else {1} if epoch == 1 else {leader, voted} - {-2}
    for key, node in (("leaderId", leader), ("votedId", voted)):
        if node != -1 and node not in voters:
            expected.append(("quorum-state.no-voter", "warning"))
        elif key == "leaderId" and epoch == 1 and node not in {-1, 1}:
            expected.append(("quorum-state.other-leader", "warning"))
    assert found_in(tmp_path, template.format(leader, epoch, voted)) == expected


@pytest.mark.parametrize(
    ("voted", "directory", "code"),
    [
        (1, DIRECTORY, None),
        (1, "BAAAAAAAAAAAAAAAAAAAAA", "quorum-state.other-directory"),
        (1, "A" * 22, None),  # a candidate of before KIP-853 names none
        (-1, DIRECTORY, "quorum-state.no-vote"),
    ],
)
def test_the_directory_of_a_vote_is_that_of_the_voter(
    tmp_path: Path, voted: int, directory: str, code: str | None
) -> None:
    text = STATE.format(1, 1, voted).replace("A" * 22, directory)
    assert found_in(tmp_path, text) == ([] if code is None else [(code, "warning")])


def test_a_damaged_election_proves_nothing(tmp_path: Path) -> None:
    """The leader in a LeaderChange record, changed: the log is damaged, and quorum-state is not compared with it."""
    state = STATE.format(1, 1, -1)
    found_in(tmp_path, state)
    log = next((tmp_path / "d" / "__cluster_metadata-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    leader = data.index(bytes.fromhex("0000 00000001 02 00000001 00 02 00000001"))
    data[leader + 5] = 7
    request = VerifyRequest(targets=tuple(resolve([str(log.parent)])), now_ms=NOW_MS)
    log.chmod(0o644)
    log.write_bytes(data)
    codes = {finding.code for verdict in verify(request) for finding in verdict.findings}
    assert "batch.crc-mismatch" in codes
    assert not [code for code in codes if code.startswith("quorum-state.")]


FLIPS = tuple(1 << bit for bit in range(8))


def test_every_flip_of_quorum_state_is_noticed_or_documented(tmp_path: Path) -> None:
    """Of version 1: a higher epoch alone, as any id is possible with it."""
    shutil.copytree(DEMO / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    path = tmp_path / "__cluster_metadata-0" / "quorum-state"
    request = VerifyRequest(targets=tuple(resolve([str(path.parent)])), now_ms=NOW_MS)
    (verdict,) = (each for each in verify(request) if isinstance(each, PartitionVerdict))
    file = EntryFile(path=str(path), kind=FileKind.QUORUM_STATE)

    def is_silent(data: bytes) -> bool:
        path.write_bytes(data)
        text = read_properties(file)
        return text is not None and not text.findings and not list(quorum_findings(verdict))

    data = path.read_bytes()
    assert is_silent(data)
    places = [(position, mask) for position in range(len(data)) for mask in (0xFF, *FLIPS)]
    flipped = [data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :] for at, mask in places]
    epoch = data.index(b'"leaderEpoch":1') + len(b'"leaderEpoch":')
    higher = {data[:epoch] + digit + data[epoch + 1 :] for digit in (b"3", b"5", b"9")}
    assert {each for each in flipped if is_silent(each)} == higher
    assert not [size for size in range(len(data)) if is_silent(data[:size])]
    assert ("quorum-state", "ids") in UNTRACEABLE_FIELDS


@pytest.mark.parametrize(("snapshots", "is_loaded"), [([], True), ([(6, 1)], True), ([(7, 1)], False)])
def test_a_batch_without_records(tmp_path: Path, snapshots: list[tuple[int, int]], is_loaded: bool) -> None:
    """A node loads the log from its newest snapshot on."""
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    before, after = (build.batch_v2([build.Record(offset=at, timestamp_ms=1, value=b"v")]) for at in (0, 7))
    (directory / f"{0:020d}.log").write_bytes(before + build.empty_batch(1, 6) + after)
    for offset, epoch in snapshots:
        (directory / f"{offset:020d}-{epoch:010d}.checkpoint").touch()
    request = VerifyRequest(targets=resolve((str(directory),)), now_ms=NOW_MS, jobs=1)
    findings = [each for verdict in verify(request) for each in verdict.findings]
    found = [each for each in findings if each.code == "metadata-log.empty-batch"]
    places = [(each.severity, each.offset, each.position) for each in found]
    assert places == ([("error", 1, len(before))] if is_loaded else [])
