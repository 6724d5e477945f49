"""Builds the kernels, each from a copy of its source that stands by itself.

All else is declared in pyproject.toml. C inlines within one module alone, so the copy holds the text of the shared
modules in place of its imports of them; and it carries the hash of all this text. Where no C compiler exists the build
goes on and the interpreted twin is used.

Environment:
    KAFKALOG_REQUIRE_COMPILED=1: the build fails where a kernel cannot be compiled.
    KAFKALOG_NO_COMPILE=1: nothing is compiled.
"""

from __future__ import annotations

import ast
import os
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from setuptools import Extension, setup

if TYPE_CHECKING:
    from types import ModuleType

HERE = Path(__file__).parent
MARK = 'SOURCE_HASH = "interpreted"'
COPY_FROM = "# --- the build copies from here on "


def load_twins() -> ModuleType:
    """`kafkalog_core.twins`, which says what the kernels are, without importing the package."""
    spec = spec_from_file_location("twins", HERE / "kafkalog_core" / "twins.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


twins = load_twins()
SOURCES = Path(*twins.PACKAGE.split("."))


def with_shared_text(lines: list[str], copied: set[str]) -> list[str]:
    """The lines with each import of a shared module replaced by that module's text, once."""
    result = list(lines)
    for node in reversed(ast.parse("".join(lines)).body):
        package, _, name = (getattr(node, "module", None) or "").rpartition(".")
        if isinstance(node, ast.ImportFrom) and package == twins.PACKAGE and name in twins.SHARED:
            result[node.lineno - 1 : node.end_lineno] = [f"# from {name}\n"]
    text: list[str] = []
    for line in result:
        name = line.removeprefix("# from ").rstrip()
        if line.startswith("# from ") and name in twins.SHARED:
            if name not in copied:
                copied.add(name)
                text += with_shared_text(shared_lines(name), copied)
        else:
            text.append(line)
    return text


def shared_lines(name: str) -> list[str]:
    """A shared module from its mark on, its integers declared as C's."""
    lines = (SOURCES / f"{name}.py").read_text(encoding="utf-8").splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith(COPY_FROM))
    for node in ast.parse("".join(lines)).body:
        if (
            isinstance(node, ast.AnnAssign)
            and ast.unparse(node.annotation) == "Final"
            and not isinstance(node.value, ast.Tuple)
        ):
            lines[node.lineno - 1] = f"{node.target.id} = cython.declare(cython.longlong, {ast.unparse(node.value)})\n"
    return lines[first:]


def copy_of(kernel: str) -> str:
    """Write the copy that is compiled below build/, where it has changed, and return its path."""
    source = SOURCES / f"{kernel}.py"
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines.count(f"{MARK}\n") != 1:
        raise SystemExit(f"{source}: the line {MARK} must stand in it once")
    text_hash = twins.text_hash(str(SOURCES), kernel)
    text = "".join(with_shared_text(lines, set())).replace(MARK, f'SOURCE_HASH = "{text_hash}"')
    target = Path("build", "kernels", *source.parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")
    return str(target)


def extensions() -> list[Extension]:
    """The kernels, optional where the interpreted twin will do."""
    if os.environ.get("KAFKALOG_NO_COMPILE") == "1":
        return []
    from Cython.Build import cythonize  # noqa: PLC0415 - of no use where nothing is compiled

    kernels = [
        Extension(
            f"{twins.PACKAGE}.{kernel}",
            [copy_of(kernel)],
            extra_compile_args=["-O3", "-fwrapv"],
            optional=os.environ.get(twins.REQUIRE) != "1",
        )
        for kernel in twins.KERNELS
    ]
    return cythonize(kernels, language_level=3)


os.chdir(HERE)
setup(ext_modules=extensions())
