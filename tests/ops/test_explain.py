"""Codes and messages explained: nothing without a text, and every alarming line of real brokers recognised."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.findings.broker_lines import Heard, hear, messages_in
from kafkalog_core.findings.broker_messages import BROKER_MESSAGES
from kafkalog_core.findings.entries import ENTRY_DAMAGE
from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.ops.explain import (
    LINE_CHARACTERS,
    Digest,
    Entry,
    candidates,
    entries,
    explained,
    near,
    places_of,
    texts_of,
)
from tests.ops.broker_layouts import LAYOUTS, SAMPLES, fields_of, written
from tests.support.for_each import for_each

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES = [
    tuple(line.split(" | ", 1))
    for line in Path(__file__).with_name("broker_lines.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
ALARMING = re.compile(r"^.{0,120}?\b(?:WARN|ERROR|FATAL)\b")
DELETED = "/d/t-0.0123456789abcdef0123456789abcdef-delete"
_DIR = r"\$(?:LOGDIR2?|METADIR)"
_PARTITION = r"[\w.-]+-\d+(?:\.[0-9a-f]{32}-(?:delete|future|stray))?"
PLACE_FORMS = {
    "dir": _DIR,
    "dirs": rf"{_DIR}(?:, {_DIR})*",
    "log_dir": _DIR,
    "entry": rf"{_DIR}/[^/ ]+",
    "partition": _PARTITION,
    "partition_dir": rf"{_DIR}/{_PARTITION}",
    "place": rf"{_DIR}|(?:{_DIR}|LOG_DIR)/{_PARTITION}",
    "path": rf"{_DIR}/(?:{_PARTITION}(?:/[\w.-]+)?|[a-z.-]+)",
}
EPOCHS_TRUNCATED = "New epoch entry a caused truncation of conflicting entries b. Cache now contains 0 entries."
PLACES = {"path", "partition_dir", "entry", "dir", "dirs"}
WORDINGS = [(name, wording) for name, message in BROKER_MESSAGES.items() for wording in message.wordings]


def heard_in(line: str) -> Heard:
    """Return what is heard in a line, in which one message is expected."""
    (heard,) = [heard for text in messages_in(line) if (heard := hear(text)) is not None]
    return heard


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


def test_a_word_stands_for_all_codes_that_have_it() -> None:
    codes = [entry.code for entry in candidates("crc")]
    assert sorted(codes) == sorted(code for code in entries() if "crc" in code)
    assert codes[0] == "batch.crc-mismatch"
    assert candidates("nonsense") == []


@for_each(BROKER_MESSAGES)
def test_a_message_leads_on(name: str) -> None:
    message = BROKER_MESSAGES[name]
    known = entries()
    for code in message.codes:
        assert code in known or any(other.startswith(f"{code}.") for other in known), code
    assert message.commands or message.is_elsewhere
    for command in message.commands:
        assert command.split()[0] in {"kafkalog", "ls", "df", "dmesg", "sysctl", "fuser"}
    named = {name for wording in message.wordings for name in fields_of(wording)}
    named |= {"path"} if named & PLACES else set()  # the text names the place that the line names
    for text in message[3:7]:
        needed = {field for _, field, _, _ in Formatter().parse(text) if field}
        assert needed <= named | {"partition", "dir"}, needed - named


@for_each(WORDINGS, name=" | ".join)
def test_every_wording_in_every_layout(named_wording: tuple[str, str]) -> None:
    """None is hidden behind another, and its values are exactly those that the broker wrote, whatever is around it."""
    name, wording = named_wording
    for samples in SAMPLES:
        text, values = written(wording, samples)
        for layout, line in LAYOUTS.items():
            heard = heard_in(line(text))
            assert (heard.message.name, heard.values) == (name, values), layout


@for_each(WORDINGS, name=" | ".join)
def test_the_commands_name_what_the_line_names(named_wording: tuple[str, str]) -> None:
    name, wording = named_wording
    for samples in SAMPLES:
        _, values = written(wording, samples)
        commands = texts_of(BROKER_MESSAGES[name], values)["commands"].splitlines()
        known = {directory.strip() for directory in samples["dirs"].split(",")} | {*samples.values()}
        known |= {path.rpartition("/")[0] for path in known}
        for command in commands:
            for word in shlex.split(command.replace("|", " ")):
                if word.startswith("/"):
                    assert word in known or word.rpartition("/")[0] in known, command


@for_each(LINES, name=" | ".join)
def test_lines_of_brokers_are_recognised(named_line: tuple[str, ...]) -> None:
    name, line = named_line
    heard = heard_in(line)
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
            "kafkalog dump --segments LOG_DIR/torn-0",
        ),
        (
            "x WARN - [LogLoader partition=a-b-0, dir=/d 1] Corruption found in segment 551, truncating to offset 606",
            {"segment": "551", "partition": "a-b-0", "dir": "/d 1", "offset": "606"},
            "kafkalog dump --segments '/d 1/a-b-0'",
        ),
        (
            "java.io.IOException: Malformed line in checkpoint file [/d/replication-offset-checkpoint]: orders",
            {"path": "/d/replication-offset-checkpoint", "reason": "orders"},
            "kafkalog dump --files /d/replication-offset-checkpoint",
        ),
        (
            f"Found invalid messages in log segment {DELETED}/5.log at byte offset 7.",
            {"path": f"{DELETED}/5.log", "position": "7"},
            f"kafkalog dump --resync {DELETED}/5.log",
        ),
        (
            "Truncating partition t-0 with TruncationState(offset=7, completed=true) due to local high watermark 0",
            {"partition": "t-0", "offset": "7"},
            "kafkalog dump --segments LOG_DIR/t-0",
        ),
    ],
)
def test_what_a_line_names_is_filled_in(line: str, values: dict[str, str], command: str) -> None:
    heard = heard_in(line)
    assert {name: heard.values[name] for name in values} == values
    assert texts_of(heard.message, heard.values)["commands"].splitlines()[-1] == command


_LOG = "/mnt/disk 2/t-0/00000000000000000005"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (
            (
                "Unexpected exception thrown when cleaning log UnifiedLog(dir=/mnt/disk 2/t-0, topicId=Some(abc), "
                "topic=t, partition=0). Marking its partition (t-0) as uncleanable"
            ),
            "kafkalog verify '/mnt/disk 2/t-0'",
        ),
        (f"FileNotFoundException: {_LOG}.log (Too many open files)", "kafkalog dump --segments '/mnt/disk 2'"),
        (
            f"Attempt to append an offset (9) to slot 3 no larger than the last offset appended (9) to {_LOG}.index",
            "kafkalog verify '/mnt/disk 2/t-0'",
        ),
        ("Error while loading log dir /mnt/disk.", "kafkalog recover /mnt/disk."),
        ("[2026-03-02 07:08:09,123] ERROR Error while loading log dir /disk (old)", "kafkalog recover '/disk (old)'"),
        (
            "[2026-03-02 07:08:09,123] ERROR Error while loading log dir /disk (o.ld) (kafka.log.LogManager:76)",
            "kafkalog recover '/disk (o.ld)'",
        ),
    ],
)
def test_a_command_has_the_place_that_the_line_names(line: str, command: str) -> None:
    heard = heard_in(line)
    assert command in texts_of(heard.message, heard.values)["commands"].splitlines()


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


FAILED_START = (
    "ERROR o.a.k.s.f.ProcessTerminatingFaultHandler - Encountered fatal fault: Error starting LogManager",
    'java.lang.NumberFormatException: For input string: "x"',
)
"""As 4.3.1 wrote them for a leader-epoch-checkpoint with a line `x y`: no line names a directory."""


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (("\tlog.dir = /tmp/kafka-logs", "\tlog.dirs = /d 1", "\tmetadata.log.dir = null"), "'/d 1'"),
        (("\tcordoned.log.dirs = []", "\tlog.dir = [/tmp/kafka-logs]", "\tlog.dirs = [/d]"), "/d"),  # 4.3
        (("\tlog.dir = /tmp/kafka-logs", "\tlog.dirs = null"), "/tmp/kafka-logs"),  # noqa: S108
        (("\tlog.dirs = [/d, /e]",), "LOG_DIR"),
        (("\tlog.dirs = /d", "\tmetadata.log.dir = /m"), "LOG_DIR"),
        (("INFO Loading logs.",), "LOG_DIR"),
        (("WARN Stopping serving logs in dir /d",), "/d"),
        (("WARN Stopping serving logs in dir /d", "WARN Error while loading log dir /e"), "LOG_DIR"),
    ],
)
def test_the_commands_have_the_only_log_directory_of_the_log(settings: tuple[str, ...], named: str) -> None:
    headings = Digest().take([*settings, *FAILED_START]).headings()
    [commands] = [heading.row()["commands"] for heading in headings if heading.message.name == "broker.bad-file-name"]
    assert commands == f"kafkalog preflight {named}\nkafkalog recover {named}"


def test_a_line_that_names_the_cause_comes_before_those_that_do_not() -> None:
    names = [heading.message.name for heading in Digest().take(FAILED_START).headings()]
    assert names == ["broker.bad-file-name", "broker.startup-failed"]


@given(st.text(max_size=300))
def test_any_text_is_a_line(text: str) -> None:
    digest = Digest().take([text, text * 200])
    assert digest.lines == 2
    assert all(len(heading.sample) <= LINE_CHARACTERS for heading in digest.headings())


def test_a_line_of_json_has_a_message_and_an_exception() -> None:
    line = json.dumps(
        {
            "level": "ERROR",
            "message": "Error while loading log dir /d",
            "stack_trace": "E: Error while reading checkpoint file /d/t-0/leader-epoch-checkpoint\n\tat k.X.y(X:1)\n"
            "Caused by: java.io.IOException: Malformed line in checkpoint file [/d/t-0/leader-epoch-checkpoint]: 7",
        }
    )
    digest = Digest().take([line, "{" * 100_000 + '"}'])
    assert (digest.lines, digest.recognised) == (2, 1)
    places = {heading.message.name: heading.places for heading in digest.headings()}
    epochs = ["/d/t-0/leader-epoch-checkpoint"]
    expected = {"broker.loading-failed": ["/d"], "broker.checkpoint-malformed": epochs}
    assert places == expected | {"broker.checkpoint-unreadable": epochs}


@pytest.mark.parametrize(
    ("line", "place", "log_dir"),
    [
        ("FileNotFoundException: /data-0/meta.properties (Permission denied)", "/data-0", "/data-0"),
        ("FileNotFoundException: /data-0/t-1/5.log (Permission denied)", "/data-0/t-1", "/data-0"),
        ("AccessDeniedException: /data-0/t-1/00000000000000000005.log", "/data-0/t-1", "/data-0"),
        ("AccessDeniedException: /data-0/t-1", "/data-0/t-1", "/data-0"),
        ("Error: node ID not found in /var/lib/kafka-1", "/var/lib/kafka-1", "/var/lib/kafka-1"),
        ("Found directory /data-0/foo-bar, 'foo-bar' is not in the form of topic-partition", "/data-0", "/data-0"),
        ("Log in /data-0/t-1 marked stray and renamed to /data-0/t-1.0f-stray", "/data-0/t-1.0f-stray", "/data-0"),
        ("[LogLoader partition=t-1, dir=/data-0] Recovering unflushed segment 0", "/data-0/t-1", "/data-0"),
        ("[LocalLog partition=t-1, dir=/d/t-1] Deleting segment files x", "/d/t-1", "/d"),
        ("[LocalLog partition=t-1, dir=/d/t-1.0f-delete] Deleting segment files x", "/d/t-1.0f-delete", "/d"),
        ("[LocalLog partition=t-1, dir=/d] Deleting segment files x", "/d/t-1", "/d"),
        ("Error processing append operation on partition SUuW-aTBTrCNh-1VPoZHBQ:t-1", "LOG_DIR/t-1", None),
        (f"[LeaderEpochCache t-1] {EPOCHS_TRUNCATED}", "LOG_DIR/t-1", None),
        (r"Found a corrupted index file, D:\k\t-1\5.index, deleting and rebuilding index", r"D:\k\t-1", r"D:\k"),
    ],
)  # fmt: skip
def test_the_directory_of_what_a_line_names(line: str, place: str, log_dir: str | None) -> None:
    """A log directory may have a name that ends in a number, as a partition's has."""
    heard = heard_in(line)
    expected = {"place": place} | ({} if log_dir is None else {"log_dir": log_dir})
    assert {name: value for name, value in places_of(heard.values).items() if name in expected} == expected
    assert ("log_dir" in places_of(heard.values)) == (log_dir is not None)


