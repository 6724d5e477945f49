"""Builds the kernels: each is compiled from a copy of its own source that carries the source's hash.

All else is declared in pyproject.toml. Where no C compiler exists the build goes on and the interpreted twin is
used, unless KAFKALOG_REQUIRE_COMPILED=1 is set.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = ("kafkalog_core.format.kernels", "kafkalog_core.format.ndjson")
MARK = 'SOURCE_SHA256 = "interpreted"'
HERE = Path(__file__).parent


def stamped_copy(module: str) -> str:
    """Write the kernel's source with its own SHA-256 in it below build/, and return that path."""
    relative = Path(*module.split(".")).with_suffix(".py")
    text = (HERE / relative).read_text(encoding="utf-8")
    if text.count(MARK) != 1:
        raise SystemExit(f"{relative}: the line {MARK} must stand in it once")
    target = Path("build", "stamped") / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    target.write_text(text.replace(MARK, f'SOURCE_SHA256 = "{digest}"'), encoding="utf-8")
    return str(target)


def extension(module: str) -> Extension:
    """One kernel as an extension; optional where the compiled twin is not required."""
    optional = os.environ.get("KAFKALOG_REQUIRE_COMPILED") != "1"
    return Extension(module, [stamped_copy(module)], extra_compile_args=["-O3", "-fwrapv"], optional=optional)


os.chdir(HERE)
setup(ext_modules=cythonize([extension(name) for name in KERNELS], language_level=3))
