"""`cluster --recreate`: a script that bash accepts, with what the tools need; resources that YAML reads."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.ops.cluster.recreate_shell import Volume, recreate_shell
from kafkalog_core.ops.cluster.recreate_strimzi import recreate_strimzi
from kafkalog_core.topics.cluster_image import (
    AclEntry,
    ClusterImage,
    PartitionRegistration,
    ScramCredential,
    TopicState,
)
from tests.support.transplanting import OLD_ID, Clusters

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

VOLUME = Volume("/var/lib/kafka\n# x", "1", "Rn0x_tOSTBuvm86_D7zf2g", None)


def acl(name: str, operation: int, **fields: Any) -> AclEntry:
    known = {"resource_type": 2, "pattern_type": 3, "principal": "User:ann", "host": "*", "permission_type": 3}
    return AclEntry(resource_name=name, operation=operation, **{**known, **fields})


@pytest.fixture
def image() -> ClusterImage:
    """A cluster with everything that can be made again, and names that a shell would take apart."""
    first, second = PartitionRegistration(replicas=(1, 2), isr=(1,)), PartitionRegistration(replicas=(2, 1), isr=(2,))
    alone = PartitionRegistration(replicas=(1,), isr=(1,))
    topics = {"Orders_1": {0: first, 1: second}, "a.b": {0: first}, "odd": {0: first, 1: alone}}
    ids = {name: name * 3 for name in topics}
    users = [("ann", 2, 8192), ("it's \\ $x", 1, 4096), ("odd\nname", 2, 4096)]
    return ClusterImage(
        topics={ids[name]: TopicState(name, ids[name], partitions) for name, partitions in topics.items()},
        topic_ids=ids,
        configs={
            (2, "Orders_1"): {"retention.ms": "-1", "odd.list": "a=b,c=[d]"},
            (4, ""): {"log.cleaner.threads": "2", "listener.name.x.ssl.keystore.password": "secret!"},
            (4, "1"): {"follower.replication.throttled.rate": "10"},
            (32, "g"): {"consumer.session.timeout.ms": "50000"},
            (16, "m"): {"metrics": "org.apache.kafka.a,b", "match": "client_id=x\\y é"},
        },
        users={
            (name, kind): ScramCredential(
                user=name, mechanism=kind, salt=b"", stored_key=b"k", server_key=b"k", iterations=count
            )
            for name, kind, count in users
        },
        quotas={
            (("user", "ann"),): {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
            (("client-id", None), ("user", None)): {"consumer_byte_rate": 2048.0},
            (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
        },
        acls={
            "1": acl("Orders_1", 3),
            "2": acl("Orders_1", 4),
            "3": acl("ord", 8, pattern_type=4, permission_type=2, host="10.0.0.1"),
            "4": acl("kafka-cluster", 12, resource_type=4),
            "5": acl("g'", 3, resource_type=3, principal="User:CN=tls"),
            "6": acl("bob", 14, resource_type=7),
            "7": acl("*", 8, principal="User:*"),
        },
        features={"metadata.version": 30},
    )


def shell(image: ClusterImage, **options: bool) -> str:
    return "".join(recreate_shell(image, [VOLUME], source="/disk", **options))


FAKE = r"""#!/usr/bin/env bash
printf '%s\0' "$@"
case " $* " in *add-config-file*) cat ;; esac
printf '\0\1'
"""
"""A tool that prints its arguments, and its input if it reads that."""


def commands(place: Path, script: str) -> list[list[str]]:
    """The arguments of what the script runs, and at the end the input of each tool."""
    for name in ("kafka-topics.sh", "kafka-configs.sh", "kafka-acls.sh"):
        (place / name).write_text(FAKE)
        (place / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", script, "recreate", "host:1"],
        input="pw one\np\\w2\npw3\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"PATH": f"{place}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("New password of ") == 3
    return [run[:-1].split("\0") for run in done.stdout.split("\1")[:-1]]


def test_the_script_runs_these_commands(tmp_path: Path, image: ClusterImage) -> None:
    """Each name is one word; values that a command line would change go through properties."""
    runs = commands(tmp_path, shell(image))
    plain = [" ".join(run[2:-1]) for run in runs]
    assert {tuple(run[:2]) for run in runs} == {("--bootstrap-server", "host:1")}
    assert plain[0] == (
        "--create --if-not-exists --topic Orders_1 --partitions 2 --replication-factor 2 --config retention.ms=-1"
    )
    assert runs[1][-1] == "odd.list=a\\=b,c\\=[d]\n"
    assert sum("--topic odd --partitions 2 --replication-factor 2" in each for each in plain) == 1
    properties = {run[-1] for run in runs}
    assert "match=client_id\\=x\\\\y \\u00e9\nmetrics=org.apache.kafka.a,b\n" in properties
    assert "producer_byte_rate=1024\nrequest_percentage=12.5\n" in properties
    assert "SCRAM-SHA-512=iterations=8192,password=pw one" in properties
    assert "SCRAM-SHA-256=iterations=4096,password=p\\\\w2" in properties
    names = [run[run.index("--entity-name") + 1] for run in runs if "users" in run and "--entity-name" in run]
    assert names == ["ann", "it's \\ $x", "odd\nname", "ann"]
    assert "--alter --entity-type users --entity-default --entity-type clients --entity-default" in "\n".join(plain)
    acls = [each for each in plain if each.startswith("--add")]
    assert (
        "--add --force --allow-principal User:ann --allow-host * --operation Read --operation Write --topic Orders_1"
        in acls
    )
    assert (
        "--add --force --deny-principal User:ann --deny-host 10.0.0.1 --operation Describe --topic ord "
        "--resource-pattern-type prefixed" in acls
    )
    assert len(acls) == 6


def test_no_secret_is_in_it(image: ClusterImage) -> None:
    """Secrets are named, to be set by hand; a name never ends a comment."""
    script = shell(image)
    assert "secret!" not in script
    assert "# set by hand, because they are secrets: listener.name.x.ssl.keystore.password" in script
    assert "# volume" in script
    assert "/var/lib/kafka?# x  1     Rn0x_tOSTBuvm86_D7zf2g  unknown\n" in script


def test_replicas_where_asked(image: ClusterImage) -> None:
    """Node by node; kafka-topics.sh takes one replication factor for all partitions of a topic."""
    script = shell(image, with_assignments=True)
    assert "--topic Orders_1 --replica-assignment 1:2,2:1 " in script
    assert "--topic odd --partitions 2 --replication-factor 2" in script
    assert "# its partitions have 1 to 2 replicas" in script


ANN = """---
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: "ann"
  labels:
    strimzi.io/cluster: "prod"
