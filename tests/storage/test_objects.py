"""An object store that is read as a file system, on a real S3 server: equal results, and what fails on the way."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.processes import Pool
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import NotFoundError, ObjectReplacedError
from kafkalog_core.ops.verify import engine
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage import object_file, objects
from kafkalog_core.storage.listing import list_directory, stat_path
from kafkalog_core.storage.object_file import ObjectFile
from kafkalog_core.storage.object_paths import REACHING, StorageOptions
from kafkalog_core.storage.reading import READING, ReadLimit
from kafkalog_core.storage.source import FileChange, Source
from tests.support.bad_line import bad_line
from tests.support.build import Record, batch_v2
from tests.support.corpus import archives
from tests.support.every_command import commands
from tests.support.memory import PROMISED_BYTES, peak_bytes
from tests.support.s3 import BUCKET, Requests, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.spark
pytest.importorskip("pyarrow", reason="the extra [lake] is not installed")
FIXTURES: Final = Path(__file__).resolve().parents[2] / "fixtures"
NOW_MS: Final = 1_796_000_000_000
BUSY: Final = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
PLACES: Final = ("meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("s3") / "data")
    for name in ("demo", "damaged", "replicas"):
        shutil.copytree(FIXTURES / name, running.files / name)
    yield running
    running.close()


@pytest.fixture(autouse=True)
def reached(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    reach(monkeypatch, server.options())
    yield
    objects.forget()


def reach(monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> None:
    """Set the environment, as a user does."""
    for name, value in options.items():
        monkeypatch.setenv(name, value)
    objects.forget()


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def uri(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


def batch(base: int, count: int = 10, size_bytes: int = 100) -> bytes:
    records = [
        Record(offset=base + at, key=b"k", value=b"v" * size_bytes, timestamp_ms=base + at) for at in range(count)
    ]
    return batch_v2(records)


def log_of(count: int, size_bytes: int = 100) -> bytes:
    return b"".join(batch(base, size_bytes=size_bytes) for base in range(0, count, 10))


def write(server: Server, partition: str, data: bytes) -> Path:
    directory = server.files / partition
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{0:020}.log"
    path.write_bytes(data)
    return path


# --- the same as of directories ---------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def tree(server: Server) -> Path:
    directory = server.files / "corpus"
    archives.unpack(FIXTURES, directory)
    return directory


def log_dirs(tree: Path) -> list[Path]:
    """A log directory of each case, or all its partitions."""
    found: dict[str, Path] = {}
    for path in sorted(tree.rglob("*")):
        case = "/".join(path.relative_to(tree).parts[:2])
        if path.name in PLACES or path.suffix in {".log", ".kafka"}:
            found.setdefault(case, path.parent)
    return list(found.values())


FORMS: Final = (
    ("verify", "--output", "ndjson", "--jobs", "1"),
    ("dump", "--records", "--output", "ndjson"),
    ("dump", "--files", "--segments", "--output", "ndjson"),
    ("dump", "--records", "--committed", "--output", "csv"),
    ("dump", "--newest-first", "--path", "--output", "csv"),
    ("seek", "--offset", "3", "--output", "ndjson"),
)


def same(text: str, top: str) -> str:
    """The output with paths below one place, without parts of a second, which an object store does not keep.

    Also without next commands: one that changes files takes no object.
    """
    lines = (line for line in text.splitlines() if "aws s3 ls" not in line and "-name recovery-point" not in line)
    left_out = r'"mtime_ms":\d+|"next_command":(?:null|"(?:[^"\\]|\\.)*")'
    return re.sub(left_out, "", "\n".join(lines)).replace(top, "TOP")


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_every_case_is_read_as_from_a_directory(form: tuple[str, ...], tree: Path) -> None:
    places = log_dirs(tree)
    assert len(places) > 40
    for place in places:
        here, there = run(*form, str(place)), run(*form, uri(f"corpus/{place.relative_to(tree)}"))
        expected = [same(str(each), str(tree)) for each in here]
        assert [same(str(each), uri("corpus")) for each in there] == expected, place


@pytest.mark.parametrize("form", FORMS[:3], ids=" ".join)
@pytest.mark.parametrize(
    "names",
    [("demo",), ("damaged/*",), ("demo/*-0/*.log",), ("replicas/broker-1", "replicas/broker-2"), ("**/orders-0",)],
)
def test_paths_and_patterns(form: tuple[str, ...], names: tuple[str, ...], tmp_path: Path, server: Server) -> None:
    for name in ("demo", "damaged", "replicas"):
        shutil.copytree(server.files / name, tmp_path / name)
    names = tuple(name.replace("**", "demo") for name in names)
    here, there = run(*form, *(str(tmp_path / name) for name in names)), run(*form, *map(uri, names))
    assert [same(str(each), uri("")[:-1]) for each in there] == [same(str(each), str(tmp_path)) for each in here]


def test_bytes_of_log_for_the_progress(server: Server) -> None:
    targets = resolve([uri("demo")])
    assert engine.log_bytes(targets) == engine.log_bytes(resolve([str(server.files / "demo")])) > 0
    assert engine.log_bytes(resolve([uri("demo/orders-0")])) == sum(
        path.stat().st_size for path in (server.files / "demo/orders-0").glob("*.log")
    )


def test_a_pattern_of_all_levels() -> None:
    assert [each.rpartition("/")[2] for each in objects.matching(uri("demo/**/*.txnindex"))] == [f"{5:020}.txnindex"]
    assert uri("demo/orders-0") in objects.matching(uri("**/orders-0"))
    assert objects.matching(uri("demo/orders-?")) == [uri("demo/orders-0"), uri("demo/orders-1")]


def test_other_processes_reach_it_without_an_environment(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    options = tuple(server.options().items())
    for name, _ in options:
        monkeypatch.delenv(name)
    monkeypatch.setattr(REACHING, "options", StorageOptions(options))
    request = VerifyRequest(targets=tuple(resolve([uri("demo")])), level="records", now_ms=NOW_MS)
    alone = [verdict.findings for verdict in verify(request)]
    monkeypatch.setattr(engine, "SHARED_PARTITION_BYTES", 1)
    with Pool(2, NO_PROGRESS) as pool:
        assert [verdict.findings for verdict in verify(request, workers=pool)] == alone


def test_the_option(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    given = [word for pair in server.options().items() for word in ("--storage-option", "=".join(pair))]
    expected = run("dump", "--output", "csv", uri("demo"))
    for name in server.options():
        monkeypatch.delenv(name)
    assert run("dump", "--output", "csv", *given, uri("demo")) == expected
    assert run("verify", "--quiet", "--jobs", "2", *given, uri("demo"))[0] == 0
    assert REACHING.options == StorageOptions()


def test_a_tiered_segment_that_is_not_transformed(server: Server) -> None:
    """Aiven's plugin names objects TOPIC-ID/PARTITION/OFFSET-ID.log: logs, unless it compresses or encrypts them."""
    directory = server.files / "tiered/orders-AAAAAAAAAAAAAAAAAAAAAQ/0"
    directory.mkdir(parents=True)
    name = f"{41:020}-J2nHgx6fS4WCkXr9gpTrUA"
    shutil.copy(FIXTURES / f"demo/orders-0/{41:020}.log", directory / f"{name}.log")
    (directory / f"{name}.rsm-manifest").write_text('{"version":"1"}')
    status, rows, _ = run("dump", "--records", "--output", "ndjson", uri("tiered/*/*/*.log"))
    offsets = [row["offset"] for row in map(json.loads, rows.splitlines()) if row["type"] == "record"]
    assert (status, offsets) == (0, [*range(41, 92)])
    status, _, said = run("dump", uri(f"tiered/orders-AAAAAAAAAAAAAAAAAAAAAQ/0/{name}.rsm-manifest"))
    assert status == 3
    assert "its name is not of a file that Kafka writes" in said


