"""`kafkalog dump --follow` as a process, with its rows as they come."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from tests.integration.records import KAFKALOG, Dump, Row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SECONDS: Final = 30


class Follower:
    """Follows while the `with` block lasts; `stop` interrupts it as Ctrl-C does."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [*KAFKALOG, "dump", "--follow", "--output", "ndjson", "--bytes", "base64", *map(str, arguments)]
        self.rows: list[Row] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()  # does nothing where it has ended
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def wait_for(self, is_there: Callable[[list[Row]], bool]) -> None:
        """Wait until the rows so far are as wanted."""
        deadline = time.monotonic() + _SECONDS
        while not is_there(self.rows):
            assert self._process.poll() is None, self._errors()
            assert time.monotonic() < deadline, f"still missing after {_SECONDS} s; {len(self.rows)} rows came"
            time.sleep(0.02)

    def wait_for_offsets(self, end_offsets: dict[int, int]) -> None:
        """Wait until the last record of every partition is there."""
        wanted = {(partition, end - 1) for partition, end in end_offsets.items()}
        self.wait_for(lambda rows: wanted <= {(row["partition"], row["offset"]) for row in rows if "offset" in row})

    def stop(self) -> Dump:
        """Interrupt it; all rows and the exit status."""
        self._process.send_signal(signal.SIGINT)
        status = self._process.wait(timeout=_SECONDS)
        self._reader.join()
        errors = self._errors()
        assert not errors, errors
        return Dump(self.rows, status)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.rows.append(json.loads(line))

    def _errors(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().decode()
