"""The front doors `kafkalog_core` and `kafkalog_core.spark`: lazy, typed and documented names are the same."""

from __future__ import annotations

import ast
import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog_core
import kafkalog_core.spark
from kafkalog_core import PlanRequest, SettingError, make_plan, resolve, target_dirs
from tests.support.checkpoint_dirs import NOW_MS, write_log_dir
from tests.support.for_each import for_each

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
DOORS = [kafkalog_core, kafkalog_core.spark]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
PROGRAMS = sorted(ROOT.glob("docs/**/*.py"))
LIBRARY = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")


def _tree(door: ModuleType) -> ast.Module:
    return ast.parse(Path(str(door.__file__)).read_text(encoding="utf-8"))


def _typed(door: ModuleType) -> dict[str, str]:
    """The names that a type checker imports, each with its module."""
    return {
        alias.name: str(statement.module)
        for block in _tree(door).body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname is None
    }


def _examples(page: Path) -> list[str]:
    """The Python text of a page."""
    parser = doctest.DocTestParser()
    text = page.read_text(encoding="utf-8")
    plain = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^```pycon\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [*plain, *("".join(example.source for example in parser.get_examples(block)) for block in shown)]


def _imported(text: str) -> set[tuple[str, str]]:
    """Module and name of everything of ours that a text imports."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found |= {(str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(alias.name, "*") for alias in node.names}
    return {(module, name) for module, name in found if module.partition(".")[0].startswith("kafkalog")}


# --- the names ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("door", DOORS)
def test_lazy_typed_and_promised_names_are_the_same(door: ModuleType) -> None:
    prefix = f"{door.__name__}."
    lazy = {name: prefix + home for name, home in door._HOME_OF.items()}
    assert _typed(door) == lazy
    assert len(door.__all__) == len(set(door.__all__))
    assert set(door.__all__) == set(lazy) == set(dir(door))


@pytest.mark.parametrize("door", DOORS)
def test_each_name_is_exported_by_the_module_that_defines_it(door: ModuleType) -> None:
    """A name that a module only imports is not typed for checkers that refuse implicit re-exports."""
    missing = [name for name, home in _typed(door).items() if name not in _exported(home)]
    assert missing == []


def _exported(home: str) -> list[str]:
    """`__all__` of a module, read and not run: modules of Spark import what is not installed everywhere."""
    path = ROOT / home.replace(".", "/")
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def test_every_promised_name_can_be_imported() -> None:
    for name in kafkalog_core.__all__:
        assert getattr(kafkalog_core, name) is not None


@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_name_is_an_attribute_error(door: ModuleType) -> None:
    assert not hasattr(door, "no_such_name")


@pytest.mark.parametrize("door", DOORS)
def test_to_import_a_door_imports_nothing_else_of_ours(door: ModuleType) -> None:
    program = f"import sys, {door.__name__}; print(*(name for name in sys.modules if name.startswith('kafkalog')))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert done.stdout.split() == list(dict.fromkeys(["kafkalog_core", door.__name__]))


def test_what_repairs_take_give_and_raise_is_promised() -> None:
    """The types of all parameters and results of the functions of plan, apply and undo, and what they hold."""
    meant = {
        "Change",
        "Journal",
        "Loss",
        "PlanReport",
        "PrunePlan",
        "ReleaseGuess",
        "Scope",
        "SettingError",
        "PlanDraft",
    }
    meant |= {"SettingsRequest", "UndoPlan", "WriteError", "apply_prune", "infer_release", "plan_prune", "resume"}
    assert meant <= set(kafkalog_core.__all__)


# --- the examples -------------------------------------------------------------------------------------------------
@for_each(PAGES, name=lambda page: page.relative_to(ROOT))
def test_examples_import_from_the_front_doors_alone(page: Path) -> None:
    for text in _examples(page):
        _check_public(text)


@for_each(PROGRAMS, name=lambda program: program.relative_to(ROOT))
def test_programs_import_from_the_front_doors_alone(program: Path) -> None:
    _check_public(program.read_text(encoding="utf-8"))


def _check_public(text: str) -> None:
    public = {(door.__name__, name) for door in DOORS for name in door.__all__}
    assert sorted(_imported(text) - public) == []


def test_each_name_has_an_example() -> None:
    used = {
        node.id
        for text in _examples(ROOT / "docs" / "library.md")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name)
    }
    assert set(kafkalog_core.__all__) - used == set()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the disks that examples read and change, which is the working directory."""
    for name in ("demo", "damaged"):
        shutil.copytree(ROOT / "fixtures" / name, tmp_path / "fixtures" / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_examples_of_the_library_print_what_the_page_shows() -> None:
    page = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", LIBRARY, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(page, {}, "docs/library.md", None, 0)
    lines: list[str] = []
    failed, tried = doctest.DocTestRunner().run(test, out=lines.append)
    assert (failed, tried > 50) == (0, True), "".join(lines)


# --- plans --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("command", ["reindex", "truncate", "checkpoint", "retain", "compact"])
@pytest.mark.parametrize("options", [{}, {"kafka": None}, {"kafka": {}}, {"kafka": {"kafka": "4.3"}}])
def test_a_plan_needs_no_options(tmp_path: Path, command: str, options: dict[str, Any]) -> None:
    log_dir = write_log_dir(tmp_path / "disk", is_clean=True)
    (site,) = target_dirs(resolve([str(log_dir)]))
    assert make_plan(command, PlanRequest(target=site, options=options, now_ms=NOW_MS)).plan.changes == ()


@pytest.mark.parametrize("command", ["reindex", "truncate", "checkpoint", "retain", "compact"])
@pytest.mark.parametrize(
    "kafka", [5, "4.3", [], {"release": "4.3"}, {"kafka": 4.3}, {"assignments": "a=b"}, {"topic_assignments": [1]}]
)
def test_an_option_of_another_type_is_refused(tmp_path: Path, command: str, kafka: Any) -> None:
    """As in a file of a plan that somebody has edited."""
    log_dir = write_log_dir(tmp_path / "disk", is_clean=True)
    (site,) = target_dirs(resolve([str(log_dir)]))
    with pytest.raises(SettingError, match="the option kafka is an object with these members"):
        make_plan(command, PlanRequest(target=site, options={"kafka": kafka}, now_ms=NOW_MS))
