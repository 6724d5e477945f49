"""Names, values and data that would steer a terminal, forge a line, or are secret, in every form of every answer."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.format.zookeeper.jute import Acl
from kafkalog_core.format.zookeeper.snapshots import Znode, decode_snapshot, encode_snapshot
from kafkalog_core.topics.metadata_records import encode_record
from tests.support import build

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIXTURES: Final = Path(__file__).parents[3] / "fixtures"
ENSEMBLE: Final = FIXTURES / "ensemble"
METADATA: Final = "__cluster_metadata-0"
EVIL: Final = "e\x1b[2J\x9b31m\r\nFORGED\t\x07\u202e'$(x)`\\\",;"
"""Sequences of a terminal, a line of its own, another direction of writing, and what shells and CSV read."""
SECRETS: Final = ("hunter2", "c2FsdHNhbHQ", "c3RvcmVk", "c2VydmVy", "RGlnZXN0T2Y")
"""A password, and in base64 the salt and the keys of a user, and the digest in an ACL of ZooKeeper."""
CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
OF_IMAGE: Final = (
    (),
    ("--config", "--acls", "--users"),
    ("--topic", "*"),
    ("--broker", "1"),
    ("--history",),
    ("--diff", "52"),
)
OF_TREE: Final = (
    (),
    ("--tree",),
    ("--get", f"/kafka/prod/config/topics/{EVIL}", "--get", "/kafka/prod/config/users/alice"),
    ("--history", "/kafka/prod/config"),
    ("--diff", str(ENSEMBLE)),
)


def output(command: str, *words: object, status: int = 0) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, [command, *map(str, words)], catch_exceptions=False)
    assert done.exit_code == status, done.output
    assert not CONTROLS.search(done.stderr), done.stderr
    return done.stdout


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The metadata log of a real broker, and records with such texts everywhere."""
    log_dir = Path(shutil.copytree(FIXTURES / "demo", tmp_path / "kafka"))
    records = [*_records()]
    batch = build.batch_v2(
        [
            build.Record(offset=53 + number, timestamp_ms=1795228300000, key=None, value=encode_record(*record))
            for number, record in enumerate(records)
        ],
        leader_epoch=1,
    )
    path = log_dir / METADATA / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + batch)
    return log_dir


