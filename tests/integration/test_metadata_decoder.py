"""Every record of the metadata log, written by us, as Kafka's own dump tool reads it (--cluster-metadata-decoder)."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.batch_writer import NewRecord, encode_batch
from kafkalog_core.kafka.rules.metadata_rules import metadata_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.topics.metadata_records import encode_record
from kafkalog_core.topics.record_decoders import decoder_of, metadata_record_names
from tests.support import jars
from tests.support.metadata_samples import forms, sample

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.java
RELEASE = "4.3.1"
_PAYLOAD = re.compile(r"payload: (\{.*\})$", re.MULTILINE)


def test_the_stock_tool_reads_every_type_and_version(libs: Path, tmp_path: Path) -> None:
    rules = metadata_rules(parse_release(RELEASE))
    assert rules is not None
    kinds = {name: kind for kind, name in metadata_record_names().items()}
    known = [(name, version) for name, version in forms() if version <= rules.records.get(kinds[name], -1)]
    samples = [(name, version, sample(name, version, number)) for name, version in known for number in (1, 8)]
    values = [encode_record(*each) for each in samples]
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(encode_batch([NewRecord(None, value, 1795228300000) for value in values]))
    tool = ["java", "-Xmx256m", *jars.QUICK, "-cp", f"{libs}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command = [*tool, "--cluster-metadata-decoder", "--files", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    theirs = [json.loads(text) for text in _PAYLOAD.findall(done.stdout)]
    decode = decoder_of("__cluster_metadata")
    assert decode is not None
    ours = [decode(None, value).value for value in values]
    assert len(theirs) == len(ours) > 60
    for mine, other in zip(ours, theirs, strict=True):
        assert isinstance(mine, dict)
        assert (mine["version"], mine["data"]) == (other["version"], other["data"]), mine["name"]
        assert mine["name"].lower() + "record" == other["type"].replace("_", "").lower()
