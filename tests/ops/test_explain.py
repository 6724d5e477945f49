"""Codes and messages explained: nothing without a text, and every alarming line of real brokers recognised."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.findings.broker_messages import BROKER_MESSAGES, NUMBERS, hear
from kafkalog_core.findings.logs import ENTRY_DAMAGE, LOG_DAMAGE
from kafkalog_core.ops.explain import LINE_CHARACTERS, Digest, Entry, entries, explained, near, texts_of
from tests.support.for_each import for_each

LINES = [
    tuple(line.split(" | ", 1))
    for line in Path(__file__).with_name("broker_lines.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
ALARMING = re.compile(r"^.{0,120}?\b(?:WARN|ERROR|FATAL)\b")
DELETED = "/d/t-0.0123456789abcdef0123456789abcdef-delete"
SAMPLES = {"path": "/d/t-0/00000000000000000005.index", "dir": "/d", "partition": "t-0", "other": "x", "reason": "y"}


@for_each(entries().values(), name=lambda entry: entry.code)
def test_no_text_of_an_entry_is_empty(entry: Entry) -> None:
    assert entry.severity in {"info", "warning", "error"}
    for text in (entry.message, entry.meaning, entry.broker_action, entry.cure):
        assert text.strip()
    assert re.search(r"[.!)>?]$", entry.meaning.strip()), entry.meaning


@for_each(FINDING_TYPES)
def test_the_catalog_itself_has_every_text(code: str) -> None:
    kind = FINDING_TYPES[code]
    assert kind.meaning, "meaning"
    assert kind.broker_action, "broker_action"
    assert kind.cure, "cure"
    assert not {name for _, name, _, _ in Formatter().parse(kind.meaning) if name}


def test_no_code_means_two_things() -> None:
    codes = [*FINDING_TYPES, *BROKER_MESSAGES, *(LOG_DAMAGE | ENTRY_DAMAGE)]
    assert len(codes) == len(set(codes)) == len(entries())


def test_a_subject_stands_for_all_of_its_codes() -> None:
    assert [entry.code for entry in explained("meta.missing")] == ["meta.missing"]
    assert {entry.code for entry in explained("meta")} == {code for code in FINDING_TYPES if code.startswith("meta.")}
    assert explained("nonsense") == []
    assert near("crc-mismtch")[0] == "crc-mismatch"
    assert near("0") == []
    assert len(near("log.segment-of")) == 5  # the best of 16 codes


@for_each(BROKER_MESSAGES)
def test_a_message_leads_on(name: str) -> None:
    message = BROKER_MESSAGES[name]
    known = entries()
    for code in message.codes:
        assert code in known or any(other.startswith(f"{code}.") for other in known), code
    assert message.commands or message.is_elsewhere
    for command in message.commands:
        assert command.split()[0] in {"kafkalog", "ls", "df", "dmesg", "sysctl", "fuser"}
    named = {field for wording in message.wordings for _, field, _, _ in Formatter().parse(wording) if field}
    for text in message[3:7]:
        needed = {field for _, field, _, _ in Formatter().parse(text) if field}
        assert needed <= named | {"partition", "dir"}, needed - named


@for_each(BROKER_MESSAGES)
def test_every_wording_is_heard_as_its_own_message(name: str) -> None:
    """None is hidden behind another, whatever stands around it."""
    for wording in BROKER_MESSAGES[name].wordings:
        fields = {field for _, field, _, _ in Formatter().parse(wording) if field}
        text = wording.format_map({field: "7" if field in NUMBERS else SAMPLES.get(field, "z") for field in fields})
        heard = hear(f"[2026-11-21 02:35:01,000] WARN {text} (kafka.log.Log)")
        assert heard is not None, wording
        assert heard.message.name == name, wording


@for_each(LINES, name=" | ".join)
def test_lines_of_brokers_are_recognised(named_line: tuple[str, ...]) -> None:
    name, line = named_line
    heard = hear(line)
    assert heard is not None
    assert heard.message.name == name
    for text in texts_of(heard.message, heard.values).values():
        assert "{" not in text.replace("{'", ""), text


def test_every_message_has_a_line() -> None:
    assert set(BROKER_MESSAGES) == {known for known, _ in LINES}


@pytest.mark.parametrize(
    ("line", "values", "command"),
    [
        (
            "[2026-11-21 02:35:01,000] WARN Corruption found in segment 551 of log torn-0, truncating to offset 606.",
            {"segment": "551", "partition": "torn-0", "offset": "606"},
            "kafkalog verify LOG_DIR/torn-0",
        ),
        (
            "x WARN - [LogLoader partition=a-b-0, dir=/d 1] Corruption found in segment 551, truncating to offset 606",
            {"segment": "551", "partition": "a-b-0", "dir": "/d 1", "offset": "606"},
            "kafkalog verify '/d 1/a-b-0'",
        ),
        (
            "java.io.IOException: Malformed line in checkpoint file [/d/replication-offset-checkpoint]: orders",
            {"path": "/d/replication-offset-checkpoint", "reason": "orders"},
            "kafkalog checkpoint /d/replication-offset-checkpoint",
        ),
        (
            f"Found invalid messages in log segment {DELETED}/5.log at byte offset 7.",
            {"path": f"{DELETED}/5.log", "position": "7"},
            f"kafkalog verify {DELETED}",
        ),
    ],
)
def test_what_a_line_names_is_filled_in(line: str, values: dict[str, str], command: str) -> None:
    heard = hear(line)
    assert heard is not None
    assert {name: heard.values[name] for name in values} == values
    assert texts_of(heard.message, heard.values)["commands"].splitlines()[-1] == command


def test_a_digest_says_each_message_once_the_most_severe_first() -> None:
    digest = Digest().take(
        [
            "INFO Skipping recovery of 3 logs from /d since clean shutdown file was found\n",
            *(
                f"WARN [LogLoader partition=t-{n}, dir=/d] Corruption found in segment 0, truncating to offset 5"
                for n in range(12)
            ),
            "\tat kafka.log.LogLoader",
            "ERROR something that nobody knows",
            "java.io.IOException: Broken pipe",
            "WARN Found an orphaned index file /d/t-0/5.index, with no corresponding log file.",
        ]
    )
    assert [heading.message.severity for heading in digest.headings()] == ["error", "warning", "info", "info"]
    first = digest.headings()[0]
    assert (first.count, first.first_line, first.last_line, first.has_more_places) == (12, 2, 13, True)
    assert first.places == [f"t-{n}" for n in range(10)]
    assert (digest.lines, digest.recognised, digest.unknown) == (17, 15, 1)
    assert digest.unknown_samples == [(15, "ERROR something that nobody knows")]
    assert first.row()["codes"] == ", ".join(first.message.codes)


@given(st.text(max_size=300))
def test_any_text_is_a_line(text: str) -> None:
    digest = Digest().take([text, text * 200])
    assert digest.lines == 2
    assert all(len(heading.sample) <= LINE_CHARACTERS for heading in digest.headings())


@pytest.mark.corpus
def test_every_alarming_line_of_the_corpus_is_recognised(corpus: Path) -> None:
    """A line that is not about a log directory is one of the messages `broker.elsewhere-...`."""
    paths = [path for path in corpus.rglob("*broker*.log*") if path.name.endswith((".log", ".log.gz"))]
    assert paths
    unknown = []
    for path in paths:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = data.decode("utf-8", "replace").splitlines()
        unknown += [f"{path.name}: {line[:200]}" for line in lines if ALARMING.match(line) and hear(line) is None]
    assert unknown == []


def test_a_checksum_that_recovery_refuses_is_not_called_an_incomplete_batch() -> None:
    """`LogSegment.recover` writes the line for what throws; a batch that the file's end cuts off ends it silently."""
    reason = "Record is corrupt (stored crc = 1, computed crc = 2)"
    line = f"Found invalid messages in log segment /d/t-0/{0:020d}.log at byte offset 7: {reason}"
    heard = hear(line)
    assert heard is not None
    assert heard.message.name == "broker.invalid-messages"
    text = heard.message.happened + heard.message.why
    assert "incomplete" not in text
    assert "a wrong checksum (stored crc, computed crc)" in text
    assert "torn-tail" not in heard.message.codes
