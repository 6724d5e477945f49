"""What Kafka's own tools of each release do, and must print: the tables of `test_serve` and `test_live_tools`.

The truth about dead disks is what the demo's brokers and clients did (`tools/make_demo.py`): 92 and 108 records in
`orders`, 30 in `customers`; in `payments` five records committed, five aborted, five committed and two left open; the
offsets of the group `billing`. On the live broker each row relies on those before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.support import jars

NEWEST: Final = jars.KAFKA_VERSION
RELEASES: Final = (NEWEST, "2.8.2", "1.1.1", "0.10.2.2", "0.10.0.1", "0.9.0.1", "0.8.2.2")
"""The releases whose tools are run."""
_NEW, _KAFKA = "org.apache.kafka.tools.", "kafka.tools."
_GROUPS: Final = {NEWEST: f"{_NEW}consumer.group.ConsumerGroupCommand"}
_CONSUMERS: Final = {NEWEST: f"{_NEW}consumer.ConsoleConsumer"}
_CONFIGS: Final = "kafka.admin.ConfigCommand"
_SERVER: Final = "--bootstrap-server {}"
_OLD_SERVER: Final = "--broker-list {}"
_READ: Final = f"{_SERVER} --timeout-ms 20000 --from-beginning"
_ORDERS: Final = r"Processed a total of 200 messages"
_ENDS: Final = (r"orders:0:92\n", r"orders:1:108\n")
_REFUSED: Final = r"TopicAuthorizationException: Not authorized to access topics: \[orders\]"
_REFUSED_OF_0_9: Final = r"Not authorized to access topics: \[orders\]"
_REFUSED_OF_0_8: Final = (
    r"TopicAuthorizationException|unexpected error when processing the request|kafka.common.Unknown"
)
"""Releases that do not know the code of the error."""
_SHARED: Final = (r"shares \[0, 1\]\n", r"alone \[0, 1\]\n", r"done\n")
_ASSIGNOR: Final = "org.apache.kafka.clients.consumer."


class Use(NamedTuple):
    """One run of a tool.

    Args:
        version: release of the tool.
        program: its class, or a source file of ours.
        arguments: separated by blanks; `{}` is the address.
        wanted: patterns that are found in what it prints.
        stdin: what it reads.
        status: exit status.
    """

    version: str
    program: str
    arguments: str
    wanted: tuple[str, ...] = ()
    stdin: str = ""
    status: int = 0


def _groups(version: str) -> str:
    return _GROUPS.get(version, "kafka.admin.ConsumerGroupCommand")


def _console(version: str) -> str:
    return _CONSUMERS.get(version, f"{_KAFKA}ConsoleConsumer")


def _reading(version: str, wanted: str, arguments: str) -> Use:
    new = "--new-consumer " if version in {"0.9.0.1", "0.10.0.1"} else ""
    return Use(version, _console(version), f"{new}{_READ} {arguments}", (wanted,))


def _describing(version: str) -> list[Use]:
    """Groups: the list, and the lag of the group that the dead cluster had."""
    rows = (r"orders +0 +17 +92 +75 ", r"orders +1 +23 +108 +85 ")
    return [
        Use(version, _groups(version), f"{_SERVER} --list", (r"(?m)^billing$",)),
        Use(version, _groups(version), f"{_SERVER} --describe --group billing", rows),
    ]


def _sharing(version: str, *assignors: str) -> list[Use]:
    """Two members share a topic, one closes."""
    wanted = (*_SHARED, r"read 200\n", r"committed 92 108\n")
    return [Use(version, "ClientUses.java", f"{{}} orders group={each} 200", wanted) for each in assignors]


def _ends_of_logs(version: str, server: str = _OLD_SERVER) -> Use:
    tool = f"{_NEW if version == NEWEST else _KAFKA}GetOffsetShell"
    return Use(version, tool, f"{server} --topic orders --time -1", _ENDS)


def _refused(version: str, arguments: str, *wanted: str, status: int = 0) -> Use:
    """A producer is refused with a message that says why."""
    tool = f"{_NEW if version == NEWEST else _KAFKA}ConsoleProducer"
    return Use(version, tool, f"{arguments} --topic orders", wanted, "v\n", status)


def _simple(version: str) -> Use:
    """The simple consumer reads a partition up to its end."""
    arguments = f"{_OLD_SERVER} --topic orders --partition 0 --offset -2 --no-wait-at-logend --print-offsets"
    return Use(version, f"{_KAFKA}SimpleConsumerShell", arguments, (r"(?s)next offset = 1\n.*next offset = 92\n",))


DEAD: Final = (
    # --- 4.3.1
    _reading(NEWEST, _ORDERS, "--topic orders --max-messages 200"),
    _reading(NEWEST, "a total of 230 messages", "--include orders|customers --max-messages 230"),
    _reading(NEWEST, "a total of 17 messages", "--topic payments --max-messages 17"),
    _reading(NEWEST, "a total of 10 messages", "--topic payments --max-messages 10 --isolation-level read_committed"),
    _reading(NEWEST, _ORDERS, "--topic orders --max-messages 200 --command-property group.protocol=consumer"),
    Use(
        NEWEST, _console(NEWEST), f"{_SERVER} --topic orders --partition 0 --offset 60 --max-messages 32", ("of 32 m",)
    ),
    *_describing(NEWEST),
    Use(NEWEST, _groups(NEWEST), f"{_SERVER} --describe --group billing --state", (r"Empty +0",)),
    Use(NEWEST, f"{_NEW}GroupsCommand", f"{_SERVER} --list", (r"billing +Classic +consumer",)),
    *_sharing(NEWEST, "", f"{_ASSIGNOR}CooperativeStickyAssignor"),
    _ends_of_logs(NEWEST, _SERVER),
    Use(
        NEWEST,
        f"{_NEW}GetOffsetShell",
        f"{_SERVER} --topic customers --time 1760000000010",
        (r"^customers:0:10\n$",),
    ),
    Use(NEWEST, f"{_NEW}GetOffsetShell", f"{_SERVER} --topic customers --time -3", (r"^customers:0:29\n$",)),
    Use(NEWEST, f"{_NEW}TopicCommand", f"{_SERVER} --list", (r"(?s)customers\norders\npayments\n",)),
    Use(
        NEWEST,
        f"{_NEW}TopicCommand",
        f"{_SERVER} --describe --topic customers",
        ("PartitionCount: 1", "cleanup.policy=compact"),
    ),
    Use(
        NEWEST, f"{_NEW}TopicCommand", f"{_SERVER} --delete --topic orders", ("does not support DELETE_TOPICS",), "", 1
    ),
    Use(NEWEST, _CONFIGS, f"{_SERVER} --describe --topic customers", ("cleanup.policy=compact",)),
    Use(NEWEST, f"{_NEW}LogDirsCommand", f"{_SERVER} --describe --topic-list orders", (r'"orders-0","size":4362',)),
    Use(NEWEST, f"{_NEW}BrokerApiVersionsCommand", _SERVER, (r"Fetch\(1\): 0 to 18 \[usable: 18\]",)),
    Use(NEWEST, f"{_NEW}ClusterTool", f"cluster-id {_SERVER}", ("Cluster ID: ZGVtby1rYWZrYWxvZy0wMQ",)),
    Use(NEWEST, f"{_NEW}reassign.ReassignPartitionsCommand", f"{_SERVER} --list", ("No partition reassignments",)),
    Use(
        NEWEST,
        f"{_NEW}LeaderElectionCommand",
        f"{_SERVER} --election-type preferred --all-topic-partitions",
        ("does not support ELECT_LEADERS",),
        "",
        1,
    ),
    _refused(NEWEST, f"{_SERVER} --command-property enable.idempotence=false", _REFUSED),
    _refused(NEWEST, _SERVER, "does not support INIT_PRODUCER_ID", status=1),
    # --- 2.8.2
    _reading("2.8.2", _ORDERS, "--topic orders --max-messages 200"),
    _reading("2.8.2", "a total of 230 messages", "--whitelist orders|customers --max-messages 230"),
    _reading("2.8.2", "a total of 10 messages", "--topic payments --max-messages 10 --isolation-level read_committed"),
    *_describing("2.8.2"),
    *_sharing("2.8.2", "", f"{_ASSIGNOR}CooperativeStickyAssignor", f"{_ASSIGNOR}RoundRobinAssignor"),
    Use(
        "2.8.2",
        f"{_KAFKA}GetOffsetShell",
        f"{_OLD_SERVER} --topic customers --time 1760000000010",
        (r"^customers:0:10",),
    ),
    Use("2.8.2", "kafka.admin.TopicCommand", f"{_SERVER} --describe --topic customers", ("PartitionCount: 1",)),
    Use("2.8.2", _CONFIGS, f"{_SERVER} --describe --topic customers", ("cleanup.policy=compact",)),
    Use(
        "2.8.2", "kafka.admin.LogDirsCommand", f"{_SERVER} --describe --topic-list orders", (r'"orders-0","size":4362',)
    ),
    Use("2.8.2", "kafka.admin.BrokerApiVersionsCommand", _SERVER, (r"Fetch\(1\): 0 to 18 \[usable: 12\]",)),
    _refused("2.8.2", _SERVER, _REFUSED),
    # --- 1.1.1
    _reading("1.1.1", "a total of 10 messages", "--topic payments --max-messages 10 --isolation-level read_committed"),
    _reading("1.1.1", "a total of 230 messages", "--whitelist orders|customers --max-messages 230"),
    *_describing("1.1.1"),
    *_sharing("1.1.1", f"{_ASSIGNOR}StickyAssignor"),
    _ends_of_logs("1.1.1"),
    _simple("1.1.1"),
    Use(
        "1.1.1", "kafka.admin.LogDirsCommand", f"{_SERVER} --describe --topic-list orders", (r'"orders-0","size":4362',)
    ),
    Use("1.1.1", "kafka.admin.BrokerApiVersionsCommand", _SERVER, (r"Fetch\(1\): 0 to 18 \[usable: 7\]",)),
    _refused("1.1.1", _OLD_SERVER, _REFUSED),
    # --- 0.10.2.2
    _reading("0.10.2.2", "a total of 230 messages", "--whitelist orders|customers --max-messages 230"),
    Use(
        "0.10.2.2",
        _console("0.10.2.2"),
        f"{_SERVER} --topic orders --partition 1 --offset 100 --max-messages 8",
        ("a total of 8 messages",),
    ),
    *_describing("0.10.2.2"),
    *_sharing("0.10.2.2", ""),
    _ends_of_logs("0.10.2.2"),
    _simple("0.10.2.2"),
    Use("0.10.2.2", "kafka.admin.BrokerApiVersionsCommand", _SERVER, (r"Fetch\(1\): 0 to 18 \[usable: 3\]",)),
    _refused("0.10.2.2", _OLD_SERVER, _REFUSED),
    # --- 0.10.0.1
    _reading("0.10.0.1", "a total of 230 messages", "--whitelist orders|customers --max-messages 230"),
    *_sharing("0.10.0.1", ""),
    _refused("0.10.0.1", f"{_OLD_SERVER} --request-required-acks 1", _REFUSED),
    # --- 0.9.0.1
    _reading("0.9.0.1", _ORDERS, "--topic orders --max-messages 200"),
    Use("0.9.0.1", _groups("0.9.0.1"), f"--new-consumer {_SERVER} --list", (r"(?m)^billing$",)),
    *_sharing("0.9.0.1", "", f"{_ASSIGNOR}RoundRobinAssignor"),
    _ends_of_logs("0.9.0.1"),
    _simple("0.9.0.1"),
    _refused("0.9.0.1", f"{_OLD_SERVER} --request-required-acks 1", _REFUSED_OF_0_9),
    _refused("0.9.0.1", f"{_OLD_SERVER} --old-producer --request-required-acks 1", _REFUSED_OF_0_8),
    # --- 0.8.2.2
    _ends_of_logs("0.8.2.2"),
    _simple("0.8.2.2"),
    Use(
        "0.8.2.2",
        "SimpleConsumerUses.java",
        "{} orders 1960000000010",
        (
            r"fetched \[92, 108\]\n",
            r"before -1 \[92, 41, 0\]\n",
            r"before -2 \[0\]\n",
            r"before 1960000000010 \[41, 0\]\n",  # the end of a dead log is of no time that comes
            r"committed with 0: OffsetMetadataAndError\[5,note,0\]",
        ),
    ),
    _refused("0.8.2.2", f"{_OLD_SERVER} --request-required-acks 1", _REFUSED_OF_0_8),
    _refused("0.8.2.2", f"{_OLD_SERVER} --new-producer --request-required-acks 1", _REFUSED_OF_0_8),
)

FLOOR: Final = (
    Use(NEWEST, f"{_NEW}TopicCommand", f"{_SERVER} --list", (r"(?s)customers\norders\npayments\n",)),
    Use(
        NEWEST, _console(NEWEST), f"{_SERVER} --topic orders --partition 0 --offset 60 --max-messages 32", ("of 32 m",)
    ),
    _reading(NEWEST, _ORDERS, "--topic orders --max-messages 200 --group floor"),
    *_sharing(NEWEST, ""),
    _refused(NEWEST, f"{_SERVER} --command-property enable.idempotence=false", _REFUSED),
)
"""What the newest release does on a broker that knows old versions alone."""


def _sending(version: str, acks: str, arguments: str = "", value: str = "") -> Use:
    """A console producer sends one value to the topic `sent`."""
    tool = f"{_NEW if version == NEWEST else _KAFKA}ConsoleProducer"
    server = _SERVER if version in {NEWEST, "2.8.2"} else _OLD_SERVER
    line = f"{server} --topic sent --request-required-acks {acks} {arguments}".rstrip()
    return Use(version, tool, line, (), (value or f"{version}, acks {acks}, {arguments}") + "\n")


def _creating(version: str, topic: str) -> list[Use]:
    """A topic with one partition gets a second one."""
    tool = f"{_NEW if version == NEWEST else 'kafka.admin.'}TopicCommand"
    return [
        Use(version, tool, f"{_SERVER} --create --topic {topic} --partitions 1", (f"Created topic {topic}",)),
        Use(version, tool, f"{_SERVER} --alter --topic {topic} --partitions 2"),
        Use(version, tool, f"{_SERVER} --describe --topic {topic}", ("PartitionCount: 2",)),
    ]


def _settings(version: str, topic: str) -> list[Use]:
    """A setting of a topic is changed, and back again."""
    named = f"{_SERVER} --topic {topic}"
    return [
        Use(version, _CONFIGS, f"{named} --alter --add-config max.message.bytes=100000", ("Completed updating",)),
        Use(version, _CONFIGS, f"{named} --describe", ("DYNAMIC_TOPIC_CONFIG:max.message.bytes=100000",)),
        Use(version, _CONFIGS, f"{named} --alter --delete-config max.message.bytes", ("Completed updating",)),
        Use(version, _CONFIGS, f"{named} --describe", (rf"configs for topic {topic} are:\n(?!.*max\.message\.bytes)",)),
    ]


def _producing(version: str, topic: str) -> list[Use]:
    """What the clients of a release with transactions do to a topic of two partitions."""
    read = f"{_READ} --topic {topic} --max-messages 20 --isolation-level read_committed"
    return [
        Use(version, "ClientUses.java", f"{{}} {topic} idempotent", ("done\n",)),
        Use(version, "ClientUses.java", f"{{}} {topic} transactions", (r"committed 3\n", "done\n")),
        Use(version, "ClientUses.java", f"{{}} {topic} group= 30", (*_SHARED, r"read 30\n", r"committed 17 17\n")),
        Use(version, _console(version), read, (r"(?s)\A(?!.*aborted).*committed-9\n", "total of 20 messages")),
    ]


def _changing_groups(version: str, topic: str) -> list[Use]:
    """The offsets of a group without members are set, deleted, and deleted with it."""
    tool, group = _groups(version), f"{topic}-in-transaction"
    named = f"{_SERVER} --group {group}"
    uses = [
        Use(version, tool, f"{named} --describe", (rf"{topic} +0 +3 +17 +14 ",)),
        Use(version, tool, f"{named} --reset-offsets --topic {topic} --to-latest --execute", (rf"{topic} +1 +17",)),
        Use(version, tool, f"{named} --reset-offsets --topic {topic}:0 --shift-by -5 --execute", (rf"{topic} +0 +12",)),
        Use(version, tool, f"{named} --delete-offsets --topic {topic}:1", (rf"{topic} +1 +Successful",)),
        Use(version, tool, f"{named} --describe", (rf"{topic} +0 +12 +17 +5 ",)),
        Use(version, tool, f"{named} --delete", (r"Deletion of requested consumer groups .* was successful",)),
    ]
    return [use for use in uses if not (version == "1.1.1" and "--delete-offsets" in use.arguments)]


def _deleting(version: str, topic: str) -> list[Use]:
    tool = f"{_NEW if version == NEWEST else 'kafka.admin.'}TopicCommand"
    return [
        Use(version, tool, f"{_SERVER} --delete --topic {topic}"),
        Use(version, tool, f"{_SERVER} --list", (rf"(?s)\A(?!.*\b{topic}\n)",)),
    ]


_SENDING: Final = (
    _sending(NEWEST, "-1"),
    _sending(NEWEST, "1", "--command-property enable.idempotence=false"),
    _sending(NEWEST, "0", "--command-property enable.idempotence=false --compression-codec=zstd"),
    *(_sending("2.8.2", acks) for acks in ("-1", "1", "0")),
    *(_sending("1.1.1", acks) for acks in ("-1", "1", "0")),
    *(_sending("0.10.2.2", acks) for acks in ("-1", "1", "0")),
    _sending("0.10.2.2", "-1", "--compression-codec lz4"),
    *(_sending("0.10.0.1", acks) for acks in ("-1", "1", "0")),
    *(_sending("0.9.0.1", acks, "--compression-codec gzip") for acks in ("-1", "1", "0")),
    *(_sending("0.9.0.1", acks, "--old-producer") for acks in ("-1", "1", "0")),
    *(_sending("0.8.2.2", acks) for acks in ("-1", "1", "0")),
    *(_sending("0.8.2.2", acks, "--new-producer --compression-codec snappy") for acks in ("-1", "1", "0")),
)
"""A value from each producer; those of acks 0 have no answer."""

SENT: Final = frozenset(use.stdin.rstrip("\n") for use in _SENDING)

PRODUCERS: Final = (*_creating(NEWEST, "sent"), *_SENDING)

LIVE: Final = {
    NEWEST: (
        *_creating(NEWEST, "new"),
        *_producing(NEWEST, "new"),
        *_settings(NEWEST, "new"),
        Use(NEWEST, f"{_NEW}TransactionsCommand", f"{_SERVER} list", (r"new-id +\t1 +\t\d+ +\tCompleteAbort",)),
        *_changing_groups(NEWEST, "new"),
        Use(
            NEWEST,
            f"{_NEW}DeleteRecordsCommand",
            f"{_SERVER} --offset-json-file {{file}}",
            (r"new-0\tlow_watermark: 3",),
        ),
        Use(NEWEST, f"{_NEW}GetOffsetShell", f"{_SERVER} --topic new --time -2", (r"new:0:3\nnew:1:0\n",)),
        Use(NEWEST, f"{_NEW}GetOffsetShell", f"{_SERVER} --topic new --time -1", (r"new:0:17\nnew:1:17\n",)),
        Use(NEWEST, f"{_NEW}LogDirsCommand", f"{_SERVER} --describe --topic-list new", (r'"new-1","size":[1-9]',)),
        Use(NEWEST, f"{_NEW}BrokerApiVersionsCommand", _SERVER, (r"Produce\(0\): 0 to \d+ \[usable: \d+\]",)),
        Use(NEWEST, f"{_NEW}ClusterTool", f"cluster-id {_SERVER}", (r"Cluster ID: \S{22}\n",)),
        Use(
            NEWEST,
            _CONFIGS,
            f"{_SERVER} --describe --entity-type brokers --entity-name 1 --all",
            ("log.retention.ms=-1",),
        ),
        Use(NEWEST, f"{_NEW}reassign.ReassignPartitionsCommand", f"{_SERVER} --list", ("No partition reassignments",)),
        Use(
            NEWEST,
            f"{_NEW}LeaderElectionCommand",
            f"{_SERVER} --election-type preferred --topic new --partition 0",
            ("Valid replica already elected for partitions new-0",),
        ),
        *_deleting(NEWEST, "new"),
    ),
    "2.8.2": (
        *_creating("2.8.2", "old28"),
        *_producing("2.8.2", "old28"),
        *_settings("2.8.2", "old28"),
        *_changing_groups("2.8.2", "old28"),
        *_deleting("2.8.2", "old28"),
    ),
    "1.1.1": (
        *_creating(NEWEST, "old11"),
        *_producing("1.1.1", "old11"),
        *_changing_groups("1.1.1", "old11"),
    ),
}
"""By release; each creates a topic and uses it."""

_COUNT: Final = len(SENT)
CONSUMERS: Final = (
    *(
        Use(version, "ClientUses.java", f"{{}} sent group= {_COUNT}", (*_SHARED, rf"read {_COUNT}\n"))
        for version in (NEWEST, "2.8.2", "0.10.2.2", "0.10.0.1", "0.9.0.1")
    ),
    Use("0.8.2.2", "SimpleConsumerUses.java", "{} sent 1960000000010", (r"committed with 0: .*\[5,note,0\]", "done\n")),
    Use("0.8.2.2", f"{_KAFKA}GetOffsetShell", f"{_OLD_SERVER} --topic sent --time -1", (r"sent:0:\d+", r"sent:1:\d+")),
)
"""What every generation of consumers reads of the topic `sent`."""