def broker_logs(corpus: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the lines of each broker's log in the corpus."""
    for path in corpus.rglob("*broker*.log*"):
        if path.name.endswith((".log", ".log.gz")):
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            yield str(path.relative_to(corpus)), data.decode("utf-8", "replace").splitlines()


@pytest.mark.corpus
def test_every_alarming_line_of_the_corpus_is_recognised(corpus: Path) -> None:
    """A line that is not about a log directory is one of the messages `broker.elsewhere-...`."""
    logs = [*broker_logs(corpus)]
    assert logs
    unknown = []
    for name, lines in logs:
        unknown += [
            f"{name}: {line[:200]}" for line in lines if ALARMING.match(line) and not any(map(hear, messages_in(line)))
        ]
    assert unknown == []


@pytest.mark.corpus
def test_no_line_of_the_corpus_is_read_with_a_wrong_path(corpus: Path) -> None:
    """The corpus writes `$LOGDIR` for the log directory: every value of a place is one, or is in one, to the letter."""
    wrong = set()
    for name, lines in broker_logs(corpus):
        for line in lines:
            for heard in filter(None, map(hear, messages_in(line))):
                values = heard.values | places_of(heard.values)
                wrong |= {
                    (name, heard.message.name, kind, values[kind])
                    for kind, form in PLACE_FORMS.items()
                    if kind in values and not re.fullmatch(form, values[kind])
                }
    assert wrong == set()


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
