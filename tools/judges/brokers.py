"""`kafkalog serve --read-write` in a fresh directory, with the settings that a suite asks for."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from tools.judges.packages import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["SCRAM_USER", "USERS", "serving"]

USERS: Final = {
    "adminplain": "admin-secret",
    "adminscram256": "admin-secret-256",
    "adminscram512": "admin-secret-512",
}
"""The users of the SASL listener, with their passwords: those that the suites of the Go clients expect."""
SCRAM_USER: Final = "adminscram256:admin-secret-256"
_EVERY_SUITE: Final = (
    "offsets.topic.num.partitions=8",
    "transaction.state.log.num.partitions=8",
    "log.retention.ms=-1",  # some tests write records with old timestamps and expect to read them back
)
_STOP_SECONDS: Final = 30


@contextmanager
def serving(settings: Sequence[str], log: Path, *, has_sasl: bool) -> Iterator[tuple[str, str | None]]:
    """Yield the addresses of a fresh broker, and of one with users that authenticate by SASL, or None.

    Raises UnavailableError if a broker does not start, or ends other than by SIGTERM with status 0.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="judges")))
        address = stack.enter_context(_broker(scratch / "data", settings, log, ()))
        sasl_address = None
        if has_sasl:
            users = scratch / "users.txt"
            users.write_text("".join(f"{name}:{password}\n" for name, password in USERS.items()))
            sasl_log = log.with_name(f"{log.stem}-sasl.log")
            options = ("--users", str(users))
            sasl_address = stack.enter_context(_broker(scratch / "sasl", settings, sasl_log, options))
        yield address, sasl_address


@contextmanager
def _broker(directory: Path, settings: Sequence[str], log: Path, options: Sequence[str]) -> Iterator[str]:
    directory.mkdir()
    command = [sys.executable, "-m", "kafkalog_cli", "serve", "--read-write", str(directory)]
    command += ["--listen", "127.0.0.1:0", *options]
    for each in (*_EVERY_SUITE, *settings):
        command += ["--set", each]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    output = cast("IO[str]", process.stdout)
    try:
        line = output.readline()
        if not line.startswith("serving "):
            raise UnavailableError(f"kafkalog does not serve: {log.read_text()[-2000:]}")
        yield line.rpartition(" ")[2].strip()
        process.terminate()
        if process.wait(_STOP_SECONDS) or "Traceback" in log.read_text():
            raise UnavailableError(f"kafkalog ended with status {process.returncode}: {log.read_text()[-2000:]}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        output.close()
