"""A command reads the image of a metadata log once, however many parts of it ask for it; and again once it changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.kafka.sim import metadata_log
from kafkalog_core.kafka.sim.metadata_log import read_image, read_shared_image

DEMO: Final = Path(__file__).parents[2] / "fixtures" / "demo"
NOW: Final = ("--now", "2026-11-21T12:00")


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the metadata logs whose image is read, each time."""
    found: list[str] = []
    read = metadata_log.read_image

    def count(path: str, **options: object) -> object:
        found.append(path)
        return read(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(metadata_log, "read_image", count)
    return found


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--jobs", "1"),
        ("preflight",),
        ("recover", "--jobs", "1"),
        ("checkpoint", "--jobs", "1"),
        ("retain", "--jobs", "1", *NOW),
        ("compact", "--jobs", "1", *NOW),
    ],
)
def test_one_reading_for_a_command(words: tuple[str, ...], images: list[str], tmp_path: Path) -> None:
    disk = shutil.copytree(DEMO, tmp_path / "kafka")
    done = CliRunner().invoke(cli, [*words, str(disk)], catch_exceptions=False)
    assert done.exit_code in {0, 4}, done.output
    assert images == [f"{disk}/__cluster_metadata-0"]


def test_a_log_that_changed_is_read_again(tmp_path: Path) -> None:
    named = NamedDirs()
    log = Path(shutil.copytree(DEMO / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0"))
    first = read_shared_image(str(log), named)
    assert read_shared_image(str(log), named) is first
    assert first.image.topics == read_image(str(log)).image.topics
    file = next(log.glob("*.log"))
    file.write_bytes(file.read_bytes()[:-1])
    again = read_shared_image(str(log), named)
    assert (first.is_whole, again.is_whole) == (True, False)
    other = Path(shutil.copytree(log, tmp_path / "other"))
    assert read_shared_image(str(other), named).path == str(other)
    assert read_shared_image(str(log), named) is not again, "one image is kept"
    os.rename(log, tmp_path / "gone")
    assert read_shared_image(str(log), named).errors
    assert read_shared_image(str(other), None) is not read_shared_image(str(other), None)
