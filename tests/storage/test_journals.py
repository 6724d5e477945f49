"""Where journals are looked for, and what is not read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.undo import scope_of
from kafkalog_core.storage.changing import journals
from kafkalog_core.storage.changing.writer import Disk
from tests.storage.repairs import apply_to, make_dir

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("fake_planner", "no_waiting")


def test_only_directories_are_searched_each_by_its_own_name(tmp_path: Path) -> None:
    for name in ("t-0", "t-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "meta.properties").touch()
    (tmp_path / "a-link").symlink_to("t-0")
    (tmp_path / "itself").symlink_to(".")
    (tmp_path / "nowhere").symlink_to("gone")
    assert journals._directories(str(tmp_path)) == [f"{tmp_path}/t-0", f"{tmp_path}/t-1"]


def test_a_journal_of_the_most_bytes_is_read_and_a_larger_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_dir(tmp_path / "disk")
    journal = apply_to(root, Disk())
    size = os.path.getsize(journal.layout.intent)
    monkeypatch.setattr(journals, "MOST_BYTES", size)
    assert [each.run for each in scope_of(str(root)).found.journals] == [journal.run]
    monkeypatch.setattr(journals, "MOST_BYTES", size - 1)
    found = scope_of(str(root)).found
    assert found.journals == ()
    (remains,) = found.remains
    assert remains.is_unreadable
    assert "is larger than any journal" in remains.reason
