"""`kafkalog zookeeper`: the first line answers, rows have everything, secrets are hidden unless they are asked for."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.znodes import unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

Row = dict[str, Any]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["zookeeper", *map(str, arguments)])


def rows(*arguments: object) -> list[Row]:
    done = run("--ndjson", *arguments)
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_type(found: list[Row], name: str) -> list[Row]:
    return [row for row in found if row["type"] == name]


@pytest.fixture
def secured(tmp_path: Path) -> Path:
    return unpacked("kafka-3.9.2", tmp_path)


def test_the_first_line_answers(secured: Path) -> None:
    answer = run(secured / "data").stdout.partition("\n\n")[0]
    assert " ".join(answer.split()) == (
        "RESTORABLE up to zxid 0x82 of 2026-11-30T07:59:11.694Z; cluster Nxx5RAv0QBqUAHs4pxv0Ew at /kafka/prod: "
        "1 broker alive (1), controller 1 (epoch 1), 2 topics, 5 partitions."
    )


def test_what_is_missing_comes_first(tmp_path: Path) -> None:
    directory = unpacked("groups-0.8.2.2", tmp_path)
    (directory / "version-2" / "snapshot.99").unlink()
    (directory / "version-2" / "log.6a").unlink()
    done = run(directory)
    assert done.exit_code == 4
    assert done.stdout.startswith("NOT RESTORABLE: 49 transactions before zxid 0xb2 of ")
    assert f"next: kafkalog zookeeper {directory} OTHER_DATA_DIR" in done.stdout
    (found,) = of_type(rows(directory), "zookeeper")
    assert (found["can_be_restored"], found["missing"]) == (False, 49)


def test_a_server_that_does_not_start_comes_first(secured: Path) -> None:
    """Its logs have every transaction; ZooKeeper 3.5.4 and later want a snapshot."""
    for snapshot in (secured / "data" / "version-2").glob("snapshot.*"):
        snapshot.write_bytes(snapshot.read_bytes()[:20])
    done = run(secured / "data")
    assert done.exit_code == 4
    answer = " ".join(done.stdout.partition("\n\n")[0].split())
    assert answer.startswith("RESTORABLE up to zxid 0x82")
    assert "NO SNAPSHOT CAN BE USED" in answer


def test_rows_have_the_whole_tree(secured: Path) -> None:
    found = rows(secured / "data")
    (cluster,) = of_type(found, "zookeeper")
    assert cluster["brokers"]["1"]["rack"] == "r1"
    assert (cluster["users"], cluster["acls"], cluster["configs"], cluster["digest_is_equal"]) == (2, 5, 6, True)
    nodes = {row["path"]: row for row in of_type(found, "znode")}
    assert len(nodes) == cluster["znodes"]
    broker = nodes["/kafka/prod/brokers/ids/1"]
    assert (broker["lifetime"], broker["meaning"], broker["czxid"]) == ("ephemeral", "broker", 30)
    assert broker["fields"]["endpoints"] == ["PLAINTEXT://127.0.0.1:29502"]


def test_secrets_are_hidden_unless_they_are_asked_for(secured: Path) -> None:
    alice = "/kafka/prod/config/users/alice"
    for arguments in ((secured / "data",), ("--get", alice, secured / "data"), ("--history", alice, secured / "data")):
        for form in ("table", "ndjson", "csv"):
            shown = run("--output", form, *arguments).stdout
            assert "alice" in shown
            assert "stored_key=" not in shown.replace("stored_key=(hidden)", "")
    assert "stored_key=(hidden)" not in run("--show-secrets", "--get", alice, secured / "data").stdout


def test_one_node(secured: Path) -> None:
    text = run("--get", "kafka/prod/controller/", secured / "data").stdout
    assert "ephemeral, of session 0x" in text
    assert 'bytes: {"version":2,"brokerid":1,' in text
    done = run("--get", "/kafka/prod/controler", secured / "data")
    assert done.exit_code == 3
    assert "there is no node /kafka/prod/controler (is /kafka/prod/controller" in done.stderr


def test_the_history_of_a_node(secured: Path) -> None:
    found = of_type(rows("--history", "/kafka/prod/brokers/topics/gone", secured / "data"), "znode_change")
    assert [(row["change"], row["path"].rpartition("gone")[2]) for row in found] == [
        ("created", ""),
        ("created", "/partitions"),
        ("created", "/partitions/0"),
        ("created", "/partitions/0/state"),
        ("set", "/partitions/0/state"),
        ("deleted", "/partitions/0/state"),
        ("deleted", "/partitions/0"),
        ("deleted", "/partitions"),
        ("deleted", ""),
    ]
    assert run("--history", "/nothing", secured / "data").exit_code == 3


def test_what_changed_since_a_moment_or_between_two_directories(secured: Path, tmp_path: Path) -> None:
    found = of_type(rows("--diff", "0x1e", "--under", "/kafka/prod/config/topics", secured / "data"), "znode_change")
    assert [(row["change"], row["path"]) for row in found] == [
        ("created", "/kafka/prod/config/topics/orders"),
        ("created", "/kafka/prod/config/topics/payments"),
    ]
    same = run("--diff", secured / "data", secured / "data").stdout
    assert same.startswith("NO DIFFERENCE")
    migrating = unpacked("migrating-3.9.2", tmp_path) / "data"
    text = run("--diff", secured / "data", "--under", "/kafka/prod/migration", migrating).stdout
    assert text.startswith("1 node differs: 1 created.")


def test_the_tree_at_a_moment(secured: Path) -> None:
    (found,) = of_type(rows("--at", "0x1e", secured / "data"), "zookeeper")
    assert (found["last_zxid"], found["topics"]) == (0x1E, 0)
    assert run("--at", "yesterday evening", secured / "data").exit_code == 2
    assert run("--at", "0xyz", secured / "data").exit_code == 2
    assert run("--at", "2001-01-01", secured / "data").exit_code == 3


def test_the_cluster_id_is_that_of_meta_properties(secured: Path) -> None:
    assert "the cluster id is that of meta.properties in" in run(secured / "data", secured / "logdir").stdout
    file = secured / "logdir" / "meta.properties"
    file.write_text(file.read_text().replace("Nxx5RAv0QBqUAHs4pxv0Ew", "J7uHl5JGSxWCqb4unebxMQ"))
    done = run(secured / "data", secured / "logdir")
    assert done.exit_code == 4
    assert "A LOG DIRECTORY IS OF ANOTHER CLUSTER" in " ".join(done.stdout.partition("\n\n")[0].split())
    assert "zookeeper.other-cluster: The log directory has cluster.id J7uHl5JGSxWCqb4unebxMQ" in " ".join(
        done.stdout.split()
    )
    only = run(secured / "logdir")
    assert (only.exit_code, "name the dataDir" in only.stderr) == (3, True)


def test_the_servers_of_an_ensemble(tmp_path: Path) -> None:
    ensemble = unpacked("ensemble-2.8.2", tmp_path)
    found = rows(*(ensemble / f"server.{number}" for number in (3, 1, 2)))
    assert [(row["server_id"], row["epoch"], row["is_read"]) for row in of_type(found, "zookeeper_server")] == [
        (3, 1, False),
        (1, 2, True),
        (2, 2, False),
    ]
    assert [row["code"] for row in of_type(found, "finding")] == ["zookeeper.behind"]
    alone = of_type(rows(ensemble / "server.3"), "zookeeper")
    assert [row["topics"] for row in alone] == [2]


def test_a_server_that_is_named_twice_counts_once(secured: Path) -> None:
    (tree, *_) = rows(secured / "data", secured / "data" / "version-2")
    assert tree["type"] == "zookeeper"


def test_the_next_commands_find_their_nodes_in_the_same_tree(secured: Path) -> None:
    moments: tuple[tuple[str, ...], ...] = ((), ("--at", "0x1"), ("--txn-log-dir", str(secured / "data")))
    for words in moments:
        lines = run(*words, secured / "data").stdout.splitlines()
        commands = [shlex.split(line.partition(": kafkalog zookeeper ")[2]) for line in lines if ": kafkalog " in line]
        assert len(commands) == 2
        for command in commands:
            assert set(words) <= set(command)
            assert run(*command).exit_code == 0, command


def test_who_should_own_what(tmp_path: Path) -> None:
    directory = unpacked("groups-0.8.2.2", tmp_path)
    found = of_type(rows("--rebalance", "zklive", directory), "zookeeper_owner")
    assert [(row["partition"], row["expected"], row["owner"], row["state"]) for row in found] == [
        ("0", "zklive_c1-0", "zklive_c1-0", "ok"),
        ("1", "zklive_c2-0", "zklive_c2-0", "ok"),
    ]
    assert run("--rebalance", "zklive", directory).stdout.startswith("EVERY PARTITION HAS ITS OWNER")
    owned = rows("--rebalance", "zkgrp1", directory)
    assert of_type(owned, "zookeeper_owner") == []
    done = run("--rebalance", "zkliv", directory)
    assert (done.exit_code, "is zklive meant?" in done.stderr) == (3, True)
    seven = of_type(rows("--rebalance", "zklive", unpacked("k07-0.7.2", tmp_path)), "zookeeper_owner")
    assert [(row["partition"], row["state"]) for row in seven] == [("0-0", "ok")]


def test_a_rebalance_that_was_not_finished_is_seen(tmp_path: Path) -> None:
    """Before the second consumer came, the first one owned everything."""
    directory = unpacked("groups-0.8.2.2", tmp_path)
    joined = next(
        row["zxid"]
        for row in of_type(rows("--history", "/consumers/zklive/ids/zklive_c2", directory), "znode_change")
        if row["change"] == "created"
    )
    found = of_type(rows("--rebalance", "zklive", "--at", hex(joined), directory), "zookeeper_owner")
    assert [row["state"] for row in found] != ["ok", "ok"]
    assert run("--rebalance", "zklive", "--at", hex(joined), directory).stdout.startswith("NOT AS THE CONSUMERS")


def test_options_that_exclude_each_other(secured: Path) -> None:
    assert run("--tree", "--get", "/", secured / "data").exit_code == 2
    assert run("--txn-log-dir", secured, secured / "data", secured / "data2").exit_code == 2
    assert run("--get", "/", "--under", "/a", secured / "data").exit_code == 2


def test_a_directory_of_servers_names_the_command_with_all_of_them(secured: Path) -> None:
    shutil.copytree(secured / "data", secured.parent / "all" / "2")
    done = run("--tree", secured.parent / "all")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (3, f"  kafkalog zookeeper --tree {secured.parent}/all/2")


def test_logs_that_are_elsewhere_are_asked_for(secured: Path) -> None:
    elsewhere = secured / "log-dir" / "version-2"
    elsewhere.mkdir(parents=True)
    for log in (secured / "data" / "version-2").glob("log.*"):
        log.rename(elsewhere / log.name)
    answer = " ".join(run(secured / "data").stdout.partition("\n\n")[0].split())
    assert answer.endswith("NO TRANSACTION LOG IS HERE: name dataLogDir too, with --txn-log-dir.")
    answer = run("--txn-log-dir", elsewhere.parent, secured / "data").stdout.partition("\n\n")[0]
    assert "zxid 0x82" in answer
    assert "NO TRANSACTION LOG" not in answer


def test_other_directories_are_refused_in_a_sentence(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.exit_code, "no snapshot and no transaction log of ZooKeeper" in done.stderr) == (3, True)
    assert "no such file or directory" in run(tmp_path / "none").stderr
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"")
    for name in ("fifo", "file"):
        assert "not a directory; name dataDir" in run(tmp_path / name).stderr
    (tmp_path / "loop").symlink_to("loop")
    assert "lead in a circle" in run(tmp_path / "loop").stderr


def test_a_subtree_alone(tmp_path: Path) -> None:
    data = unpacked("3.8.4", tmp_path) / "data"
    text = run("--under", "/odd", "--tree", data).stdout
    assert text.splitlines()[0] == "7 nodes."
