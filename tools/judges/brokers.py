"""`kafkalog serve --read-write` in a fresh directory, with the settings that a suite asks for."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
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
    "share.coordinator.state.topic.num.partitions=8",
    "log.retention.ms=-1",  # some tests write records with old timestamps and expect to read them back
    # The ACL tests: no super user, so that a denial of User:* holds for the anonymous user of the plain listener.
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)
_STOP_SECONDS: Final = 30


@contextmanager
def serving(settings: Sequence[str], log: Path) -> Iterator[tuple[str, str]]:
    """Yield the address of a fresh broker, and that of its listener where clients authenticate by SASL.

    Raises UnavailableError if the broker does not start, or ends other than by SIGTERM with status 0.
    """
    with tempfile.TemporaryDirectory(prefix="judges") as name:
        scratch = Path(name)
        (scratch / "data").mkdir()
        users = scratch / "users.txt"
        users.write_text("".join(f"{user}:{password}\n" for user, password in USERS.items()), encoding="utf-8")
        sasl_address = f"127.0.0.1:{_free_port()}"
        command = [sys.executable, "-m", "kafkalog_cli", "serve", "--read-write", str(scratch / "data")]
        command += ["--listen", "127.0.0.1:0", "--sasl-listen", sasl_address, "--users", str(users), "--cluster-users"]
        for each in (*_EVERY_SUITE, *settings):
            command += ["--set", each]
        with _started(command, log) as address:
            yield address, sasl_address


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def _started(command: Sequence[str], log: Path) -> Iterator[str]:
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
