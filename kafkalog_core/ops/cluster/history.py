"""`kafkalog cluster --history`: what each metadata record changed, in the order of the log."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.format.control import KRaftVersion, KRaftVoters, LeaderChange
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.ops.cluster.cluster import count_read, disks_of, newest_log, unread_files, unread_findings
from kafkalog_core.ops.cluster.image_rows import acl_row, release_text
from kafkalog_core.ops.cluster.request import ChangeBasis
from kafkalog_core.output import clusters, tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.text import count_of, moment
from kafkalog_core.topics.cluster_image import AclEntry
from kafkalog_core.topics.cluster_names import CONFIG_RESOURCES, SCRAM_MECHANISMS, is_secret, word_of
from kafkalog_core.topics.metadata_records import METADATA_VERSION, SAME_LEADER, TOPIC_RESOURCE, MetadataRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkalog_core.engine.report import Report
    from kafkalog_core.kafka.sim.metadata_log import MetadataReading, StoredRecord
    from kafkalog_core.ops.cluster.cluster import ClusterDisks
    from kafkalog_core.ops.cluster.request import ClusterRequest, Row
    from kafkalog_core.topics.cluster_image import ClusterImage, PartitionRegistration

__all__ = ["cluster_events"]

_AT_ONCE: Final = 1000
_ACL_FIELDS: Final = tuple(AclEntry.__struct_fields__)


def cluster_events(request: ClusterRequest, report: Report, write: Callable[[RowChunk | ChangeBasis], None]) -> None:
    """Write a row for each change, and a finding for each place that could not be read.

    The history begins with the oldest snapshot that the log continues, or with the log. Raises SelectionError.

    Args:
        request: `topics` and `brokers` choose events; empty: all of them.
        report: counts the rows.
        write: takes the rows, some at a time, in the order of the log.
    """
    pending: list[Row] = []

    def flush() -> None:
        if pending:
            report.rows += len(pending)
            write(RowChunk(clusters.CLUSTER_EVENT, tuple(pending)))
            pending.clear()

    def watch(image: ClusterImage, stored: StoredRecord, record: object) -> None:
        if stored.path.endswith(".checkpoint"):  # what it holds was there before: not a change
            return
        place = {"offset": stored.offset, "timestamp_ms": stored.timestamp_ms}
        events = _events(image, record, request.shows_secrets)
        pending.extend({**place, **row} for row in events if _is_wanted(row, request))
        if len(pending) >= _AT_ONCE:
            flush()

    disks = disks_of(request)
    reading = read_image(_log_of(disks), until=request.until, is_oldest=True, stops_at_damage=True, watch=watch)
    flush()
    count_read(report, reading)
    write(_basis(reading, disks))
    findings = tuple(unread_findings(reading))
    for row in findings:
        report.add_finding(row)
    if findings:
        write(RowChunk(tables.FINDING, findings))


def _log_of(disks: ClusterDisks) -> str:
    """Return the directory of the newest metadata log; of a file that was named itself its directory."""
    return newest_log(disks)[0].path if disks.logs else os.path.dirname(disks.files[0]) or "."


def _basis(reading: MetadataReading, disks: ClusterDisks) -> ChangeBasis:
    begin = reading.base_offset if reading.snapshot is not None else reading.start_offset
    if reading.gap is not None and not reading.end_offset:
        begin = None
    log = reading.path if begin is None else f"{reading.path} from offset {begin} to offset {reading.end_offset - 1}"
    notes = [f"The log on this disk begins at offset {begin}: what was changed before is not in it."] if begin else []
    return ChangeBasis(
        between=(log,), gaps=() if reading.gap is None else (reading.gap,), notes=(*notes, *unread_files(disks))
    )


def _is_wanted(row: Row, request: ClusterRequest) -> bool:
    if request.topics and not any(fnmatchcase(str(row.get("topic") or ""), glob) for glob in request.topics):
        return False
    return not request.brokers or row.get("node_id") in request.brokers


def _events(image: ClusterImage, record: object, shows_secrets: bool) -> Iterator[Row]:
    if isinstance(record, MetadataRecord):
        if record.name == "ConfigRecord":
            yield _config(image, record.fields, shows_secrets)
            return
        events = _EVENTS.get(record.name)
        if events is not None:
            yield from events(image, record.fields)
    elif isinstance(record, LeaderChange):
        voters = ", ".join(str(each.voter_id) for each in record.voters)
        yield {"event": "quorum-leader", "node_id": record.leader_id, "detail": f"of the voters {voters}"}
    elif isinstance(record, KRaftVoters):
        voters = ", ".join(
            f"{each.voter_id} ({each.directory_id}; {', '.join(f'{one.host}:{one.port}' for one in each.endpoints)})"
            for each in record.voters
        )
        yield {"event": "voters", "detail": voters}
    elif isinstance(record, KRaftVersion):
        yield {"event": "kraft-version", "detail": str(record.kraft_version)}


# --- topics -----------------------------------------------------------------------------------------------------------
def _topic(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    yield {"event": "topic-created", "topic": fields["name"], "detail": f"topic id {uuid_text(fields['topic_id'])}"}


def _remove_topic(image: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    topic_id = uuid_text(fields["topic_id"])
    topic = image.topics.get(topic_id)
    if topic is not None:
        partitions = count_of(len(topic.partitions), "partition")
        yield {"event": "topic-deleted", "topic": topic.name, "detail": f"topic id {topic_id}, {partitions}"}


def _partition(image: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    topic = image.topics.get(uuid_text(fields["topic_id"]))
    if topic is not None:
        yield {
            "event": "partition-created",
            "topic": topic.name,
            "partition": fields["partition_id"],
            "node_id": fields["leader"],
            "detail": f"replicas {_nodes(fields['replicas'])}, leader {fields['leader']}",
        }


_LISTS: Final = (
    ("replicas", "replicas", "replicas"),
    ("isr", "isr", "ISR"),
    ("adding_replicas", "adding", "adding"),
    ("removing_replicas", "removing", "removing"),
    ("eligible_leader_replicas", "elr", "ELR"),
    ("last_known_elr", "last_known_elr", "last known ELR"),
)
"""Fields of a PartitionChangeRecord, the attributes of the state, and words."""
_KINDS: Final = {"replicas": "replicas", "adding": "replicas", "removing": "replicas", "isr": "isr"}


def _change_partition(image: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    topic = image.topics.get(uuid_text(fields["topic_id"]))
    state = None if topic is None else topic.partitions.get(fields["partition_id"])
    if topic is None or state is None:
        return
    changed = [(name, _change(state, key, name, word, fields)) for key, name, word in _LISTS if fields[key] is not None]
    texts = [text for _, text in changed if text]
    names = [name for name, text in changed if text]
    row: Row = {"topic": topic.name, "partition": fields["partition_id"]}
    if fields["leader"] != SAME_LEADER:
        text = f"leader {state.leader} -> {fields['leader']}, leader epoch {state.leader_epoch + 1}"
        if fields["leader_recovery_state"] > 0:
            text += ", an unclean election"
        yield {**row, "event": "leader", "node_id": fields["leader"], "detail": "; ".join([text, *texts])}
    elif texts:
        yield {**row, "event": _KINDS.get(names[0], "elr"), "detail": "; ".join(texts)}


def _change(state: PartitionRegistration, key: str, name: str, word: str, fields: Mapping[str, Any]) -> str:
    before, after = list(getattr(state, name)), list(fields[key])
    return "" if before == after else f"{word} {_nodes(before)} -> {_nodes(after)}"


def _nodes(nodes: list[int]) -> str:
    return ",".join(map(str, nodes)) or "none"


def _clear_elr(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    what = "cleared" if fields["topic_name"] else "cleared of all topics"
    yield {"event": "elr", "topic": fields["topic_name"] or None, "detail": what}


# --- nodes ------------------------------------------------------------------------------------------------------------
def _registered(fields: dict[str, Any]) -> str:
    levels = {each["name"]: each["max_supported_version"] for each in fields["features"]}
    release = release_text(levels.get(METADATA_VERSION))
    addresses = ", ".join(f"{each['name']} {each['host']}:{each['port']}" for each in fields["end_points"])
    return f"registered{'' if release is None else f', Kafka {release}'}, {addresses or 'without an address'}"


def _broker(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    text = f"{_registered(fields)}, broker epoch {fields['broker_epoch']}"
    yield {"event": "broker", "node_id": fields["broker_id"], "detail": text}


def _controller(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    yield {"event": "controller", "node_id": fields["controller_id"], "detail": _registered(fields)}


def _change_broker(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    node_id = fields["broker_id"]
    if fields["in_controlled_shutdown"]:
        yield {"event": "broker-stopping", "node_id": node_id, "detail": "began a controlled shutdown"}
    if fields["fenced"]:
        yield _fenced(node_id, is_fenced=fields["fenced"] > 0)
    if fields["log_dirs"]:
        ids = ", ".join(map(uuid_text, fields["log_dirs"]))
        yield {"event": "broker", "node_id": node_id, "detail": f"online log directories {ids}"}
    if fields["cordoned_log_dirs"]:
        ids = ", ".join(map(uuid_text, fields["cordoned_log_dirs"]))
        yield {"event": "broker", "node_id": node_id, "detail": f"cordoned log directories {ids}"}


def _fenced(node_id: int, *, is_fenced: bool) -> Row:
    if is_fenced:
        return {"event": "broker-fenced", "node_id": node_id, "detail": "fenced: clients no longer see it"}
    return {"event": "broker-unfenced", "node_id": node_id, "detail": "unfenced: clients see it"}


def _fence(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    yield _fenced(fields["id"], is_fenced=True)


def _unfence(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    yield _fenced(fields["id"], is_fenced=False)


def _unregister_broker(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    yield {"event": "broker-removed", "node_id": fields["broker_id"], "detail": "unregistered"}


def _unregister_controller(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    yield {"event": "controller-removed", "node_id": fields["controller_id"], "detail": "unregistered"}


# --- settings and security --------------------------------------------------------------------------------------------
def _config(image: ClusterImage, fields: dict[str, Any], shows_secrets: bool) -> Row:
    kind, resource, name = fields["resource_type"], fields["resource_name"], fields["name"]
    before, after = image.configs_of(kind, resource).get(name), fields["value"]
    if is_secret(name) and not shows_secrets:
        before, after = (None if each is None else "(hidden)" for each in (before, after))
    was = "" if before is None else f" (was {before})"
    text = f"{name} removed{was}" if after is None else f"{name}={after}{was}"
    if kind == TOPIC_RESOURCE:
        return {"event": "config", "topic": resource, "detail": text}
    whose = f"{word_of(CONFIG_RESOURCES, kind)} {resource or '(all)'}"
    return {"event": "config", "detail": f"{whose}: {text}"}


def _feature(image: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    before = image.features.get(fields["name"])
    was = "" if before is None else f" (was {before})"
    yield {"event": "feature", "detail": f"{fields['name']} {fields['feature_level']}{was}"}


def _acl_text(acl_id: str, entry: AclEntry) -> str:
    row = acl_row(acl_id, entry)
    names = ("permission", "principal", "operation", "resource_type", "pattern_type", "resource")
    return f"{' '.join(str(row[name]) for name in names)} from {row['host']}"


def _acl(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    entry = AclEntry(**{name: fields[name] for name in _ACL_FIELDS})
    yield {"event": "acl", "detail": _acl_text(uuid_text(fields["id"]), entry)}


def _remove_acl(image: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    acl_id = uuid_text(fields["id"])
    entry = image.acls.get(acl_id)
    yield {"event": "acl-removed", "detail": acl_id if entry is None else _acl_text(acl_id, entry)}


def _user(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    mechanism = word_of(SCRAM_MECHANISMS, fields["mechanism"])
    yield {"event": "user", "detail": f"{fields['name']}, {mechanism}, {fields['iterations']} iterations"}


def _remove_user(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    mechanism = word_of(SCRAM_MECHANISMS, fields["mechanism"])
    yield {"event": "user-removed", "detail": f"{fields['name']}, {mechanism}"}


def _quota(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    entity = ", ".join(f"{each['entity_type']} {each['entity_name'] or '(default)'}" for each in fields["entity"])
    text = "removed" if fields["remove"] else f"{fields['value']:g}"
    yield {"event": "quota", "detail": f"{entity}: {fields['key']} {text}"}


def _token(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    until = moment(fields["expiration_timestamp"])
    yield {"event": "token", "detail": f"{fields['token_id']} of {fields['owner']}, expires at {until}"}


def _remove_token(_: ClusterImage, fields: dict[str, Any]) -> Iterator[Row]:
    yield {"event": "token-removed", "detail": fields["token_id"]}


_EVENTS: Final[Mapping[str, Callable[[ClusterImage, dict[str, Any]], Iterator[Row]]]] = {
    "TopicRecord": _topic,
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _change_partition,
    "ClearElrRecord": _clear_elr,
    "RegisterBrokerRecord": _broker,
    "BrokerRegistrationChangeRecord": _change_broker,
    "FenceBrokerRecord": _fence,
    "UnfenceBrokerRecord": _unfence,
    "UnregisterBrokerRecord": _unregister_broker,
    "RegisterControllerRecord": _controller,
    "UnregisterControllerRecord": _unregister_controller,
    "FeatureLevelRecord": _feature,
    "AccessControlEntryRecord": _acl,
    "RemoveAccessControlEntryRecord": _remove_acl,
    "UserScramCredentialRecord": _user,
    "RemoveUserScramCredentialRecord": _remove_user,
    "ClientQuotaRecord": _quota,
    "DelegationTokenRecord": _token,
    "RemoveDelegationTokenRecord": _remove_token,
}
