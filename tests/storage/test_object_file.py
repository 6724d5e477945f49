"""Paths, errors and ranges of an object store, without one: what needs neither pyarrow nor a server."""

from __future__ import annotations

import errno
import os
import pickle
import random
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import (
    AccessError,
    DeniedError,
    KafkalogError,
    NotFoundError,
    SelectionError,
    StorageError,
    StoreLostError,
)
from kafkalog_core.storage import object_file, objects
from kafkalog_core.storage.access import may_list, may_read
from kafkalog_core.storage.object_file import ObjectFile
from kafkalog_core.storage.object_paths import OPTION_NAMES, REACHING, StorageOptions
from kafkalog_core.storage.objects import Opened, options_in_use, options_of
from kafkalog_core.storage.paths import absolute, exists, is_directory, parent, real

if TYPE_CHECKING:
    from pathlib import Path


# --- paths ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("path", "expected", "above"),
    [
        ("s3://b/p/t-0/", "s3://b/p/t-0", "s3://b/p"),
        ("s3://b/p", "s3://b/p", "s3://b"),
        ("s3://b/", "s3://b", "s3://b"),
        ("s3://b", "s3://b", "s3://b"),
        ("s3://", "s3://", "s3://"),
    ],
)
def test_paths_of_an_object_store(path: str, expected: str, above: str) -> None:
    assert (absolute(path), real(path), parent(path)) == (expected, expected, above)
    assert may_read(path)
    assert may_list(path)


@pytest.mark.parametrize("written", ["s3a://b/logs/*", "S3://b/logs/*", "s3n://b/logs/*", "s3:/b/logs/*"])
@pytest.mark.parametrize("verb", ["dump", "verify", "seek --latest"])
def test_a_path_of_another_program_gets_a_hint(verb: str, written: str) -> None:
    result = CliRunner().invoke(cli, [*verb.split(), written])
    assert result.exit_code == 3
    assert "write s3://b/logs/*" in result.stderr


