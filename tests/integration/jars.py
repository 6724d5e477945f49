"""Kafka's published jars, through Maven, in a cache outside of the checkout.

`KAFKALOG_JARS` names another cache directory. Packages are named and nothing else: where they come from is Maven's
own configuration.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

KAFKA_VERSION: Final = "4.3.1"
ZOOKEEPER_ERA: Final = "2.8.2"
_TOOLS_APART_FROM: Final = "4"  # the release from which the command-line tools are a package of their own
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkalog</groupId>
  <artifactId>integration</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


class MissingError(Exception):
    """What is missing on this machine to run a broker."""


def fetch(version: str = KAFKA_VERSION) -> Path:
    """The directory with a release's jars, fetched by the first call on this machine. Raises MissingError."""
    if shutil.which("java") is None:
        raise MissingError("no java on this machine to run a broker with")
    cache = Path(os.environ.get("KAFKALOG_JARS") or Path.home() / ".cache" / "kafkalog-jars")
    libs = cache / f"kafka-{version}"
    if not libs.is_dir():
        if shutil.which("mvn") is None:
            raise MissingError(f"no mvn on this machine to fetch the jars of Kafka {version} with")
        cache.mkdir(parents=True, exist_ok=True)
        _copy_jars(cache, libs, version)
    return libs


def _copy_jars(cache: Path, libs: Path, version: str) -> None:
    """Whole or not at all: the directory gets its name when Maven is done."""
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        pom = Path(scratch, "pom.xml")
        pom.write_text(_POM.format(dependencies="\n".join(_dependency(*package) for package in _packages(version))))
        jars = Path(scratch, "jars")
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise RuntimeError(f"Maven could not fetch the jars of Kafka {version}:\n{done.stdout[-2000:]}")
        jars.rename(libs)


def _packages(version: str) -> list[tuple[str, str, str]]:
    """Group, artifact and version of what a broker needs."""
    packages = [("org.apache.kafka", "kafka_2.13", version), ("org.slf4j", "slf4j-simple", "1.7.36")]
    if version.split(".", maxsplit=1)[0] >= _TOOLS_APART_FROM:
        packages.append(("org.apache.kafka", "kafka-tools", version))
    return packages


def _dependency(group: str, artifact: str, version: str) -> str:
    names = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    return f"    <dependency>{names}</dependency>"
