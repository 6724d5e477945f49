"""A cluster for people: what is missing first, then nodes, volumes and topics, or what an option asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, number, plain, safe_text
from kafkalog_cli.render.grid import (
    TableColumn,
    count_column,
    number_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import SummaryTable, closed, sentence_texts, status_line
from kafkalog_core.command_lines import shell_line
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.sim.zookeeper.tree import zxid_text
from kafkalog_core.text import count_of, first_of, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.ops.cluster.request import ClusterFound, ClusterRequest, Row

__all__ = ["ClusterTable"]

SHOWN: Final = 100
SHOWN_TOPICS: Final = 40
_FIRST_SNAPSHOT: Final = f"{0:020}-{0:010}.checkpoint"
_HIDDEN: Final = "(hidden: --show-secrets)"
_BAD: Final = "bold red"


def _list(row: Mapping[str, object], name: str) -> str:
    """Return the elements of a list, separated by commas."""
    return ",".join(map(str, cast("Sequence[object]", row.get(name) or ()))) or NONE


def _addresses(row: Mapping[str, object]) -> str:
    listeners = cast("Sequence[Mapping[str, object]]", row["listeners"])
    return safe_text(", ".join(f"{each['name']} {each['host']}:{each['port']}" for each in listeners)) or NONE


def _state(row: Mapping[str, object]) -> str:
    if row["is_fenced"]:
        return "fenced, shut down" if row["in_controlled_shutdown"] else "FENCED"
    return "stopping" if row["in_controlled_shutdown"] else "unfenced"


_BROKERS: Final = (
    number_column("broker", "node_id"),
    word_column("release", "release", 2),
    TableColumn("address", _addresses, flexible=True, rank=1),
    word_column("rack", "rack", 5),
    TableColumn("state", _state),
    count_column("leads", "leaders", 3),
    count_column("replicas", "replicas", 3),
    TableColumn("log directories", lambda row: _list(row, "log_dirs"), flexible=True, rank=6),
)
_ALIVE_BROKERS: Final = tuple(
    column for column in _BROKERS if column.title not in {"release", "state", "log directories"}
)
"""With ZooKeeper: a registration has neither a release nor ids of log directories, and its broker is alive."""
_CONTROLLERS: Final = (
    number_column("controller", "node_id"),
    word_column("release", "release", 2),
    TableColumn("address", _addresses, flexible=True, rank=1),
    TableColumn("voter", lambda row: {True: "yes", False: "no"}.get(cast("bool", row["is_voter"]), NONE)),
    word_column("directory id", "directory_id", 4),
    number_column("log ends at", "end_offset"),
    word_column("log", "path", 5),
)
_DIRECTORIES: Final = (
    word_column("log directory", "path"),
    number_column("node", "node_id"),
    word_column("directory id", "directory_id", 3),
    TableColumn(
        "partitions",
        lambda row: NONE if row["assigned"] is None else f"{number(row, 'found'):,} of {number(row, 'assigned'):,}",
        right=True,
    ),
    TableColumn("what is wrong", lambda row: plain(row["detail"]), flexible=True, has_words=True),
)


def _leaders(row: Mapping[str, object]) -> str:
    """Return who leads the partitions of a topic, or led them last."""
    leaders, leaderless = _list(row, "last_leaders"), number(row, "leaderless")
    if not leaderless:
        return leaders
    last = "" if leaders == NONE else f", last {leaders}"
    return f"none{last}" if leaderless == row["partitions"] else f"{leaders}; {leaderless} without"


def _settings(row: Mapping[str, object]) -> str:
    configs = cast("Mapping[str, object]", row["configs"])
    return safe_text(" ".join(f"{name}={value}" for name, value in configs.items())) or NONE


def _wrong(row: Mapping[str, object]) -> str:
    texts = []
    if row["other_ids"]:
        texts.append(f"directories here have another topic id: {_list(row, 'other_ids')}")
    rest = number(row, "under_replicated") - number(row, "leaderless")  # nearly all without a leader are so too
    if rest > 0:
        texts.append(f"{rest} under-replicated")
    return "; ".join(texts) or NONE


_TOPICS: Final = (
    word_column("topic", "topic"),
    word_column("topic id", "topic_id", 1),
    count_column("partitions", "partitions"),
    count_column("replicas", "replication_factor", 3),
    TableColumn("leaders", _leaders),
    TableColumn("what is wrong", _wrong, has_words=True, flexible=True, rank=2),
    TableColumn("settings", _settings, flexible=True, rank=4),
)


def _leader(row: Mapping[str, object]) -> str:
    return "-1" if row["leader"] == -1 else plain(row["leader"])


_PARTITIONS: Final = (
    TableColumn("partition", lambda row: safe_text(f"{row['topic']}-{row['partition']}")),
    TableColumn("leader", _leader, right=True),
    number_column("epoch", "leader_epoch", 1),
    TableColumn("replicas", lambda row: _list(row, "replicas")),
    TableColumn("ISR", lambda row: _list(row, "isr")),
    TableColumn("last other leader", lambda row: plain(row["last_leader"]), right=True),
    time_column("until (UTC)", "last_leader_until_ms", 2),
    TableColumn("ELR", lambda row: _list(row, "elr"), rank=3),
    TableColumn("last in ISR", lambda row: _list(row, "last_known_elr"), rank=4),
    TableColumn("adding", lambda row: _list(row, "adding"), rank=6),
    TableColumn("removing", lambda row: _list(row, "removing"), rank=6),
    TableColumn("directories", lambda row: _list(row, "directories"), flexible=True, rank=5),
    TableColumn("here", lambda row: _list(row, "paths"), flexible=True, rank=4),
)
_CONFIGS: Final = (
    TableColumn("of", lambda row: safe_text(f"{row['resource_type']} {row['resource'] or '(all)'}")),
    word_column("setting", "name"),
    TableColumn("value", lambda row: _HIDDEN if row["value"] is None else plain(row["value"]), flexible=True),
)
_ACLS: Final = (
    word_column("resource", "resource_type"),
    word_column("pattern", "pattern_type", 2),
    word_column("name", "resource"),
    word_column("principal", "principal"),
    word_column("host", "host", 1),
    word_column("operation", "operation"),
    word_column("permission", "permission"),
)
_USERS: Final = (
    word_column("user", "user"),
    word_column("mechanism", "mechanism"),
    count_column("iterations", "iterations"),
    word_column("salt", "salt", 1),
    word_column("stored key", "stored_key", 2),
    word_column("server key", "server_key", 2),
)


def _entity(row: Mapping[str, object]) -> str:
    names = cast("Mapping[str, object]", row["entity"])
    return safe_text(", ".join(f"{kind} {name or '(default)'}" for kind, name in names.items()))


_QUOTAS: Final = (
    TableColumn("quota of", _entity),
    word_column("quota", "name"),
    TableColumn("value", lambda row: f"{cast('float', row['value']):,g}", right=True),
)
_TOKENS: Final = (
    word_column("delegation token", "token_id"),
    word_column("owner", "owner"),
    TableColumn("renewers", lambda row: safe_text(_list(row, "renewers")), rank=1),
    time_column("expires (UTC)", "expires_ms"),
    time_column("at the latest (UTC)", "max_ms", 2),
)
_FEATURES: Final = (word_column("feature", "name"), number_column("level", "level"))


class ClusterTable(SummaryTable["ClusterFound"]):
    """The one result of `kafkalog cluster`."""

    def __init__(self, parts: Sequence[str], request: ClusterRequest) -> None:
        """Take the parts that options ask for (`configs`, `acls`, `users`), and the request."""
        super().__init__()
        self._parts = parts
        self._request = request
        # What was read: a path that names nothing would be refused again in the next command.
        paths = dict.fromkeys((*request.zookeeper_dirs, *(each.path for each in request.targets)))
        self._words = [*_moment_words(request), *paths]
        self._found: ClusterFound | None = None

    def write(self, found: ClusterFound) -> None:
        """Keep the result."""
        self._found = found
        self.add_findings(found.findings)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer, then nodes, volumes and topics, or what options ask for."""
        del summary
        found = self._found
        if found is None:
            return []
        verdict, style = _verdict(found)
        lines = sentence_texts(closed(verdict), self.width, style)
        if self._request.topics:
            return lines + self._topic_lines(found) + self._part_lines(found)
        if self._request.brokers:
            return lines + self._broker_lines(found) + self._part_lines(found)
        if self._parts:
            return lines + self._part_lines(found)
        lines += self._node_lines(found)
        shown = sorted(found.topics, key=_weight)
        lines += table_lines(_TOPICS, shown, self.width, noun="topic", most=SHOWN_TOPICS, style_of=_style)
        lines += table_lines(_FEATURES, found.features, self.width, noun="feature", most=SHOWN)
        return lines + self._next_lines(found)

    def notes(self) -> list[Text]:
        """Return what the answer depends on."""
        if self._found is None:
            return []
        return [Text(), *(line for note in self._found.notes for line in sentence_texts(note, self.width, "dim"))]

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the exit status, and whether something is missing above."""
        return status_line(summary)

    # --- parts --------------------------------------------------------------------------------------------------------
    def _node_lines(self, found: ClusterFound) -> list[Text]:
        columns = _BROKERS if found.cluster["zxid"] is None else _ALIVE_BROKERS
        lines = table_lines(columns, found.brokers, self.width, noun="broker", most=SHOWN, style_of=_of_state)
        lines += table_lines(_CONTROLLERS, found.controllers, self.width, noun="controller", most=SHOWN)
        return lines + table_lines(
            _DIRECTORIES,
            found.directories,
            self.width,
            noun="log directory",
            most=SHOWN,
            style_of=lambda row: _BAD if row["detail"] is not None else "",
        )

    def _topic_lines(self, found: ClusterFound) -> list[Text]:
        lines = table_lines(_TOPICS, found.topics, self.width, noun="topic", most=SHOWN, style_of=_style)
        lines += table_lines(
            _PARTITIONS,
            found.partitions,
            self.width,
            noun="partition",
            most=SHOWN,
            style_of=lambda row: _BAD if row["leader"] == -1 else "",
        )
        if "configs" not in self._parts:
            lines += table_lines(_CONFIGS, found.configs, self.width, noun="setting", most=SHOWN)
        words = [word for glob in self._request.topics for word in ("--topic", glob)]
        line = shell_line(["kafkalog", "cluster", "--history", *words, *self._words])
        if found.cluster["zxid"] is not None and found.topics:
            node = f"{found.cluster['chroot']}/brokers/topics/{found.topics[0]['topic']}"
            line = shell_line(["kafkalog", "zookeeper", "--history", node, *self._request.zookeeper_dirs])
        return [*lines, Text(), Text(f"who led when, and what changed: {line}", "bold")]

    def _broker_lines(self, found: ClusterFound) -> list[Text]:
        lines = self._node_lines(found)
        wanted = {str(each) for each in self._request.brokers} | {""}
        configs = [row for row in found.configs if row["resource_type"] == "broker" and row["resource"] in wanted]
        return lines + table_lines(_CONFIGS, configs, self.width, noun="setting", most=SHOWN)

    def _part_lines(self, found: ClusterFound) -> list[Text]:
        lines: list[Text] = []
        where = "the metadata log" if found.cluster["zxid"] is None else "ZooKeeper"
        if "configs" in self._parts:
            lines += table_lines(_CONFIGS, found.configs, self.width, noun="setting")
            lines += [] if found.configs else [Text(), Text(f"No setting is in {where}.")]
        if "acls" in self._parts:
            lines += table_lines(_ACLS, found.acls, self.width, noun="entry")
            lines += [] if found.acls else [Text(), Text(f"No access control entry is in {where}.")]
        if "users" in self._parts:
            lines += table_lines(_USERS, found.users, self.width, noun="user")
            lines += table_lines(_QUOTAS, found.quotas, self.width, noun="quota")
            lines += table_lines(_TOKENS, found.tokens, self.width, noun="token")
            if not (found.users or found.quotas or found.tokens):
                lines += [Text(), Text(f"No SCRAM user, quota or delegation token is in {where}.")]
        return lines

    def _next_lines(self, found: ClusterFound) -> list[Text]:
        if not found.topics:
            return []
        name = str(min(found.topics, key=_weight)["topic"])
        line = shell_line(["kafkalog", "cluster", "--topic", name, *self._words])
        return [Text(), Text(f"the partitions and settings of one topic: {line}", "bold")]


def _moment_words(request: ClusterRequest) -> list[str]:
    """Return the option that asks for a moment again; empty: it is the end of the log."""
    until = request.until
    if request.zxid is not None:
        return ["--at", zxid_text(request.zxid)]
    if until.offset != MAX_INT64:
        return ["--at", str(until.offset)]
    return [] if until.time_ms == MAX_INT64 else ["--at", moment(until.time_ms)]


# --- the answer -------------------------------------------------------------------------------------------------------
def _verdict(found: ClusterFound) -> tuple[str, str]:
    """Return the first line, and its style."""
    row = found.cluster
    name = "CLUSTER" if row["cluster_id"] is None else f"CLUSTER {safe_text(str(row['cluster_id']))}"
    if row["zxid"] is not None:
        return _verdict_of_zookeeper(found, name)
    if not row["brokers"] and not row["topics"] and row["metadata_version"] is None:
        if not row["is_whole"]:
            return f"NOTHING IS KNOWN OF {name}{_first_known(found)}", _BAD
        return f"{name} IS EMPTY: its metadata log has no record of a broker or a topic yet", "bold yellow"
    level = row["metadata_version"]
    version = "no metadata.version" if level is None else f"metadata.version {level} ({row['release'] or 'unknown'})"
    leader = "" if row["leader_id"] is None else f", last led by node {row['leader_id']}"
    voters = cast("Sequence[object]", row["voters"])
    quorum = count_of(len(voters), "voter") if voters else count_of(number(row, "controllers"), "controller")
    topics, partitions = (count_of(number(row, word), word[:-1]) for word in ("topics", "partitions"))
    facts = [version, count_of(number(row, "brokers"), "broker"), f"{quorum}{leader}", topics, partitions]
    problems = _problems(found)
    style = "bold yellow" if problems else "bold green"
    if not row["is_whole"]:
        problems.insert(0, _unknown(found))
        style = _BAD
    return f"{name}: {', '.join(facts)}{''.join(f'; {each}' for each in problems)}", style


def _unknown(found: ClusterFound) -> str:
    files = {str(each["file"]).rpartition("/")[2] for each in found.findings if each["code"] == "cluster.unread"}
    if files == {_FIRST_SNAPSHOT}:
        return "THE FIRST SNAPSHOT CANNOT BE READ, which may have the only record of the voters"
    return f"WHAT COMES AFTER OFFSET {number(found.cluster, 'end_offset') - 1} IS UNKNOWN"


def _verdict_of_zookeeper(found: ClusterFound, name: str) -> tuple[str, str]:
    row = found.cluster
    place = f" at {safe_text(str(row['chroot']))}" if row["chroot"] else ""
    controller = "no controller" if row["leader_id"] is None else f"controller {row['leader_id']}"
    epoch = "" if row["leader_epoch"] is None else f" (epoch {row['leader_epoch']})"
    alive = f"{count_of(number(row, 'brokers'), 'broker')} alive"
    topics, partitions = (count_of(number(row, word), word[:-1]) for word in ("topics", "partitions"))
    facts = [f"with ZooKeeper up to zxid {number(row, 'zxid'):#x}", alive, controller + epoch, topics, partitions]
    problems = _problems(found)
    dead = [str(node) for node in cast("Sequence[object]", row["dead"])]
    if not row["brokers"]:
        problems.insert(0, "no broker is registered, as after a shutdown of the whole cluster")
    elif dead:
        problems.insert(0, f"{'BROKER' if len(dead) == 1 else 'BROKERS'} {first_of(dead)} NOT ALIVE")
    style = "bold yellow" if problems else "bold green"
    if not row["is_whole"]:
        problems.insert(0, "THE TREE OF ZOOKEEPER CANNOT BE RESTORED AS A WHOLE")
        style = _BAD
    return f"{name}{place}: {', '.join(facts)}{''.join(f'; {each}' for each in problems)}", style


def _first_known(found: ClusterFound) -> str:
    """Return why nothing is known of a moment: it is before all that the log still has."""
    for each in found.findings:
        return f": {str(each['message']).rstrip('.')}"
    return ""


def _problems(found: ClusterFound) -> list[str]:
    row, problems = found.cluster, []
    if any(each["code"] == "cluster.snapshot-unread" for each in found.findings):
        problems.append("A SNAPSHOT CANNOT BE READ, and the log is read instead")
    leaderless, partitions = number(row, "leaderless"), number(row, "partitions")
    fenced, brokers = number(row, "fenced"), number(row, "brokers")
    if brokers and fenced == brokers and leaderless == partitions:
        problems.append(
            "every broker is fenced and no partition has a leader, as after a shutdown of the whole cluster"
        )
    else:
        if fenced:
            names = [str(each["node_id"]) for each in found.brokers if each["is_fenced"]]
            problems.append(f"{'BROKER' if len(names) == 1 else 'BROKERS'} {first_of(names)} FENCED")
        if leaderless:
            problems.append(f"{count_of(leaderless, 'partition').upper()} WITHOUT A LEADER")
        if number(row, "under_replicated") > leaderless:
            problems.append(f"{number(row, 'under_replicated') - leaderless} under-replicated")
    wrong = [each for each in found.directories if each["detail"] is not None]
    if wrong and row["is_whole"]:  # else the records about them may be those that cannot be read
        problems.append(f"LOOK AT {first_of([safe_text(str(each['path'])) for each in wrong])}")
    if any(each["other_ids"] for each in found.topics):
        problems.append("DIRECTORIES OF ANOTHER TOPIC ID ARE HERE")
    return problems


def _weight(row: Row) -> tuple[bool, bool, bool, str]:
    """Return the order of topics: those with something wrong first, and Kafka's own last."""
    name = str(row["topic"])
    return not row["other_ids"], not number(row, "leaderless"), name.startswith("__"), name


def _style(row: Mapping[str, object]) -> str:
    return (
        _BAD if row["other_ids"] else "yellow" if number(row, "leaderless") or number(row, "under_replicated") else ""
    )


def _of_state(row: Mapping[str, object]) -> str:
    return "yellow" if row["is_fenced"] or row["in_controlled_shutdown"] else ""
