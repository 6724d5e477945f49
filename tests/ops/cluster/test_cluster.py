"""`kafkalog cluster` over the disk of a real broker, and over disks that a test changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.topics.cluster_names import is_secret
from kafkalog_core.topics.metadata_records import encode_record
from tests.support import build
from tests.support.clusters import BROKER, TOPIC, config_record, partition_record, topic_record, write_meta

FIXTURES: Final = Path(__file__).parents[3] / "fixtures"
DEMO: Final = FIXTURES / "demo"
METADATA: Final = "__cluster_metadata-0"
Row = dict[str, Any]


def command(*words: object, status: int = 0, output: str = "table") -> str:
    """What the command writes."""
    arguments = ["cluster", *map(str, words), "--output", output]
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done.stdout


def rows(kind: str, *words: object, status: int = 0) -> list[Row]:
    """Rows of a type."""
    lines = command(*words, status=status, output="ndjson").splitlines()
    return [row for row in map(json.loads, lines) if row["type"] == kind]


def answer(*words: object, status: int = 0) -> str:
    """The first sentence, on one line."""
    return " ".join(command(*words, status=status).split("\n\n")[0].split())


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A copy of a broker's log directory."""
    return Path(shutil.copytree(DEMO, tmp_path / "kafka"))


def append(log_dir: Path, offset: int, *values: bytes) -> None:
    """Append a batch to the metadata log."""
    records = [
        build.Record(offset=at, timestamp_ms=1795228300000, key=None, value=value)
        for at, value in enumerate(values, offset)
    ]
    path = log_dir / METADATA / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + build.batch_v2(records, leader_epoch=1))


# --- the story: what does the metadata log say? -----------------------------------------------------------------------
def test_topics_ids_settings_and_the_last_leader_are_on_the_first_screen() -> None:
    text = command(DEMO)
    first = text.splitlines()[0]
    assert first.startswith("CLUSTER ZGVtby1rYWZrYWxvZy0wMQ: metadata.version 30 (4.3), 1 broker, 1 voter")
    assert "no partition has a leader, as after a shutdown" in first
    (line,) = (each for each in text.splitlines() if each.startswith("customers "))
    for part in ("1zCZlQzuQDqqMRSTx0upIA", "none, last 1", "cleanup.policy=compact internal.segment.bytes=3000"):
        assert part in line
    assert len(text.splitlines()) < 40
    assert "kafkalog cluster --topic customers" in text


def test_one_partition_and_who_led_before() -> None:
    (row,) = rows("cluster_partition", "--topic", "customers", DEMO)
    assert (row["leader"], row["isr"], row["last_leader"], row["leader_epoch"]) == (-1, [], 1, 1)
    assert row["last_leader_until_ms"] == 1795250628454
    assert (row["elr"], row["last_known_elr"], row["replicas"]) == ([1], [1], [1])
    assert row["paths"] == [f"{DEMO}/customers-0"]
    assert rows("cluster_partition", "--topic", "cust*", DEMO) == [row]
    before = rows("cluster_partition", "--topic", "customers", "--at", "2026-11-21T08:43:48", DEMO)[0]
    assert (before["leader"], before["isr"], before["last_leader"]) == (1, [1], None)


def test_the_whole_image_as_rows() -> None:
    found = json.loads(command(DEMO, output="json"))
    kinds = {row["type"] for row in found}
    assert kinds >= {"cluster", "cluster_feature", "cluster_broker", "cluster_controller", "cluster_topic"}
    assert kinds >= {"cluster_partition", "cluster_config", "cluster_directory", "summary"}
    (cluster,) = rows("cluster", DEMO)
    assert (cluster["topics"], cluster["partitions"], cluster["leaderless"]) == (5, 6, 6)
    assert (cluster["end_offset"], cluster["leader_id"], cluster["kraft_version"]) == (53, 1, 1)
    (broker,) = rows("cluster_broker", DEMO)
    assert (broker["release"], broker["is_fenced"], broker["in_controlled_shutdown"]) == ("4.3", True, True)
    assert broker["paths"] == [str(DEMO)]
    (directory,) = rows("cluster_directory", DEMO)
    assert (directory["assigned"], directory["found"], directory["detail"]) == (6, 6, None)
    assert directory["registered_by"] == 1


