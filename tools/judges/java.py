"""Kafka's own Java programs for tests against a broker: of kafka-tools and trogdor, in the order of this page."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tools.judges.results import Result, Status
from tools.judges.running import Job, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tools.judges.running import Judged

__all__ = ["tests_of"]

_MESSAGES: Final = 10_000
_TOOLS: Final = "org.apache.kafka.tools"
_DONE: Final = r'shutdown_complete|"remaining":0'
_TROGDOR_ENDS: Final = re.compile(r"(?m)^Task (?:succeeded|failed)")


@dataclass(frozen=True, slots=True)
class _Program:
    """A program with its arguments.

    wanted: what its output has when it did its work, a regular expression or a function of the output. ends: what the
    output has when a program that never ends has done its work.
    """

    name: str
    limit_seconds: float
    wanted: str | Callable[[str], bool]
    arguments: tuple[str, ...]
    ends: re.Pattern[str] | None = None


def tests_of(judged: Judged) -> list[Job]:
    """Return the programs, which follow one another: later ones read what earlier ones wrote."""
    libs = judged.cache.kafka_tools() / "libs"
    messages = _MESSAGES // 10 if judged.is_brief else _MESSAGES
    ident = f"j{secrets.token_hex(4)}"
    programs = [
        *_topics(judged.address, ident),
        *_clients(judged.address, ident, messages),
        *_transactions(judged.address, ident, messages),
        *_performance(judged.address, ident),
        *_administration(judged.address, ident),
        _Program(
            "log-compaction",
            180,
            "completed|Deduplic|Validat",
            (f"{_TOOLS}.LogCompactionTester", *_at(judged.address), "--messages", str(messages), "--sleep", "30"),
        ),
        _round_trip(judged, ident, messages),
        _tool("topics-delete", "", "TopicCommand", judged.address, "--delete", "--topic", f"{ident}-.*"),
    ]
    return [Job((each.name,), partial(_run, each, libs, judged)) for each in programs]


def _at(address: str) -> tuple[str, str]:
    return "--bootstrap-server", address


def _tool(
    name: str, wanted: str | Callable[[str], bool], tool: str, address: str, *arguments: str, limit_seconds: float = 60
) -> _Program:
    main = tool if tool.startswith("kafka.") else f"{_TOOLS}.{tool}"
    return _Program(name, limit_seconds, wanted, (main, *_at(address), *arguments))


def _created(address: str, name: str, topic: str, partitions: int, *more: str) -> _Program:
    arguments = ("--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", "1", *more)
    return _tool(name, "Created topic", "TopicCommand", address, *arguments)


def _topics(address: str, ident: str) -> Iterator[_Program]:
    yield _created(address, "topics-create", f"{ident}-a", 1)
    yield _created(address, "topics-create-3-partitions", f"{ident}-b", 3)
    yield _created(address, "topics-create-compacted", f"{ident}-c", 1, "--config", "cleanup.policy=compact")
    yield _tool("topics-describe", "PartitionCount: 3", "TopicCommand", address, "--describe", "--topic", f"{ident}-b")
    yield _tool("broker-api-versions", r"Produce\(0\): ", "BrokerApiVersionsCommand", address)


_FEATURES: Final = {
    "offsets-for-times-supported": "true",
    "cluster-id-supported": "true",
    "expect-record-too-large-exception": "false",
    "num-cluster-nodes": "1",
    "create-topics-supported": "true",
    "describe-acls-supported": "true",
    "describe-configs-supported": "true",
    "idempotent-producer-supported": "true",
}
"""What ClientCompatibilityTest expects of a broker of 4.3.1."""


def _clients(address: str, ident: str, messages: int) -> Iterator[_Program]:
    features = [text for name, value in _FEATURES.items() for text in (f"--{name}", value)]
    yield _tool(
        "client-compatibility",
        "(?m)^SUCCESS",
        "ClientCompatibilityTest",
        address,
        "--topic",
        f"{ident}-a",
        *features,
        limit_seconds=120,
    )
    count = ("--max-messages", str(messages))
    topic = ("--topic", f"{ident}-b")
    yield _tool(
        "verifiable-producer", f'"acked":{messages}', "VerifiableProducer", address, *topic, *count, limit_seconds=60
    )
    for name, tool, *more in (
        ("consumer-classic", "VerifiableConsumer", "--group-id", f"{ident}-g1"),
        ("consumer-848", "VerifiableConsumer", "--group-id", f"{ident}-g2", "--group-protocol", "consumer"),
        ("consumer-static", "VerifiableConsumer", "--group-id", f"{ident}-g3", "--group-instance-id", "i1"),
        (
            "share-consumer",
            "VerifiableShareConsumer",
            "--group-id",
            f"{ident}-s1",
            "--offset-reset-strategy",
            "earliest",
        ),
    ):
        wanted = partial(_has_consumed, messages)
        yield _tool(f"verifiable-{name}", wanted, tool, address, *topic, *more, *count, limit_seconds=120)
    group = ("--group", f"{ident}-g1")
    lags = rf"{ident}-b +[0-2] +[0-9]+ +[0-9]+ +0 "  # few messages may all be in one partition
    yield _tool("groups-describe", lags, "consumer.group.ConsumerGroupCommand", address, "--describe", *group)
    reset = ("--reset-offsets", "--to-earliest", "--all-topics", "--execute")
    yield _tool("groups-reset", f"{ident}-b", "consumer.group.ConsumerGroupCommand", address, *group, *reset)


def _has_consumed(messages: int, text: str) -> bool:
    """Return whether a verifiable consumer read all messages: it also ends, with status 0, after errors."""
    events = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    consumed = sum(each["count"] for each in events if each["name"] == "records_consumed")
    return consumed >= messages and any(each["name"] == "shutdown_complete" for each in events)


def _transactions(address: str, ident: str, messages: int) -> Iterator[_Program]:
    for name in ("in", "out", "out2"):
        yield _created(address, f"topics-create-{name}", f"{ident}-{name}", 1)
    source = ("--topic", f"{ident}-in", "--max-messages", str(messages))
    yield _tool("producer-to-copy", f'"acked":{messages}', "VerifiableProducer", address, *source, limit_seconds=120)
    for name, number, *more in (
        ("transactional-copier", ""),
        ("transactional-copier-aborts", "2", "--enable-random-aborts", "--group-mode", "--use-group-metadata"),
    ):
        copier = (f"{_TOOLS}.TransactionalMessageCopier", "--broker-list", address, "--transaction-size", "500")
        places = ("--input-topic", f"{ident}-in", "--input-partition", "0", "--output-topic", f"{ident}-out{number}")
        idents = ("--consumer-group", f"{ident}-tg{number}", "--transactional-id", f"{ident}-t{number}")
        yield _Program(name, 180, _DONE, (*copier, *places, *idents, *more))
    # Aborted copies are in the log too: a committed reader sees each message once.
    reader = ("--topic", f"{ident}-out2", "--from-beginning", "--isolation-level", "read_committed")
    read = f"Processed a total of {messages} messages"
    yield _tool(
        "committed-reader", read, "consumer.ConsoleConsumer", address, *reader, "--timeout-ms", "5000", limit_seconds=60
    )
    yield _tool("transactions-list", f"{ident}-t", "TransactionsCommand", address, "list")


def _performance(address: str, ident: str) -> Iterator[_Program]:
    latency = ("--topic", f"{ident}-a", "--num-records", "1000", "--producer-acks", "all", "--record-size", "100")
    yield _tool("end-to-end-latency", "Percentiles", "EndToEndLatency", address, *latency, limit_seconds=120)
    many = ("--topic", f"{ident}-b", "--num-records", "50000")
    sent = "50000 records sent.*99.9th"
    more = ("--record-size", "200", "--throughput", "-1")
    yield _tool("producer-perf", sent, "ProducerPerformance", address, *many, *more, limit_seconds=120)
    yield _tool("consumer-perf", r", 5\d{4},", "ConsumerPerformance", address, *many, limit_seconds=120)


def _administration(address: str, ident: str) -> Iterator[_Program]:
    yield _tool("get-offsets", rf"{ident}-b:0:\d+", "GetOffsetShell", address, "--topic", f"{ident}-b")
    entity = ("--entity-type", "topics", "--entity-name", f"{ident}-c")
    command = "kafka.admin.ConfigCommand"
    yield _tool("configs-describe", "max.message.bytes|retention", command, address, *entity, "--describe", "--all")
    added = ("--alter", "--add-config", "retention.ms=100000")
    yield _tool("configs-alter", "Completed updating", command, address, *entity, *added)
    rule = ("--add", "--allow-principal", "User:x", "--operation", "Read", "--topic", f"{ident}-acl")
    yield _tool("acls-add", "Adding ACLs", "AclCommand", address, *rule)
    main = f"{_TOOLS}.ClusterTool"
    yield _Program("cluster-id", 60, "Cluster ID: .+", (main, "cluster-id", *_at(address)))


def _round_trip(judged: Judged, ident: str, messages: int) -> _Program:
    """Trogdor's agent runs one task: every message is sent, read back and checked off."""
    node = {"hostname": "localhost", "trogdor.agent.port": 0, "trogdor.coordinator.port": 0}
    agent = {"platform": "org.apache.kafka.trogdor.basic.BasicPlatform", "nodes": {"node0": node}}
    task = {
        "class": "org.apache.kafka.trogdor.workload.RoundTripWorkloadSpec",
        "startMs": 0,
        "durationMs": 60000,
        "clientNode": "node0",
        "bootstrapServers": judged.address,
        "targetMessagesPerSec": 5000,
        "maxMessages": messages,
        "valueGenerator": {"type": "sequential", "size": 64},
        "activeTopics": {f"{ident}-rt[0-1]": {"numPartitions": 2, "replicationFactor": 1}},
    }
    paths = []
    for name, value in (("agent", agent), ("task", task)):
        paths.append(judged.cache.log(f"java/{name}.json"))
        paths[-1].write_text(json.dumps(value), encoding="utf-8")
    arguments = ("--agent.config", str(paths[0]), "--node-name", "node0", "--exec", str(paths[1]))
    main = "org.apache.kafka.trogdor.agent.Agent"
    return _Program("trogdor-round-trip", 90, f'"totalReceived" : {messages}', (main, *arguments), ends=_TROGDOR_ENDS)


def _run(program: _Program, libs: Path, judged: Judged) -> list[Result]:
    """A program passes when it ends with 0 in time and shows that it did its work."""
    java = ("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    log = judged.cache.log(f"java/{program.name}.log")
    ends = program.ends
    ended = run(
        (*java, "-cp", f"{libs}/*", *program.arguments),
        log,
        min(program.limit_seconds, judged.limit_seconds),
        until=None if ends is None else lambda text: ends.search(text) is not None,
    )
    wanted = program.wanted
    has_worked = wanted(ended.text) if callable(wanted) else re.search(wanted, ended.text) is not None
    if ended.status == 0 and has_worked:
        return [Result("java", program.name, Status.PASSED, ended.seconds)]
    lines = [line for line in ended.text.splitlines() if not re.match(r"\s*(?:at |$)", line)]
    status = "killed at its limit" if ended.status is None else f"exit {ended.status}"
    return [Result("java", program.name, Status.FAILED, ended.seconds, f"{status}: {(lines or [''])[-1]}")]
