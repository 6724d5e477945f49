"""`transplant`: the disks of one real cluster are those of another afterwards; undone, they are as before."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.storage.changing.writer import Disk
from tests.support.repairs import LOCK_HOLDER, CountingDisk, DyingDisk, Killed, names_of_ours, snapshot, undo_all
from tests.support.transplanting import NEW_ID, NOW_MS, OLD_ID, Clusters, codes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METADATA = "__cluster_metadata-0"
LEADER_EPOCH, CRC, CHECKED = slice(12, 16), slice(17, 21), 21


@pytest.fixture
def clusters(tmp_path: Path) -> Clusters:
    """Fresh disks of both clusters."""
    return Clusters(tmp_path)


def batches(log_dir: Path) -> Iterator[tuple[str, bytes]]:
    """The batches of all logs but the metadata log's, by the format's description alone."""
    for path in sorted(log_dir.glob("*/*.log")):
        if path.parent.name == METADATA:
            continue
        data, position = path.read_bytes(), 0
        while position < len(data):
            end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            yield path.parent.name, data[position:end]
            position = end


def epochs(log_dir: Path) -> set[int]:
    return {int.from_bytes(batch[LEADER_EPOCH], "big", signed=True) for _, batch in batches(log_dir)}


def apply(clusters: Clusters, *paths: Path, disk: Disk | None = None, **options: object) -> None:
    for draft in clusters.drafts(*paths, **options):
        assert not draft.plan.obstacles, draft.plan.obstacles
        apply_plan(draft, disk or Disk(), now_ms=NOW_MS)


def test_a_disk_belongs_to_the_new_cluster(clusters: Clusters) -> None:
    """The ids of the new cluster, epoch 0, the same records; the metadata log of the same node; undo to the byte."""
    disk, new = clusters.old(2), clusters.new(2)
    before, old_batches = snapshot(disk), [*batches(disk)]
    assert max(epochs(disk)) == 10
    apply(clusters, disk, topic_ids=[new])
    assert epochs(disk) == {0}
    for (name, old), (_, batch) in zip(old_batches, batches(disk), strict=True):
        assert int.from_bytes(batch[CRC], "big") == crc32c(batch[CHECKED:])
        if not name.startswith("__consumer_offsets"):
            assert old[:12] + old[16:] == batch[:12] + batch[16:]  # only the leader epoch
    for place in disk.glob("*-[0-9]*"):
        topic = place.name.rpartition("-")[0]
        if topic in clusters.topic_ids:
            assert (place / "partition.metadata").read_text() == f"version: 0\ntopic_id: {clusters.topic_ids[topic]}"
            epoch_lines = (place / "leader-epoch-checkpoint").read_text().splitlines()[2:]
            assert all(line.startswith("0 ") for line in epoch_lines)
    meta = (disk / "meta.properties").read_text()
    assert f"cluster.id={NEW_ID}" in meta
    assert OLD_ID not in meta
    (directory_id,) = [line for line in (new / "meta.properties").read_text().splitlines() if "directory.id" in line]
    assert directory_id in meta
    assert (disk / ".kafka_cleanshutdown").read_text() == (new / ".kafka_cleanshutdown").read_text()
    assert {path.name: path.read_bytes() for path in (disk / METADATA).iterdir() if path.is_file()} == {
        path.name: path.read_bytes() for path in (new / METADATA).iterdir()
    }
    undo_all(disk)
    assert snapshot(disk) == before


def test_groups_keep_their_offsets(clusters: Clusters) -> None:
    """The committed offsets are the same, without leader epochs, and with the ids of the new topics."""
    disk = clusters.old(2)
    before = committed(disk)
    apply(clusters, disk, topic_ids=[clusters.new(2)])
    after = committed(disk)
    assert {key: value[0] for key, value in before.items()} == {key: value[0] for key, value in after.items()}
    assert len(before) == 4
    assert any(epoch > 0 for _, epoch, _ in before.values())
    assert {epoch for _, epoch, _ in after.values()} == {-1}
    ids = {topic_id for _, _, topic_id in after.values()}
    assert ids - {None} == {clusters.topic_ids["orders"]}
    assert {topic_id for _, _, topic_id in before.values()}.isdisjoint(ids - {None})


def committed(log_dir: Path) -> dict[tuple[str, str, int], tuple[int, int, str | None]]:
    """Offset, leader epoch and topic id of each committed offset, as kafkalog's reader of the topic has them."""
    options = ["--records", "--decode", "auto", "--topic", "__consumer_offsets", "--output", "ndjson"]
    output = CliRunner().invoke(cli, ["dump", *options, str(log_dir)]).output
    found: dict[tuple[str, str, int], tuple[int, int, str | None]] = {}
    for row in map(json.loads, output.splitlines()):
        key, value = row.get("decoded_key"), row.get("decoded_value")
        if key is not None and key["name"] == "OffsetCommit" and value is not None:
            at, data = key["data"], value["data"]
            place = at["group"], at["topic"], at["partition"]
            found[place] = data["offset"], data["leaderEpoch"], data.get("topicId")
    return found


