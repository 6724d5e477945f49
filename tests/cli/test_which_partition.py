"""`kafkalog which-partition`: several values, standard input, and questions that have no answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.cli.terminals import run

if TYPE_CHECKING:
    from tests.cli.terminals import Ended

_TOPIC_ID = "5vYgz4rJSMa_FBhdeTtYEg"


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Ended:
    return run(monkeypatch, ["which-partition", *arguments])


def test_each_value_has_a_line_with_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = _run(monkeypatch, "--group", "g1", "--group", "g2")
    assert (ended.status, ended.stdout) == (0, "__consumer_offsets-42  g1\n__consumer_offsets-43  g2\n")
    ended = _run(monkeypatch, "--transactional-id", "tx1", "--partitions", "50")
    assert ended.stdout == "__transaction_state-45  tx1\n"


def test_a_dash_takes_the_lines_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["which-partition", "--key", "customer-17", "--key", "-", "--partitions", "4"]
    ended = CliRunner().invoke(cli, arguments, input=b"a\r\n\xff\x00\xfe\n", catch_exceptions=False)
    assert ended.stdout == "0  customer-17\n0  a\n0  x'ff00fe'\n"
    assert _run(monkeypatch, "--group", "-").status == 2


def test_share_groups_and_remote_logs_have_a_place_for_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    place = ("--topic-id", _TOPIC_ID, "--partition", "0", "--partition", "1")
    ended = _run(monkeypatch, "--share-group", "g1", *place)
    # the first as Kafka's own SharePartitionKey and RemoteLogMetadataTopicPartitioner give it
    assert ended.stdout.splitlines()[0] == f"__share_group_state-17  g1:{_TOPIC_ID}:0"
    ended = _run(monkeypatch, "--remote-log", *place)
    assert ended.stdout == f"__remote_log_metadata-17  {_TOPIC_ID}:0\n__remote_log_metadata-18  {_TOPIC_ID}:1\n"


def test_rows_have_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = _run(monkeypatch, "--key-hex", "ff00fe", "--partitions", "4", "--partitioner", "crc32", "--ndjson")
    row = json.loads(ended.stdout.splitlines()[0])
    assert (row["key_b64"], row["hash"], row["partition"], row["partitioner"]) == ("/wD+", 467415780, 0, "crc32")
    row = json.loads(_run(monkeypatch, "--group", "polygenelubricants", "--ndjson").stdout.splitlines()[0])
    assert (row["name"], row["hash"], row["partition"]) == ("polygenelubricants", -(1 << 31), 0)


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ("", 2, "give one of"),
        ("--group a --key b", 2, "give one of"),
        ("--key a", 2, "--key needs --partitions"),
        ("--share-group a", 2, "--share-group needs --topic-id ID and --partition P"),
        ("--group a --partition 3", 2, "do not apply to --group"),
        ("--remote-log --topic-id nonsense --partition 1", 2, "'nonsense' is not a topic id"),
        ("--key-hex ff --partitioner java-hashcode --partitions 3", 3, "is not UTF-8"),
    ],
)
def test_a_question_without_an_answer_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, arguments: str, status: int, sentence: str
) -> None:
    ended = _run(monkeypatch, *arguments.split())
    assert ended.status == status
    assert sentence in ended.stderr
