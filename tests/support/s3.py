"""A real S3 server on loopback: versitygw, which keeps each object as a file of a directory."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pytest

from tests.support.bad_line import copy, reset
from tests.support.installing import GO_INSTALL, GO_VARIABLES, one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGE: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_KEY, _SECRET = "kafkalog", "only-for-tests"
BUCKET: Final = "bucket"


def program() -> Path:
    """The server, which Go builds once in a cache outside the checkout; `KAFKALOG_S3` names another directory."""
    home = Path(os.environ.get("KAFKALOG_S3") or Path.home() / ".cache" / "kafkalog-s3")
    path = home / _PACKAGE.rpartition("@")[2] / "versitygw"
    with one_at_a_time(path.parent):
        if not path.exists():
            _build(path)
    return path


def _build(path: Path) -> None:
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        pytest.skip("there is no Go to build an S3 server with")
    scratch = path.with_name(f"building-{os.getpid()}")
    built = subprocess.run(
        [go, *GO_INSTALL, _PACKAGE],
        env={**os.environ, **GO_VARIABLES, "GOBIN": str(scratch)},
        check=False,
        capture_output=True,
        text=True,
    )
    if built.returncode:
        pytest.skip(f"an S3 server could not be built: {built.stderr[-300:]}")
    path.parent.mkdir(exist_ok=True)
    (scratch / "versitygw").replace(path)
    scratch.rmdir()


class Server:
    """A running server. `files` is the directory of its bucket, `hidden` the option that must not be shown."""

    hidden = "AWS_SECRET_ACCESS_KEY"

    def __init__(self, directory: Path) -> None:
        path = program()
        self.files = directory / BUCKET
        self.files.mkdir(parents=True)
        self.port = free_port()
        self._log = (directory.parent / "versitygw.log").open("wb")
        self._process = subprocess.Popen(
            [path, "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", directory],
            env={**os.environ, "ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 30
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self._process.poll() is None, (directory.parent / "versitygw.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._log.close()

    def uri(self, prefix: str, place: str = BUCKET) -> str:
        """The URI of a prefix of a bucket."""
        return f"s3://{place}/{prefix}"

    def create(self, place: str) -> None:
        """Create a bucket."""
        (self.files.parent / place).mkdir()

    def options(self, port: int | None = None) -> dict[str, str]:
        """How to reach it, or a line to it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


def free_port() -> int:
    """A port of loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Requests:
    """A line to a server that notes each request, as `GET /bucket/key`, and may do something before it passes on."""

    def __init__(self, port: int, before: Callable[[str], bytes | None] | None = None) -> None:
        """Before: called with each request; what it returns is the answer, in the place of the server's."""
        self.seen: list[str] = []
        self._server_port = port
        self._before = before
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._server_port), 5) as server:
            threading.Thread(target=copy, args=(server, client, None), daemon=True).start()
            while data := client.recv(1 << 16):  # a request for an object has no body, and is sent at once
                line = data.partition(b"\r\n")[0].decode("latin-1").removesuffix(" HTTP/1.1")
                ranges = re.search(rb"(?i)\r\nrange: bytes=([0-9-]+)", data)
                request = f"{line} {ranges[1].decode()}" if ranges else line
                self.seen.append(request)
                answer = None if self._before is None else self._before(request)
                if answer is None:
                    server.sendall(data)
                elif answer:
                    client.sendall(answer)
                else:
                    reset(client)
                    return
