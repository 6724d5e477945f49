"""Build the kernels as one extension module; pyproject.toml declares everything else.

C inlines functions within one module only. So the build compiles a copy of `loops.py` in which the text of each
kernel module replaces its first import. The copy carries the hash of all this text. The integers of the modules
`NUMBERS` become C macros: a compiler turns comparisons with constants into jump tables. Where no C compiler exists the
build continues without the extension, and the interpreted twin is used.

Environment:
    KAFKALOG_REQUIRE_COMPILED=1: the build fails when the kernels cannot be compiled.
    KAFKALOG_NO_COMPILE=1: nothing is compiled.
"""

from __future__ import annotations

import ast
import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from setuptools import Extension, setup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).parent
MARK = 'SOURCE_HASH = "interpreted"\n'


def load_twins() -> ModuleType:
    """Return the module `kafkalog_core.twins`, which lists the kernels, without importing its package."""
    spec = spec_from_file_location("twins", HERE / "kafkalog_core" / "twins.py")
    if spec is None or spec.loader is None:
        raise SystemExit("kafkalog_core/twins.py is missing")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


twins = load_twins()
SOURCES = Path(*twins.PACKAGE.split("."))
COPIES = Path("build", "kernels")
HEADER = "numbers.h"
LOOPS = twins.LOOPS


def whole_text(name: str, copied: set[str]) -> Iterator[str]:
    """Yield the lines of a kernel module; those of each kernel module that it imports replace the first import.

    copied: names of the modules whose text was yielded before; it grows.
    """
    copied.add(name)
    if name in twins.NUMBERS:
        return
    text = (SOURCES / f"{name}.py").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    done = 0
    for node in ast.parse(text).body:
        instead = replacement(node, copied)
        if instead is None and name != LOOPS and is_head(node):
            instead = ()
        if instead is not None:
            yield from lines[done : node.lineno - 1]
            yield from instead
            done = node.end_lineno or node.lineno
    yield from lines[done:]


def replacement(node: ast.stmt, copied: set[str]) -> Iterable[str] | None:
    """Return the text that replaces a statement: that of the imported kernel module; `None`: the statement is kept."""
    if isinstance(node, ast.ImportFrom):
        package, _, name = (node.module or "").rpartition(".")
        if package == twins.PACKAGE:
            return () if name in copied or name == "_cython" else whole_text(name, copied)
    return None


def numbers() -> list[tuple[str, int]]:
    """Return the name and value of every integer constant of the kernels.

    Their modules are imported under empty packages, because the real ones import the whole product.
    """
    before = set(sys.modules)
    parts = twins.PACKAGE.split(".")
    for depth in range(1, len(parts) + 1):
        package = ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(HERE.joinpath(*parts[:depth]))]
        sys.modules[package.__name__] = package
    values: dict[str, int] = {}
    for name in twins.NUMBERS:
        for key, value in vars(import_module(f"{twins.PACKAGE}.{name}")).items():
            if key.isupper() and isinstance(value, int) and values.setdefault(key, value) != value:
                raise SystemExit(
                    f"kernels/{name}.py: {key} has another value in another module; C macros have one namespace"
                )
    for module in set(sys.modules) - before:
        del sys.modules[module]
    return list(values.items())


def is_head(node: ast.stmt) -> bool:
    """Return whether a statement belongs to the head of a module: docstring, import of `__future__`, `__all__`."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    return isinstance(node, ast.Expr) or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def write_copy() -> str:
    """Write the copy that is compiled, below build/, if it has changed. Return its path."""
    copied: set[str] = set()
    text = "".join(whole_text(LOOPS, copied))
    if copied != set(twins.MODULES):
        raise SystemExit(f"kafkalog_core/twins.py: MODULES must be {sorted(copied)}")
    if text.count(MARK) != 1:
        raise SystemExit(f"{LOOPS}.py: the line {MARK.rstrip()} must be in it exactly once")
    source_hash = twins.text_hash(str(SOURCES))
    if source_hash is None:  # the extension would be taken for that of any text
        raise SystemExit("kafkalog_core/twins.py: a module or header that it names is missing")
    text = text.replace(MARK, f'SOURCE_HASH = "{source_hash}"\n')
    target = COPIES / SOURCES / f"{LOOPS}.py"
    target.parent.mkdir(parents=True, exist_ok=True)
    macros, names = "", f'cdef extern from "{HEADER}":\n'
    for name, value in numbers():  # ~ because C has no literal for the smallest 64-bit integer
        macros += f"#define KAFKALOG_{name} {f'(~{~value}LL)' if value < 0 else f'{value}LL'}\n"
        names += f'    const long long {name} "KAFKALOG_{name}"\n'
    write_changed(target.with_name(HEADER), macros)
    write_changed(target.with_suffix(".pxd"), names)
    write_changed(target, text)
    return str(target)


def write_changed(target: Path, text: str) -> None:
    """Write a file, unless it has this text already: a newer file would be compiled again."""
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def extensions() -> list[Extension]:
    """Return the extension module of the kernels, if any; it is optional unless KAFKALOG_REQUIRE_COMPILED=1."""
    if os.environ.get("KAFKALOG_NO_COMPILE") == "1":
        return []
    from Cython.Build import cythonize  # noqa: PLC0415 - not needed where nothing is compiled

    kernels = Extension(
        f"{twins.PACKAGE}.{LOOPS}",
        [write_copy()],
        include_dirs=[str(SOURCES), str(COPIES / SOURCES)],
        extra_compile_args=["-O3", "-fwrapv", "-g0"],
    )
    cythonized: list[Extension] = cythonize([kernels], include_path=[".", str(COPIES)], language_level=3)
    for extension in cythonized:  # cythonize makes new objects without this attribute
        extension.optional = os.environ.get(twins.REQUIRE) != "1"
    return cythonized


os.chdir(HERE)
setup(ext_modules=extensions())