# --- the disks against the image --------------------------------------------------------------------------------------
def test_what_is_missing_and_stray(disk: Path) -> None:
    shutil.rmtree(disk / "payments-0")
    shutil.copytree(disk / "customers-0", disk / "ghost-0")
    metadata = disk / "orders-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: R2hvc3RHaG9zdEdob3N0MQ")
    (row,) = rows("cluster_directory", disk)
    assert (row["assigned"], row["found"]) == (6, 4)
    assert row["missing"] == ["orders-0", "payments-0"]
    assert row["strays"] == ["orders-0"], "ghost-0 has the topic id of customers"
    assert "2 of its partitions are not here: orders-0, payments-0" in row["detail"]
    topics = {row["topic"]: row for row in rows("cluster_topic", disk)}
    assert topics["orders"]["other_ids"] == ["R2hvc3RHaG9zdEdob3N0MQ"]
    assert "DIRECTORIES OF ANOTHER TOPIC ID ARE HERE" in answer(disk)


def test_a_directory_that_no_node_registered(disk: Path) -> None:
    meta = disk / "meta.properties"
    meta.write_text(meta.read_text().replace("1lgoqec5QCuunnAVe7ki1w", "1lgoqec5QCuunnAVe7ki1A"))
    (row,) = rows("cluster_directory", disk)
    assert (row["assigned"], row["registered_by"]) == (None, None)
    assert row["detail"] == "no node registered this directory id"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=9").replace("ki1A", "ki1w"))
    (row,) = rows("cluster_directory", disk)
    assert row["detail"].startswith("node 9 is not registered; node 1 registered this directory, but meta.properties")


def test_the_copy_that_ends_last_is_used(disk: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(disk, tmp_path / "other"))
    append(other, 53, topic_record("new", 7))
    for paths in ((disk, other), (other, disk)):
        (cluster,) = rows("cluster", *paths)
        assert (cluster["path"], cluster["end_offset"]) == (f"{other}/{METADATA}", 54)
        assert [each["end_offset"] for each in cluster["copies"]] == [54, 53]
    path = other / METADATA / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-4])
    (cluster,) = rows("cluster", disk, other)
    assert (cluster["path"], cluster["is_whole"]) == (f"{disk}/{METADATA}", True), "torn: the whole copy is used"


def test_disks_of_two_clusters_are_refused(disk: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(disk, tmp_path / "other"))
    meta = other / "meta.properties"
    meta.write_text(meta.read_text().replace("ZGVtby1rYWZrYWxvZy0wMQ", "other"))
    command(disk, other, status=3)


def test_what_has_no_metadata_log(tmp_path: Path, disk: Path) -> None:
    shutil.rmtree(disk / METADATA)
    done = CliRunner().invoke(cli, ["cluster", str(disk)], catch_exceptions=False)
    assert done.exit_code == 3
    assert "no directory __cluster_metadata-0 in" in done.stderr
    command("--topic", "none", DEMO, status=3)
    new = write_meta(tmp_path / "new")
    (new / METADATA).mkdir()
    (new / METADATA / f"{0:020}.log").write_bytes(b"")
    assert "IS EMPTY: its metadata log has no record" in command(new).splitlines()[0]


def test_a_directory_of_disks_names_the_command_with_all_of_them(disk: Path) -> None:
    copy = shutil.copytree(disk, disk.parent / "volumes" / "b 2" / "kafka")
    done = CliRunner().invoke(cli, ["cluster", "--config", f"{copy.parents[1]}/"], catch_exceptions=False)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (3, f"  kafkalog cluster --config '{copy}'")
    done = CliRunner().invoke(cli, ["cluster", f"{copy.parents[2]}/v*"], catch_exceptions=False)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (3, f"  kafkalog verify '{copy}'")  # a glob was typed


def test_a_snapshot_that_is_named_itself() -> None:
    (cluster,) = rows("cluster", DEMO / METADATA / f"{0:020}-{0:010}.checkpoint")
    assert (cluster["kraft_version"], len(cluster["voters"]), cluster["topics"]) == (1, 1, 0)


# --- damage -----------------------------------------------------------------------------------------------------------
def test_what_follows_damage_is_unknown(disk: Path) -> None:
    path = disk / METADATA / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    at = data.find(b"payments")
    data[at] ^= 0xFF
    path.write_bytes(data)
    assert "WHAT COMES AFTER OFFSET 16 IS UNKNOWN" in answer(disk, status=4)
    (cluster,) = rows("cluster", disk, status=4)
    assert not cluster["is_whole"]
    assert "payments" not in {row["topic"] for row in rows("cluster_topic", disk, status=4)}
    (finding,) = rows("finding", disk, status=4)
    assert (finding["code"], finding["severity"]) == ("cluster.unread", "error")


