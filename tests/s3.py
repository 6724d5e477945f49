"""A real S3 server on loopback: versitygw, which keeps each object as a file of a directory; and a bad line to it."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PACKAGE: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_KEY, _SECRET = "kafkalog", "only-for-tests"
BUCKET: Final = "bucket"


def program() -> Path:
    """The server, which Go builds once in a cache outside the checkout; `KAFKALOG_S3` names another directory."""
    home = Path(os.environ.get("KAFKALOG_S3") or Path.home() / ".cache" / "kafkalog-s3")
    path = home / _PACKAGE.rpartition("@")[2] / "versitygw"
    if not path.exists():
        go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
        if go is None:
            pytest.skip("there is no Go to build an S3 server with")
        scratch = path.with_name(f"building-{os.getpid()}")
        environment = {**os.environ, "GOBIN": str(scratch), "GOFLAGS": "-mod=mod"}
        built = subprocess.run([go, "install", _PACKAGE], env=environment, check=False, capture_output=True, text=True)
        if built.returncode:
            pytest.skip(f"an S3 server could not be built: {built.stderr[-300:]}")
        (scratch / "versitygw").replace(path)
        scratch.rmdir()
    return path


class Server:
    """A running server. `files` is the directory of its bucket, `hidden` the option that must not be shown."""

    hidden = "AWS_SECRET_ACCESS_KEY"

    def __init__(self, directory: Path) -> None:
        path = program()
        self.files = directory / BUCKET
        self.files.mkdir(parents=True)
        self.port = _free_port()
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

    def uri(self, prefix: str) -> str:
        """The URI of a prefix of its bucket."""
        return f"s3://{BUCKET}/{prefix}"

    def options(self, port: int | None = None) -> dict[str, str]:
        """How to reach it, or a line to it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def bad_line(port: int, seed: int) -> Iterator[int]:
    """A line to a server of which some connections are slow, are reset, or get an answer that it is busy (503)."""
    dice = random.Random(seed)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        ended = threading.Event()
        threads: list[threading.Thread] = []

        def accept() -> None:
            while not ended.is_set():
                try:
                    client, _ = listening.accept()
                except TimeoutError:
                    continue
                what = dice.choices(["good", "slow", "reset", "cut", "busy"], [6, 1, 1, 1, 1])[0]
                thread = threading.Thread(target=_serve, args=(client, port, what, dice.randrange(20_000)), daemon=True)
                thread.start()
                threads.append(thread)

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            ended.set()
            accepting.join()
            for thread in threads:
                thread.join(5)


def _serve(client: socket.socket, port: int, what: str, after: int) -> None:
    with client, suppress(OSError):
        if what == "reset":
            _reset(client)
            return
        if what == "busy":
            client.settimeout(2)
            client.recv(1 << 16)
            client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        if what == "slow":
            time.sleep(0.3)
        with socket.create_connection(("127.0.0.1", port), 5) as server:
            server.settimeout(30)
            client.settimeout(30)
            back = threading.Thread(target=_copy, args=(server, client, None), daemon=True)
            back.start()
            _copy(client, server, after if what == "cut" else None)
            if what == "cut":
                _reset(client)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join(5)


def _copy(source: socket.socket, target: socket.socket, most: int | None) -> None:
    """Pass bytes on until one side ends; or as many, and the line breaks in the middle of a request."""
    passed = 0
    with suppress(OSError):
        while (data := source.recv(1 << 16)) and (most is None or passed < most):
            target.sendall(data if most is None else data[: most - passed])
            passed += len(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.close()


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
            threading.Thread(target=_copy, args=(server, client, None), daemon=True).start()
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
                    _reset(client)
                    return
