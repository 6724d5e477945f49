"""The exit status of a dump whose reader goes does not depend on the moment at which it goes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_cli import standard_streams
from kafkalog_cli.standard_streams import PIPE_BYTES, ends_with_reader, has_reader, stream_of
from kafkalog_core.engine.report import Report
from tests.support import build

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
LOG = f"{0:020d}.log"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe: what is left open is closed later."""
    ends = os.pipe()
    yield ends
    for end in ends:
        if os.path.exists(f"/proc/self/fd/{end}"):
            os.close(end)


def log_with_damage_after(tmp_path: Path, batches: int) -> Path:
    """A log whose damage follows so many batches, each of which is a row of more than 300 bytes."""
    log = tmp_path / "t-0" / LOG
    log.parent.mkdir()
    log.write_bytes(b"".join(build.batch_v2([build.Record(offset=at)]) for at in range(batches)) + b"\xff" * 100)
    return log


def status_on(descriptor: int, log: Path, *options: str) -> int:
    """The exit status of a dump that writes to a pipe."""
    command = [sys.executable, "-m", "kafkalog_cli", "dump", *options, str(log)]
    return subprocess.run(command, cwd=ROOT, stdout=descriptor, stderr=subprocess.DEVNULL, check=False).returncode


@pytest.mark.live
@pytest.mark.parametrize("form", [(), ("--output", "csv"), ("--output", "table"), ("--records",)], ids=str)
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_result_that_a_pipe_holds_has_the_status_of_all_of_it(
    tmp_path: Path, pipe: tuple[int, int], is_gone: bool, form: tuple[str, ...]
) -> None:
    """The reader has gone before the dump starts, or waits for its end and never reads."""
    log = log_with_damage_after(tmp_path, 40)
    if is_gone:
        os.close(pipe[0])
    assert status_on(pipe[1], log, *form) == 4


@pytest.mark.live
def test_damage_after_what_was_read_for_the_first_rows_does_not_count(tmp_path: Path, pipe: tuple[int, int]) -> None:
    log = log_with_damage_after(tmp_path, 20_000)
    os.close(pipe[0])
    assert status_on(pipe[1], log) == 0


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_what_was_read_for_rows_that_the_pipe_took_counts(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int], taken: int
) -> None:
    """Damage is read before the second write: it counts unless the reader goes before that has been taken."""
    stream, report, written = stream_of(pipe[1], "utf-8", None), Report(), 0
    monkeypatch.setattr(standard_streams.sys, "stdout", stream)
    with ends_with_reader(report.note_written):
        for number in range(4):
            if number == taken:
                os.close(pipe[0])
            if number == 1:
                report.add_damage("crc-mismatch", 1)
            stream.buffer.write(bytes(PIPE_BYTES))
            stream.buffer.flush()
            written += 1
            os.read(pipe[0], PIPE_BYTES)
    assert (written, has_reader()) == (taken, False)
    assert report.exit_status == (4 if taken else 0)
    assert report.written_status == (4 if taken == 2 else 0)
