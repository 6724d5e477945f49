"""What `usage` counts in each directory that a real broker wrote is what `du` counts there."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.usage.disk_items import ItemKind, disk_items

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus


def _du(path: Path, *options: str) -> int:
    ran = subprocess.run(["du", "-s", "-B1", *options, path], capture_output=True, text=True, check=True)
    return int(ran.stdout.split()[0])


def test_the_bytes_by_kind_are_those_of_du(corpus: Path) -> None:
    log_dirs = {path.parent for path in corpus.rglob("*-offset-checkpoint")}
    log_dirs |= {path.parent for path in corpus.rglob("meta.properties")}
    for pattern in ("*.log", "*.kafka"):
        log_dirs |= {path.parent.parent for path in corpus.rglob(pattern)}
    kinds: Counter[ItemKind] = Counter()
    for path in sorted(log_dirs):
        allocated, sizes = Counter[ItemKind](), Counter[ItemKind]()
        for item in disk_items(str(path)):
            assert item.finding is None, item
            kinds[item.kind] += 1
            if not item.is_repeated:
                allocated[item.kind] += item.allocated_bytes
                sizes[item.kind] += item.size_bytes
        assert allocated.total() == _du(path), path
        assert sizes.total() == _du(path, "--apparent-size"), path
    assert len(log_dirs) > 50
    assert kinds.keys() >= {ItemKind.ACTIVE, ItemKind.CLOSED, ItemKind.DELETED, ItemKind.DELETE, ItemKind.SNAPSHOT}
