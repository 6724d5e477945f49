"""What `usage` counts in each directory that a real broker wrote is what `du` counts there."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops.usage.usage import UsageRequest, usage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus


def _du(path: Path, *options: str) -> int:
    ran = subprocess.run(["du", "-s", "-B1", *options, path], capture_output=True, text=True, check=True)
    return int(ran.stdout.split()[0])


def test_the_bytes_by_kind_are_those_of_du(corpus: Path) -> None:
    log_dirs = sorted({path.parent for path in corpus.rglob("*-checkpoint") if "-" not in path.parent.name})
    log_dirs += sorted({path.parent for path in corpus.rglob("meta.properties")} - set(log_dirs))
    counted = 0
    for path in log_dirs:
        try:
            targets = tuple(resolve([str(path)]))
        except KafkalogError:
            continue  # a directory of other things, with a checkpoint among them
        [found] = usage(UsageRequest(targets=targets, by="kind"), Report())
        kinds = found.total.kinds.values()
        assert sum(each.allocated_bytes for each in kinds) == _du(path), path
        assert sum(each.size_bytes for each in kinds) == _du(path, "--apparent-size"), path
        counted += 1
    assert counted > 50
