"""What ships with the project: small enough for Git, free of traces of the machines it was made on."""

from __future__ import annotations

import gzip
import re
import tarfile
from typing import TYPE_CHECKING

from tests.support.corpus import archives
from tests.support.for_each import for_each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LIMIT_BYTES = 15 * 1000 * 1000
_DEMO_LIMIT_BYTES = 300 * 1000
_MACHINE_PATH = re.compile(rb"(?<![\w$.-])/(?:home|root|tmp|work|mnt|Users|var/folders)/")


def _files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.rglob("*")) if path.is_file()]


def test_fixtures_are_small() -> None:
    assert sum(path.stat().st_size for path in _files(archives.FIXTURES)) <= _LIMIT_BYTES
    assert sum(path.stat().st_size for path in _files(archives.FIXTURES / "demo")) <= _DEMO_LIMIT_BYTES


def test_the_demo_survives_git() -> None:
    directories = [path for path in (archives.FIXTURES / "demo").rglob("*") if path.is_dir()]
    assert directories
    assert all(any(path.iterdir()) for path in directories), "Git keeps no empty directory"


def _texts(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        stream = tar.extractfile(member) if member.isfile() else None
        if stream is None:
            continue
        if member.name.endswith(".tar.gz"):
            with tarfile.open(fileobj=stream) as inner:
                yield from _texts(inner)
            continue
        content = stream.read()
        yield member.name, gzip.decompress(content) if member.name.endswith(".gz") else content


@for_each(archives.archives(archives.FIXTURES), name=lambda archive: archive.name)
def test_no_path_of_a_machine_is_in_an_archive(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        named = [name for name, text in _texts(tar) if _MACHINE_PATH.search(text)]
    assert not named, named


def test_no_path_of_a_machine_is_in_the_demo() -> None:
    assert not [path for path in _files(archives.FIXTURES / "demo") if _MACHINE_PATH.search(path.read_bytes())]
