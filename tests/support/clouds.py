"""Azure Blob Storage and Google Cloud Storage on loopback: the emulators that their clients are tested with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Final

import pytest
from pyarrow.fs import AzureFileSystem

from tests.support.installing import GO_INSTALL, GO_VARIABLES, one_at_a_time
from tests.support.s3 import free_port

_ROOT: Final = Path(__file__).parents[2]
_AZURITE: Final = "azurite@3.37.0"
_FAKE_GCS: Final = "github.com/fsouza/fake-gcs-server@v1.56.1"
_ACCOUNT: Final = "devstoreaccount1"
AZURITE_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key of every Azurite; Microsoft's documentation has it."""
PLACE: Final = "lake"
"""The container, or bucket."""


def _home() -> Path:
    return Path(os.environ.get("KAFKALOG_CLOUDS") or Path.home() / ".cache" / "kafkalog-clouds")


def _installed(name: str, program: str, command: list[str], environment: dict[str, str]) -> Path:
    """Return a program that is installed once, in a cache outside the checkout."""
    home = _home() / re.sub(r"[^a-z0-9.]+", "-", name)
    with one_at_a_time(home):
        if not (home / program).exists():
            _install(name, home, command, environment)
    return home / program


def _install(name: str, home: Path, command: list[str], environment: dict[str, str]) -> None:
    scratch = home.with_name(f"{home.name}-{os.getpid()}")
    scratch.mkdir()
    tool = shutil.which(command[0]) or shutil.which(f"/usr/local/go/bin/{command[0]}")
    if tool is None:
        pytest.skip(f"there is no {command[0]} to install {name} with")
    done = subprocess.run(
        [tool, *command[1:], name],
        cwd=scratch,
        env={**os.environ, **{key: value.format(scratch) for key, value in environment.items()}},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"{name} could not be installed: {done.stderr[-300:]}")
    scratch.rename(home)


class Cloud:
    """A running emulator; `hidden` is the name of the option that must not be shown."""

    hidden = ""

    def __init__(self, command: list[str | Path], log: Path, port: int, options: dict[str, str]) -> None:
        self.port = port
        self._options = options
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT, cwd=log.parent)

    def _begin(self, *ports: int) -> None:
        """Wait until it listens, and create the place of the tests."""
        try:
            deadline = time.monotonic() + 60
            for port in ports:
                while not _answers(port):
                    assert self._process.poll() is None, Path(self._log.name).read_text()
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            self.create(PLACE)
        except BaseException:
            self.close()
            raise

    def uri(self, prefix: str, place: str = PLACE) -> str:
        """The URI of a prefix of a container or bucket."""
        raise NotImplementedError

    def create(self, place: str) -> None:
        """Create a container or bucket."""
        raise NotImplementedError

    def options(self, port: int | None = None) -> dict[str, str]:
        """How to reach it, or a line to it."""
        own, other = f":{self.port}", f":{port or self.port}"
        return {name: re.sub(f"{own}$", other, value) for name, value in self._options.items()}

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._log.close()


class Azurite(Cloud):
    """Microsoft's own emulator."""

    hidden = "AZURE_STORAGE_ACCOUNT_KEY"

    def __init__(self, directory: Path) -> None:
        program = _installed(_AZURITE, "node_modules/.bin/azurite-blob", ["npm", "install", "--no-audit"], {})
        port = free_port()
        words = ["--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
        super().__init__(
            [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), *words],
            directory / "azurite.log",
            port,
            {
                "AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY,
                "AZURE_STORAGE_USE_EMULATOR": "true",
                "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
            },
        )
        self._begin(port)

    def create(self, place: str) -> None:
        at = f"127.0.0.1:{self.port}"
        AzureFileSystem(
            _ACCOUNT,
            account_key=AZURITE_KEY,
            blob_storage_authority=at,
            dfs_storage_authority=at,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        ).create_dir(place)

    def uri(self, prefix: str, place: str = PLACE) -> str:
        return f"abfss://{place}@{_ACCOUNT}.dfs.core.windows.net/{prefix}"


class Google(Cloud):
    """fake-gcs-server, with which Google's own clients are tested, behind what it lacks of the XML interface."""

    def __init__(self, directory: Path) -> None:
        program = _installed(_FAKE_GCS, "fake-gcs-server", ["go", *GO_INSTALL], {"GOBIN": "{}", **GO_VARIABLES})
        behind, port = free_port(), free_port()
        place = f"127.0.0.1:{port}"
        words = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(behind)]
        super().__init__(
            [program, *words, "-external-url", f"http://{place}", "-public-host", place, "-log-level", "warn"],
            directory / "fake-gcs-server.log",
            port,
            {"STORAGE_EMULATOR_HOST": f"http://{place}"},
        )
        # Not a thread: some clients wait for an answer and let no other thread of their process run.
        self._front = subprocess.Popen(
            [sys.executable, "-m", "tests.support.google_xml", str(port), str(behind)], cwd=_ROOT
        )
        self._begin(behind, port)

    def create(self, place: str) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/storage/v1/b?project=x",
            data=json.dumps({"name": place}).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request).close()  # noqa: S310 -- its URL is ours

    def uri(self, prefix: str, place: str = PLACE) -> str:
        return f"gs://{place}/{prefix}"

    def close(self) -> None:
        self._front.kill()
        self._front.wait()
        super().close()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
