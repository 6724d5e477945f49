"""Settings, groups and transactions of both copies, by the readers of `cluster`, `groups` and `transactions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import LogDirTarget, PartitionTarget
from kafkalog_core.errors import SelectionError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.sim.metadata_log import EVERYTHING
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.ops.cluster.cluster import disks_of, log_dirs_of, read_newest, unread_findings
from kafkalog_core.ops.cluster.difference import differences
from kafkalog_core.ops.cluster.request import ClusterRequest
from kafkalog_core.ops.cluster.zookeeper_reading import read_zookeeper
from kafkalog_core.ops.diff.request import difference
from kafkalog_core.ops.groups.groups import groups
from kafkalog_core.ops.groups.request import GroupResult, GroupsRequest
from kafkalog_core.ops.transactions.judgement import OPEN_KINDS
from kafkalog_core.ops.transactions.transactions import TransactionsRequest, transactions
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.ops.diff.places import SideDirs
    from kafkalog_core.ops.diff.request import DiffRequest, Row, Side
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = ["Images", "broker_rows", "group_rows", "read_images", "setting_rows", "transaction_rows"]

_OF_NODES: Final = frozenset(("cluster_broker", "cluster_controller", "cluster_partition"))
"""Changes of nodes, leaders and replicas: a restart changes all of them, and `kafkalog cluster --diff` shows them."""
_PREFIX: Final = "cluster_"


class Images(Struct):
    """The metadata of both sides, with findings and notes about what could not be read.

    `pair` is None where one side, or both, has none.
    """

    pair: tuple[ClusterImage, ClusterImage] | None
    findings: list[list[Row]]
    notes: list[str]

    @property
    def topics_after(self) -> frozenset[str] | None:
        """The names of the topics of NEW; None: unknown."""
        return None if self.pair is None else frozenset(topic.name for topic in self.pair[1].topics.values())


def read_images(old: Side, new: Side) -> Images:
    """Read the metadata of both sides: ZooKeeper's where its directory was named, else that of the metadata log."""
    images: list[ClusterImage] = []
    result = Images(None, [[], []], [])
    without = []
    for side, findings in zip((old, new), result.findings, strict=True):
        request = ClusterRequest(targets=side.targets, zookeeper_dirs=side.zookeeper_dirs)
        if side.zookeeper_dirs:
            reading = read_zookeeper(request, [*log_dirs_of(request).log_dirs])
            images.append(reading.image)
            findings.extend(finding.row() for finding in reading.findings)
        elif any(is_directory(f"{target.path}/{METADATA_TOPIC}-0") for target in side.targets):
            newest, _ = read_newest(disks_of(request), EVERYTHING)
            images.append(newest.image)
            findings.extend(unread_findings(newest))
        else:
            without.append(side.label)
    if without:
        which = f"{without[0]} has no" if without[1:] == [] else "neither OLD nor NEW has a"
        result.notes.append(
            f"Not compared: settings, quotas and ACLs, as {which} metadata log ({METADATA_TOPIC}-0). Name "
            "the log directory that has it too, separated by a comma; with ZooKeeper the dataDir of one of its servers."
        )
    else:
        result.pair = (images[0], images[1])
    return result


def setting_rows(request: DiffRequest, images: Images, on_disk: frozenset[str]) -> tuple[list[Row], int]:
    """Return what the metadata of both sides differ in, and how many changes of nodes and leaders were left out.

    Args:
        request: which topics are wanted.
        images: the metadata.
        on_disk: topics about which the directories say the same already.
    """
    if images.pair is None:
        return [], 0
    old, new = ({topic.name for topic in image.topics.values()} for image in images.pair)
    rows, of_nodes = [], 0
    for each in differences(*images.pair, topics=request.topics):
        kind, what, change = (str(each[name]) for name in ("kind", "what", "change"))
        if kind in _OF_NODES:
            of_nodes += 1
            continue
        columns: Row = {"column": each.get("column"), "before": each["before"], "after": each["after"]}
        if kind == "cluster_topic":
            if what in on_disk and each.get("column") in {None, "topic_id"}:
                continue
            change = (
                "recreated"
                if each.get("column") == "topic_id"
                else {"added": "new", "removed": "gone"}.get(change, change)
            )
            columns |= {"topic": what, "detail": "By the metadata; these directories have no partition that shows it."}
        elif kind == "cluster_config" and change == "removed" and _topic_of(what) in old - new:
            continue  # with its topic
        rows.append(difference(kind.removeprefix(_PREFIX), change, what, **columns))
    return rows, of_nodes


def _topic_of(resource: str) -> str:
    """Return the topic in what a setting is about, `topic orders retention.ms`; empty: it is of something else."""
    words = resource.split(" ")
    return words[1] if words[0] == "topic" else ""


def broker_rows(old: SideDirs, new: SideDirs) -> Iterator[Row]:
    """Yield what the meta.properties of both sides differ in: whose disks they are."""
    for column in ("cluster_id", "node_id"):
        values = [{getattr(identity_of(path), column) or "none" for path in disks.brokers} for disks in (old, new)]
        before, after = (", ".join(sorted(some)) for some in values)
        if before != after and all(values):
            detail = "The meta.properties of OLD and NEW differ: these are not two copies of one broker."
            if "none" in {before, after}:
                detail = "One copy has no meta.properties that can be read."
            row: Row = {"column": column, "before": before, "after": after, "detail": detail}
            yield difference("broker", "changed", f"meta.properties {column.replace('_', '.')}", **row)


