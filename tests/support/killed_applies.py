"""Applies that end at one step after another, each on a disk of its own."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.storage.changing import writer
from tests.support.repairs import CountingDisk, DyingDisk, Killed
from tests.support.truncating import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanDraft
    from tests.support.excising import Written


class Kills(NamedTuple):
    """`damaged` makes a disk, of which `draft` plans the repair."""

    place: Path
    damaged: Callable[[Path], Written]
    draft: Callable[[Written], PlanDraft]

    def __call__(self, stride: int) -> Iterator[Written]:
        """A disk for each step, or for some of them, on which an apply ended there."""
        disk = CountingDisk()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "_sync", lambda number: None)  # only a machine that stops loses what it has taken
            apply_plan(self.draft(self.damaged(self.place / "all")), disk, now_ms=NOW_MS)
            for at in range(0, len(disk.steps) + 1, stride):
                shutil.rmtree(self.place / "disk", ignore_errors=True)
                written = self.damaged(self.place / "disk")
                with suppress(Killed):
                    apply_plan(self.draft(written), DyingDisk(at), now_ms=NOW_MS)
                yield written
