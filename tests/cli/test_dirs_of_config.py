"""All log directories that a server.properties names count for every command that takes one: log.dirs or log.dir, and
metadata.log.dir. A server.properties of another broker is noticed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support import build
from tests.support.clusters import registered_record, topic_record, write_meta, write_metadata_log
from tests.support.truncating import MARK, RECOVERY, STARTS, WATERMARKS, write_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NODE = 7
LEVEL_OF_3_7 = 19
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FORMS = [
    "log.dirs={data}\nmetadata.log.dir={metadata}\n",
    "log.dirs={metadata}, {data}\n",
    "log.dir={data}\nmetadata.log.dir={metadata}\n",
    "log.dir={metadata}\n",  # the other one is named on the command line
]
COMMANDS: list[tuple[str, ...]] = [
    ("roll",),
    ("compact",),
    ("truncate", "--as-broker"),
    ("checkpoint",),
    ("reindex",),
]


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    """The log directory with the metadata log: the broker registered as one of release 3.7."""
    root = write_meta(tmp_path / "m", node=NODE)
    write_metadata_log(root, topic_record("t"), registered_record(NODE, level=LEVEL_OF_3_7))
    return root


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The log directory with a partition without partition.metadata, whose last segment has no index."""
    root = write_meta(tmp_path / "d", node=NODE)
    batches = {base: [build.batch_v2([build.Record(offset=base, timestamp_ms=1, value=b"v")])] for base in (0, 1)}
    partition = write_log(root / "t-0", batches)
    (partition / f"{1:020}.index").unlink()
    for top in (RECOVERY, WATERMARKS):
        (root / top).write_bytes(build.offset_checkpoint([("t", 0, 2)]))
    (root / STARTS).write_bytes(build.offset_checkpoint([]))
    (root / MARK).write_bytes(b"")
    return root


def config_of(tmp_path: Path, text: str, node: int = NODE, key: str = "node.id") -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"{key}={node}\n{text}")
    return path


def rows_of(*arguments: object) -> list[dict[str, object]]:
    given = [*map(str, arguments), "--output", "ndjson"]
    result = CliRunner().invoke(cli, given, prog_name="kafkalog", catch_exceptions=False)
    return [json.loads(line) for line in result.stdout.splitlines()]


def codes_of(rows: Sequence[dict[str, object]]) -> set[object]:
    return {row["code"] for row in rows if row["type"] == "finding"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_release_is_what_the_metadata_log_shows(
    tmp_path: Path, data: Path, metadata: Path, form: str, command: tuple[str, ...]
) -> None:
    config = config_of(tmp_path, form.format(data=data, metadata=metadata))
    alone, together = (
        next(row for row in rows_of(*command, *given, data) if row.get("release") is not None)
        for given in ((), ("--config", config))
    )
    assert "registered" not in str(alone["release_evidence"])
    assert together["release"] == "3.7"
    assert f"node {NODE} registered as one that knows metadata.version" in str(together["release_evidence"])


@pytest.mark.parametrize("form", FORMS)
def test_checkpoint_takes_what_is_lost_from_them(tmp_path: Path, data: Path, metadata: Path, form: str) -> None:
    config = config_of(tmp_path, form.format(data=data, metadata=metadata))
    (data / "meta.properties").unlink()
    for _ in range(2):  # the ids of the directory, and then those of its partitions
        assert "partition-metadata.no-id" not in codes_of(
            rows_of("checkpoint", "--config", config, "--apply", "--kafka", "3.7", data)
        )
    assert (data / "t-0" / "partition.metadata").read_text().split() == ["version:", "0", "topic_id:", TOPIC_ID]
    assert f"node.id={NODE}" in (data / "meta.properties").read_text()


@pytest.mark.parametrize("command", [("verify",), ("checkpoint",), ("truncate", "--as-broker")])
def test_another_node_id_is_noticed(tmp_path: Path, data: Path, metadata: Path, command: tuple[str, ...]) -> None:
    form = FORMS[0].format(data=data, metadata=metadata)
    own = rows_of(*command, "--config", config_of(tmp_path, form), data)
    assert "meta.other-node-of-config" not in codes_of(own)
    rows = rows_of(*command, "--config", config_of(tmp_path, form, node=8), data)
    (finding,) = [row for row in rows if row.get("code") == "meta.other-node-of-config"]
    assert finding["severity"] == "error"
    assert finding["file"] == f"{data}/meta.properties"
    assert finding["message"] == f"The node.id is 7, but {tmp_path}/server.properties has 8."
    assert rows[-1]["exit_status"] == 4


@pytest.mark.parametrize(("stored", "given", "is_other"), [(1, 1, False), (1, 2, True), (1, -1, False)])
def test_another_broker_id_with_zookeeper(tmp_path: Path, data: Path, stored: int, given: int, is_other: bool) -> None:
    """broker.id=-1: ZooKeeper gives the broker an id, which is only in meta.properties."""
    write_meta(data, node=stored, key="broker.id")
    rows = rows_of("verify", "--config", config_of(tmp_path, "", node=given, key="broker.id"), data)
    assert ("meta.other-node-of-config" in codes_of(rows)) is is_other


def test_directories_of_another_broker_are_not_evidence(tmp_path: Path, data: Path, metadata: Path) -> None:
    """The server.properties is of node 8, and the directories without an id of their own are its."""
    (metadata / "meta.properties").unlink()
    config = config_of(tmp_path, FORMS[0].format(data=data, metadata=metadata), node=8)
    (plan,) = [row for row in rows_of("checkpoint", "--config", config, data) if row["type"] == "plan"]
    assert "registered" not in str(plan["release_evidence"])