spec:
  # Strimzi makes a new password, in the Secret of this name
  authentication:
    type: scram-sha-512
  authorization:
    type: simple
    acls:
      - resource:
          type: topic
          name: "Orders_1"
          patternType: literal
        operations: [Read, Write]
        host: "*"
        type: allow
      - resource:
          type: topic
          name: "ord"
          patternType: prefix
        operations: [Describe]
        host: "10.0.0.1"
        type: deny
      - resource:
          type: cluster
        operations: [IdempotentWrite]
        host: "*"
        type: allow
  quotas:
    producerByteRate: 1024
    requestPercentage: 12.5
"""
ORDERS = """
  labels:
    strimzi.io/cluster: "prod"
spec:
  topicName: "Orders_1"
  partitions: 2
  replicas: 2
  config:
    "odd.list": "a=b,c=[d]"
    "retention.ms": "-1"
"""


def test_resources_of_strimzi(image: ClusterImage) -> None:
    """Topics by their own names, users with ACLs and quotas; what has no resource is named."""
    text = "".join(recreate_strimzi(image, [VOLUME], source="/disk", name="prod"))
    assert ANN in text
    assert ORDERS in text
    assert text.count("kind: KafkaTopic\n") == 3
    assert text.count("kind: KafkaUser\n") == 2
    assert 'name: "orders-1-' in text
    assert 'name: "tls"\n  labels:\n    strimzi.io/cluster: "prod"\nspec:\n  authentication:\n    type: tls\n' in text
    left = text.partition("Not in these resources")[2]
    for what in ("odd?name", "SCRAM-SHA-256", "User:*", "2 quotas", "1 ACL on", "4 resources with settings"):
        assert what in left, what


def test_an_empty_cluster() -> None:
    assert commands_count(ClusterImage()) == 0
    assert "---" not in "".join(recreate_strimzi(ClusterImage(), [], source="/disk"))


def commands_count(image: ClusterImage) -> int:
    return "".join(recreate_shell(image, [], source="/disk")).count("\ntool kafka-")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["cluster", *map(str, arguments)])


def test_the_command_on_disks_of_a_real_cluster(tmp_path: Path) -> None:
    """Topics with the settings that kafka-topics.sh printed, and whose each volume is."""
    clusters = Clusters(tmp_path)
    done = run("--recreate", "shell", "--assignments", clusters.old(1), clusters.old(2))
    assert done.exit_code == 0
    made = dict(re.findall(r"--topic (\S+) --replica-assignment (\S+)", done.stdout))
    assert made.keys() == clusters.topic_ids.keys()
    assert made["orders"] == "2:3:1,3:1:2"  # as kafka-topics.sh printed
    assert f"# {clusters.old(2)}  2     FDB1qGDy2JePJVYrUYr3vg  {OLD_ID}\n" in done.stdout
    assert run("--recreate", "strimzi", clusters.old(1)).stdout.count("kind: KafkaTopic\n") == len(made)


def test_a_damaged_log_is_reported(tmp_path: Path) -> None:
    """The script has what is before the damage, and says that it is not all."""
    clusters = Clusters(tmp_path)
    log = clusters.old(1) / "__cluster_metadata-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    done = run("--recreate", "shell", clusters.old(1))
    assert done.exit_code == 4
    assert "It is not whole" in done.stdout
    assert "It is not whole" in done.stderr
    assert "--topic orders " in done.stdout


def test_one_question_at_a_time() -> None:
    assert run("--recreate", "shell", "--history", "fixtures/demo").exit_code == 2
    assert run("--recreate", "shell", "--output", "json", "fixtures/demo").exit_code == 2
