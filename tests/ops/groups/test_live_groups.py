"""Groups on the disks of the corpus are those that the live cluster's own tools reported just before the shutdown."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.group_states import Moment
from tests.support.corpus import archives
from tests.support.groups import found_groups, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus


def files(ending: str) -> list[str]:
    return sorted(name for name in archives.contents(archives.source()).files if name.endswith(ending))


# --- modern: what an admin client saw ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", files("cluster_state.json"))
def test_groups_are_those_that_the_admin_client_saw(tree: Tree, name: str) -> None:
    path = tree.corpus / name
    reported: dict[str, Any] = json.loads(path.read_text())["groups"]
    if "error" in reported:  # the admin client of that release could not list them
        return
    if not reported:  # no consumer ever joined, so there is no __consumer_offsets
        return
    found, basis = found_groups(path.parent / "logdir")
    assert not basis.findings
    assert found.keys() == reported.keys()
    for group, expected in reported.items():
        result = found[group]
        shown = result.group
        assert (shown["group_type"], shown["state"]) == (expected["type"].lower(), expected["state"])
        assert shown["protocol_type"] == expected["protocol"]
        if "group_epoch" in expected:
            assert shown["epoch"] == expected["group_epoch"]
        if expected["type"] == "Share":
            assert shown["members"] == expected["members"]
            assert {f"{row['topic']}-{row['partition']}": (row["offset"], info_of(row)) for row in result.offsets} == {
                each["partition"]: (each["start_offset"], each["info"]) for each in expected["offsets"]
            }
            continue
        assert shown["protocol"] == expected["assignor"]
        assert [
            {
                "member_id": row["member_id"],
                "instance_id": row["instance_id"],
                "client_id": row["client_id"],
                "assignment": sorted(f"{topic}-{each}" for topic, numbers in places(row) for each in numbers),
            }
            for row in result.members
        ] == sorted(expected["members"], key=lambda each: str(each["member_id"]))
        offsets = {
            (row["topic"], row["partition"]): (row["offset"], row["leader_epoch"], row["metadata"])
            for row in result.offsets
            if row["offset"] is not None
        }
        assert offsets == {
            (each["topic"], each["partition"]): (each["offset"], each.get("leader_epoch"), each["metadata"])
            for each in expected["offsets"]
        }


def info_of(row: dict[str, Any]) -> str:
    """What the admin client's class prints of a partition of a share group."""
    fields = f"startOffset={row['offset']}, leaderEpoch={row['leader_epoch']}, lag={row['lag']}"
    return f"SharePartitionOffsetInfo{{{fields}}}"


def places(row: dict[str, Any]) -> list[tuple[str, list[int]]]:
    return list(row["assignment"].items())


@pytest.mark.parametrize("name", files("08-internal-4.3.1/cluster_state.json"))
def test_ends_of_logs_are_those_of_the_cluster(tree: Tree, name: str) -> None:
    path = tree.corpus / name
    reported = json.loads(path.read_text())["offsets"]
    found, _ = found_groups(path.parent / "logdir")
    checked = 0
    for result in found.values():
        for row in result.offsets:
            ends = reported.get(f"{row['topic']}-{row['partition']}")
            if ends is not None:
                assert row["log_start_offset"] == ends["earliest"]["offset"]
                assert row["log_end_offset"] == ends["latest"]["offset"]
                checked += 1
    assert checked > 10


# --- old: what consumers and Kafka's command saw ----------------------------------------------------------------------
def before_deletions(path: Path) -> int:
    """The time of the first deletion, after which the case's tools were not asked again."""
    times = [
        row["timestamp_ms"]
        for group in ("manual", "newgrp2")
        for row in rows("--history", group, path, kind="group_event")
        if row["event"] in {"offset-deleted", "empty", "group-deleted"}
    ]
    return min(times) - 1


@pytest.mark.parametrize("name", files("expected/committed.jsonl"))
def test_offsets_at_a_time_are_what_consumers_saw_then(tree: Tree, name: str) -> None:
    case = (tree.corpus / name).parents[1]
    log_dir = case / "final" / "logdir"
    moment = Moment(until_ms=before_deletions(log_dir)) if has_times(case) else Moment()
    found, _ = found_groups(log_dir, moment=moment)
    for line in (tree.corpus / name).read_text().splitlines():
        expected = json.loads(line)
        shown = {
            (row["topic"], row["partition"]): (row["offset"], row.get("metadata"))
            for row in (found[expected["group"]].offsets if expected["group"] in found else ())
        }
        place = expected["topic"], expected["partition"]
        assert shown.get(place, (None, None)) == (expected["offset"], expected["metadata"]), expected


def has_times(case: Path) -> bool:
    """Whether records have timestamps: since 0.10."""
    return not case.name.startswith("groups-0.9")


@pytest.mark.parametrize("name", [each for each in files("ConsumerGroupCommand.txt") if "groups-2.8" in each])
def test_describe_is_that_of_kafkas_command(tree: Tree, name: str) -> None:
    case = (tree.corpus / name).parents[1]
    log_dir = case / "final" / "logdir"
    found, _ = found_groups(log_dir, moment=Moment(until_ms=before_deletions(log_dir)))
    pattern = re.compile(r"^(\S+) +(\S+) +(\d+) +(\d+|-) +(\d+) +(-?\d+|-) +(\S+) +(\S+) +(\S+) *$")
    lines = [match for line in (tree.corpus / name).read_text().splitlines() if (match := pattern.match(line))]
    assert len(lines) > 5
    for group, topic, partition, offset, end, lag, member_id, host, client in (each.groups() for each in lines):
        if topic == "gone":  # its log is not there any more
            continue
        row = next(row for row in found[group].offsets if (row["topic"], row["partition"]) == (topic, int(partition)))
        assert row["offset"] == (None if offset == "-" else int(offset))
        assert row["lag"] == (None if lag == "-" else int(lag))
        assert (row["log_end_offset"] or 0) <= int(end) or found[group].group["state"] == "Empty"
        if member_id != "-":
            assert (member_id, host, client) in {
                (each["member_id"], each["host"], each["client_id"]) for each in found[group].members
            }


@pytest.mark.parametrize("name", files("groups-2.8.2/case.json"))
def test_what_a_broker_expired_is_what_was_to_expire(tree: Tree, name: str) -> None:
    """The broker of the second stage has offsets.retention.minutes=1 and checks every 3 s."""
    case = (tree.corpus / name).parent
    settings = SettingsRequest(kafka="2.8.2", assignments=("offsets.retention.minutes=1",))
    forecast, _ = found_groups(case / "final" / "logdir", kafka=settings)
    cleaned = case / "cleaned" / "logdir"
    options = ("--kafka", "2.8.2", "--set", "offsets.retention.minutes=1")
    deleted = {}
    for group in ("newgrp", "manual"):
        for row in rows(*options, "--history", group, cleaned, kind="group_event"):
            if row["event"] == "offset-deleted" and row["topic"] == "alpha":
                assert "it had expired at" in row["detail"]
                deleted[group, row["partition"]] = row["timestamp_ms"]
    assert len(deleted) == 4
    for group in ("newgrp", "manual"):
        for row in forecast[group].offsets:
            assert isinstance(row["expires_ms"], int)
            assert row["expires_ms"] <= deleted[group, row["partition"]] < row["expires_ms"] + 60_000
    (static,) = forecast["static"].offsets
    assert static["expires_ms"] is None, "a member reads it"
    after, _ = found_groups(cleaned, kafka=settings)
    assert after.keys() == {"manual", "static"} or after.keys() == {"static"}
