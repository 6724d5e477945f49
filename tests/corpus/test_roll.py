"""Segments, offset and time indexes of real brokers are those that their settings give when the batches are appended.

Each batch is one append here. Producers of magic 2 sent one batch a request; of magic 0 and 1 each message is a batch
here and a broker appended whole sets: those logs are in `roll_differences.txt`, as are restarts and other histories
that the log itself does not tell.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.kafka.rules.append import Appender, limits_of
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import append_rules
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.rules.setting_table import known_names
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.ops.roll.forecast import LogDamage, log_runs
from kafkalog_core.storage.partition import read_partition
from tests.corpus import verifying
from tests.support.appending import Kept
from tests.support.corpus import archives

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.corpus

_STAGES = re.compile(r"/(fmt-[^/]*/final|clean-[^/]*/before|txn-[^/]*/produced|(08|10|11)-[^/]*)/logdir/")
"""Written in one session of one broker that was a leader: nothing was cleaned, no broker fell."""
_SERVED = re.compile(r"(?!__).*-\d+")
"""Of clients' topics; where one was deleted its indexes are as large as they were made."""
_CREATED = re.compile(r"create topic (\S+) partitions=\d+ (\{.*\})")
LINES = verifying.lines("roll_differences.txt", 3)


@dataclass(frozen=True, slots=True)
class Real:
    """A partition as its broker left it, before anything was cleaned or deleted."""

    path: str
    release: str
    config: dict[str, str]
    topic_config: dict[str, Any]

    @property
    def id(self) -> str:
        """Name of the test, and of lines in the list."""
        return self.path


def _reals() -> Iterator[Real]:
    contents = archives.contents(archives.source())
    logs = {str(PurePosixPath(path).parent) for path in contents.files if path.endswith(f"/{0:020d}.log")}
    for sheet, text in sorted(contents.texts.items()):
        case = str(PurePosixPath(sheet).parent)
        facts = json.loads(text) if sheet.endswith("/case.json") else {}
        for path in sorted(logs):
            name = PurePosixPath(path).name
            if not path.startswith(f"{case}/") or not _STAGES.search(path) or not _SERVED.fullmatch(name):
                continue
            configs = facts.get("broker_configs") or [{"config": {}}]
            yield Real(path, facts["kafka"], configs[0]["config"], _topic_config(facts, name.rpartition("-")[0]))


def _topic_config(facts: dict[str, Any], topic: str) -> dict[str, Any]:
    if "topic_configs" in facts:
        return {k: v for k, v in facts["topic_configs"].get(topic, {}).items() if k in set(known_names())}
    steps = [
        match
        for step in facts.get("steps", [])
        if isinstance(step, str) and (match := _CREATED.match(step)) is not None
    ]
    configs = next((json.loads(match[2]) for match in steps if match[1] == topic), {})
    return {name: value for name, value in configs.items() if name in set(known_names())}


REALS = list(_reals())


def made(real: Real, corpus: Path, into: Path) -> Kept:
    """What comes of appending it again under the settings of its broker."""
    release = parse_release(real.release)
    topic = PurePosixPath(real.path).name.rpartition("-")[0]
    config = into / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in real.config.items()))
    assignments = tuple(f"{topic}:{key}={value}" for key, value in real.topic_config.items())
    settings = read_settings(SettingsRequest(config=str(config), topic_assignments=assignments), release)
    partition = read_partition(str(corpus / real.path))
    sink = Kept()
    appender = Appender(
        sink,
        partition.segments[0].base_offset,
        limits=limits_of(settings.for_topic(topic)),
        rules=append_rules(release),
    )
    for item in log_runs(partition, max_batch_bytes=2**28, checks=True, advance=lambda _: None):
        assert not isinstance(item, LogDamage)
        appender.append_batches(item[1])
    appender.close()
    return sink


def there(real: Real, corpus: Path) -> list[tuple[int, bytes, bytes, bytes]]:
    """What the broker left: base offset, log, offset and time index."""
    found = []
    for log in sorted((corpus / real.path).glob("*.log")):
        indexes = (log.with_suffix(suffix) for suffix in (".index", ".timeindex"))
        found.append((int(log.stem), log.read_bytes(), *(p.read_bytes() if p.exists() else b"" for p in indexes)))
    return found


def differences(ours: list[tuple[int, bytes, bytes, bytes]], real: list[tuple[int, bytes, bytes, bytes]]) -> str:
    """What differs, in one word each."""
    if [each[:2] for each in ours] != [each[:2] for each in real]:
        return "segments"
    names = {"index": 2, "timeindex": 3}
    wrong = [name for name, at in names.items() if any(a[at] != b[at] for a, b in zip(ours, real, strict=True))]
    return "+".join(wrong) or "none"


@pytest.mark.parametrize("real", REALS, ids=lambda real: real.id)
def test_a_brokers_segments_are_foretold(real: Real, corpus: Path, tmp_path: Path) -> None:
    found = differences(made(real, corpus, tmp_path).segments, there(real, corpus))
    known = {path: difference for path, difference, _ in LINES}
    assert found == known.get(real.path, "none")


def test_every_line_of_the_list_is_of_a_log_that_is_there() -> None:
    paths = {real.path for real in REALS}
    stale = {path for path, _, _ in LINES} - paths
    assert not archives.is_whole() or stale == set()