def test_paths_of_a_file_system(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t-0")
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    assert real(str(tmp_path / "link")) == os.path.realpath(tmp_path / "t-0")
    assert absolute("t-0/") == os.path.abspath("t-0")
    assert parent("t-0/") == os.getcwd()
    assert [exists(str(tmp_path / name)) for name in ("link", "broken", "nothing")] == [True, True, False]
    assert [is_directory(str(tmp_path / name)) for name in ("link", "broken")] == [True, False]


def test_an_unknown_storage_option_is_refused_also_for_ordinary_paths(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["dump", "--storage-option", "aws_region=x", str(tmp_path)])
    assert result.exit_code == 2
    assert "there is no storage option 'aws_region'; the options are AWS_ACCESS_KEY_ID" in result.stderr
    result = CliRunner().invoke(cli, ["dump", "--storage-option", "wJalrXUtnFEMI/K7MDENG=", str(tmp_path)])
    assert result.exit_code == 2
    assert "wJalr" not in result.stderr


def test_ordinary_paths_import_no_client_of_an_object_store(tmp_path: Path) -> None:
    program = (
        "import sys; from kafkalog_cli.main import cli; "
        "cli(['verify', '--quiet', sys.argv[1]], standalone_mode=False); "
        "print([name for name in sys.modules if name.startswith('pyarrow') or name.endswith('storage.objects')])"
    )
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


# --- options ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OPTION_NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_environment")
def test_options_come_from_the_environment_and_are_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    assert options_of({}) == (("AWS_REGION", "eu-central-1"),)
    assert options_of({"AWS_REGION": "", "AWS_SESSION_TOKEN": ""}) == ()
    assert options_of({"AWS_REGION": "eu-west-1"}) == (("AWS_REGION", "eu-west-1"),)


@pytest.mark.usefixtures("no_environment")
@pytest.mark.parametrize(
    "given", [{"AWS_KEY": "hush"}, {"AWS_SECRET_ACCESS_KEY": "hush"}, {"AWS_SESSION_TOKEN": "hush"}]
)
def test_options_that_are_refused_are_not_shown(given: dict[str, str]) -> None:
    with pytest.raises(SelectionError) as caught:
        options_of(given)
    assert "hush" not in str(caught.value)


@pytest.mark.usefixtures("no_environment")
def test_options_are_sent_where_objects_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setattr(REACHING, "is_used", False)
    assert options_in_use() == StorageOptions()
    monkeypatch.setattr(REACHING, "is_used", True)
    assert options_in_use() == StorageOptions((("AWS_REGION", "eu-central-1"),), is_complete=True)


def test_no_secret_is_shown() -> None:
    options = StorageOptions((("AWS_SECRET_ACCESS_KEY", "hush"),))
    assert "hush" not in repr(options)
    assert "hush" not in repr(REACHING.__class__(options))
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 -- our own


@pytest.mark.usefixtures("no_environment")
def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    objects.file_system.cache_clear()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for verb in ("dump", "verify"):
        result = CliRunner().invoke(cli, [verb, "s3://bucket/demo"])
        assert result.exit_code == 3
        assert "pip install '.[lake]'" in result.stderr


# --- answers ----------------------------------------------------------------------------------------------------------
UNKNOWN = "during GetObject operation: Unable to parse ExceptionName:"


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("AWS Error ACCESS_DENIED during GetObject operation: x", DeniedError, "s3:GetObject"),
        (f"AWS Error UNKNOWN (HTTP status 403) {UNKNOWN} Other Message: x", DeniedError, "s3:GetObject"),
        ("AWS Error SLOW_DOWN (HTTP status 503) during GetObject operation: x", StoreLostError, "later"),
        ("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28", StoreLostError, "AWS_ENDPOINT_URL"),
        ("AWS Error UNKNOWN (HTTP status 503) during GetObject operation: x", StoreLostError, "later"),
        ("AWS Error NO_SUCH_KEY during GetObject operation: x", NotFoundError, "deleted"),
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: x", NotFoundError, "no bucket 'b'"),
        (f"AWS Error UNKNOWN (HTTP status 301) {UNKNOWN} PermanentRedirect Message: x", AccessError, "AWS_REGION"),
        (f"AWS Error UNKNOWN (HTTP status 400) {UNKNOWN} ExpiredToken Message: x", StoreLostError, "expired"),
        (f"AWS Error UNKNOWN (HTTP status 403) {UNKNOWN} ExpiredToken Message: x", StoreLostError, "expired"),
        (f"AWS Error UNKNOWN (HTTP status 400) {UNKNOWN} TokenRefreshRequired Message: x", StoreLostError, "expired"),
        (f"AWS Error UNKNOWN (HTTP status 403) {UNKNOWN} InvalidObjectState Message: x", AccessError, "restore-object"),
        ("AWS Error ODD during GetObject operation: x. (Request ID: ABC)", AccessError, "answers ODD: x"),
        ("something else", AccessError, "answers When reading: something else"),
    ],
)
def test_each_answer_is_one_sentence(text: str, kind: type[KafkalogError], expected: str) -> None:
    error = objects.store_error("s3://b/x", OSError(f"When reading: {text}\nwith more lines"))
    assert type(error) is kind
    assert expected in str(error)
    assert "ABC" not in str(error)
    assert "\n" not in str(error)


def test_a_store_that_does_not_answer_is_no_matter_of_one_file() -> None:
    assert not issubclass(StoreLostError, StorageError)


# --- ranges -----------------------------------------------------------------------------------------------------------
class FakeFile:
    """An object in memory: `ranges` are the requests for it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.ranges: list[tuple[int, int]] = []
        self.error: Exception | None = None
        self._lock = threading.Lock()

    def get_stream(self, position: int, size_bytes: int) -> FakeStream:
        with self._lock:
            self.ranges.append((position, size_bytes))
            if self.error is not None:
                raise self.error
            return FakeStream(self.data[position : position + size_bytes])


class FakeStream:
    """A range. Memory that an answer is written to has to be zeros: its rest is read too if that is a refusal."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def readinto(self, target: bytearray) -> int:
        assert not any(target)
        target[: len(self.data)] = self.data
        return len(self.data)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeFile:
    monkeypatch.setattr(object_file, "RANGE_BYTES", 64 * 1024)
    monkeypatch.setattr(object_file, "_LARGE_BYTES", 20 * 1024)
    monkeypatch.setattr(object_file, "_FIRST_BYTES", 4 * 1024)
    return FakeFile(random.Random(0).randbytes(1_000_000))


def open_fake(fake: FakeFile, monkeypatch: pytest.MonkeyPatch, **options: object) -> ObjectFile:
    def open_object(path: str, *, again: bool = False) -> Opened:
        del path, again
        return Opened(fake, objects._made(0o100644, 1, len(fake.data), 0), b"tag")  # type: ignore[arg-type]

    monkeypatch.setattr(object_file, "open_object", open_object)
    return ObjectFile("s3://b/x", **options)  # type: ignore[arg-type]


