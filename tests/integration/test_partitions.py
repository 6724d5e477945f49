"""Partitions of names and keys next to those of Kafka's own classes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random
from typing import Final

import pytest

from kafkalog_core.format.textfile import parse_uuid
from kafkalog_core.kafka.rules.partitioners import (
    java_hash,
    murmur2,
    partition_of_name,
    partition_of_remote_log,
    share_state_name,
)
from tests.support import jars

pytestmark = pytest.mark.java

_TOPIC_ID: Final = "5vYgz4rJSMa_FBhdeTtYEg"
_ALPHABET: Final = "abcXYZ0189-_. äßЖ日\U0001f600\U0010ffff"


def test_names_and_keys_have_the_partitions_of_kafkas_classes(libs: Path) -> None:
    random = Random(45)
    lines = ["polygenelubricants", "g1", "21", "foobar", "x"]
    lines += ["".join(random.choices(_ALPHABET, k=random.randrange(1, 40))) for _ in range(500)]
    source = Path(__file__).parent / "java" / "Partitions.java"
    command = ["java", *jars.QUICK, "-cp", f"{libs}/*", str(source), _TOPIC_ID]
    text = subprocess.run(command, input="\n".join(lines), stdout=subprocess.PIPE, check=True, text=True).stdout
    topic_id = parse_uuid(_TOPIC_ID)
    assert topic_id is not None
    found = [
        f"{java_hash(line)} {partition_of_name(line, 50)} {murmur2(line.encode())} "
        f"{partition_of_name(share_state_name(line, topic_id, number), 50)} "
        f"{partition_of_remote_log(topic_id, number, 50)}"
        for number, line in enumerate(lines)
    ]
    assert text.splitlines() == found