# --- groups -----------------------------------------------------------------------------------------------------------
def group_rows(request: DiffRequest, progress: Progress) -> tuple[list[Row], list[list[Row]], list[str]]:
    """Return what became of groups and their committed offsets, findings by side, and notes."""
    known: list[dict[tuple[str, str], dict[TopicPartition, int]]] = []
    findings: list[list[Row]] = []
    has_zookeeper = request.has_zookeeper
    for side in (request.old, request.new):
        asked = GroupsRequest(
            targets=side.targets,
            zookeeper_dirs=side.zookeeper_dirs if has_zookeeper else (),
            now_ms=request.now_ms,
            jobs=request.jobs,
            max_batch_bytes=request.max_batch_bytes,
        )
        found: dict[tuple[str, str], dict[TopicPartition, int]] = {}
        unread: list[Row] = []
        try:
            for item in groups(asked, Report(), progress):
                if isinstance(item, GroupResult):
                    found[str(item.group["group"]), str(item.group["group_type"])] = _offsets(request, item)
                else:
                    unread += (finding.row() for finding in item.findings)
        except SelectionError as error:
            return [], [], [f"Not compared: groups, as {side.label} shows none: {error.message}."]
        known.append(found)
        findings.append(unread)
    return [*_group_changes(request, *known)], findings, []


def _offsets(request: DiffRequest, item: GroupResult) -> dict[TopicPartition, int]:
    return {
        (str(row["topic"]), cast("int", row["partition"])): offset
        for row in item.offsets
        if isinstance(offset := row["offset"], int) and request.takes(row["topic"])
    }


_Groups = dict[tuple[str, str], dict["TopicPartition", int]]


def _group_changes(request: DiffRequest, old: _Groups, new: _Groups) -> Iterator[Row]:
    for key in sorted(old.keys() | new.keys()):
        name = key[0] if key[1] != "zookeeper" else f"{key[0]} (in ZooKeeper)"
        before, after = old.get(key), new.get(key)
        if before is None or after is None:
            offsets = before or after or {}
            if offsets or not request.topics:
                detail = f"{count_of(len(offsets), 'committed offset')}."
                yield difference("group", "new" if before is None else "gone", name, group=key[0], detail=detail)
            continue
        for place in sorted(before.keys() | after.keys()):
            one, other = before.get(place), after.get(place)
            if one == other:
                continue
            change = "new" if one is None else "gone" if other is None else "moved" if other > one else "backwards"
            yield difference(
                "offset",
                change,
                f"{name} {place[0]}-{place[1]}",
                group=key[0],
                topic=place[0],
                partition=place[1],
                before=None if one is None else str(one),
                after=None if other is None else str(other),
            )


# --- transactions -----------------------------------------------------------------------------------------------------
def transaction_rows(
    request: DiffRequest, changed: frozenset[TopicPartition] | None, progress: Progress
) -> Iterator[Row]:
    """Yield transactions that are open in one copy only, and those that nobody ends any more.

    changed: the partitions whose logs differ; None: all of them are looked at.
    """
    known: list[dict[tuple[object, ...], Row]] = []
    for side in (request.old, request.new):
        asked = TransactionsRequest(
            targets=_narrowed(side, changed),
            now_ms=request.now_ms,
            jobs=request.jobs,
            max_batch_bytes=request.max_batch_bytes,
        )
        known.append({})
        for found in transactions(asked, Report(), progress):
            for row in found.parts:
                if row["kind"] in OPEN_KINDS and request.takes(row["topic"]):
                    known[-1][row["topic"], row["partition"], row["producer_id"], row["first_offset"]] = row
    old, new = known
    for key in sorted({*old, *new}, key=str):
        before, after = old.get(key), new.get(key)
        if before is not None and after is not None and (after["kind"] != "hanging" or before["kind"] == "hanging"):
            continue
        row = after or before or {}
        change = "opened" if before is None else "ended" if after is None else "hanging"
        kinds = [None if each is None else str(each["kind"]) for each in (before, after)]
        who = row["transactional_id"] or f"producer {row['producer_id']}"
        yield difference(
            "transaction",
            change,
            f"{who} {row['topic']}-{row['partition']}",
            topic=row["topic"],
            partition=row["partition"],
            before=kinds[0],
            after=kinds[1],
            records=row["records"],
            first_offset=row["first_offset"],
            path=row["path"],
            next_command=None if after is None else shell_line(["kafkalog", "transactions", str(row["path"])]),
        )


def _narrowed(side: Side, changed: frozenset[TopicPartition] | None) -> tuple[Target, ...]:
    """Return the targets of a side with the changed partitions alone; coordinators are found in all of them."""
    if changed is None:
        return side.targets
    found: list[Target] = []
    for target in side.targets:
        if isinstance(target, LogDirTarget):
            kept = tuple(each for each in target.partitions if (each.name.topic, each.name.partition) in changed)
            found.append(replace(target, partitions=kept, is_whole=False))
        elif isinstance(target, PartitionTarget) and (target.place.name.topic, target.place.name.partition) in changed:
            found.append(target)
    return tuple(found)
