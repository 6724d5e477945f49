"""Which twin of the kernels runs, and that an extension built from another text is refused."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kafkalog_core import kernels, twins
from kafkalog_core.kernels import loops
from tests.support.twins import TWINS, twin

PACKAGE = Path(str(kernels.__file__)).parent
NEVER_COMPILED = {"__init__", "_cython"}
TEXTS = (*(f"{name}.py" for name in twins.MODULES), *twins.NATIVE, *twins.LAYOUT)
STUB = PACKAGE / "loops.pyi"


def functions(path: Path) -> dict[str, list[str]]:
    """Names of the arguments of each function of a module."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {
        node.name: [argument.arg for argument in node.args.args] for node in body if isinstance(node, ast.FunctionDef)
    }


def test_twins_are_what_their_names_say():
    for name in TWINS:
        module = twin(name)
        is_compiled = name == "compiled"
        assert module.COMPILED is is_compiled
        assert module.loops.COMPILED is is_compiled
        assert str(module.loops.__file__).endswith(".py") is not is_compiled
        assert module.decode.__code__.co_filename.endswith("__init__.py")
    assert len({id(twin(name)) for name in TWINS}) == len(TWINS)


def test_stand_in_is_not_cython():
    assert twin("stand-in").loops.cython.__name__.endswith("._cython")


def test_loading_a_twin_leaves_the_product_alone():
    before = {name: module for name, module in sys.modules.items() if name.startswith(twins.PACKAGE)}
    finders = list(sys.meta_path)
    twins.interpreted()
    assert {name: module for name, module in sys.modules.items() if name.startswith(twins.PACKAGE)} == before
    assert sys.meta_path == finders
    assert sys.modules["kafkalog_core"].kernels is kernels


def test_every_module_is_compiled_or_known_not_to_be():
    assert {path.stem for path in PACKAGE.glob("*.py")} == {*twins.MODULES, *NEVER_COMPILED}


def test_nobody_takes_a_loop_from_where_it_is_not_compiled():
    sources = set(twins.MODULES) - {"loops", *twins.NUMBERS}
    taken = re.compile(
        rf"from {re.escape(twins.PACKAGE)}(?:\.(?:{'|'.join(sources)})\b| import .*\b(?:{'|'.join(sources)})\b)"
    )
    root = PACKAGE.parents[2]
    others = [*root.glob("kafkalog_c*/**/*.py"), *root.glob("benchmarks/*.py"), *root.glob("tools/**/*.py")]
    for path in others:
        if path.parent != PACKAGE:
            assert not taken.search(path.read_text(encoding="utf-8")), path


# --- the stub ---------------------------------------------------------------------------------------------------------
def test_the_stub_declares_what_the_modules_define():
    defined = {}
    for name in set(twins.MODULES) - {"loops", *twins.NUMBERS}:
        defined |= functions(PACKAGE / f"{name}.py")
    assert functions(STUB) == {name: defined[name] for name in loops.__all__}
    assert set(ast.literal_eval(_all_of(STUB))) == set(ast.literal_eval(_all_of(STUB.with_suffix(".py"))))
    assert list(PACKAGE.glob("*.pyi")) == [STUB]


def test_the_loops_are_functions_that_their_modules_export():
    exported = set()
    for name in set(twins.MODULES) - {"loops", *twins.NUMBERS}:
        path = PACKAGE / f"{name}.py"
        public = {key for key in functions(path) if not key.startswith("_")}
        assert set(ast.literal_eval(_all_of(path))) == public
        assert not exported & public, path
        exported |= public
    assert set(loops.__all__) <= exported
    assert all(callable(getattr(loops, name)) for name in loops.__all__)


def _all_of(path: Path) -> ast.expr:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return node.value
    raise AssertionError(path)


# --- the hash ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def built(tmp_path):
    """Sources with an extension that was built from them, or says so."""
    directory = tmp_path / "kernels"
    directory.mkdir()
    (tmp_path / "format").mkdir()
    for name in TEXTS:
        shutil.copy(PACKAGE / name, directory / name)
    extension = ModuleType(f"{twins.PACKAGE}.loops")
    extension.__file__ = str(directory / "loops.cpython-311-x86_64-linux-gnu.so")
    extension.COMPILED = True
    extension.SOURCE_HASH = twins.text_hash(str(directory))
    return extension


def test_an_extension_of_this_text_runs(built):
    assert twins.runs_compiled(built)


@pytest.mark.parametrize("name", TEXTS)
def test_an_extension_of_another_text_is_refused(built, tmp_path, name):
    with (tmp_path / "kernels" / name).open("a", encoding="utf-8") as source:
        source.write("\n")
    with pytest.raises(
        ImportError, match=r"\.so was compiled from another text than its source has now: build it again"
    ):
        twins.runs_compiled(built)


def test_an_extension_without_its_sources_runs(built, tmp_path):
    (tmp_path / "kernels" / "search.py").unlink()
    assert twins.runs_compiled(built)


def test_the_extension_at_hand_is_of_this_text():
    if kernels.COMPILED:
        assert twins.text_hash(str(PACKAGE)) == loops.SOURCE_HASH
    else:
        assert loops.SOURCE_HASH == "interpreted"


def test_interpreted_kernels_are_refused_where_they_must_be_compiled(monkeypatch):
    plain = twin("interpreted").loops
    monkeypatch.setenv(twins.REQUIRE, "1")
    with pytest.raises(
        ImportError, match=r"KAFKALOG_REQUIRE_COMPILED is 1, but .*loops is not compiled: build it again"
    ):
        twins.runs_compiled(plain)
    monkeypatch.setenv(twins.REQUIRE, "0")
    assert twins.runs_compiled(plain) is False


def test_the_interpreted_twin_can_be_had_where_the_product_must_be_compiled(monkeypatch):
    if kernels.COMPILED:
        monkeypatch.setenv(twins.REQUIRE, "1")
    assert twins.interpreted().COMPILED is False


def test_what_ci_requires_is_so():
    assert kernels.COMPILED or os.environ.get(twins.REQUIRE) != "1"