def test_a_torn_end_is_a_warning(disk: Path) -> None:
    append(disk, 53, topic_record("new", 7))
    path = disk / METADATA / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-4])
    (finding,) = rows("finding", disk)
    assert finding["severity"] == "warning"


def test_a_contradiction_is_a_finding(disk: Path) -> None:
    append(disk, 53, partition_record(0, (1,), 99))
    (finding,) = rows("finding", disk, status=4)
    assert finding["code"] == "cluster.contradiction"
    assert finding["offset"] == 53


# --- secrets ----------------------------------------------------------------------------------------------------------
def test_secrets_are_hidden_unless_asked_for(disk: Path) -> None:
    user = {"name": "alice", "mechanism": 1, "salt": b"sal", "stored_key": b"sto", "server_key": b"ser"}
    append(
        disk,
        53,
        config_record(BROKER, "1", "listener.name.x.ssl.keystore.password", "hunter2"),
        config_record(BROKER, "1", "background.threads", "5"),
        config_record(TOPIC, "orders", "retention.ms", "7"),
        encode_record("UserScramCredentialRecord", 0, {**user, "iterations": 4096}),
    )
    for form in ("table", "ndjson", "csv"):
        for words in (("--config", "--users"), ("--history",), ("--diff", "52")):
            text = command(*words, disk, output=form)
            assert "hunter2" not in text
            assert "c2Fs" not in text, "the salt"
    assert "(hidden: --show-secrets)" in command("--config", disk)
    assert "hunter2" in command("--config", "--show-secrets", disk)
    assert "hunter2" in command("--history", "--show-secrets", disk)
    (row,) = rows("cluster_user", "--show-secrets", disk)
    assert (row["salt"], row["mechanism"], row["iterations"]) == ("c2Fs", "SCRAM-SHA-256", 4096)
    assert [row["value"] for row in rows("cluster_config", disk) if row["is_secret"]] == [None]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("listener.name.x.plain.sasl.jaas.config", True),
        ("SSL.Keystore.PASSWORD", True),
        ("rsm.config.s3.secret.access.key", True),
        ("my.plugin.api.token", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.location", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("compression.type", False),
    ],
)
def test_names_of_secrets(name: str, expected: bool) -> None:
    assert is_secret(name) == expected


def test_secrets_of_what_was_added_are_shown_if_asked_for(disk: Path) -> None:
    append(disk, 53, config_record(BROKER, "1", "my.plugin.api.token", "hunter2"))
    assert "hunter2" not in command("--diff", "52", disk)
    assert "hunter2" in command("--diff", "52", "--show-secrets", disk)


# --- the next command -------------------------------------------------------------------------------------------------
def test_the_next_command_is_about_the_same_moment_and_what_could_be_read(disk: Path, tmp_path: Path) -> None:
    text = command("--at", "30", tmp_path / "nothing", f"{disk}/", status=3)
    assert f"kafkalog cluster --topic customers --at 30 {disk}/\n" in text
    assert f"As {disk}/{METADATA} shows it" in " ".join(text.split())


# --- history and differences ------------------------------------------------------------------------------------------
def test_the_history_of_a_topic() -> None:
    events = rows("cluster_event", "--history", "--topic", "orders", DEMO)
    assert [(row["offset"], row["event"], row["partition"]) for row in events] == [
        (17, "topic-created", None),
        (18, "config", None),
        (19, "partition-created", 0),
        (20, "partition-created", 1),
        (events[4]["offset"], "leader", 0),
        (events[5]["offset"], "leader", 1),
    ]
    assert events[4]["detail"].startswith("leader 1 -> -1, leader epoch 1; ISR 1 -> none; ELR none -> 1")
    every = rows("cluster_event", "--history", DEMO)
    assert {"quorum-leader", "voters", "feature", "controller", "broker", "broker-unfenced"} <= {
        row["event"] for row in every
    }
    assert [row["offset"] for row in every] == sorted(row["offset"] for row in every)
    assert [row for row in every if row["offset"] <= 16] == rows("cluster_event", "--history", "--at", "16", DEMO)


