"""What changed between two copies of a log directory: every kind of change, by bytes that were built for it."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.build import batch_v2, empty_batch, message_v07, offset_checkpoint, partition_metadata
from tests.support.clusters import (
    TOPIC,
    config_record,
    partition_record,
    removed_record,
    topic_record,
    write_meta,
    write_metadata_log,
)
from tests.support.group_logs import commit_record, write_commits
from tests.support.replica_copies import batches, lay, records

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

OTHER_ID = "yvJY2GmLSLmPvWWoWf0Dhg"
NOW = "2026-11-30T12:00"


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["diff", "--jobs", "1", "--now", NOW, *map(str, arguments)], catch_exceptions=False)
    return done.exit_code, done.output


def one_line(text: str) -> str:
    """Text whose lines were broken at the width of a terminal."""
    return " ".join(text.split())


def rows(*arguments: object, status: int = 0) -> list[dict[str, Any]]:
    code, text = run("--ndjson", *arguments)
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert code == status, text
    return [row for row in found if row["type"] == "difference"]


def only(*arguments: object) -> dict[str, Any]:
    (row,) = rows(*arguments)
    return row


def changes(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(row["kind"], row["change"], row["what"]) for row in found]


def span(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["records"], row["first_offset"], row["last_offset"]


def pair(root: Path, old: dict[int, list[bytes]], new: dict[int, list[bytes]], **options: Any) -> tuple[Path, Path]:
    """Two copies of one partition; `old_` and `new_` begin the options of one of them."""
    sides = []
    for name, segments in (("old", old), ("new", new)):
        own = {key.removeprefix(f"{name}_"): value for key, value in options.items() if key.startswith(f"{name}_")}
        sides.append(lay(root / name, 1, segments, **own))
    return sides[0], sides[1]


def test_two_equal_copies(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log[:5], 25: log[5:]}, {0: log[:5], 25: log[5:]})
    for path in new.rglob("*"):
        os.utime(path, (1, 1))
    code, text = run(old, new)
    assert code == 0
    assert one_line(text).startswith(f"NO DIFFERENCE between {old} and {new}, in 1 partition.")
    assert rows(old, new) == []


def test_the_same_directory(tmp_path: Path) -> None:
    old = lay(tmp_path, 1, {0: batches(0, 9), 10: batches(10, 19)})
    assert rows(old, old) == []


def test_added_records(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log[:6]}, {0: log[:8], 40: log[8:]})
    row = only(old, new)
    assert changes([row]) == [("partition", "added", "t-0")]
    assert span(row) == (20, 30, 49)
    assert (row["before"], row["after"]) == ("30", "50")
    assert run(old, new)[1].startswith("1 change: 1 partition with new records (20 records).")


def test_segments_deleted_at_the_front(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log[:4], 20: log[4:]}, {20: log[4:]})
    row = only(old, new)
    assert changes([row]) == [("partition", "log-start", "t-0")]
    assert (row["before"], row["after"], row["segments"]) == ("0", "20", 1)
    assert span(row) == (20, 0, 19)
    assert row["bytes"] == sum(map(len, log[:4]))
    assert "retention" in row["detail"]


def test_a_log_start_within_a_segment(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log}, {0: log}, new_log_start=17)
    row = only(old, new)
    assert (row["change"], row["before"], row["after"], row["segments"]) == ("log-start", "0", "17", 0)
    assert "within a segment: DeleteRecords" in row["detail"]


def test_segments_before_the_log_start_that_went_later(tmp_path: Path) -> None:
    """DeleteRecords had moved the log start into the second segment already: no record is gone since."""
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log[:4], 20: log[4:]}, {20: log[4:]}, old_log_start=22, new_log_start=22)
    row = only(old, new)
    assert (row["change"], row["segments"], row["records"]) == ("deleted", 1, None)


def test_a_copy_that_begins_earlier(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {20: log[4:]}, {0: log[:4], 20: log[4:]})
    found = rows(old, new)
    assert changes(found) == [("partition", "restored", "t-0"), ("partition", "log-start", "t-0")]
    assert "NEW begins before OLD" in found[1]["detail"]


def test_a_truncated_end_by_the_epoch_of_the_new_leader(tmp_path: Path) -> None:
    common = batches(0, 19)
    old, new = pair(
        tmp_path,
        {0: common + batches(20, 44, word=" old")},
        {0: common + batches(20, 34, epoch=3, word=" new")},
        new_epochs=((0, 0), (3, 20)),
    )
    found = rows(old, new)
    assert [row["change"] for row in found] == ["truncated", "added"]
    assert span(found[0]) == (25, 20, 44)
    assert (found[0]["after"], found[0]["leader_epoch"]) == ("20", 3)
    assert found[0]["detail"].startswith("Leader epoch 3 begins at offset 20 in NEW, and the last one of OLD is 0")
    assert found[0]["next_command"] == f"kafkalog dump --records --offsets 20..44 {old}/t-0"
    assert span(found[1]) == (15, 20, 34)
    assert run(old, new)[1].startswith("2 changes: 1 partition truncated (25 records), 1 partition with new records")


def test_a_truncated_end_without_a_later_epoch(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log}, {0: log[:6]})
    row = only(old, new)
    assert (row["change"], row["before"], row["after"]) == ("truncated", "50", "30")
    assert row["detail"].startswith("NEW has no later leader epoch")


def test_an_end_that_a_recovery_cut_at_damage(tmp_path: Path) -> None:
    """3.9.2 truncated such a log at the damaged batch, and not at the first record after it that can be read."""
    log = batches(0, 49)
    bad = log[6][:16] + b"\x63" + log[6][17:]  # no magic of any release
    old, new = pair(tmp_path, {0: [*log[:6], bad, *log[7:]]}, {0: log[:6]})
    (row,) = (each for each in rows(old, new) if each["change"] == "truncated")
    assert (row["before"], row["after"], row["records"]) == ("50", "30", 15)


def test_a_cleaned_log(tmp_path: Path) -> None:
    log = batches(0, 49)
    kept = [batch_v2(records(0, 4)[::2], last_offset=4), empty_batch(5, 9)]
    old, new = pair(
        tmp_path, {0: log[:2], 10: log[2:4], 20: log[4:]}, {0: [*kept, *log[2:4]], 20: log[4:]}, new_cleaned_to=20
    )
    row = only(old, new)
    assert (row["change"], row["segments"]) == ("cleaned", 2)
    assert span(row) == (7, 0, 9)
    assert row["bytes"] == sum(map(len, log[:2])) - sum(map(len, kept))


def test_records_that_no_cleaner_removed(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log[:4], 20: log[4:8], 40: log[8:]}, {0: log[:4], 40: log[8:]})
    row = only(old, new)
    assert row["change"] == "missing"
    assert span(row) == (20, 20, 39)
    assert rows(new, old)[0]["change"] == "restored"


def test_the_same_records_in_other_segments(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log[:4], 20: log[4:8], 40: log[8:]}, {0: log[:8], 40: log[8:]})
    row = only(old, new)
    assert (row["change"], row["segments"], row["bytes"]) == ("rewritten", 2, 0)


def test_damage_in_one_copy(tmp_path: Path) -> None:
    log = batches(0, 49)
    bad = bytes([*log[4][:-1], log[4][-1] ^ 0xFF])
    old, new = pair(tmp_path, {0: log}, {0: [*log[:4], bad, *log[5:]]})
    assert rows(old, new) == [], "the header is the same: only --deep computes the checksum"
    row = only("--deep", old, new)
    assert row["change"] == "damaged"
    assert span(row) == (5, 20, 24)
    assert row["next_command"] == f"kafkalog verify {new}/t-0"
    assert only("--deep", new, old)["change"] == "repaired"
    assert rows("--deep", new, new) == []


def test_a_damaged_batch_that_was_replaced_was_repaired_and_not_cleaned(tmp_path: Path) -> None:
    """The header differs, so both batches are read, and the checksum of each is computed."""
    log = batches(0, 49)
    bad = bytes([*log[4][:-1], log[4][-1] ^ 0xFF])
    old, new = pair(tmp_path, {0: [*log[:4], bad, *log[5:]]}, {0: [*log[:4], empty_batch(20, 24), *log[5:]]})
    row = only(old, new)
    assert (row["change"], row["records"]) == ("repaired", None)
    assert "(crc-mismatch)" in row["detail"]
    assert only("--deep", old, new) == row
    assert only(new, old)["change"] == "damaged"


def test_an_empty_batch_where_the_cleaner_never_came(tmp_path: Path) -> None:
    """The checkpoint of the cleaner can be read, and does not name the partition: the cleaner removed nothing."""
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log}, {0: [*log[:4], empty_batch(20, 24), *log[5:]]})
    (new / "cleaner-offset-checkpoint").write_bytes(offset_checkpoint([("u", 0, 40)]))
    row = only(old, new)
    assert row["change"] == "missing"
    assert span(row) == (5, 20, 24)
    (new / "cleaner-offset-checkpoint").unlink()
    assert only(old, new)["change"] == "cleaned", "else the empty batch shows that a cleaner was there"


def test_a_file_that_was_cut_within_the_log_is_not_its_end(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: [*log[:3], log[3][:30]], 20: log[4:]}, {0: log[:4], 20: log[4:]})
    row = only(old, new)
    assert row["change"] == "repaired"
    assert row["detail"].startswith("Damage in OLD: 30 bytes")


def test_the_same_damage_in_both_is_no_change_and_is_said(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: [*log[:5], b"x" * 99, *log[5:]]}, {0: [*log[:5], b"x" * 99, *log[5:]]})
    assert rows(old, new) == []
    code, text = run(old, new)
    assert code == 0
    assert f"Damage that is not compared, as no copy is without it: t-0: kafkalog verify {new}" in one_line(text)


def test_a_torn_append(tmp_path: Path) -> None:
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: [*log, log[0][:30]]}, {0: log})
    row = only(old, new)
    assert (row["change"], row["bytes"]) == ("tail", 30)
    assert row["detail"].startswith("OLD ends in a torn append: 30 bytes at byte")
    assert only(new, old)["detail"].startswith("NEW ends in a torn append")


def test_hard_links_are_not_read_again(tmp_path: Path) -> None:
    log = batches(0, 49)
    old = lay(tmp_path / "old", 1, {0: log[:4], 20: log[4:]})
    new = tmp_path / "new"
    shutil.copytree(old, new, copy_function=os.link)
    code, text = run("--ndjson", old, new)
    (summary,) = [json.loads(line) for line in text.splitlines()]
    assert (code, summary["files"], summary["rows"]) == (0, 2, 0), "the last segments alone are read"


def test_a_log_of_07(tmp_path: Path) -> None:
    for name, count in (("old", 2), ("new", 3)):
        directory = tmp_path / name / "t-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.kafka").write_bytes(message_v07(b"hello") * count)
    row = only(tmp_path / "old", tmp_path / "new")
    size = len(message_v07(b"hello"))
    assert (row["change"], row["before"], row["after"]) == ("added", str(2 * size), str(3 * size))
    assert rows(tmp_path / "old", tmp_path / "old") == []


# --- topics and partitions --------------------------------------------------------------------------------------------
def _directory(log_dir: Path, name: str, first: int = 0, last: int = 9, topic_id: str | None = None) -> Path:
    directory = log_dir / name
    directory.mkdir(parents=True)
    (directory / f"{first:020}.log").write_bytes(b"".join(batches(first, last)))
    if topic_id is not None:
        (directory / "partition.metadata").write_bytes(partition_metadata(topic_id))
    return directory


def _sides(root: Path) -> tuple[Path, Path]:
    old, new = pair(root, {0: batches(0, 9)}, {0: batches(0, 9)})
    return old, new


def test_topics_new_gone_and_being_deleted(tmp_path: Path) -> None:
    old, new = _sides(tmp_path)
    for number in range(3):
        _directory(old, f"leaving-{number}")
        _directory(new, f"leaving-{number}.{number:032x}-delete")
        _directory(new, f"fresh-{number}", 0, 4)
    _directory(old, "gone-0")
    _directory(old, "before-0.0123456789abcdef0123456789abcdef-delete")
    _directory(new, "before-0.0123456789abcdef0123456789abcdef-delete")
    found = {row["what"]: row for row in rows(old, new)}
    assert {what: row["change"] for what, row in found.items()} == {
        "leaving": "being-deleted",
        "fresh": "new",
        "gone": "gone",
    }
    assert found["fresh"]["records"] == 15
    assert found["leaving"]["records"] == 30
    assert found["leaving"]["next_command"].startswith(f"kafkalog dump --records {new}/leaving-0.")
    code, text = run(old, new)
    assert code == 0
    assert "topic leaving" in text
    assert "3 partitions" in text
    shutil.rmtree(new / "before-0.0123456789abcdef0123456789abcdef-delete")
    assert ("topic", "deleted", "before") in changes(rows(old, new))


def test_a_directory_set_aside_beside_the_current_one(tmp_path: Path) -> None:
    old, new = _sides(tmp_path)
    _directory(old, "t-5")
    _directory(new, "t-5")
    aside = "t-5.00000000000000000000000000000005"
    _directory(new, f"{aside}-stray")
    _directory(new, f"{aside}-delete")
    assert sorted(changes(rows(old, new))) == [("topic", "being-deleted", "t"), ("topic", "stray", "t")]


def test_how_deep_it_compared_is_said(tmp_path: Path) -> None:
    """Where nothing differs it is in the answer, since damage in the records of one copy is not seen."""
    log = batches(0, 49)
    changed = bytearray(log[3])
    changed[-1] ^= 1
    old, new = pair(tmp_path, {0: log}, {0: [*log[:3], bytes(changed), *log[4:]]})
    text = one_line(run(old, new)[1])
    assert text.startswith(
        f"NO DIFFERENCE between {old} and {new}, in 1 partition. Batches were compared by their headers"
    )
    assert "--deep" not in run("--deep", old, new)[1]
    assert changes(rows("--deep", old, new)) == [("partition", "damaged", "t-0")]


def test_a_topic_that_was_created_again(tmp_path: Path) -> None:
    old, new = pair(tmp_path, {0: batches(0, 9)}, {0: batches(0, 49)}, new_topic_id=OTHER_ID)
    row = only(old, new)
    assert changes([row]) == [("topic", "recreated", "t")]
    assert row["after"] == OTHER_ID
    assert row["records"] == 10


def test_partitions_of_a_topic_that_both_have(tmp_path: Path) -> None:
    old, new = _sides(tmp_path)
    _directory(old, "t-1")
    _directory(new, "t-2")
    _directory(old, "t-3")
    _directory(new, "t-3.00000000000000000000000000000003-stray")
    assert sorted(changes(rows(old, new))) == [
        ("partition", "gone", "t-1"),
        ("partition", "new", "t-2"),
        ("partition", "stray", "t-3"),
    ]


def test_several_log_directories_of_a_broker(tmp_path: Path) -> None:
    sides = []
    for side, places in (("old", ("t-1", "u-0")), ("new", ("u-0", "t-1"))):
        for number, name in enumerate(places):
            log_dir = tmp_path / side / f"disk{number}"
            _directory(log_dir, name)
            (log_dir / "meta.properties").write_text(
                f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={'AB'[number] * 22}\n"
            )
        sides.append(",".join(str(tmp_path / side / f"disk{number}") for number in range(2)))
    found = rows(*sides)
    assert sorted(changes(found)) == [("partition", "moved", "t-1"), ("partition", "moved", "u-0")]
    assert {row["before"][0] + row["after"][0] for row in found} == {"AB", "BA"}
    assert rows(sides[0], sides[0]) == []


def test_other_brokers_are_refused_or_reported(tmp_path: Path) -> None:
    one, other = lay(tmp_path, 1, {0: batches(0, 9)}), lay(tmp_path, 2, {0: batches(0, 9)})
    assert changes(rows(one, other)) == [("broker", "changed", "meta.properties node.id")]
    code, text = run(f"{one},{other}", one)
    assert code == 3
    assert "compare one broker at a time" in text
    code, text = run(one, one / "t-0" / f"{0:020}.log")
    assert code == 3
    assert "not a single file" in text
    assert run("--topic", "nothing", one, one)[0] == 3


def test_a_log_that_cannot_be_listed_is_a_finding(tmp_path: Path) -> None:
    old, new = _sides(tmp_path)
    shutil.rmtree(new / "t-0")
    (new / "t-0").mkdir()
    (new / "t-0" / f"{0:020}.log").mkdir()
    found = rows(old, new)
    assert [row["change"] for row in found] == ["truncated"]


# --- settings, groups, transactions -----------------------------------------------------------------------------------
def _cluster(log_dir: Path, *values: bytes) -> Path:
    write_meta(log_dir)
    write_metadata_log(log_dir, *values)
    _directory(log_dir, "t-0")
    return log_dir


def test_settings_and_topics_by_the_metadata_log(tmp_path: Path) -> None:
    topic = (topic_record("t"), partition_record(0, (7,)), topic_record("left", 2), partition_record(0, (7,), 2))
    settings = (config_record(TOPIC, "t", "retention.ms", "1"), config_record(TOPIC, "left", "retention.ms", "5"))
    old = _cluster(tmp_path / "old", *topic, *settings)
    new = _cluster(
        tmp_path / "new",
        *topic,
        *settings,
        config_record(TOPIC, "t", "retention.ms", "2"),
        removed_record(2),
        topic_record("elsewhere", 3),
        partition_record(0, (8,), 3),
    )
    found = rows(old, new)
    assert changes(found) == [
        ("topic", "new", "elsewhere"),
        ("topic", "gone", "left"),
        ("config", "changed", "topic t retention.ms"),
    ]
    assert (found[2]["before"], found[2]["after"]) == ("1", "2")
    assert "cluster --diff" in run(old, new)[1]
    assert changes(rows("--topic", "t", old, new)) == [("config", "changed", "topic t retention.ms")]
    assert rows(new, new) == []


def test_without_a_metadata_log_that_is_said(tmp_path: Path) -> None:
    old, new = _sides(tmp_path)
    assert "Not compared: settings" in run(old, new)[1]


def test_committed_offsets(tmp_path: Path) -> None:
    before = [("a", 0, 10), ("a", 1, 10), ("b", 0, 5), ("gone", 0, 1)]
    after = [("a", 0, 30), ("a", 1, 4), ("b", 0, 5), ("fresh", 0, 1)]
    for name, commits in (("old", before), ("new", after)):
        write_commits(
            tmp_path / name / "__consumer_offsets-0", [commit_record(group, "t", *place) for group, *place in commits]
        )
    found = [row for row in rows(tmp_path / "old", tmp_path / "new") if row["kind"] in {"group", "offset"}]
    assert changes(found) == [
        ("group", "new", "fresh"),
        ("group", "gone", "gone"),
        ("offset", "backwards", "a t-1"),
        ("offset", "moved", "a t-0"),
    ]
    assert (found[2]["before"], found[2]["after"], found[2]["group"]) == ("10", "4", "a")


def test_a_transaction_that_began(tmp_path: Path) -> None:
    opened = batch_v2(records(10, 12), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    old, new = pair(tmp_path, {0: batches(0, 9)}, {0: [*batches(0, 9), opened]})
    found = rows(old, new)
    assert changes(found) == [("transaction", "opened", "producer 7 t-0"), ("partition", "added", "t-0")]
    assert found[0]["first_offset"] == 10
    assert changes(rows(new, old))[-1][:2] == ("transaction", "ended")


# --- the output -------------------------------------------------------------------------------------------------------
def test_the_table_fits_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    log = batches(0, 49)
    old, new = pair(tmp_path, {0: log[:6]}, {0: log}, new_log_start=7)
    _, text = run(old, new)
    assert "log-start" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "kafkalog" not in line and str(old) not in line)


def test_a_name_with_a_comma_is_one_path(tmp_path: Path) -> None:
    old = lay(tmp_path / "a,b", 1, {0: batches(0, 9)})
    assert rows(old, old) == []
