"""kafkalog as one archive for the executors of a cluster where it is not installed: `spark.archives`.

Executors unpack it into a directory, so compiled kernels and the libraries of the codecs can be loaded from it; a zip
of `--py-files` cannot do that.
"""

from __future__ import annotations

import os
import platform
import sys
import tarfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from kafkalog_core.format import kernels
from kafkalog_core.ops.progress import NO_PROGRESS
from kafkalog_core.spark.errors import SparkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.progress import Progress

__all__ = ["Packed", "write_archive"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_PACKAGE: Final = "kafkalog_core"
_REQUIRED: Final = ("crc32c", "lz4", "cramjam", "zstandard")
_OPTIONAL: Final = ("isal",)
_ARROW: Final = "pyarrow"
_NOT_NEEDED: Final = tuple(
    f"pyarrow/{name}" for name in ("include/", "src/", "tests/", "libarrow_flight", "libarrow_python_flight", "_flight")
)
_QUICKLY: Final = 1
"""The best compression takes three times as long and saves a tenth."""

_COMPILED_CACHE: Final = "__pycache__"


@dataclass(frozen=True, slots=True)
class Packed:
    """What is in an archive, and who can use it: Pythons of the same release on the same kind of machine."""

    files: int
    size_bytes: int
    distributions: tuple[str, ...]
    python: str
    machine: str
    compiled: bool


def write_archive(file: IO[bytes], *, with_pyarrow: bool, progress: Progress = NO_PROGRESS) -> Packed:
    """Write kafkalog and what it stands on as a tar.gz. Raises SparkError where one of those is not installed."""
    names = (*_REQUIRED, *filter(_is_installed, _OPTIONAL), *([_ARROW] if with_pyarrow else []))
    members = dict(_ours())
    for name in names:
        members |= _files_of(name)
    sizes = {path: os.stat(path).st_size for path in members.values()}
    progress.expect(sum(sizes.values()))
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_QUICKLY) as archive:
        for name, path in sorted(members.items()):
            archive.add(path, name, recursive=False)
            progress.advance(sizes[path])
    return Packed(
        files=len(members),
        size_bytes=file.tell(),
        distributions=names,
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        machine=f"{platform.system()} {platform.machine()}",
        compiled=kernels.COMPILED,
    )


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _ours() -> Iterator[tuple[str, Path]]:
    """The core: executors need no command line. The data source is found by its own name beside it."""
    yield from ((path.name, path) for path in _ROOT.glob("pyspark_kafkalog.py"))
    for path in (_ROOT / _PACKAGE).rglob("*"):
        if path.is_file() and _COMPILED_CACHE not in path.parts:
            yield path.relative_to(_ROOT).as_posix(), path


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    """What a distribution has installed, without its scripts and what only compilers and its own tests need."""
    try:
        files = distribution(name).files
    except PackageNotFoundError:
        raise SparkError(f"{name} is not installed here, and executors need it: pip install {name}") from None
    for file in files or ():
        inside = file.as_posix()
        if not inside.startswith(("..", "/", *_NOT_NEEDED)) and _COMPILED_CACHE not in file.parts:
            yield inside, Path(str(file.locate()))
