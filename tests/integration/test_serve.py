"""Kafka's own tools, of several releases, read the demo's disk from `kafkalog serve`.

The truth is what the demo's brokers and clients did (`tools/make_demo.py`): 92 and 108 records in `orders`; in
`payments` five records committed, five aborted, five committed and two left open; the offsets of the group `billing`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration import jars

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.java, pytest.mark.slow]

DEMO: Final = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
NEWEST: Final = jars.KAFKA_VERSION
CONSOLE: Final = {
    NEWEST: "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "2.8.2": "kafka.tools.ConsoleConsumer",
    "0.10.2.2": "kafka.tools.ConsoleConsumer",
    "0.9.0.1": "kafka.tools.ConsoleConsumer --new-consumer",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a served demo is found."""
    command = [sys.executable, "-m", "kafkalog_cli", "serve", "--listen", "127.0.0.1:0", str(DEMO)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            yield line.split()[-1]
        finally:
            server.terminate()
            assert server.wait(20) == 0


def run_tool(version: str, arguments: str, address: str) -> tuple[str, str]:
    """What a tool of a release writes to stdout and stderr; `{}` is the address."""
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = [str(jars.runtime(version)), *options, "-cp", f"{jars.fetch(version)}/*"]
    words = [word.format(address) for word in arguments.split()]
    done = subprocess.run(
        [*command, *words], capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=120
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("version", CONSOLE)
def test_console_consumers_read_a_topic(version: str, address: str) -> None:
    options = "--bootstrap-server {} --topic orders --from-beginning --timeout-ms 8000"
    out, err = run_tool(version, f"{CONSOLE[version]} {options}", address)
    assert "Processed a total of 200 messages" in out + err


def test_a_console_consumer_reads_what_was_committed(address: str) -> None:
    options = "--bootstrap-server {} --topic payments --from-beginning --timeout-ms 8000"
    for isolation, count in (("read_uncommitted", 17), ("read_committed", 10)):
        out, err = run_tool(NEWEST, f"{CONSOLE[NEWEST]} {options} --isolation-level {isolation}", address)
        assert f"Processed a total of {count} messages" in out + err


def test_the_simple_consumer_of_0_8_reads_a_partition(address: str) -> None:
    tool = (
        "kafka.tools.SimpleConsumerShell --broker-list {} --topic orders --partition 0 --offset -2 --no-wait-at-logend"
    )
    out, err = run_tool("0.8.2.2", f"{tool} --print-offsets", address)
    assert [int(each) for each in re.findall(r"next offset = (\d+)", out)] == list(range(1, 93)), err


@pytest.mark.parametrize(
    ("version", "tool"),
    [
        (NEWEST, "org.apache.kafka.tools.GetOffsetShell --bootstrap-server"),
        ("0.8.2.2", "kafka.tools.GetOffsetShell --broker-list"),
    ],
)
def test_the_ends_of_logs(version: str, tool: str, address: str) -> None:
    out, err = run_tool(version, f"{tool} {{}} --topic orders --time -1", address)
    assert sorted(out.split()) == ["orders:0:92", "orders:1:108"], err


def test_the_offset_of_a_time(address: str) -> None:
    tool = "org.apache.kafka.tools.GetOffsetShell --bootstrap-server {} --topic customers --time 1760000000010"
    out, err = run_tool(NEWEST, tool, address)
    assert out.split() == ["customers:0:10"], err


@pytest.mark.parametrize(
    ("version", "tool"),
    [
        (NEWEST, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
        ("2.8.2", "kafka.admin.ConsumerGroupCommand"),
    ],
)
def test_the_lag_of_the_group_that_the_live_cluster_had(version: str, tool: str, address: str) -> None:
    out, err = run_tool(version, f"{tool} --bootstrap-server {{}} --describe --group billing", address)
    rows = [line.split()[:6] for line in out.splitlines() if line.startswith("billing")]
    assert rows == [["billing", "orders", "0", "17", "92", "75"], ["billing", "orders", "1", "23", "108", "85"]], err


def test_a_topic_with_its_settings(address: str) -> None:
    tool = "org.apache.kafka.tools.TopicCommand --bootstrap-server {} --describe --topic customers"
    out, err = run_tool(NEWEST, tool, address)
    assert "PartitionCount: 1" in out, err
    assert "cleanup.policy=compact" in out


def test_a_console_producer_is_refused(address: str) -> None:
    command = [str(jars.runtime(NEWEST)), "-Xmx256m", "-cp", f"{jars.fetch(NEWEST)}/*"]
    tool = ["org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", address, "--topic", "orders"]
    for setting, error in (
        ("enable.idempotence=false", "TopicAuthorizationException: Not authorized to access topics: [orders]"),
        ("enable.idempotence=true", "The node does not support INIT_PRODUCER_ID"),
    ):
        line = [*command, *tool, "--command-property", setting]
        done = subprocess.run(line, input="v\n", capture_output=True, text=True, check=False, timeout=120)
        assert error in done.stderr
