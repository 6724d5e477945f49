"""Control records mean what Kafka's own dump tool printed of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format import control
from kafkalog_core.format.names import FileKind, parse_file_name
from tests.support.corpus import goldens
from tests.support.corpus.dumping import Row, dump
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_MARKER = re.compile(r".*\boffset: (\d+) .*endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: (-?\d+).*")
_MESSAGE = re.compile(
    r".*\boffset: (\d+) .*\b(LeaderChange|SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters):? (\{.*\})"
)
_LOG_KINDS = {FileKind.LOG, FileKind.KRAFT_SNAPSHOT}


def _with_goldens() -> list[Snapshot]:
    return [snapshot for snapshot in snapshots() if snapshot.goldens]


def _printed(section: goldens.Section) -> list[tuple[int, str, object]]:
    found: list[tuple[int, str, object]] = []
    for line in section.lines:
        if match := _MARKER.fullmatch(line):
            found.append((int(match[1]), match[2].lower(), {"coordinatorEpoch": int(match[3])}))
        elif match := _MESSAGE.fullmatch(line):
            found.append((int(match[1]), match[2], json.loads(match[3])))
    return found


def _decoded(row: Row) -> tuple[int, str, object]:
    key, _ = control.decode_control_key(row["key"])
    value, position = control.decode_control_value(key.type, row["value"])
    assert position == len(row["value"])
    assert key.name == row["control_type"]
    name = (
        key.name
        if isinstance(value, control.EndTxnMarker)
        else type(value).__name__.replace("KRaftSnapshot", "Snapshot")
    )
    return row["offset"], name, _as_json(value)


def _as_json(value: control.ControlValue) -> object:
    match value:
        case control.EndTxnMarker():
            return {"coordinatorEpoch": value.coordinator_epoch}
        case control.LeaderChange():
            return {
                "version": value.version,
                "leaderId": value.leader_id,
                "voters": [{"voterId": voter.voter_id} for voter in value.voters],
                "grantingVoters": [{"voterId": voter.voter_id} for voter in value.granting_voters],
            }
        case control.KRaftSnapshotHeader():
            return {"version": value.version, "lastContainedLogTimestamp": value.last_contained_log_timestamp_ms}
        case control.KRaftSnapshotFooter():
            return {"version": value.version}
        case control.KRaftVersion():
            return {"version": value.version, "kRaftVersion": value.kraft_version}
        case control.KRaftVoters():
            return {"version": value.version, "voters": [_voter(voter) for voter in value.voters]}
    raise AssertionError(value)


def _voter(voter: control.KRaftVoter) -> object:
    return {
        "voterId": voter.voter_id,
        "voterDirectoryId": voter.directory_id,
        "endpoints": [{"name": end.name, "host": end.host, "port": end.port} for end in voter.endpoints],
        "kRaftVersionFeature": {
            "minSupportedVersion": voter.min_kraft_version,
            "maxSupportedVersion": voter.max_kraft_version,
        },
    }


def _control_rows(path: Path) -> list[Row]:
    return [row for row in dump(path, "--records", "--control").of_type("record") if row["control_type"] is not None]


@pytest.mark.parametrize("snapshot", _with_goldens(), ids=lambda snapshot: snapshot.id)
def test_control_records_are_those_of_the_stock_tool(tree: Tree, snapshot: Snapshot) -> None:
    directory = tree.partition_dir(snapshot)
    for golden in snapshot.goldens:
        for section in goldens.sections(tree.corpus / golden):
            printed = _printed(section)
            if printed and parse_file_name(section.file).kind in _LOG_KINDS:
                shown = {offset for offset, _, _ in printed}  # 3.9.1 is silent about leader changes
                decoded = [_decoded(row) for row in _control_rows(directory / section.file)]
                assert [item for item in decoded if item[0] in shown] == printed, f"{golden}, {section.file}"