# --- ranges -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(5))
def test_any_reads_give_the_bytes_of_the_object(seed: int, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_file, "RANGE_BYTES", 64 * 1024)
    monkeypatch.setattr(object_file, "_LARGE_BYTES", 20 * 1024)
    monkeypatch.setattr(object_file, "_FIRST_BYTES", 4 * 1024)
    dice = random.Random(seed)
    data = dice.randbytes(dice.choice([100, 4096, 4097, 300_000, 1_000_000]))
    (server.files / f"bytes-{seed}").write_bytes(data)
    with Source.open(uri(f"bytes-{seed}")) as source:
        at = 0
        for _ in range(400):
            at = dice.choice([at, at, dice.randrange(len(data) + 10)])
            size_bytes = dice.choice([1, 17, 1000, 30_000, 200_000])
            assert bytes(source.window(at, size_bytes)) == data[at : at + size_bytes]
            peeks = source.peeks()
            assert peeks(at) is (at + 17 <= len(data))
            assert not peeks(at) or bytes(source.peeked) == data[at : at + 17]
            at += size_bytes
        assert source.refresh() is FileChange.NONE


def test_reading_forwards_asks_for_each_byte_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random.Random(1).randbytes(30_000_000)
    (server.files / "forwards").write_bytes(data)
    with Requests(server.port) as line:
        reach(monkeypatch, server.options(line.port))
        with Source.open(uri("forwards")) as source:
            assert b"".join(bytes(source.window(at)) for at in range(0, len(data), 1 << 20)) == data
        ranges = [request for request in line.seen if request.startswith("GET")]
        assert len(ranges) == -(-len(data) // object_file.RANGE_BYTES)
        line.seen.clear()
        with Source.open(uri("forwards")) as source:
            source.wanted_to = 100_000
            source.window(0, 1 << 20)
        asked = [request.partition(" ")[0] for request in line.seen]
        assert asked == ["GET", "HEAD"]  # one range is all that is wanted; then, whether it is still the same


def test_a_limit_counts_what_is_transferred(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (server.files / "limited").write_bytes(bytes(10_000_000))
    slept: list[float] = []
    monkeypatch.setattr(READING, "limit", ReadLimit(1_000_000, lambda: sum(slept), slept.append))
    with Source.open(uri("limited")) as source:
        for at in range(0, 10_000_000, 1 << 20):
            source.window(at)
    assert sum(slept) == pytest.approx(10, abs=0.2)


def test_what_a_listing_and_a_status_show(server: Server) -> None:
    path = server.files / "demo/orders-0" / f"{0:020}.log"
    (listed,) = [file for file in list_directory(uri("demo/orders-0")).files if file.name.raw == path.name]
    seen = stat_path(uri(f"demo/orders-0/{path.name}"))
    with Source.open(uri(f"demo/orders-0/{path.name}")) as source:
        assert source.version == (listed.device, listed.inode, listed.size_bytes, listed.mtime_ns)
    assert (seen.st_ino, seen.st_size, seen.st_mtime_ns) == (listed.inode, listed.size_bytes, listed.mtime_ns)
    assert (listed.size_bytes, listed.mtime_ns) == (path.stat().st_size, path.stat().st_mtime_ns // 10**9 * 10**9)


# --- objects that change ----------------------------------------------------------------------------------------------
def once(matches: str, change: Callable[[], object]) -> Callable[[str], bytes | None]:
    """Change something before the first request that matches."""
    left = [change]

    def before(request: str) -> None:
        if re.search(matches, request) and left:
            left.pop()()

    return before


def codes(text: str) -> list[str]:
    return [row["code"] for row in map(json.loads, text.splitlines()) if row["type"] == "finding"]


def test_an_object_that_vanishes_after_it_was_listed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(server, "vanishes/t-0", log_of(100))
    write(server, "vanishes/t-1", log_of(100))
    with Requests(server.port, once(r"^HEAD \S+/t-0/0+\.log", path.unlink)) as line:
        reach(monkeypatch, server.options(line.port))
        status, rows, _ = run("dump", "--records", "--output", "ndjson", uri("vanishes"))
    assert "file.vanished" in codes(rows)
    assert sum('"type":"record"' in row for row in rows.splitlines()) == 100
    assert status in {0, 4}


@pytest.mark.parametrize("verb", ["dump --records", "verify --jobs 1", "dump --segments"])
def test_an_object_that_is_deleted_while_it_is_read(verb: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"deleted-{len(verb)}/t-0"
    path = write(server, place, log_of(20_000, size_bytes=1000))
    with Requests(server.port, once(r"0+\.log 12582912-", path.unlink)) as line:
        reach(monkeypatch, server.options(line.port))
        status, rows, _ = run(*verb.split(), "--output", "ndjson", uri(place))
    assert status == 4
    assert "file.not-readable" in codes(rows)
    assert "file.vanished" not in codes(rows)
    assert re.search(r"the object was deleted while it was read: the bytes from \d+ on were not read", rows)


def test_an_export_commits_nothing_of_an_object_that_is_deleted(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write(server, "deleted-export/t-0", log_of(20_000, size_bytes=1000))
    export = ("spark", "export", "--to", str(tmp_path / "out"), "--output", "ndjson", uri("deleted-export/t-0"))
    with Requests(server.port, once(r"0+\.log 12582912-", path.unlink)) as line:
        reach(monkeypatch, server.options(line.port))
        status, rows, said = run(*export)
    assert status == 3
    assert "deleted while it was read" in said
    assert "nothing of this run is committed" in said
    path.write_bytes(log_of(20_000, size_bytes=1000))
    reach(monkeypatch, server.options())
    status, rows, _ = run(*export)
    exported = [row for row in map(json.loads, rows.splitlines()) if row["type"] == "export"]
    assert (status, [row["records"] for row in exported]) == (0, [20_000])


@pytest.mark.parametrize("size", [20_000, 20_010, 10_000])
@pytest.mark.parametrize("verb", ["dump --records", "verify --jobs 1"])
def test_an_object_that_is_replaced_while_it_is_read(
    verb: str, size: int, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another one as large, a larger one, and one that ends before the next range."""
    place = f"replaced-{size}-{verb[0]}/t-0"
    path = write(server, place, log_of(20_000, size_bytes=1000))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    with Requests(
        server.port, once(r"0+\.log 12582912-", lambda: path.write_bytes(log_of(size, size_bytes=1000)))
    ) as line:
        reach(monkeypatch, server.options(line.port))
        status, rows, said = run(*verb.split(), "--output", "ndjson", uri(place))
    assert status == 4
    assert "object.replaced" in codes(rows), said


@pytest.mark.parametrize(
    "verb",
    [
        "dump --records --limit 18000",
        "dump --records --offsets 0..17999",
        "dump --records --max-count 18000 --contains v",
        "dump --records --newest-first --limit 18000",
        "seek --value-hex 00",
        "verify --jobs 2",
    ],
)
@pytest.mark.parametrize("is_file", [False, True])
def test_an_object_that_is_replaced_and_not_read_to_its_end(
    verb: str, is_file: bool, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"replaced-early-{len(verb)}-{is_file}/t-0"
    path = write(server, place, log_of(20_000, size_bytes=1000))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    with Requests(
        server.port, once(r"0+\.log 1\d{7}-", lambda: path.write_bytes(log_of(20_000, size_bytes=1000)))
    ) as line:
        reach(monkeypatch, server.options(line.port))
        status, rows, said = run(*verb.split(), "--output", "ndjson", uri(f"{place}/{path.name}" if is_file else place))
    if is_file and "verify" not in verb:  # a named file is the whole result
        assert (status, "rows of two objects may be mixed; run the command again" in said) == (3, True)
    else:
        assert status == 4
        assert "object.replaced" in codes(rows), said


def test_an_export_commits_nothing_of_an_object_that_is_replaced(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = log_of(20_000, size_bytes=1000)
    path = write(server, "replaced-export/t-0", data)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    export = ("spark", "export", "--to", str(tmp_path / "out"), "--output", "ndjson", uri("replaced-export/t-0"))
    with Requests(server.port, once(r"0+\.log 12582912-", lambda: path.write_bytes(data))) as line:
        reach(monkeypatch, server.options(line.port))
        status, _, said = run(*export)
    assert (status, "nothing of this run is committed" in said) == (3, True)


def test_a_tag_shows_another_object_of_the_same_second(server: Server) -> None:
    files = objects.file_system(objects.options_of({}))
    for value in (b"1" * 100, b"2" * 100):
        with files.open_output_stream(f"{BUCKET}/tagged") as stream:
            stream.write(value)
        if value[:1] == b"1":
            source = Source.open(uri("tagged"))
            assert source.refresh() is FileChange.NONE
    with source, pytest.raises(ObjectReplacedError):
        source.refresh()
    (server.files / "tagged").unlink()
    assert ObjectFile.is_replaced(source._object)


def test_a_run_sees_what_was_added_since_the_last_one(server: Server) -> None:
    write(server, "added/t-0", log_of(10))
    assert len(resolve([uri("added")])[0].partitions) == 1
    write(server, "added/t-1", log_of(10))
    assert len(resolve([uri("added")])[0].partitions) == 2


# --- what fails -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        ("s3://no-such-bucket/x", {}, "there is no bucket 'no-such-bucket'; check its name"),
        ("s3://no-such-bucket/*", {}, "there is no bucket 'no-such-bucket'; check its name"),
        ("s3://", {}, "write s3://BUCKET/PREFIX"),
        (uri("nothing"), {}, f"list it: aws s3 ls s3://{BUCKET}/"),
        (uri("demo/nothing.log"), {}, f"list it: aws s3 ls s3://{BUCKET}/demo/"),
        (uri("demo"), {"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, "denies access"),
        (uri("demo/*"), {"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, "check AWS_ACCESS_KEY_ID"),
        (uri("demo"), {"AWS_ACCESS_KEY_ID": "nobody"}, "check AWS_ACCESS_KEY_ID"),
        (uri("demo"), {"AWS_ACCESS_KEY_ID": ""}, "belong together; one of them is not set"),
    ],
)
@pytest.mark.parametrize("verb", ["dump", "verify"])
def test_each_refusal_is_one_sentence(
    verb: str, path: str, options: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    reach(monkeypatch, server.options() | options)
    status, rows, said = run(verb, "--output", "ndjson", path)
    assert (status, rows, said.count("\n")) == (3, "", 1), said
    assert expected in said
    assert "only-for-tests" not in said
    assert "wrong-secret" not in said


def test_a_store_that_is_busy_ends_the_run(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """Not with a finding for each object, which would look like damage, and take as long for each."""
    monkeypatch.setattr(objects, "_ATTEMPTS", 2)
    objects.file_system.cache_clear()
    for answer, expected in ((BUSY, "the object store is busy"), (b"", "the connection to the object store fails")):
        with Requests(server.port, lambda request, answer=answer: answer if ".log " in request else None) as line:
            reach(monkeypatch, server.options(line.port))
            status, _, said = run("verify", "--jobs", "1", "--output", "ndjson", uri("demo"))
        assert status == 1
        assert re.search(rf"s3://\S+\.log: {expected}: it cannot be read from byte 0 to \d+ after 2 attempts", said)
        assert said.count("kafkalog: ") == 1
    objects.file_system.cache_clear()


def refusal(status: int, name: str, message: str = "no") -> bytes:
    """An answer of S3; a HEAD is answered without its body."""
    body = (
        f'<?xml version="1.0"?><Error><Code>{name}</Code><Message>{message}</Message></Error>'.encode() if name else b""
    )
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        *((r"^GET \S+\.log ", refusal(400, name)) for name in ("ExpiredToken", "InvalidToken", "TokenRefreshRequired")),
        (r"^GET \S+\.log ", refusal(403, "ExpiredToken")),
        (r"^GET \S+list-type", refusal(400, "ExpiredToken")),
        (r"^HEAD \S+\.log", refusal(400, "")),
    ],
)
def test_credentials_that_expire_end_the_run(
    request_: str, answer: bytes, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    with Requests(server.port, lambda request: answer if re.search(request_, request) else None) as line:
        reach(monkeypatch, server.options(line.port))
        status, _, said = run("verify", "--jobs", "1", "--output", "ndjson", uri("demo"))
    assert (status, said.count("kafkalog: ")) == (1, 1), said
    assert "the credentials or the session token have expired or are wrong" in said


def of_prefix(prefix: str) -> Callable[[str], bytes | None]:
    """Deny what a key may not list that has rights below one prefix alone."""

    def before(request: str) -> bytes | None:
        listed = re.search(r"[?&]prefix=([^&\s]*)", request)
        is_denied = "list-type" in request and not (listed and unquote(listed[1]).startswith(prefix))
        return refusal(403, "AccessDenied") if is_denied else None

    return before


@pytest.mark.parametrize(
    ("prefix", "name"),
    [("demo/orders-0", "demo/orders-0"), ("demo", "demo"), ("demo", "demo/orders-*"), ("demo", "demo/*-0/*.log")],
)
@pytest.mark.parametrize("verb", ["verify --jobs 1", "dump --records"])
def test_a_key_with_rights_below_one_prefix(
    verb: str, prefix: str, name: str, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    with Requests(server.port, of_prefix(prefix)) as line:
        reach(monkeypatch, server.options(line.port))
        status, rows, said = run(*verb.split(), "--output", "ndjson", uri(name))
    assert status == 0, (rows[-1000:], said)


def test_a_pattern_below_what_is_not_there() -> None:
    assert objects.matching(uri("nothing/*")) == []
    assert objects.matching(uri(f"demo/orders-0/{0:020}.log/*")) == []
    with pytest.raises(NotFoundError, match="there is no bucket"):
        objects.matching("s3://no-such-bucket/x/*")


def test_an_archived_object_has_to_be_restored(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    answer = refusal(403, "InvalidObjectState", "The operation is not valid for the object's storage class")
    with Requests(server.port, lambda request: answer if ".log " in request else None) as line:
        reach(monkeypatch, server.options(line.port))
        status, rows, _ = run("dump", "--output", "ndjson", uri("demo/orders-0"))
    assert status == 4
    assert "the object is archived; restore it first: aws s3api restore-object" in rows


@pytest.mark.parametrize("seed", range(8))
def test_a_line_on_which_much_fails(seed: int, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    expected = run("dump", "--records", "--output", "ndjson", uri("demo"))
    with bad_line(server.port, seed) as port:
        reach(monkeypatch, server.options(port))
        found = run("dump", "--records", "--output", "ndjson", uri("demo"))
    assert found == expected or (found[0] == 1 and "s3://" in found[2])


@pytest.mark.parametrize("name", [name for name, command in commands() if not getattr(command, "reads_objects", True)])
def test_what_needs_a_directory_says_so(name: str) -> None:
    needed = {"spark export": ["--to", "x"], "completion": None, "spark pack": None}.get(name, [])
    if needed is None:
        return
    status, rows, said = run(*name.split(), *needed, uri("demo"))
    if status == 2:  # it wants an option too, or no path
        assert said.startswith("Usage:")
        return
    assert (status, rows) == (3, "")
    assert f"kafkalog {name} needs a broker's directory on a file system of this machine" in said
    assert f"aws s3 sync {uri('demo')} DIR" in said


def test_objects_are_not_followed() -> None:
    status, _, said = run("dump", "--follow", uri("demo"))
    assert status == 2
    assert "objects never grow" in said


# --- how much ---------------------------------------------------------------------------------------------------------
def test_requests_of_a_hundred_partitions(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One listing of each partition, two requests for each file, and one more for each log, after its last byte.

    The release of the disk is told by the first headers and the indexes of 48 partitions at most: that is all again.
    """
    for number in range(100):
        shutil.copytree(FIXTURES / "demo/orders-0", server.files / f"hundred/t-{number}")
    files = len(os.listdir(FIXTURES / "demo/orders-0"))
    with Requests(server.port) as line:
        reach(monkeypatch, server.options(line.port))
        run("verify", "--jobs", "1", "--quiet", uri("hundred"))
    assert len(line.seen) <= 100 * (1 + 2 * files + 2) + 48 * 2 * 4 + 20  # two logs and two indexes of each
    assert sum("list-type" in request for request in line.seen) <= 110


def test_memory(server: Server, tmp_path: Path) -> None:
    path = write(server, "large/t-0", b"")
    data = log_of(20_000, size_bytes=1000)
    with path.open("wb") as file:
        for at in range(20):  # the offsets go back, which is a finding
            file.write(data[at:] if at == 0 else data)
    for verb, promised_bytes in (("verify --jobs 1", 170_000_000), ("dump --records --output ndjson", PROMISED_BYTES)):
        assert peak_bytes(tmp_path, *verb.split(), uri("large/t-0")) < promised_bytes


# --- a store that stops to answer -------------------------------------------------------------------------------------
@pytest.mark.parametrize("answered", [0, 8])
@pytest.mark.parametrize("verb", ["dump --records --jobs 1", "verify --jobs 1", "verify --jobs 2", "seek --offset 5"])
def test_ctrl_c_ends_the_wait_for_a_store_that_does_not_answer(verb: str, answered: int, server: Server) -> None:
    """The client itself waits for more than a minute, and takes no signal meanwhile."""
    waits = threading.Event()

    def silent(_: str) -> None:
        if len(line.seen) > answered:
            waits.set()
            threading.Event().wait()

    with Requests(server.port, silent) as line:
        command = [sys.executable, "-m", "kafkalog_cli", *verb.split(), uri("demo/orders-0")]
        environment = {**os.environ, **server.options(line.port)}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert waits.wait(30)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)  # the store never answers
    assert (process.returncode, said.splitlines()[-1:]) == (1, ["kafkalog: interrupted"])


def test_a_command_ends_although_ranges_are_on_their_way(server: Server) -> None:
    """The reader of its rows goes away, while the store does not answer what was requested ahead."""
    write(server, "large-0", log_of(100_000, 1000))
    waits = threading.Event()

    def silent(_: str) -> None:
        if len(line.seen) > 8:
            waits.set()
            threading.Event().wait()

    with Requests(server.port, silent) as line:
        command = [sys.executable, "-m", "kafkalog_cli", "dump", "--records", "--jobs", "1", "--output", "ndjson"]
        environment = {**os.environ, **server.options(line.port)}
        with subprocess.Popen([*command, uri("large-0")], env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(8 * 1024 * 1024)
            assert waits.wait(30)
            process.stdout.close()
            process.wait(60)  # the store never answers
