"""A healthy log directory of a real broker raises no alarm, and none of its files is of an unknown kind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import LogDirTarget, resolve
from kafkalog_core.format.names import FileKind
from kafkalog_core.storage.logdir import LogDir, is_broker_dir
from kafkalog_core.storage.partition import Partition, read_partition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.corpus

ALARMS_OF_DAMAGED_STAGES = {"segment.index-missing"}  # the noindex-0 directories of the crash cases


def _views(corpus: Path) -> Iterator[tuple[LogDir, list[Partition]]]:
    for path, _, _ in os.walk(corpus):
        is_fault = "/before/" in f"{path}/" and "/07" in path  # only the files that a fault changed
        if is_broker_dir(path) and not is_fault:
            (target,) = resolve([path])
            assert isinstance(target, LogDirTarget)
            yield target.log_dir, [read_partition(place.path) for place in target.partitions]


def test_healthy_directories_raise_no_alarm(corpus: Path) -> None:
    count = 0
    for log_dir, partitions in _views(corpus):
        findings = [*log_dir.findings, *(finding for found in partitions for finding in found.findings)]
        alarms = {finding.code for finding in findings if finding.severity != "info"}
        assert alarms <= (ALARMS_OF_DAMAGED_STAGES if "/damaged/" in log_dir.path else set()), log_dir.path
        count += 1
    assert count


def test_every_file_is_of_a_known_kind(corpus: Path) -> None:
    for log_dir, partitions in _views(corpus):
        files = [*log_dir.files, *(file for found in partitions for file in found.files)]
        assert all(file.name.canonical for file in files), log_dir.path
        assert FileKind.UNKNOWN not in {file.name.kind for file in files}


def test_partitions_of_0_7_are_told_from_later_ones(corpus: Path) -> None:
    for log_dir, partitions in _views(corpus):
        of_old_release = "k07" in log_dir.path
        assert {found.format for found in partitions} <= ({"v07"} if of_old_release else {"log"}), log_dir.path
