"""Partitions and log directories against what the metadata log assigns to the broker."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.targets import FileTarget, LogDirTarget, resolve
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.verify.logdir import LogDirs
from tests.support.assigned_disks import (
    DIRECTORY,
    GOOD,
    NODE,
    OTHER,
    REMOVED,
    an_id,
    change,
    disk,
    partition,
    registered,
    text,
    topic,
)
from tests.support.build import meta_properties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.findings import Finding


def findings(*paths: Path) -> list[Finding]:
    targets = list(resolve([str(path) for path in paths]))
    dirs = LogDirs(targets)
    for target in targets:
        assert not isinstance(target, FileTarget)
        for place in target.partitions if isinstance(target, LogDirTarget) else (target.place,):
            dirs.note(target, place)
    return [finding for verdict in dirs.across() for finding in verdict.findings]


def test_what_is_assigned_is_good(tmp_path: Path) -> None:
    assert findings(disk(tmp_path / "a", *GOOD)) == []


def test_another_topic_id(tmp_path: Path) -> None:
    (found,) = findings(disk(tmp_path / "a", *GOOD, topic_id=an_id(7)))
    assert (found.code, found.severity) == ("partition-metadata.not-assigned", "error")
    assert text(an_id(7)) in found.message
    assert text(an_id(1)) in found.message
    assert "-stray" in (found.broker_action or "")


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ((topic("u", an_id(2)), partition(an_id(2))), "does not have"),
        ((*GOOD, REMOVED, topic("u", an_id(2)), partition(an_id(2))), "does not have"),
        ((topic("t", an_id(1)), partition(an_id(1), replicas=(2, 3))), "does not name node 1"),
        ((*GOOD, change(an_id(1), replicas=(2,), directories=(OTHER,))), "does not name node 1"),
    ],
    ids=["other", "removed", "elsewhere", "moved"],
)
def test_a_stray_partition(tmp_path: Path, records: tuple[bytes, ...], why: str) -> None:
    (found,) = findings(disk(tmp_path / "a", *records))
    assert (found.code, found.severity) == ("dir.not-assigned", "error")
    assert why in found.message


def test_another_directory_id(tmp_path: Path) -> None:
    (found,) = findings(disk(tmp_path / "a", *GOOD, directory=OTHER))
    assert (found.code, found.severity) == ("meta.other-directory-id", "error")
    assert text(DIRECTORY) in found.message
    assert text(OTHER) in found.message


FUTURE = "t-0.0123456789abcdef0123456789abcdef-future"


def moving(path: Path, *, assigned: bytes) -> tuple[Path, Path]:
    """Two log directories of node 1: the metadata log in the first, the partition nowhere yet."""
    records = (topic("t", an_id(1)), partition(an_id(1), directories=(assigned,)), registered(DIRECTORY, OTHER))
    first, second = disk(path / "a", *records), path / "b"
    second.mkdir()
    properties = {"version": "1", "node.id": str(NODE), "cluster.id": "c", "directory.id": text(OTHER)}
    (second / "meta.properties").write_bytes(meta_properties(properties))
    return first, second


def test_a_copy_in_the_log_directory_that_is_assigned(tmp_path: Path) -> None:
    first, second = moving(tmp_path, assigned=OTHER)
    shutil.copytree(first / "t-0", second / FUTURE)
    (found,) = findings(first, second)
    assert (found.code, found.severity, found.path) == ("dir.future-assigned", "warning", str(second / FUTURE))
    assert found.message.endswith(f"the partition itself is in {first}/t-0.")
    assert "-delete" in (found.broker_action or "")
    shutil.rmtree(first / "t-0")
    (found,) = findings(first, second)
    assert (found.code, found.severity) == ("dir.future-assigned", "info")
    assert found.broker_action == "Puts this copy in the place of the partition."


def test_a_copy_without_its_partition(tmp_path: Path) -> None:
    first, second = moving(tmp_path, assigned=DIRECTORY)
    (first / "t-0").rename(second / FUTURE)
    (found,) = findings(first, second)
    assert (found.code, found.severity) == ("dir.future-alone", "error")
    assert found.next_command == f"mv -n -- {second / FUTURE} {second}/t-0"


def test_a_copy_without_its_partition_where_a_directory_is_not_named(tmp_path: Path) -> None:
    """The partition may be in that one, so the copy is left as it is."""
    records = (topic("t", an_id(1)), partition(an_id(1), directories=(OTHER,)), registered(DIRECTORY, OTHER))
    alone = disk(tmp_path / "c", *records)
    (alone / "t-0").rename(alone / FUTURE)
    (found,) = findings(alone)
    assert (found.code, found.severity) == ("dir.future-alone", "warning")
    assert "mv " not in (found.next_command or "")


def test_a_copy_that_moves(tmp_path: Path) -> None:
    first, second = moving(tmp_path, assigned=DIRECTORY)
    shutil.copytree(first / "t-0", second / FUTURE)
    assert [each.code for each in findings(first, second)] == ["dir.moving"]
    shutil.copytree(first / "t-0", first / FUTURE)
    shutil.rmtree(second / FUTURE)
    assert findings(first, second) == [], "one in the same log directory has a finding of its own"


def test_a_controller_that_is_no_voter(tmp_path: Path) -> None:
    """Seen of 4.3.1: the one controller waits without end."""
    assert findings(disk(tmp_path / "a", *GOOD, voter=DIRECTORY)) == []
    (found,) = findings(disk(tmp_path / "b", *GOOD, voter=DIRECTORY, directory=OTHER))
    assert (found.code, found.severity) == ("meta.only-voter", "error")
    (one,) = findings(disk(tmp_path / "c", *GOOD, voter=DIRECTORY, other_voters=(an_id(200),), directory=OTHER))
    assert (one.code, one.next_command) == ("meta.no-voter", found.next_command.replace("/b/", "/c/"))
    assert found.next_command == (
        f"sed -i.before s/^directory.id=.*/directory.id={text(DIRECTORY)}/ {tmp_path}/b/meta.properties"
    )


@pytest.mark.parametrize(("level", "suffix"), [(14, "-delete"), (15, "-stray")], ids=["3.6", "3.7"])
def test_what_becomes_of_a_stray_partition_depends_on_the_release(tmp_path: Path, level: int, suffix: str) -> None:
    """Seen of 3.5.2, 3.6.2 and 3.7.2."""
    records = (topic("t", an_id(1)), partition(an_id(1)), registered(DIRECTORY, level=level))
    (found,) = findings(disk(tmp_path / "a", *records, topic_id=an_id(7)))
    assert f"renames its directory to end in {suffix}" in (found.broker_action or "")


def rows_of(command: str, path: Path, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(cli, [command, str(path), *words, "--output", "ndjson"])
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("level", "severity"), [(14, "info"), (15, "error")], ids=["3.6", "3.7"])
def test_a_missing_topic_id_is_made_by_earlier_releases(tmp_path: Path, level: int, severity: str) -> None:
    """A partition without partition.metadata: 3.5.2 and 3.6.2 served all of its records, 3.7.2 none."""
    path = disk(tmp_path / "a", topic("t", an_id(1)), partition(an_id(1)), registered(DIRECTORY, level=level))
    (path / "t-0" / "partition.metadata").unlink()
    done = CliRunner().invoke(cli, ["verify", str(path / "t-0"), "--output", "ndjson"])
    (told,) = (
        row for row in map(json.loads, done.stdout.splitlines()) if row.get("code") == "partition-metadata.missing"
    )
    assert told["severity"] == severity
    assert ("-stray" in told["broker_action"]) == (severity == "error")


def _not_good(tmp_path: Path) -> Iterator[tuple[str, Path, tuple[Path, ...]]]:
    """Disks that the broker serves otherwise than they are: the code, the log directory, and all directories."""
    path = disk(tmp_path / "id", *GOOD, topic_id=an_id(7))
    yield "partition-metadata.not-assigned", path, (path,)
    path = disk(tmp_path / "gone", *GOOD, REMOVED, topic("u", an_id(2)), partition(an_id(2)))
    yield "dir.not-assigned", path, (path,)
    path = disk(tmp_path / "moved", *GOOD, change(an_id(1), replicas=(2,), directories=(OTHER,)))
    yield "dir.not-assigned", path, (path,)
    path = disk(tmp_path / "other", *GOOD, directory=OTHER)
    yield "meta.other-directory-id", path, (path,)
    path = disk(tmp_path / "voter", *GOOD, directory=OTHER, voter=DIRECTORY)
    yield "meta.only-voter", path, (path,)
    first, second = disk(tmp_path / "first", *GOOD), disk(tmp_path / "second", directory=OTHER, topic_id=an_id(7))
    shutil.rmtree(second / "__cluster_metadata-0")
    (second / "t-0").rename(second / "u-0")
    yield "dir.not-assigned", second, (first, second)


def test_truncate_as_broker_says_what_verify_says(tmp_path: Path) -> None:
    """One rule: no command passes as good what the broker does not serve, whether cuts are planned or not."""
    for code, log_dir, log_dirs in _not_good(tmp_path):
        (told,) = findings(*log_dirs)
        for cut in (False, True):
            if cut:
                log = next((log_dir / f"{'u' if len(log_dirs) > 1 else 't'}-0").glob("*.log"))
                log.write_bytes(log.read_bytes() + b"torn")
            sites = target_dirs(resolve([str(path) for path in log_dirs]))
            (site,) = (site for site in sites if site.root == str(log_dir))
            request = PlanRequest(target=site, options={"as_broker": True}, now_ms=0)
            plan = make_plan("truncate", request).plan
            outcome = plan.report
            assert [each for each in (*outcome.findings, *outcome.refusals) if each.code == code] == [told]
            assert plan.is_alarming
            assert bool(plan.changes) == cut
        partition_dir = next(log_dir.glob("[tu]-0"))
        if len(log_dirs) == 1 and not code.startswith("meta."):
            assert [each.code for each in findings(partition_dir)] == [code]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("retain", ("--now", "1700000000000")),
        ("compact", ("--now", "1700000000000", "--topic-config", "t:cleanup.policy=compact")),
        ("roll", ()),
        ("reindex", ("--all",)),
    ],
)
def test_what_is_planned_for_a_stray_partition_says_so_first(
    tmp_path: Path, command: str, words: tuple[str, ...]
) -> None:
    """Once, in the words of verify; what is planned is what it is without the metadata log."""
    path = disk(tmp_path / "a", *GOOD, topic_id=an_id(7))
    (told,) = findings(path)
    rows = rows_of(command, path / "t-0", "--kafka", "4.3", *words)
    found = [row for row in rows if row["type"] == "finding"]
    assert found[0] == {"type": "finding", **told.row()}
    assert [row["code"] for row in found].count(told.code) == 1
    assert rows[-1]["codes"][told.code] == 1
    shutil.rmtree(path / "__cluster_metadata-0")
    alone = rows_of(command, path / "t-0", "--kafka", "4.3", *words)
    assert [row for row in alone if row["type"] in CHANGING] == [row for row in rows if row["type"] in CHANGING]
    assert told.code not in alone[-1]["codes"]


CHANGING = {"change", "retained_segment", "cleaned_segment", "rolled_segment"}


def test_the_metadata_log_of_another_directory_counts(tmp_path: Path) -> None:
    first = disk(tmp_path / "a", *GOOD)
    second = disk(tmp_path / "b", directory=OTHER)
    for path in (second / "__cluster_metadata-0").iterdir():
        path.unlink()
    (second / "__cluster_metadata-0").rmdir()
    (second / "t-0").rename(second / "u-0")
    assert [(each.code, each.path, each.next_command) for each in findings(first, second)] == [
        ("partition-metadata.shared-topic-id", f"{second}/u-0/partition.metadata", None)  # it was compared already
    ]
    (second / "u-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {text(an_id(3))}")
    assert [(each.code, each.path) for each in findings(first, second)] == [("dir.not-assigned", f"{second}/u-0")]
    assert findings(second) == []


def test_damage_in_the_metadata_log_proves_nothing(tmp_path: Path) -> None:
    path = disk(tmp_path / "a", *GOOD, topic_id=an_id(7))
    log = path / "__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    log.write_bytes(data)
    (path / "__cluster_metadata-0" / f"{9:020d}.log").write_bytes(b"")
    assert findings(path) == []


@pytest.mark.parametrize("wrong", ["first", "second", "both", "alone"])
def test_a_node_id_that_is_not_the_one_of_the_node_that_registered_the_directory(tmp_path: Path, wrong: str) -> None:
    """A 4.3.1 broker: `Stored node id 2 doesn't match previous node id 1`. It is no other broker."""
    first = disk(tmp_path / "a", *GOOD[:2], registered(DIRECTORY, OTHER), topic("u", an_id(2)), partition(an_id(2)))
    second = disk(tmp_path / "b", directory=OTHER, topic_id=an_id(2))
    shutil.rmtree(second / "__cluster_metadata-0")
    (second / "t-0").rename(second / "u-0")
    paths = (first,) if wrong == "alone" else (first, second)
    assert findings(*paths) == []
    changed = [
        path for path in paths if wrong in {"both", "alone"} or path == {"first": first, "second": second}[wrong]
    ]
    for path in changed:
        meta = path / "meta.properties"
        meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    told = findings(*paths)
    assert [(each.code, each.severity) for each in told] == [("meta.other-node-id", "error")] * len(changed)
    assert all("a directory of node 1" in each.message for each in told)
    for path in changed:
        meta = path / "meta.properties"
        command = f"sed -i.before s/^node.id=.*/node.id=1/ {meta}"
        assert command in {each.next_command for each in told}
        (site,) = (site for site in target_dirs(resolve([str(each) for each in paths])) if site.root == str(path))
        plan = make_plan("truncate", PlanRequest(target=site, options={"as_broker": True}, now_ms=0)).plan
        assert [each.code for each in plan.report.refusals] == ["meta.other-node-id"]


def test_a_directory_that_was_moved_to_another_node(tmp_path: Path) -> None:
    """Node 2 has registered it since: both nodes have it among theirs, and the id in the file is right."""
    moved = bytearray(registered(DIRECTORY))
    moved[3:7] = (2).to_bytes(4, "big")
    for number, records in enumerate(((*GOOD, bytes(moved)), (*GOOD[:2], bytes(moved), GOOD[2]))):
        path = disk(tmp_path / str(number), *records)
        assert findings(path) == []
        meta = path / "meta.properties"
        meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
        assert "meta.other-node-id" not in {each.code for each in findings(path)}


def test_directories_of_two_brokers_of_a_cluster(tmp_path: Path) -> None:
    """Nothing proves that one of the ids is wrong, and nothing that it is right."""
    first = disk(tmp_path / "a", *GOOD)
    second = disk(tmp_path / "b", *GOOD[:2], directory=OTHER)
    meta = second / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    told = [each for each in findings(first, second) if each.code == "dir.other-node"]
    assert [each.severity for each in told] == ["info"]
    assert "the directories belong to two brokers, or one of the two ids is wrong" in told[0].message


@pytest.mark.parametrize("form", ["log.dirs={data},{metadata}", "log.dirs={data}\nmetadata.log.dir={metadata}"])
def test_the_metadata_log_may_be_in_another_directory_of_the_config(tmp_path: Path, form: str) -> None:
    metadata = disk(
        tmp_path / "m", topic("t", an_id(1)), partition(an_id(1), replicas=(2,)), registered(DIRECTORY, OTHER)
    )
    data = disk(tmp_path / "d", directory=OTHER)
    shutil.rmtree(data / "__cluster_metadata-0")
    shutil.rmtree(metadata / "t-0")
    config = tmp_path / "server.properties"
    config.write_text(f"node.id={NODE}\n{form.format(data=data, metadata=metadata)}\n")

    def codes(*given: object) -> set[object]:
        arguments = ["verify", *map(str, given), "--output", "ndjson"]
        rows = map(json.loads, CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout.splitlines())
        return {row["code"] for row in rows if row["type"] == "finding"}

    alone, together = codes(data), codes(data, metadata)
    assert "dir.not-assigned" in together - alone
    assert codes("--config", config, data) == alone | {"dir.not-assigned"}


def test_another_topic_id_helps_only_where_the_topic_has_the_partition(tmp_path: Path) -> None:
    """A copy under the name of a partition that the topic does not have is a stray with either id."""
    path = disk(tmp_path / "a", *GOOD)
    shutil.copytree(path / "t-0", path / "t-7")
    (path / "t-7" / "partition.metadata").write_text(f"version: 0\ntopic_id: {text(an_id(7))}")
    of_copy = [each for each in findings(path) if each.code.endswith("not-assigned")]
    assert [(each.code, each.path) for each in of_copy] == [("dir.not-assigned", f"{path}/t-7")]
    assert "sed" not in (of_copy[0].next_command or "")
