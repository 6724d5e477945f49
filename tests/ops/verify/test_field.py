"""Disks of public reports: what 4.3.1 and its clients did with each of them was seen, and is what the commands say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.findings.client_reads import consumers
from tests.support.field import unpack
from tests.support.figures import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.figures import Row


def findings(*arguments: object) -> list[Row]:
    return run(*arguments, "--kafka", "4.3").of("finding")


@pytest.mark.parametrize("disk", ["same-delta", "real-delta"])
def test_what_consumers_do_with_wrong_last_offsets_is_what_they_did(disk: str, tmp_path: Path) -> None:
    """The Java consumer returned 6 or 13 of the 16 records without an error, kafka-python all of them."""
    found = findings("verify", unpack("c02-last-offset-delta", tmp_path) / disk)
    contradictions = [each for each in found if each["code"] == "batch.header-contradiction"]
    assert len(contradictions) == 4
    other = "record.offset-order" if disk == "same-delta" else "record.offset-outside"
    said = consumers(2, "none", {"batch.header-contradiction", other})
    assert ("Java 4.3 skips some of its records;" in said) == (disk == "same-delta")
    assert ("Java 4.3 reads all of its records or skips records after it;" in said) == (disk == "real-delta")
    assert said.endswith("A leader of 4.3 refuses such a batch from a producer.")
    assert all(each["broker_action"].endswith(said) for each in contradictions)
    texts = " ".join(f"{each['message']} {each['broker_action']} {each['cure']}" for each in found)
    assert "no producer wrote it" not in texts
    assert "The producer wrote it" not in texts
    assert texts.count("Consumers with default settings") == len(contradictions), "once a batch"
    assert bool([each for each in found if each["code"] == "record.offset-order"]) == (disk == "same-delta")


def test_lz4_content_checksums_are_verified_by_nobody_in_java(tmp_path: Path) -> None:
    """The Java consumer returned 400 of 400 records."""
    partition = unpack("c04-lz4-content-checksum", tmp_path) / "lz4cc-0"
    found = findings("verify", partition)
    assert {(each["code"], each["severity"]) for each in found} == {("batch.payload-checksum", "warning")}
    dumped = run("dump", partition, "--records")
    assert [row["offset"] for row in dumped.of("record")] == list(range(400))
    assert {(row["reason"], row["severity"]) for row in dumped.of("damage")} == {("payload-checksum", "warning")}
    assert dumped.status == 0


STOPS = {
    "blocksize-m0",
    "blocksize-m1",
    "empty-wrapper-m1",
    "gzip-crc-m1",
    "hc",
    "nested-m0",
    "nested-m1",
    "null-wrapper-m1",
}
"""The topics on whose first batch 4.3.1 did not start, after a clean shutdown and after an unclean one."""
ENDED = {"empty-wrapper-m1", "gzip-crc-m1", "hc", "null-wrapper-m1"}
"""Those in which no batch that opens follows: their offsets are assigned again."""


@pytest.mark.parametrize("name", ["c24-legacy-undecodable-good-crc", "c24-unclean"])
def test_a_first_message_that_does_not_open_stops_a_broker(name: str, tmp_path: Path) -> None:
    disk = unpack(name, tmp_path)
    errors = [each for each in findings("verify", disk) if each["severity"] == "error"]
    assert {each["topic"] for each in errors if (each["broker_action"] or "").startswith("Does not start")} == STOPS
    assert not [each for each in errors if "and keeps the batch" in (each["broker_action"] or "")]
    assert {each["next_command"] for each in errors} == {f"kafkalog recover --kafka 4.3 {disk}"}
    of_recover = findings("recover", disk, "--kafka", "4.3")
    removed = {each["topic"]: each["message"] for each in of_recover if each["code"] == "excise.removed"}
    assert removed.keys() == STOPS
    assert {topic for topic, message in removed.items() if message.endswith("are assigned again.")} == ENDED
    assert not [each for each in of_recover if each["code"] == "recover.not-started"]
    planned = findings("truncate", disk, "--as-broker")
    assert {each["topic"] for each in planned if each["code"] == "truncate.broker-stops"} == STOPS
    for kafka in ("3.9", "2.8"):  # they look for the last offset of a message, which is in its header
        assert not run("truncate", disk, "--as-broker", "--kafka", kafka).of("finding")


def test_nested_messages_are_shown_where_everything_is_asked_for(tmp_path: Path) -> None:
    disk = unpack("c24-unclean", tmp_path)
    for topic, values in (("nested-m0", ["b", "b", "b", "x"]), ("nested-m1", ["b0", "b1", "b2", "x"])):
        shown = run("dump", disk / f"{topic}-0", "--records", "--resync").of("record")
        assert [row["value"] for row in shown] == values
        assert [row["value"] for row in run("dump", disk / f"{topic}-0", "--records").of("record")] == ["x"]


def test_the_largest_jitter_is_below_segment_ms(tmp_path: Path) -> None:
    """It is a remainder (`LogConfig.randomSegmentJitter`), whatever max.compaction.lag.ms is."""
    disk = unpack("c15-jitter-same-ms", tmp_path)
    settings = ("segment.ms=60000", "segment.jitter.ms=50000", "max.compaction.lag.ms=1000", "cleanup.policy=compact")
    options = [word for setting in settings for word in ("--topic-config", f"profile:{setting}")]
    (found,) = [each for each in findings("roll", disk, *options) if each["code"] == "roll.jitter"]
    assert "at most 49999 ms (segment.jitter.ms=50000)" in found["message"]
    drawn = {
        row["jitter_ms"]
        for seed in range(200)
        for row in run("roll", disk, *options, "--jitter-seed", seed).of("rolled_segment")
    }
    assert 1000 < max(drawn) <= 49_999


def test_a_message_at_which_a_start_fails_is_not_said_to_be_loaded(tmp_path: Path) -> None:
    """verify takes what it says of each batch from the start with which truncate --as-broker plans."""
    disk = unpack("c17-overlapping-wrappers", tmp_path)
    (planned,) = [each for each in run("truncate", disk, "--as-broker").of("finding") if each["severity"] == "error"]
    (found,) = [each for each in run("verify", disk).of("finding") if each["code"] == "record.wrapper-overlap"]
    assert found["position"] == planned["position"]
    sentence, _, later = found["broker_action"].removeprefix("Does not start: ").partition(". ")
    assert later == "Release 2.0 and later start."
    assert sentence.startswith("offset 12394442")
    assert sentence in planned["message"]


@pytest.mark.parametrize(
    ("kafka", "action"), [("0.10.0", "Does not start: "), ("2.8", "Loads the message. Consumers ")]
)
def test_outside_a_log_directory_both_starts_are_asked(kafka: str, action: str, tmp_path: Path) -> None:
    """0.10.0 refuses the order of the index entries that it rebuilds; later releases do not rebuild them here."""
    partition = (unpack("c17-overlapping-wrappers", tmp_path) / "music-20").rename(tmp_path / "music-20")
    found = run("verify", partition, "--kafka", kafka).of("finding")
    (overlap,) = [each for each in found if each["code"] == "record.wrapper-overlap"]
    assert overlap["broker_action"].startswith(action)
