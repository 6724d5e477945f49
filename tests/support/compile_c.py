"""The kernels' C headers by themselves: compiled as a library that Python calls, or as a program under sanitizers."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core import kernels

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["c_library", "c_program"]

COMPILER = shlex.split(sysconfig.get_config_var("CC") or "cc")
OPTIONS = ("-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")
SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def c_library(directory: Path, text: str, options: Iterable[str] = ()) -> str:
    """Path of a shared library of C that includes headers of the kernels. Without a compiler the test is skipped."""
    built = directory / "library.so"
    _compile(directory, text, built, ("-O3", "-shared", "-fPIC", *options)).check_returncode()
    return str(built)


def c_program(directory: Path, text: str) -> str:
    """Path of a program of such C. It ends at the first step outside a buffer, where the compiler has sanitizers."""
    built = directory / "program"
    if _compile(directory, text, built, SANITIZERS, capture=True).returncode:
        _compile(directory, text, built, ("-O1",)).check_returncode()
    return str(built)


def _compile(
    directory: Path, text: str, built: Path, options: Iterable[str], *, capture: bool = False
) -> subprocess.CompletedProcess[bytes]:
    if shutil.which(COMPILER[0]) is None:
        pytest.skip("no C compiler")
    source = directory / "source.c"
    source.write_text(text)
    include = Path(str(kernels.__file__)).parent
    command = [*COMPILER, *OPTIONS, *options, f"-I{include}", str(source), "-o", str(built)]
    return subprocess.run(command, capture_output=capture, check=False)