def test_killed_at_steps(clusters: Clusters) -> None:
    """What is there after a kill can be undone to the byte."""
    disk, counting = clusters.old(1), CountingDisk()
    before = snapshot(disk)
    apply(clusters, disk, disk=counting, topic_ids=[clusters.new(1)])
    undo_all(disk)
    for at in range(3, len(counting.steps), len(counting.steps) // 8):
        with pytest.raises(Killed):
            apply(clusters, disk, disk=DyingDisk(at), topic_ids=[clusters.new(1)])
        undo_all(disk)
        assert snapshot(disk) == before


def test_killed_before_the_intent(clusters: Clusters) -> None:
    """Nothing has changed, and `undo` names what the run left and the command that deletes all of it."""
    disk, counting = clusters.old(1), CountingDisk()
    before = snapshot(disk)
    apply(clusters, disk, disk=counting, topic_ids=[clusters.new(1)])
    undo_all(disk)
    last_directory = len(counting.steps) - 1 - counting.steps[::-1].index("mkdir")  # the intent comes after them
    with pytest.raises(Killed):
        apply(clusters, disk, disk=DyingDisk(last_directory), topic_ids=[clusters.new(1)])
    assert snapshot(disk) == before
    count = len([*disk.rglob("kafkalog-*"), *disk.rglob("kafkalog-*/*")])
    assert count > 2
    for line in (["undo", str(disk)], ["undo", str(disk), "--apply"]):
        said = CliRunner().invoke(cli, line)
        assert said.exit_code == 3
        first = said.stderr.splitlines()[0]
        assert "there is no kafkalog run to undo here, but files of a run are left" in first
        assert f"-1, {count} paths: " in first
        assert f"kafkalog undo {disk} --prune --apply" in said.stderr
    assert CliRunner().invoke(cli, ["undo", str(disk), "--prune", "--apply"]).exit_code == 0
    assert names_of_ours(disk) == []
    assert snapshot(disk) == before
    said = CliRunner().invoke(cli, ["undo", str(disk)])
    assert said.stderr.endswith("there is no kafkalog run to undo here\n")


def test_ids_alone(clusters: Clusters) -> None:
    """Without topics only meta.properties changes: the disk keeps its metadata log and its partitions."""
    draft = clusters.draft(clusters.old(1))
    assert [change.path for change in draft.plan.changes] == [str(clusters.old(1) / "meta.properties")]
    assert codes(draft) == []
    assert draft.plan.report.verdict is not None
    assert "keeps 7 of 7 partitions, if it goes on with the metadata log" in draft.plan.report.verdict


def test_ids_alone_with_another_node(clusters: Clusters) -> None:
    """Node 4 is no replica of anything; a directory without a metadata log says nothing about its topics."""
    draft = clusters.draft(clusters.old(1), node_id=4)
    assert codes(draft) == ["transplant.stray"] * 7
    shutil.rmtree(clusters.old(1) / METADATA)
    assert codes(clusters.draft(clusters.old(1))) == ["transplant.unknown-topics"]


def test_from_the_output_of_kafka_topics(clusters: Clusters) -> None:
    """The ids are known, and the assignments; the broker epoch and the id of the directory are not."""
    draft = clusters.draft(clusters.old(2), topic_ids=[clusters.described])
    assert {"transplant.no-broker-epoch", "transplant.directory-id", "transplant.metadata-removed"} <= set(codes(draft))
    assert "transplant.stray" not in codes(draft)
    text = clusters.described.read_text().replace("orders", "others").replace("Replicas: 3,1,2", "Replicas: 3,1")
    clusters.described.write_text(text)
    strays = [
        (finding.topic, finding.partition)
        for finding in clusters.draft(clusters.old(2), topic_ids=[clusters.described]).plan.report.refusals
    ]
    assert strays == [("orders", 0), ("orders", 1), ("payments", 0)]
    clusters.described.write_text("no topics\n")
    with pytest.raises(SelectionError, match="TopicId"):
        clusters.draft(clusters.old(2), topic_ids=[clusters.described])


def test_replicas_are_compared(clusters: Clusters) -> None:
    """Node 2 stopped first, so the old cluster does not list it as in sync: the other disk shows that it is whole."""
    news = [clusters.new(1), clusters.new(2)]
    assert "transplant.maybe-shorter" in codes(clusters.draft(clusters.old(2), topic_ids=news))
    drafts = clusters.drafts(clusters.old(1), clusters.old(2), topic_ids=news)
    assert not any(code.endswith("shorter") for draft in drafts for code in codes(draft))
    last = max((clusters.old(2) / "orders-1").glob("*.log"))
    last_batch = [batch for name, batch in batches(clusters.old(2)) if name == "orders-1"][-1]
    last.write_bytes(last.read_bytes()[: -len(last_batch)])
    _, second = clusters.drafts(clusters.old(1), clusters.old(2), topic_ids=news)
    assert "transplant.shorter" in codes(second)
    assert second.plan.obstacles
    last.write_bytes(last.read_bytes()[:-1])  # damaged: its end is unknown
    _, second = clusters.drafts(clusters.old(1), clusters.old(2), topic_ids=news)
    assert "transplant.maybe-shorter" in codes(second)


def test_another_cluster_is_refused(clusters: Clusters) -> None:
    with pytest.raises(RefusedError, match="belongs to cluster"):
        clusters.draft(clusters.old(2), topic_ids=[clusters.old(1)])
    with pytest.raises(SelectionError, match="whole log directories"):
        clusters.draft(clusters.old(2) / "orders-0")


def test_disks_of_two_clusters_are_refused(clusters: Clusters) -> None:
    """One that belongs to the new cluster already is not: an interrupted run leaves such."""
    ids = clusters.old(1) / "meta.properties"
    text = ids.read_text()
    ids.write_text(text.replace(OLD_ID, "b3RoZXItY2x1c3Rlci0tMA"))
    with pytest.raises(RefusedError, match="of several clusters"):
        clusters.drafts(clusters.old(1), clusters.old(2))
    ids.write_text(text.replace(OLD_ID, NEW_ID))
    assert len(clusters.drafts(clusters.old(1), clusters.old(2))) == 2


def test_disks_of_two_nodes_do_not_become_one_node(clusters: Clusters) -> None:
    with pytest.raises(RefusedError, match="of several nodes"):
        clusters.drafts(clusters.old(1), clusters.old(2), node_id=7)
    assert len(clusters.drafts(clusters.old(2), node_id=7)) == 1


def test_a_controller_needs_its_own_metadata_log(clusters: Clusters) -> None:
    """Node 1 is the controller: the log of node 2 is not its own; and what a running broker changes is not copied."""
    draft = clusters.draft(clusters.old(1), topic_ids=[clusters.new(2)])
    assert any("is a controller of the new cluster" in str(each) for each in draft.plan.obstacles)
    shutil.rmtree(clusters.old(1) / METADATA)
    assert "transplant.metadata-elsewhere" in codes(clusters.draft(clusters.old(1), topic_ids=[clusters.new(1)]))
    lock = clusters.new(2) / ".lock"
    lock.touch()
    with subprocess.Popen([sys.executable, "-c", LOCK_HOLDER, str(lock)], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        draft = clusters.draft(clusters.old(2), topic_ids=[clusters.new(2)])
        assert any("still changes" in str(each) for each in draft.plan.obstacles)
        holder.stdin.close()


def test_a_disk_without_a_clean_shutdown(clusters: Clusters) -> None:
    """Its own metadata log may be too old to show who was in sync; that of another node shows it."""
    assert "transplant.maybe-shorter" not in codes(clusters.draft(clusters.old(1), topic_ids=[clusters.new(1)]))
    (clusters.old(1) / ".kafka_cleanshutdown").unlink()
    assert "transplant.maybe-shorter" in codes(clusters.draft(clusters.old(1), topic_ids=[clusters.new(1)]))
    news = [clusters.new(1), clusters.new(2)]
    first, _ = clusters.drafts(clusters.old(1), clusters.old(2), topic_ids=news)
    assert "transplant.maybe-shorter" not in codes(first)
    (clusters.old(2) / ".kafka_cleanshutdown").unlink()
    assert "transplant.unclean" in codes(clusters.draft(clusters.old(2), topic_ids=[clusters.new(2)]))
