"""Suites by the names and versions of their packages, fetched and built in a cache outside the checkout.

`KAFKALOG_JUDGES` names the cache. Packages are named and nothing else: where they come from is the configuration of
cargo, go, mvn and npm.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Cache", "UnavailableError", "build", "copied", "fetch", "need"]

KAFKA_VERSION: Final = "4.3.1"
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 3
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkalog</groupId>
  <artifactId>judges</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.kafka", "trogdor", KAFKA_VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
_SCRIPTS: Final = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
"""The scripts of a release that librdkafka's tests call."""
_RUN_CLASS: Final = """#!/bin/bash
home=$(cd "$(dirname "$0")/.." && pwd)
exec java -Xmx512m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn ${KAFKA_OPTS:-} \\
    -cp "$home/libs/*${CLASSPATH:+:$CLASSPATH}" "$@"
"""
_CALL: Final = '#!/bin/bash\nexec "$(dirname "$0")/kafka-run-class.sh" {name} "$@"\n'
_CRATE: Final = """[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
{name} = {{ version = "={version}", default-features = false }}
[workspace]
"""


class UnavailableError(Exception):
    """A suite cannot be fetched or built on this machine."""


def need(program: str, package: str) -> None:
    """Raise UnavailableError if a program is missing. package: where it comes from."""
    if shutil.which(program) is None:
        raise UnavailableError(f"there is no {program} on this machine: install {package}")


def fetch(command: Sequence[str], cwd: Path | None = None) -> str:
    """Run a command that asks a registry, and return its output; a failed one is run again. Raises UnavailableError."""
    for attempt in range(1, _ATTEMPTS + 1):
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
        print(f"{' '.join(command)}: attempt {attempt} of {_ATTEMPTS} failed", file=sys.stderr, flush=True)
        time.sleep(_PAUSE_SECONDS * attempt)
    raise UnavailableError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}")


def build(command: Sequence[str], cwd: Path, log: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command of a build, and return its stdout; a failed one is run once more. Raises UnavailableError.

    A second attempt: go and cargo fetch packages that a build names.
    """
    for _ in range(2):
        with log.open("a", encoding="utf-8") as errors:
            done = subprocess.run(
                command,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
            )
            errors.write(done.stdout)
        if done.returncode == 0:
            return done.stdout
    raise UnavailableError(f"{' '.join(command)} failed with status {done.returncode}, see {log}")


def copied(source: Path, target: Path) -> Path:
    """Copy sources that their package manager keeps read-only, and return the writable copy."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return target


@dataclass(frozen=True, slots=True)
class Cache:
    """Where sources, builds and logs are kept."""

    root: Path

    @property
    def logs(self) -> Path:
        """The directory for the output of builds and tests."""
        path = self.root / "logs"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def log(self, name: str) -> Path:
        """Return the path of an empty log. name: any text; slashes and colons are replaced."""
        path = self.logs / name.replace("/", ".").replace(":", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        return path

    def crate(self, name: str, version: str) -> Path:
        """Return the directory of a crate's sources, read-only."""
        need("cargo", "Rust")
        folder = self.root / "crates" / f"{name}-{version}"
        (folder / "src").mkdir(parents=True, exist_ok=True)
        (folder / "src" / "lib.rs").touch()
        (folder / "Cargo.toml").write_text(_CRATE.format(name=name, version=version))
        fetch(["cargo", "fetch", "-q"], folder)
        metadata = json.loads(fetch(["cargo", "metadata", "-q", "--format-version", "1"], folder))
        (manifest,) = (each["manifest_path"] for each in metadata["packages"] if each["name"] == name)
        return Path(manifest).parent

    def go_module(self, name: str, version: str) -> Path:
        """Return a writable copy of a Go module."""
        need("go", "Go")
        folder = self.root / "go" / f"{name.replace('/', '_')}@{version}"
        if not (folder / ".ready").exists():
            self.root.mkdir(parents=True, exist_ok=True)
            found = json.loads(fetch(["go", "mod", "download", "-json", f"{name}@{version}"], self.root))
            copied(Path(found["Dir"]), folder)
            (folder / ".ready").touch()
        return folder

    def kafka_tools(self) -> Path:
        """Return a directory with `libs` and `bin` of a release of Kafka: its tools, and no broker that runs."""
        need("java", "a Java runtime")
        folder = self.root / f"kafka-tools-{KAFKA_VERSION}"
        if not (folder / ".ready").exists():
            need("mvn", "Maven")
            (folder / "bin").mkdir(parents=True, exist_ok=True)
            dependencies = (
                f"    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
                "</dependency>"
                for group, name, version in _ARTIFACTS
            )
            (folder / "pom.xml").write_text(_POM.format(dependencies="\n".join(dependencies)))
            fetch(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"], folder)
            scripts = {name: _CALL.format(name=main) for name, main in _SCRIPTS.items()}
            for name, text in {"kafka-run-class.sh": _RUN_CLASS, **scripts}.items():
                (folder / "bin" / name).write_text(text)
                (folder / "bin" / name).chmod(0o755)
            (folder / ".ready").touch()
        return folder
