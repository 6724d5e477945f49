"""ZooKeeper's tree for people: the cluster in one sentence, its parts in tables, nodes, changes and owners."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, bytes_cell, counts_cell, plain, safe_text, time_cell
from kafkalog_cli.render.grid import (
    TableColumn,
    count_column,
    number_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import INDENT, SummaryTable, closed, sentence_texts
from kafkalog_cli.render.summary_line import VERDICT_STYLES, verdict
from kafkalog_core.command_lines import shell_line
from kafkalog_core.kafka.sim.zookeeper.tree import zxid_text
from kafkalog_core.ops.zookeeper.request import RowsFound, ZookeeperBasis, ZookeeperFound
from kafkalog_core.text import count_of, first_of, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.topics.zookeeper_state import KafkaState, OldGroup, TopicNodes

__all__ = ["ZookeeperTable"]

Row = dict[str, Any]

SHOWN: Final = 50
SHOWN_NODES: Final = 2000
_NO_LEADER: Final = frozenset({-1, -2})
_IN_ANSWER: Final = {
    "zookeeper.other-cluster": "A LOG DIRECTORY IS OF ANOTHER CLUSTER",
    "zookeeper.no-log": "NO TRANSACTION LOG IS HERE: name dataLogDir too, with --txn-log-dir",
    "zookeeper.no-snapshot": "NO SNAPSHOT CAN BE USED, so that a server of 3.5.4 or later does not start",
}


def _zxid(title: str, name: str, rank: int = 0) -> TableColumn:
    return TableColumn(
        title, lambda row: NONE if row.get(name) is None else zxid_text(cast("int", row[name])), right=True, rank=rank
    )


def _data(title: str, name: str, rank: int = 0) -> TableColumn:
    return TableColumn(
        title,
        lambda row: NONE if row.get(name) is None else bytes_cell(cast("bytes", row[name])),
        flexible=True,
        rank=rank,
    )


def _names(row: Mapping[str, Any], name: str) -> str:
    return safe_text(", ".join(map(str, row.get(name) or ()))) or NONE


_SERVERS: Final = (
    TableColumn("server", lambda row: safe_text(str(row["path"]))),
    number_column("id", "server_id", 2),
    number_column("epoch", "epoch"),
    _zxid("last zxid", "last_zxid"),
    time_column("at (UTC)", "time_ms", 1),
    TableColumn("", lambda row: "read" if row["is_read"] else ""),
)
_BROKERS: Final = (
    number_column("broker", "id"),
    TableColumn("endpoints", lambda row: _names(row, "endpoints"), flexible=True),
    TableColumn("rack", lambda row: plain(row.get("rack")), rank=2),
    number_column("epoch", "epoch", 3),
    time_column("registered (UTC)", "timestamp_ms", 1),
)
_TOPICS: Final = (
    word_column("topic", "topic"),
    word_column("topic id", "topic_id", 3),
    count_column("partitions", "partitions"),
    TableColumn("replicas", lambda row: plain(row["replicas"]), right=True, rank=2),
    TableColumn("leaders", lambda row: safe_text(str(row["leaders"])), rank=1),
    TableColumn("what is wrong", lambda row: plain(row["wrong"]), flexible=True, has_words=True),
)
_CONFIGS: Final = (
    word_column("settings of", "kind"),
    word_column("name", "name"),
    TableColumn("values", lambda row: plain(row["values"]), flexible=True),
)
_ACLS: Final = (
    word_column("principal", "principal"),
    word_column("permission", "permissionType"),
    word_column("operation", "operation"),
    word_column("host", "host", 2),
    word_column("resource", "resource_type"),
    TableColumn("name", lambda row: safe_text(str(row["resource"])), flexible=True),
    word_column("pattern", "pattern", 1),
)
_USERS: Final = (
    word_column("SCRAM user", "user"),
    word_column("mechanism", "mechanism"),
    word_column("iterations", "iterations"),
)
_GROUPS: Final = (
    word_column("old group", "group"),
    count_column("consumers", "consumers"),
    TableColumn("topics", lambda row: plain(row["topics"]), flexible=True),
    count_column("offsets", "offsets"),
    count_column("owned", "owned", 1),
    time_column("last commit (UTC)", "last_ms", 1),
)
_NODES: Final = (
    TableColumn("node", lambda row: safe_text(str(row["path"]))),
    count_column("version", "version", 3),
    time_column("changed (UTC)", "mtime_ms", 2),
    TableColumn("lifetime", lambda row: "" if row["lifetime"] == "persistent" else str(row["lifetime"]), rank=1),
    _data("data", "data"),
)
_CHANGES: Final = (
    time_column("at (UTC)", "time_ms", 1),
    _zxid("zxid", "zxid"),
    word_column("change", "change"),
    TableColumn("node", lambda row: safe_text(str(row["path"]))),
    count_column("version", "version", 3),
    TableColumn("session", lambda row: NONE if row.get("session_id") is None else f"{row['session_id']:#x}", rank=4),
    _data("data", "data"),
    _data("before", "before", 2),
)
_OWNERS: Final = (
    TableColumn("partition", lambda row: safe_text(f"{row['topic']}/{row['partition']}")),
    TableColumn("should be", lambda row: plain(row["expected"])),
    TableColumn("owner", lambda row: plain(row["owner"])),
    word_column("state", "state"),
)


class ZookeeperTable(SummaryTable["RowsFound | ZookeeperFound | ZookeeperBasis"]):
    """The cluster, or what was asked for instead."""

    def __init__(self, mode: str, words: Sequence[str], paths: Sequence[str]) -> None:
        """Take what is shown, the options with which another command reads the same tree, and the paths as named."""
        super().__init__()
        self._mode = mode
        self._words = tuple(words)
        self._paths = tuple(paths)
        self._servers: list[Row] = []
        self._clusters: list[ZookeeperFound] = []
        self._rows: list[Row] = []
        self._count = 0
        self._basis = ZookeeperBasis()

    def write(self, item: RowsFound | ZookeeperFound | ZookeeperBasis) -> None:
        """Keep an item; of nodes and changes the first ones."""
        if isinstance(item, ZookeeperBasis):
            self._basis = item
            self.add_findings(finding.row() for finding in item.findings)
        elif isinstance(item, ZookeeperFound):
            self._clusters.append(item)
        elif item.table.name == "zookeeper_server":
            self._servers += item.rows
        else:
            self._count += len(item.rows)
            self._rows += item.rows[: SHOWN_NODES - len(self._rows)]

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer, and the tables below it."""
        del summary
        if self._mode == "summary":
            return self._summary()
        if self._mode == "nodes":
            return [line for row in self._rows for line in self._node(row)][1:]
        columns, noun, answer = self._answer()
        lines = sentence_texts(closed(answer + self._gap()), self.width, "bold")
        return lines + table_lines(
            columns,
            self._rows,
            self.width,
            noun=noun,
            most=SHOWN_NODES,
            count=self._count,
            style_of=lambda row: "bold red" if row.get("state", "ok") != "ok" else "",
        )

    def notes(self) -> list[Text]:
        """Return what the answer depends on, and the commands that lead on."""
        lines = [Text(), *(line for note in self._basis.notes for line in sentence_texts(note, self.width, "dim"))]
        if self._mode == "summary":
            for purpose, *words in (("all nodes", "--tree"), ("one node", "--get", self._some_node())):
                command = shell_line(["kafkalog", "zookeeper", *words, *self._words, *self._paths])
                lines.append(Text(f"{purpose}: {command}", "bold"))
        return lines

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the summary line: no batch and no record was read."""
        word = verdict(summary)
        parts = ["interrupted"] if summary.get("interrupted") else []
        parts += [] if word == "clean" else [word]
        parts += [counts_cell(summary["codes"])] if summary.get("codes") else []
        parts += [f"{count_of(summary.get('rows'), 'row')} shown", f"exit status {summary.get('exit_status')}"]
        return Text(" | ".join(parts), VERDICT_STYLES[word])

    def _some_node(self) -> str:
        """Return a node that the tree has: the controller if there was one, else a topic."""
        for state in (each.state for each in self._clusters):
            if state is not None and state.controller is not None:
                return f"{state.chroot}/controller"
            topics = [] if state is None else [name for name, each in state.topics.items() if each.partitions]
            if state is not None and topics:
                return f"{state.chroot}/brokers/topics/{min(topics)}"
        return "/zookeeper"

    # --- the cluster --------------------------------------------------------------------------------------------------
    def _summary(self) -> list[Text]:
        lines: list[Text] = []
        for each in self._clusters:
            lines += [Text()] if lines else []
            more = self._more_of_answer()
            style = "bold red" if more or not _is_whole(each.row) else "bold"
            lines += sentence_texts(closed(_verdict(each) + more), self.width, style)
            if each.state is not None:
                lines += self._cluster(each.row, each.state)
        return lines + table_lines(_SERVERS, self._servers, self.width, noun="server", most=SHOWN)

    def _cluster(self, row: Row, state: KafkaState) -> list[Text]:
        lines = [line for text in _facts(state) for line in sentence_texts(f"{INDENT}{text}", self.width)]
        brokers = [fields | {"id": number} for number, fields in row["brokers"].items()]
        alive = state.brokers.keys()
        topics = [_topic_row(name, topic, alive) for name, topic in sorted(state.topics.items())]
        topics.sort(key=lambda each: each["wrong"] is None)
        configs = [
            {"kind": kind, "name": name or "<default>", "values": _settings(values)}
            for kind, name, values in state.configs
        ]
        users = [
            {"user": user, "mechanism": mechanism, "iterations": credential.get("iterations")}
            for user, credentials in sorted(state.users.items())
            for mechanism, credential in credentials.items()
        ]
        groups = [_group_row(name, group) for name, group in sorted(state.groups.items())]
        tables: tuple[tuple[tuple[TableColumn, ...], list[Row], str], ...] = (
            (_BROKERS, brokers, "broker"),
            (_TOPICS, topics, "topic"),
            (_CONFIGS, configs, "entity"),
            (_ACLS, cast("list[Row]", state.acls), "ACL"),
            (_USERS, users, "credential"),
            (_GROUPS, groups, "group"),
        )
        for columns, rows, noun in tables:
            lines += table_lines(
                columns,
                rows,
                self.width,
                noun=noun,
                most=SHOWN,
                style_of=lambda each: "bold red" if each.get("wrong") else "",
            )
        if groups:
            line = shell_line(["kafkalog", "groups", *self._paths])
            lines += [Text(), Text(f"offsets of old groups, to be exported: {line}", "bold")]
        return lines

    def _answer(self) -> tuple[tuple[TableColumn, ...], str, str]:
        """Return the columns of what was asked for, what a row is, and the first sentence."""
        if self._mode == "rebalance":
            return _OWNERS, "partition", self._ownership()
        if self._mode == "other":
            return _CHANGES, "change", self._difference()
        if self._mode == "history":
            return _CHANGES, "change", f"{count_of(self._count, 'change')} in the logs"
        return _NODES, "node", count_of(self._count, "node")

    def _more_of_answer(self) -> str:
        """Return what the first sentence has to add, clauses: which findings change what the user does next."""
        codes = {finding.code for finding in self._basis.findings}
        return "".join(f"; {clause}" for code, clause in _IN_ANSWER.items() if code in codes)

    # --- other answers ------------------------------------------------------------------------------------------------
    def _gap(self) -> str:
        return "" if self._basis.can_be_restored else "; NOT RESTORABLE: transactions are missing"

    def _difference(self) -> str:
        if not self._count:
            return "NO DIFFERENCE: the nodes are the same"
        changes = Counter(str(row["change"]) for row in self._rows)
        named = ", ".join(f"{count:,} {change}" for change, count in sorted(changes.items()))
        return f"{count_of(self._count, 'node')} differ: {named}" if self._count > 1 else f"1 node differs: {named}"

    def _ownership(self) -> str:
        wrong = [row for row in self._rows if row["state"] != "ok"]
        if not self._rows:
            return "NOTHING IS OWNED: no consumer of the group is registered, and no partition has an owner"
        if not wrong:
            return f"EVERY PARTITION HAS ITS OWNER: {count_of(len(self._rows), 'partition')}"
        names = first_of([safe_text(f"{row['topic']}/{row['partition']} ({row['state']})") for row in wrong])
        return f"NOT AS THE CONSUMERS WOULD DIVIDE: {len(wrong)} of {count_of(len(self._rows), 'partition')}: {names}"

    def _node(self, row: Row) -> list[Text]:
        """Return a node in lines, as a person reads one."""
        meaning = "not a node of Kafka" if row.get("meaning") is None else f"Kafka: {row['meaning']}"
        if row.get("problem"):
            meaning += f", which cannot be read: {row['problem']}"
        owner = row["ephemeral_owner"]
        children = "1 child" if row["children"] == 1 else f"{row['children']} children"
        lifetime = row["lifetime"] if owner is None else f"ephemeral, of session {owner:#x}"
        texts = (
            (
                f"created {time_cell(row['ctime_ms'])} ({zxid_text(row['czxid'])}), "
                f"data changed {time_cell(row['mtime_ms'])} ({zxid_text(row['mzxid'])})"
            ),
            f"version {row['version']}, {children} (cversion {row['cversion']}), {lifetime}",
            f"ACL {row['acl'] or 'unknown'}",
            meaning,
        )
        data = row["data"]
        lines = [Text(), Text(safe_text(row["path"]), "bold")]
        lines += [line for text in texts for line in sentence_texts(f"{INDENT}{text}", self.width)]
        shown = "no data" if data is None else f"{count_of(len(data), 'byte')}: {bytes_cell(data)}"
        return [*lines, Text(f"{INDENT}{shown}")]


def _is_whole(row: Row) -> bool:
    return bool(row["can_be_restored"])


def _verdict(found: ZookeeperFound) -> str:
    row, state = found.row, found.state
    at = "" if row["time_ms"] is None else f" of {moment(row['time_ms'])}"
    end = f"zxid {zxid_text(row['last_zxid'])}{at}"
    if row["missing"]:
        restored = f"NOT RESTORABLE: {count_of(row['missing'], 'transaction')} before {end} missing"
    elif row["digest_is_equal"] is False:
        restored = f"NOT RESTORABLE: the tree at {end} has another digest than the server recorded"
    else:
        restored = f"RESTORABLE up to {end}"
    if state is None:
        return f"{restored}; NO KAFKA in this tree of {count_of(row['znodes'], 'node')}"
    name = "a cluster without an id" if state.cluster_id is None else f"cluster {safe_text(state.cluster_id)}"
    if state.chroot:
        name += f" at {safe_text(state.chroot)}"
    alive = sorted(state.brokers)
    brokers = (
        f"{count_of(len(alive), 'broker')} alive ({first_of(list(map(str, alive)))})" if alive else "NO BROKER alive"
    )
    controller = row["controller"]
    led = "no controller" if controller is None else f"controller {controller}"
    if row["controller_epoch"] is not None:
        led += f" (epoch {row['controller_epoch']})"
    counts = f"{count_of(row['topics'], 'topic')}, {count_of(row['partitions'], 'partition')}"
    return f"{restored}; {name}: {brokers}, {led}, {counts}"


def _facts(state: KafkaState) -> list[str]:
    """Return sentences about what is rare."""
    texts = []
    if state.migration is not None:
        node = state.migration
        owner = node.get("kraft_controller_id")
        texts.append(
            f"migration to KRaft: /migration names controller {owner} (epoch {node.get('kraft_controller_epoch')}), "
            f"metadata up to offset {node.get('kraft_metadata_offset')}"
        )
    kraft = None if state.controller is None else state.controller.get("kraft_epoch")
    if kraft is not None and kraft >= 0:
        texts.append(f"the controller is a KRaft controller, of epoch {kraft}: the cluster was being migrated")
    if state.reassignments:
        texts.append(f"a reassignment of {count_of(state.reassignments, 'partition')} was not finished")
    if state.tokens:
        texts.append(f"{count_of(len(state.tokens), 'delegation token')}: their keys are not in ZooKeeper")
    end = (state.producer_ids or {}).get("block_end")
    if end is not None:
        texts.append(f"producer ids up to {end} were given to brokers")
    return texts


def _settings(values: Mapping[str, str]) -> str:
    from kafkalog_core.ops.zookeeper.nodes import hidden  # noqa: PLC0415 -- only where there are settings

    return ", ".join(f"{name}={value}" for name, value in hidden(values).items())


def _topic_row(name: str, topic: TopicNodes, alive: Any) -> Row:
    partitions = topic.partitions
    if topic.partitions_07:
        return {
            "topic": name,
            "topic_id": None,
            "partitions": sum(topic.partitions_07.values()),
            "replicas": None,
            "leaders": ", ".join(
                f"{count} on broker {broker}" for broker, count in sorted(topic.partitions_07.items())
            ),
            "wrong": None,
        }
    leaders = Counter(each.leader for each in partitions.values())
    counts = {len(each.replicas) for each in partitions.values()}
    wrong = []
    without = [number for number, each in partitions.items() if each.leader is None or each.leader in _NO_LEADER]
    dead = [number for number, each in partitions.items() if each.leader not in {None, *_NO_LEADER, *alive}]
    short = sum(each.isr is not None and len(each.isr) < len(each.replicas) for each in partitions.values())
    moving = sum(bool(each.adding or each.removing) for each in partitions.values())
    if topic.is_deleted:
        wrong.append("being deleted")
    if without:
        wrong.append(f"no leader: {first_of(without, str)}")
    if dead and alive:
        wrong.append(f"the leader was not alive: {first_of(dead, str)}")
    if short:
        wrong.append(f"{short} under-replicated")
    if moving:
        wrong.append(f"{moving} being reassigned")
    return {
        "topic": name,
        "topic_id": topic.topic_id,
        "partitions": len(partitions),
        "replicas": "-".join(str(each) for each in sorted({min(counts), max(counts)})) if counts else None,
        "leaders": ", ".join(str(leader) for leader in sorted(each for each in leaders if each is not None)),
        "wrong": ", ".join(wrong) or None,
    }


def _group_row(name: str, group: OldGroup) -> Row:
    topics = sorted({topic for topic, _ in (*group.offsets, *group.owners)})
    return {
        "group": name,
        "consumers": len(group.consumers),
        "topics": ", ".join(topics) or None,
        "offsets": len(group.offsets),
        "owned": len(group.owners),
        "last_ms": max((each.time_ms for each in group.offsets.values()), default=None),
    }
