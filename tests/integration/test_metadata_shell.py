"""Snapshots of real controllers: `kafkalog cluster` has of them what Kafka's own metadata shell shows, value by value.

The shell is `org.apache.kafka.shell.MetadataShell` of 4.3.1; its tree has a file for each value.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tarfile
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.broker import Broker
from tests.integration.describing import SETTING_UP, TOOL, run_script
from tests.integration.quorums import wait_for
from tests.integration.records import KAFKALOG
from tests.support import jars
from tests.support.corpus import archives

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

_SECONDS: Final = 120
_SNAPSHOT: Final = re.compile(r"__cluster_metadata-0/0*[1-9]\d*-\d{10}\.checkpoint$")
_CONFIG_TYPES: Final = {"client-metrics": "CLIENT_METRICS"}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def shell() -> Path:
    try:
        return jars.fetch_shell()
    except jars.MissingError as missing:
        pytest.skip(str(missing))


def shown_by_kafka(libs: Path, snapshot: Path) -> dict[str, str]:
    """The text of each file in the tree of the shell, by its path."""
    options = [*jars.QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    program = ["org.apache.kafka.shell.MetadataShell", "--snapshot", str(snapshot), "tree", "/image"]
    done = subprocess.run(
        ["java", *options, "-cp", f"{libs}/*", *program],
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    found: dict[str, str] = {}
    path: list[str] = []
    for line in done.stdout.splitlines():
        depth = (len(line) - len(line.lstrip(" "))) // 2
        path = path[:depth]
        text = line.strip(" ")
        if text.endswith(":"):
            path.append(text[:-1])
        else:
            found["/".join(path)] = text
    return found


def shown_by_kafkalog(snapshot: Path) -> dict[str, str]:
    """The same, of the rows of the image."""
    command = [*KAFKALOG, "cluster", "--show-secrets", "--output", "json", str(snapshot)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS)
    rows: dict[str, list[Row]] = {}
    for row in json.loads(done.stdout):
        rows.setdefault(row["type"], []).append(row)
    return dict(_texts(rows))


def _texts(rows: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, str]]:
    yield from _security(rows)
    yield from _nodes(rows)
    for row in rows["cluster_config"]:
        kind = _CONFIG_TYPES.get(row["resource_type"], row["resource_type"].upper())
        yield f"configs/{kind}{':' if row['resource'] else ''}{row['resource']}/{row['name']}", row["value"]
    for row in rows["cluster_feature"]:
        if row["name"] not in {"metadata.version", "kraft.version"}:
            yield f"features/finalized_{row['name']}", str(row["level"])
    (cluster,) = rows["cluster"]
    # Before a broker asks for its first block of ids, Kafka's image has -1 (ProducerIdsImage.EMPTY).
    yield "producerIds/nextProducerId", str(cluster["next_producer_id"] or -1)
    yield from _topics(rows)


def _security(rows: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, str]]:
    for row in rows.get("cluster_acl", ()):
        fields = {
            "resourceType": row["resource_type"],
            "resourceName": row["resource"],
            "patternType": row["pattern_type"],
            "principal": row["principal"],
            "host": row["host"],
            "operation": row["operation"],
            "permissionType": row["permission"],
        }
        yield f"acls/byId/{row['acl_id']}", f"StandardAcl[{_joined(fields)}]"
    names = {"client-id": "clientId"}
    for row in rows.get("cluster_quota", ()):
        if None not in row["entity"].values():  # the shell does not find the nodes of defaults
            entity = "_".join(f"{names.get(kind, kind)}({name})" for kind, name in sorted(row["entity"].items()))
            yield f"clientQuotas/{entity}/{row['name']}", str(row["value"])
    for row in rows.get("cluster_user", ()):
        keys = {"salt": "salt", "storedKey": "stored_key", "serverKey": "server_key"}
        fields = {name: base64.b64decode(row[key]).hex() for name, key in keys.items()}
        data = _joined(fields | {"iterations": row["iterations"]})
        yield f"scram/{row['mechanism']}/{row['user']}", f"ScramCredentialData({data})"


def _nodes(rows: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, str]]:
    for row in rows["cluster_broker"]:
        fields = {"id": row["node_id"], "epoch": row["epoch"], **_node(row)}
        fields["rack"] = "Optional.empty" if row["rack"] is None else f"Optional[{row['rack']}]"
        fields |= {"fenced": row["is_fenced"], "inControlledShutdown": row["in_controlled_shutdown"]}
        fields |= {"isMigratingZkBroker": False, "directories": row["log_dirs"]}
        fields["cordonedDirectories"] = "null" if row["cordoned_log_dirs"] is None else row["cordoned_log_dirs"]
        yield f"cluster/brokers/{row['node_id']}", f"BrokerRegistration({_joined(fields)})"
    for row in rows["cluster_controller"]:
        if row["features"]:
            known = _node(row)
            fields = {"id": row["node_id"], "incarnationId": known.pop("incarnationId"), "zkMigrationReady": False}
            yield f"cluster/controllers/{row['node_id']}", f"ControllerRegistration({_joined(fields | known)})"


def _topics(rows: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, str]]:
    for row in rows["cluster_topic"]:
        for place in (f"topics/byId/{row['topic_id']}", f"topics/byName/{row['topic']}"):
            yield f"{place}/id", row["topic_id"]
            yield f"{place}/name", row["topic"]
    for row in rows["cluster_partition"]:
        fields = {
            "replicas": row["replicas"],
            "directories": row["directories"],
            "isr": row["isr"],
            "removingReplicas": row["removing"],
            "addingReplicas": row["adding"],
            "elr": row["elr"],
            "lastKnownElr": row["last_known_elr"],
            "leader": row["leader"],
            "leaderRecoveryState": "RECOVERING" if row["is_recovering"] else "RECOVERED",
            "leaderEpoch": row["leader_epoch"],
            "partitionEpoch": row["partition_epoch"],
        }
        for place in (f"topics/byId/{row['topic_id']}", f"topics/byName/{row['topic']}"):
            yield f"{place}/{row['partition']}", f"PartitionRegistration({_joined(fields)})"


def _node(row: Row) -> dict[str, object]:
    listeners = [
        f"Endpoint(listenerName='{each['name']}', securityProtocol={each['protocol']}, host='{each['host']}', "
        f"port={each['port']})"
        for each in row["listeners"]
    ]
    features = [f"{name}: {lowest}-{highest}" for name, (lowest, highest) in sorted(row["features"].items())]
    return {
        "incarnationId": row["incarnation_id"],
        "listeners": listeners,
        "supportedFeatures": f"{{{', '.join(features)}}}",
    }


def _joined(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in fields.items())


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def compare(libs: Path, snapshot: Path) -> int:
    expected = shown_by_kafka(libs, snapshot)
    while expected["provenance"].startswith("offset -1,"):  # the shell does not wait for its loader
        expected = shown_by_kafka(libs, snapshot)
    # The version has a name there, and the records of a snapshot are counted from its own start.
    assert expected.pop("features/metadataVersion").startswith("Optional[")
    del expected["provenance"]
    assert shown_by_kafkalog(snapshot) == expected
    return len(expected)


def test_snapshots_of_the_corpus(shell: Path, tmp_path: Path) -> None:
    sizes = []
    for archive in archives.archives(archives.source()):
        # The shell of 4.3.1 ends at a record that only a later release knows.
        if archive.parent.name != "modern" or "-4.4" in archive.name or "08-internal" not in archive.name:
            continue
        with tarfile.open(archive) as tar:
            members = [member for member in tar if _SNAPSHOT.search(member.name)]
            tar.extractall(tmp_path, members, filter="data")
        sizes += [compare(shell, tmp_path / member.name) for member in members]
    assert len(sizes) >= 2
    assert max(sizes) > 50


def test_a_snapshot_with_all_that_an_administrator_makes(shell: Path, libs: Path, tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "metadata.log.max.record.bytes.between.snapshots": "500",
    }
    with closing(type("Guarded", (Broker,), {"extra": settings})(libs, tmp_path)) as broker:
        broker.start()
        run_script(broker, f"{TOOL}set -e{SETTING_UP}")
        metadata_dir = broker.log_dir / "__cluster_metadata-0"
        wait_for(lambda: _has_all(metadata_dir), "no snapshot has the last ACL")
        broker.stop()
    assert compare(shell, max(metadata_dir.glob("*.checkpoint"))) > 50


def _has_all(metadata_dir: Path) -> bool:
    return b"tx 1" in max(metadata_dir.glob("*.checkpoint")).read_bytes()
