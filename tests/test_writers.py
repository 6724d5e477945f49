"""Who writes to a disk: the modules that are named here, each with its reason, and no other one."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.for_each import for_each
from tests.support.product import modules

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITERS: Final = {
    "kafkalog_core/storage/changing/writer.py": "the one door through which a broker's files are changed",
    "kafkalog_core/storage/changing/lock.py": "a broker's .lock, opened as POSIX locks require; nothing is written",
    "kafkalog_core/engine/processes.py": "a temporary directory for what processes of one run leave for each other",
    "kafkalog_core/engine/spool.py": "temporary files in the directory of a pool, from its processes to the first one",
    "kafkalog_core/ops/dump/parallel.py": "the standard output, to which rows of other processes are passed on",
    "kafkalog_core/ops/compact/simulation.py": "temporary files of its own, from one simulated clean to the next",
    "kafkalog_core/spark/lake/store.py": "the files of a table, through the file systems of pyarrow",
    "kafkalog_core/ops/recover/joined.py": "a temporary file with new content, until the plan is made",
    "kafkalog_core/ops/impact/planned.py": "a temporary directory with what a plan would leave, next to no disk",
    "kafkalog_core/spark/session/session.py": "Spark's temporary directory, and its log",
    "kafkalog_core/spark/lake/parquet.py": "the Parquet file of a job, which it removes if the job fails",
    "kafkalog_core/spark/lake/clouds.py": "the same in an object store: a file system that passes its calls on",
    "kafkalog_core/spark/catalog/notes.py": "the notes of a catalog, a Parquet file",
    "kafkalog_cli/line_writer.py": "lines on stderr",
    "kafkalog_core/serve/network/socket_server.py": "sendfile, from a file to a socket",
    "kafkalog_core/serve/network/processors.py": "a byte to the pipe that wakes a thread",
    "kafkalog_cli/output_file.py": "the file that a user asked for, never among those of a broker",
    "kafkalog_cli/commands/bench.py": "a log of its own in a temporary directory",
    "kafkalog_cli/render/serve_table.py": "the terminal that stderr is",
    "kafkalog_cli/__main__.py": "the terminal, when a run is interrupted",
}
_OS: Final = re.compile(
    "O_APPEND|O_CREAT|O_RDWR|O_TMPFILE|O_TRUNC|O_WRONLY|chflags|copy_file_range|f?chmod|[fl]?chown|fdatasync|fsync|"
    "f?truncate|link|mkdir|makedirs|mkfifo|mknod|posix_fallocate|p?writev?|remove(dirs|xattr)?|renames?|replace|rmdir|"
    "sendfile|setxattr|splice|symlink|unlink|utime"
)
"""What of the module os changes a disk; the flags are those with which a file is opened for it."""
_SHUTIL: Final = re.compile("chown|copy.*|make_archive|move|rmtree|unpack_archive")
_PATH: Final = re.compile("hardlink_to|symlink_to|touch|write_bytes|write_text")
_PATH_WITHOUT_ARGUMENTS: Final = re.compile("mkdir|rmdir|unlink")
"""Methods of paths; our one door has methods of these names too, which take a path."""


@for_each(modules)
def test_only_modules_with_a_reason_write_to_a_disk(path: str) -> None:
    found = list(_writes(modules()[path]))
    assert bool(found) == (path in WRITERS), found


def test_every_module_with_a_reason_exists() -> None:
    assert not WRITERS.keys() - modules().keys()


@pytest.mark.parametrize(
    "text",
    [
        "open(path, 'wb')",
        "open(path, mode)",
        "open(path, mode='r+b')",
        "path.open('xb')",
        "path.open(mode='a')",
        "os.fdopen(number, 'wb')",
        "os.open(path, os.O_RDWR)",
        "flags = os.O_CREAT",
        "os.unlink(path)",
        "remove = os.remove",
        "from os import replace",
        "import os as system",
        "from shutil import rmtree",
        "shutil.rmtree(path)",
        "tempfile.mkdtemp()",
        "path.write_bytes(b'')",
        "path.unlink()",
        "path.mkdir(parents=True)",
        "os.open(path, 1)",
        "gzip.open(path, 'wb')",
        "from tempfile import mkdtemp",
        "pq.ParquetWriter(path, schema)",
        "files.open_output_stream(path)",
        "files.delete_file(path)",
    ],
)
def test_a_write_is_noticed(text: str) -> None:
    assert list(_writes(text))


@pytest.mark.parametrize(
    "text", ["open(path, 'rb')", "Source.open(path)", "os.open(path, os.O_RDONLY)", "disk.unlink(path)", "os.getpid()"]
)
def test_a_read_is_none(text: str) -> None:
    assert not list(_writes(text))


def _writes(text: str) -> Iterator[str]:
    """Yield what changes a disk, or may do so without being noticed here."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if _OS.fullmatch(name):
                yield name
            case ast.Attribute(value=ast.Name(id="shutil"), attr=name) if _SHUTIL.fullmatch(name):
                yield name
            case ast.Import() | ast.ImportFrom():
                yield from _hidden(node)
            case ast.Call(func=ast.Name(id=name)):
                yield from _opens(node, name)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                yield from _calls(node, ast.unparse(owner), name)


def _hidden(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield imports that would give a writing function, or its module, another name."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.asname and alias.name in {"os", "shutil", "tempfile"})
    elif node.module == "tempfile":
        yield from (alias.name for alias in node.names)
    elif node.module in {"os", "shutil"}:
        changing = _OS if node.module == "os" else _SHUTIL
        yield from (alias.name for alias in node.names if changing.fullmatch(alias.name))


def _calls(call: ast.Call, owner: str, name: str) -> Iterator[str]:
    if owner == "tempfile" and name != "gettempdir":
        yield name
    elif name == "open" and owner != "os" and all(each.arg != "fileobj" for each in call.keywords):
        given = [*call.args[:2], *(each.value for each in call.keywords if each.arg == "mode")]
        modes = [each.value for each in given if isinstance(each, ast.Constant)]
        yield from (
            mode for mode in modes if isinstance(mode, str) and re.fullmatch("[rwaxbt+]{0,2}[wax+][bt+]{0,2}", mode)
        )
    elif owner == "os":
        yield from _opens(call, name)
    elif (
        name
        in {"ParquetWriter", "write_table", "create_dir", "delete_file", "open_append_stream", "open_output_stream"}
        or (_PATH.fullmatch(name) and owner != "formatter")
        or (_PATH_WITHOUT_ARGUMENTS.fullmatch(name) and not call.args)
    ):
        yield name


def _opens(call: ast.Call, name: str) -> Iterator[str]:
    """Yield an open whose mode is not plainly one of reading."""
    if name == "open" and isinstance(call.func, ast.Attribute):  # os.open: its flags are found by their names
        yield from (name for each in call.args[1:2] if isinstance(each, ast.Constant))
    elif name in {"open", "fdopen"}:
        given = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "mode")]
        if any(not isinstance(each, ast.Constant) or set(str(each.value)) & set("wax+") for each in given):
            yield name