def _records() -> Iterator[tuple[str, int, dict[str, Any]]]:
    yield "TopicRecord", 0, {"name": EVIL, "topic_id": bytes(15) + b"\7"}
    for name, value in ((EVIL, EVIL), ("my.plugin.api.token", "hunter2")):
        for kind, resource in ((2, EVIL), (2, "orders"), (4, "1"), (32, EVIL)):
            yield (
                "ConfigRecord",
                0,
                {"resource_type": kind, "resource_name": resource, "name": name, "value": value},
            )
    acl = {"id": bytes(15) + b"\x08", "resource_type": 2, "resource_name": EVIL, "pattern_type": 3, "host": EVIL}
    yield "AccessControlEntryRecord", 0, {**acl, "principal": f"User:{EVIL}", "operation": 3, "permission_type": 3}
    entity = [{"entity_type": "user", "entity_name": EVIL}]
    yield "ClientQuotaRecord", 0, {"entity": entity, "key": EVIL, "value": 5.0, "remove": False}
    user = {"name": EVIL, "mechanism": 1, "salt": b"saltsalt", "stored_key": b"stored", "server_key": b"server"}
    yield "UserScramCredentialRecord", 0, {**user, "iterations": 4096}
    token = {"owner": EVIL, "requester": EVIL, "renewers": [EVIL], "token_id": EVIL}
    times = {"issue_timestamp": 1, "max_timestamp": 2, "expiration_timestamp": 2}
    yield "DelegationTokenRecord", 0, {**token, **times}
    yield "FeatureLevelRecord", 0, {"name": EVIL, "feature_level": 1}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The tree of a real ensemble, and nodes with such names, data and ACLs."""
    directory = tmp_path / "zk" / "version-2"
    directory.mkdir(parents=True)
    snapshot = decode_snapshot(memoryview((ENSEMBLE / "version-2" / "snapshot.59").read_bytes()))
    snapshot.digest = None
    nodes = snapshot.nodes
    number = max(snapshot.acls) + 1
    digest = f"{EVIL}:RGlnZXN0T2Y="
    snapshot.acls[number] = (Acl(31, "digest", digest), Acl(31, "sasl", EVIL), Acl(31, EVIL, EVIL))
    like = nodes["/kafka/prod/config/topics/orders"]

    def put(path: str, data: object) -> None:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        node = Znode(text.encode(), like.packed)
        node.set_stat(like.stat._replace(acl_id=number))
        nodes[path] = node

    settings = {"version": 1, "config": {EVIL: EVIL, "my.plugin.api.token": "hunter2"}}
    scram = "salt=c2FsdHNhbHQ=,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"
    put(f"/kafka/prod/config/topics/{EVIL}", settings)
    put("/kafka/prod/config/brokers/1", settings)
    put("/kafka/prod/config/users/alice", {"version": 1, "config": {"SCRAM-SHA-256": scram}})
    put(f"/kafka/prod/brokers/topics/{EVIL}", {"version": 2, "partitions": {"0": [1]}, "topic_id": EVIL})
    put(f"/kafka/prod/{EVIL}", EVIL)
    put(f"/kafka/prod/consumers/{EVIL}/offsets/{EVIL}/0", EVIL)
    acl = {"principal": f"User:{EVIL}", "permissionType": "Allow", "operation": "Read", "host": EVIL}
    put(f"/kafka/prod/kafka-acl/Topic/{EVIL}", {"version": 1, "acls": [acl]})
    (directory / "snapshot.82").write_bytes(encode_snapshot(snapshot))
    return directory.parent


def check(form: str, text: str) -> None:
    """Nothing steers the terminal, no line is forged, and programs can read it."""
    if form == "csv":  # a field may have a tab and a newline, in quotes
        assert not CONTROLS.search(text.replace("\r", ""))
        header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        assert {len(line) for line in lines} == {len(header)}
        return
    assert not CONTROLS.search(text)
    if form == "table":
        assert "\u202e" not in text
        assert "\t" not in text
        assert not re.search(r"(?m)^\W*FORGED", text)
    elif form == "json":
        json.loads(text)
    else:
        for line in text.splitlines():
            json.loads(line)


def answers(command: str, questions: Sequence[tuple[str, ...]], *paths: Path) -> Iterator[tuple[str, str]]:
    """The form and the text of each answer."""
    for words in questions:
        for form in ("table", "ndjson", "json", "csv"):
            yield form, output(command, *words, "--output", form, *paths)


def test_what_no_text_of_a_metadata_log_does(disk: Path) -> None:
    found = [*answers("cluster", OF_IMAGE, disk)]
    for form, text in found:
        check(form, text)
        assert not [secret for secret in SECRETS if secret in text]
    assert sum("FORGED" in text for _, text in found) > 20
    shown = output("cluster", "--show-secrets", "--config", "--users", disk)
    assert "hunter2" in shown
    assert "c2FsdHNhbHQ" in shown


def test_what_no_text_of_a_tree_does(tree: Path) -> None:
    of_cluster = (*OF_IMAGE[:4], ("--diff", str(ENSEMBLE)))
    found = [*answers("zookeeper", OF_TREE, tree), *answers("cluster", of_cluster, tree)]
    for form, text in found:
        check(form, text)
        assert not [secret for secret in SECRETS if secret in text], text
    assert sum("FORGED" in text for _, text in found) > 20
    shown = output("zookeeper", "--show-secrets", "--output", "ndjson", tree)
    assert not [secret for secret in SECRETS if secret not in shown]


@pytest.mark.parametrize("form", ["shell", "strimzi"])
def test_what_builds_the_cluster_again_is_only_that(form: str, disk: Path, tree: Path, tmp_path: Path) -> None:
    for path in (disk, tree):
        text = output("cluster", "--recreate", form, path)
        assert not CONTROLS.search(text.replace("\t", ""))
        assert not re.search(r"(?m)^\W*FORGED", text)
        assert not [secret for secret in SECRETS if secret in text]
        assert "my.plugin.api.token" in text or form == "strimzi"
        if form == "strimzi":
            continue
        # Programs that print their arguments replace Kafka's: no text is read as a command.
        for name in ("kafka-topics.sh", "kafka-configs.sh", "kafka-acls.sh"):
            (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
            (tmp_path / name).chmod(0o755)
        done = subprocess.run(
            ["bash", "-c", text, "recreate", "host:1"],
            input=b"x\n" * 9,
            capture_output=True,
            check=False,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        )
        assert done.returncode == 0, done.stderr
        assert EVIL.encode() in done.stdout.split(b"\0")
        assert not CONTROLS.search(done.stderr.decode())