def read(file: ObjectFile, position: int, size_bytes: int, wanted_to: int = 2**63 - 1) -> bytes:
    target = bytearray(size_bytes)
    view, filled = memoryview(target), 0
    while filled < size_bytes and (count := file.read_to(view[filled:], position + filled, wanted_to)):
        filled += count
    return bytes(target[:filled])


@pytest.mark.parametrize("seed", range(10))
def test_any_reads_give_the_bytes(seed: int, fake: FakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    fake.data = fake.data[: dice.choice([0, 1, 4096, 4097, 300_000, 1_000_000])]
    counted: list[int] = []
    with open_fake(fake, monkeypatch, count=counted.append) as file:
        at = 0
        for _ in range(300):
            at = dice.choice([at, at, dice.randrange(len(fake.data) + 10)])
            size_bytes = dice.choice([1, 17, 1000, 30_000, 200_000])
            assert read(file, at, size_bytes) == fake.data[at : at + size_bytes]
            at += size_bytes
    assert all(0 < size_bytes <= object_file.RANGE_BYTES for _, size_bytes in fake.ranges)
    assert all(0 < size_bytes <= object_file.RANGE_BYTES for size_bytes in counted)


def test_reading_forwards_requests_each_byte_once(fake: FakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    with open_fake(fake, monkeypatch, count=counted.append) as file:
        assert b"".join(read(file, at, 50_000) for at in range(0, len(fake.data), 50_000)) == fake.data
    assert min(fake.ranges)[0] == 0
    assert sum(size_bytes for _, size_bytes in fake.ranges) == len(fake.data) == sum(counted)


def test_small_steps_grow_to_large_ranges(fake: FakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_fake(fake, monkeypatch) as file:
        for at in range(0, len(fake.data), 1000):
            read(file, at, 17)
    sizes = [size_bytes for _, size_bytes in sorted(fake.ranges)]
    assert sizes[:5] == [4096, 8192, 16384, 32768, 65536]
    assert len(sizes) < 25


def test_nothing_after_the_wanted_end_is_requested(fake: FakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_fake(fake, monkeypatch) as file:
        for at in range(0, 200_000, 50_000):
            read(file, at, 50_000, wanted_to=200_000)
    assert max(position + size_bytes for position, size_bytes in fake.ranges) == 200_000


def test_a_shorter_object_ends_there(fake: FakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    data = fake.data
    with open_fake(fake, monkeypatch) as file:
        fake.data = data[:100_000]
        assert read(file, 90_000, 50_000) == data[90_000:100_000]
        fake.error = OSError("AWS Error UNKNOWN (HTTP status 416) during GetObject operation: InvalidRange")
        assert read(file, 500_000, 50_000) == b""


def test_a_failed_request_names_the_object_and_the_range(fake: FakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_fake(fake, monkeypatch) as file:
        fake.error = OSError(errno.EIO, "AWS Error SLOW_DOWN (HTTP status 503) during GetObject operation: x")
        with pytest.raises(
            StoreLostError, match=r"s3://b/x: .* read from byte 8192 to 12287 after 10 attempts \(503\)"
        ):
            read(file, 8192, 17)


@pytest.mark.parametrize("answer", ["NO_SUCH_KEY", "RESOURCE_NOT_FOUND", "UNKNOWN (HTTP status 404)"])
def test_an_object_that_was_opened_and_is_gone_could_not_be_read(
    answer: str, fake: FakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_fake(fake, monkeypatch) as file:
        fake.error = OSError(errno.EIO, f"AWS Error {answer} during GetObject operation: x")
        with pytest.raises(AccessError, match="the bytes from 8192 on were not read"):
            read(file, 8192, 17)


# --- listings ---------------------------------------------------------------------------------------------------------
def test_no_more_listings_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_LISTED_ENTRIES", 10)
    listings = objects._Listings()
    entry = objects.ListedEntry(name="x", path="s3://b/x", is_directory=False, status=objects._made(0o100644, 1, 1, 1))
    for number in range(5):
        listings.keep(f"s3://b/{number}", [entry] * 4)
    listings.keep("s3://b/4", [entry] * 5)
    assert [number for number in range(5) if listings.get(f"s3://b/{number}")] == [3, 4]
    listings.keep("s3://b/large", [entry] * 100)
    assert [number for number in range(5) if listings.get(f"s3://b/{number}")] == []
    assert len(listings.get("s3://b/large") or ()) == 100
    listings.clear()
    assert listings.get("s3://b/large") is None
