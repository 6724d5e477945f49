"""A streams group on the disk of a real broker is the one that Kafka's own tool described just before the stop."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.groups import command, found_groups, rows

if TYPE_CHECKING:
    from kafkalog_core.ops.groups.request import GroupResult

ARCHIVE = Path(__file__).resolve().parents[3] / "fixtures" / "groups" / "streams-4.3.1.tgz"


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences are on one line."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(place, filter="data")
    return place / "streams-4.3.1"


@pytest.fixture(scope="module")
def group(case: Path) -> GroupResult:
    found, basis = found_groups(case / "logdir")
    assert not basis.findings
    return found["wordcount"]


def described(case: Path, name: str) -> list[list[str]]:
    """The words of each line of the tool, without the heading."""
    return [line.split() for line in (case / f"{name}.txt").read_text().splitlines() if line.startswith("wordcount")]


def test_state_and_epochs(case: Path, group: GroupResult) -> None:
    ((*_, state, epoch, _, members),) = described(case, "state")
    shown = group.group
    assert (shown["group_type"], shown["protocol_type"]) == ("streams", "streams")
    assert (shown["state"], shown["epoch"], shown["members"]) == (state, int(epoch), int(members)) == ("Stable", 4, 2)


def test_members(case: Path, group: GroupResult) -> None:
    expected = {(line[3], int(line[5]), line[7]) for line in described(case, "members")}
    assert {(row["member_id"], row["epoch"], row["client_id"]) for row in group.members} == expected
    # ACTIVE of the tool: subtopology 0 reads the topic lines, and 1 what 0 repartitions.
    repartition = "wordcount-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"
    assert {str(row["client_id"])[-10:-9]: row["assignment"] for row in group.members} == {
        "2": {"lines": [0, 2], repartition: [1]},
        "1": {"lines": [1], repartition: [0, 2]},
    }


def test_offsets_and_lag(case: Path, group: GroupResult) -> None:
    expected = {(line[1], *map(int, line[2:7])) for line in described(case, "offsets")}
    names = ("topic", "partition", "offset", "leader_epoch", "log_end_offset", "lag")
    assert {tuple(row[name] for name in names) for row in group.offsets} == expected
    assert len(expected) == 6


def test_at_a_time_before_the_topics_of_the_topology_were_found(case: Path) -> None:
    """Its coordinator first made them: until then the group was not ready (`validatedTopologyEpoch` in the record)."""
    for offset, state in ((0, "NotReady"), (9, "NotReady"), (10, "Assigning"), (13, "Reconciling"), (15, "Stable")):
        (row,) = rows("--at", offset, "--group", "wordcount", case / "logdir", kind="group")
        assert row["state"] == state, offset


def test_who_committed_and_what_happened(case: Path) -> None:
    """Each commit in a transaction is by the member that has the task."""
    events = rows("--history", "wordcount", case / "logdir", kind="group_event")
    assert not [row for row in events if row["event"] == "unknown"]
    assert [row["event"] for row in events[:3]] == ["member", "topology", "epoch"]
    commits = [row for row in events if row["event"] == "pending-commit"]
    owners = {(row["topic"], row["partition"]): row["member_id"] for row in commits}
    assert len(owners) == 6
    assert None not in owners.values()
    assert command("--group", "wordcount", case / "logdir").stdout.startswith(
        "wordcount: streams, Stable, 2 members; 6"
    )