def test_what_each_record_changed(disk: Path) -> None:
    quota = {"entity": [{"entity_type": "user", "entity_name": None}], "key": "producer_byte_rate", "value": 5.0}
    append(
        disk,
        53,
        config_record(TOPIC, "orders", "retention.ms", "7"),
        config_record(TOPIC, "orders", "retention.ms", "8"),
        config_record(TOPIC, "orders", "retention.ms", None),
        encode_record("ClientQuotaRecord", 0, {**quota, "remove": False}),
        encode_record("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 31}),
    )
    details = [row["detail"] for row in rows("cluster_event", "--history", disk) if row["offset"] >= 53]
    assert details == [
        "retention.ms=7",
        "retention.ms=8 (was 7)",
        "retention.ms removed (was 8)",
        "user (default): producer_byte_rate 5",
        "metadata.version 31 (was 30)",
    ]


def test_differences_of_moments_and_of_disks(disk: Path) -> None:
    append(disk, 53, topic_record("new", 7), config_record(TOPIC, "orders", "internal.segment.bytes", "4000"))
    expected = [
        ("cluster_topic", "new", "added", None),
        ("cluster_config", "topic orders internal.segment.bytes", "changed", "value"),
    ]
    for other in ("52", DEMO):
        found = rows("cluster_difference", "--diff", other, disk)
        assert [(row["kind"], row["what"], row["change"], row["column"]) for row in found] == expected
    assert (found[1]["before"], found[1]["after"]) == ("3000", "4000")
    back = rows("cluster_difference", "--diff", disk, DEMO)
    assert [row["change"] for row in back] == ["removed", "changed"]
    assert rows("cluster_difference", "--diff", DEMO, DEMO) == []
    assert [row["what"] for row in rows("cluster_difference", "--topic", "new", "--diff", DEMO, disk)] == ["new"]


def test_the_first_line_says_what_changed(disk: Path) -> None:
    log = f"{DEMO}/{METADATA}"
    first = answer("--history", "--topic", "orders", DEMO)
    assert first == (
        f"6 CHANGES OF WHAT IS ASKED FOR in {log} from offset 0 to offset 52, 2026-11-21T08:43:47.331Z to "
        "2026-11-21T08:43:48.454Z: partition-created 2, leader 2, topic-created 1, config 1."
    )
    nothing = answer("--history", "--topic", "nothing", DEMO)
    assert nothing == f"NO CHANGE OF WHAT IS ASKED FOR is in {log} from offset 0 to offset 52."
    same = answer("--diff", DEMO, DEMO)
    assert same == f"NO DIFFERENCE between {log} up to offset 52 and {log} up to offset 52."
    append(disk, 53, topic_record("new", 7), config_record(TOPIC, "orders", "internal.segment.bytes", "4000"))
    changed = answer("--diff", DEMO, disk)
    assert changed == (
        f"2 CHANGES from {log} up to offset 52 to {disk}/{METADATA} up to offset 54: topic added 1, config changed 1."
    )
    path = disk / METADATA / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-5])
    for words in (("--history",), ("--diff", DEMO)):
        assert "WHAT COMES AFTER OFFSET 52 IS UNKNOWN" in answer(*words, disk)


def test_of_a_long_history_the_last_changes_are_shown(disk: Path) -> None:
    append(disk, 53, *(config_record(TOPIC, "orders", "retention.ms", str(number)) for number in range(2100)))
    text = command("--history", "--topic", "orders", disk)
    assert text.startswith("2106 CHANGES OF WHAT IS ASKED FOR")
    assert "the last 2,000 changes; --output ndjson has all" in text
    assert "retention.ms=99 (was 98)" not in text
    assert "retention.ms=2099 (was 2098)" in text
    assert len(rows("cluster_event", "--history", "--topic", "orders", disk)) == 2106


def test_of_several_files_none_is_chosen_silently(disk: Path, tmp_path: Path) -> None:
    log = disk / METADATA
    first = next(log.glob("*.checkpoint"))
    second = log / f"{40:020}-{1:010}.checkpoint"
    shutil.copy(first, second)
    done = CliRunner().invoke(cli, ["cluster", str(first), str(second)])
    assert done.exit_code == 3
    assert f"2 files are named ({first}, {second}), but an image comes from one of them" in done.stderr
    assert f"kafkalog cluster {log}" in done.stderr
    text = " ".join(command(DEMO, second).split())
    assert f"Not read here: {second}; the metadata log that is named is read instead." in text


def test_history_and_difference_are_two_questions() -> None:
    command("--history", "--diff", "1", DEMO, status=2)
    command("--at", "yesterday", DEMO, status=2)
    command("--diff", "1", "--broker", "1", DEMO, status=2)


@pytest.mark.parametrize("words", [("--topic", "a"), ("--show-secrets",), ("--history",)])
def test_options_that_do_nothing_for_a_script(words: tuple[str, ...]) -> None:
    command("--recreate", "shell", *words, DEMO, status=2)
    command("--assignments", *words, DEMO, status=2)
