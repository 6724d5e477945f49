"""Docstrings name modules that exist: a module that is renamed is renamed there too."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import PurePosixPath

from tests.support.for_each import for_each
from tests.support.product import modules

DOTTED = re.compile(r"`([a-z_]\w*(?:\.\w+)+)`")
DEFINED = re.compile(r"^ *(?:def |class |self\.)?(\w+)(?=[(:\[ ])", re.MULTILINE)
STARRED = "kafkalog_core.kernels"
"""It imports all names of its modules."""
IMPORTED = re.compile(r"^from \S+ import (\w[\w, ]*)$", re.MULTILINE)
QUOTED = re.compile(r'"(\w+)"')
LISTED = re.compile(r"^(?:-|\d\.) ((?:`\w+`(?:, |:| ))+)", re.MULTILINE)
FOREIGN = {
    *("bootstrap.checkpoint", "client_table.txt", "meta.properties", "partition.metadata", "schemas.txt"),
    *("allow.everyone.if.no.acl.found", "log.dirs", "metadata.version", "remote.storage.enable", "security.capability"),
    *("log.flush.start.offset.checkpoint.interval.ms", "spark.deploy.maxExecutorRetries"),
    "state.change.logger",
    "io.cache",
    *("kafka.producer.DefaultPartitioner", "kafka.utils.Utils.abs"),
}
"""Settings and files of Kafka, of Spark and of systems, and a field of a kernel."""
LIBRARIES = {*sys.stdlib_module_names, "click", "cramjam", "org", "rich"}
COMPLETE = ("kafkalog_core.kafka.rules", "kafkalog_core.kafka.sim", "kafkalog_core.kafka.sim.start")
"""Packages of which a docstring lists every module: their own, or that of the package that they are in."""


def dotted_name(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def docstrings(text: str) -> list[str]:
    """Those of a module, its classes, functions and constants."""
    return [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


@cache
def texts() -> dict[str, str]:
    return {dotted_name(path): text for path, text in modules().items()}


@cache
def defined(module: str) -> frozenset[str]:
    """Names that a module defines, has as an attribute, promises or imports on one line."""
    inside = [text for other, text in texts().items() if module == STARRED and other.startswith(f"{module}.")]
    found = [name for text in (texts()[module], *inside) for name in DEFINED.findall(text)]
    imported = [name for names in IMPORTED.findall(texts()[module]) for name in names.split(", ")]
    return frozenset((*found, *imported, *QUOTED.findall(texts()[module])))


@cache
def ends() -> dict[str, list[str]]:
    """Modules by each end of their names: `sim.start` and `start` of `kafkalog_core.kafka.sim.start`."""
    found: dict[str, list[str]] = {}
    for module in texts():
        words = module.split(".")
        for first in range(len(words)):
            found.setdefault(".".join(words[first:]), []).append(module)
    return found


@cache
def exists(name: str) -> bool:
    """Whether a name is one of a module, of a file, or of something in a module, from any package on."""
    if name.endswith(".py"):
        return any(PurePosixPath(path).name == name for path in modules())
    if name in ends():
        return True
    words = name.split(".")
    return any(
        words[count] in defined(module)
        for count in range(1, len(words))
        for module in ends().get(".".join(words[:count]), ())
    )


def not_found(text: str) -> list[str]:
    names = {name for doc in docstrings(text) for name in DOTTED.findall(doc)}
    return sorted(name for name in names - FOREIGN if name.split(".")[0] not in LIBRARIES and not exists(name))


def listed(doc: str) -> set[str]:
    """The modules that the items of a list begin with."""
    return {name for item in LISTED.findall(doc) for name in re.findall(r"\w+", item)}


@for_each(modules)
def test_every_module_that_a_docstring_names_exists(path: str) -> None:
    assert not_found(modules()[path]) == []


@for_each([path for path in modules() if path.endswith("__init__.py")])
def test_every_module_that_a_package_lists_is_in_it(path: str) -> None:
    package = dotted_name(path)
    inside = {word for module in texts() if module.startswith(f"{package}.") for word in module.split(".")}
    assert listed((docstrings(modules()[path]) or [""])[0]) - inside == set()


@for_each(COMPLETE)
def test_these_packages_list_all_their_modules(package: str) -> None:
    docs = [docstrings(texts()[name])[0] for name in (package, package.rpartition(".")[0])]
    inside = {module for module in texts() if module.rpartition(".")[0] == package}
    assert sorted(module for module in inside if not any(f"`{module.rpartition('.')[2]}`" in doc for doc in docs)) == []


def test_planted_names_are_found() -> None:
    for name in ("walk.walk_as_broker", "cleaner.rules", "kafka.start.outcome", "rules.LoaderRules", "no_such.py"):
        assert not_found(f"def f():\n    '''See `{name}`.'''\n") == [name]
    for name in ("broker_walk.walk_as_broker", "kafka.sim.start", "rule_table.LoaderRules", "columns.py", "os.access"):
        assert not_found(f"'''See `{name}`.'''\n") == []
    assert listed("- `a`, `b`: c `d`\n1. `e`: f\n") == {"a", "b", "e"}
