"""The options of the data source and what is refused, without a session."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from kafkalog_core.engine.selection import Selection
from kafkalog_core.errors import SettingError, StorageError, UnsupportedError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.spark.session.errors import local_paths
from kafkalog_core.spark.source.options import OPTIONS, source_options
from kafkalog_core.spark.source.reader import PartGroup, WholePartition, plan, read
from tests.support.build import batch_v2, meta_properties, offset_checkpoint
from tests.support.logs import records, write_segments

ROOT = Path(__file__).parents[2]


def test_options_are_what_a_dump_is_asked_for() -> None:
    options = source_options(
        {
            "PATH": "/kafka",
            "topics": "orders-*, payments",
            "excludetopics": "orders-test",
            "topicregex": "[a-z-]+",
            "partitions": "0, 3-5",
            "minoffset": "7",
            "maxoffset": "9",
            "since": "1970-01-02",
            "until": "1970-01-03",
            "committed": "TRUE",
            "resync": "true",
            "splitbytes": "32m",
            "batchrows": "10",
            "maxbatchbytes": "1MiB",
            "ignoreunreadable": "true",
        }
    )
    assert (options.table, options.paths) == ("records", ("/kafka",))
    assert options.selection == Selection(
        topics=("orders-*", "payments"), topic_regex="[a-z-]+", excludes=("orders-test",), partitions=(0, 3, 4, 5)
    )
    assert options.filters == Filters(offsets=(7, 9), times_ms=(86_400_000, 3 * 86_400_000 - 1))
    assert (options.committed, options.resync, options.ignores_unreadable) == ("log-end", True, True)
    assert (options.split_bytes, options.batch_rows, options.max_batch_bytes) == (32 << 20, 10, 1 << 20)


def test_conditions_on_content() -> None:
    given = {"key": "a", "valueRegex": "^b", "contains": "é", "header": "c=d=e", "ignoreCase": "true", "invert": "true"}
    assert source_options({"path": "/kafka", **given}).filters == Filters(
        key=b"a",
        value_regex="^b",
        contains="é".encode(),
        headers=((b"c", b"d=e"),),
        ignores_case=True,
        inverted=True,
    )
    options = source_options({"path": "/kafka", **given})
    assert pickle.loads(pickle.dumps(options)).filters == options.filters  # noqa: S301 - as Spark sends it to tasks
    given = {"keyRegex": "k", "value": "v", "header": "c"}
    assert source_options({"path": "/kafka", **given}, is_stream=True).filters == Filters(
        key_regex="k", value=b"v", headers=((b"c", None),)
    )


def test_options_that_are_not_given() -> None:
    options = source_options({"paths": json.dumps(["/a", "/b"])})
    assert options.paths == ("/a", "/b")
    assert (options.selection, options.filters) == (Selection(), Filters())
    assert (options.committed, options.resync, options.ignores_unreadable) == (None, False, False)
    assert (options.refuses_damage, options.max_bytes_per_trigger) == (False, None)
    assert source_options({"path": "/a"}, is_stream=True).refuses_damage


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"partition": "0"}, "has no option 'partition'; its options are table, path, paths, topics, excludeTopics"),
        ({"partitions": "0,x"}, "option partitions has 'x', which is not a partition number"),
        ({"partitions": "3-"}, "option partitions has '3-'"),
        (
            {"partitions": "5-1"},
            "option partitions has '5-1'; write the lower number first, and at most 1000000 numbers",
        ),
        ({"partitions": "0-99999999999"}, "option partitions has '0-99999999999'; write the lower number first"),
        ({"minOffset": "9", "maxOffset": "7"}, "options minOffset and maxOffset select nothing"),
        ({"since": "2026-02-30"}, "option since: '2026-02-30' is not a time"),
        ({"since": "20260101"}, "option since: '20260101' is ambiguous"),
        ({"committed": "yes"}, "option committed must be false or true or log-end or high-watermark, not 'yes'"),
        ({"keyRegex": "("}, "'(' is not a regular expression"),
        ({"invert": "true"}, "there is no condition on keys, values or headers to invert"),
        ({"table": "batches", "key": "a"}, "does not apply to table batches; leave it out"),
        ({"splitBytes": "0"}, "option splitBytes: '0' is out of range"),
        ({"batchRows": "many"}, "option batchRows must be a whole number"),
        ({"paths": "/a,/b"}, "option paths must be a JSON list of paths"),
        ({"path": ""}, "no path is given"),
        ({"table": "segments", "committed": "true"}, "does not apply to table segments; leave it out"),
        ({"table": "findings", "level": "deep"}, "option level must be records or checksums or headers, not 'deep'"),
        (
            {"level": "records"},
            "option level (depth of the checks: headers, checksums or records) does not apply to table records",
        ),
    ],
)
def test_a_wrong_option_is_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingError) as error:
        source_options({"path": "/kafka", **given})
    assert sentence in str(error.value)


def test_paths_are_of_file_systems_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_paths(["a/../b", "/kafka/*"]) == (f"{tmp_path}/b", "/kafka/*")
    for path, sentence in (
        ("s3a://bucket/logs", "kafkalog does not read s3a: URLs; mount the file system on all machines"),
        ("hdfs://host/logs", "kafkalog does not read hdfs: URLs"),
        ("dbfs:/logs", "kafkalog does not read dbfs: URLs"),
        ("file:///kafka", "kafkalog does not read file: URLs; write the path without file:"),
    ):
        with pytest.raises(UnsupportedError, match=sentence):
            local_paths([path])
    (tmp_path / "odd:").mkdir()
    (tmp_path / "odd:" / "logs").mkdir()
    assert local_paths(["odd:/logs"]) == (f"{tmp_path}/odd:/logs",)


def test_small_files_share_a_task_and_large_ones_are_cut(tmp_path: Path) -> None:
    for number in range(300):
        write_segments(tmp_path / f"small-{number}", {0: batch_v2(records(0, 1))})
    write_segments(tmp_path / "large-0", {0: b"".join(batch_v2(records(n, 1, size=1000)) for n in range(100))})
    work = plan(source_options({"path": str(tmp_path), "splitBytes": "40k"}), ("offset",), 0)
    sizes = [len(piece.file_parts) for piece in work if isinstance(piece, PartGroup)]
    assert len(sizes) == len(work)
    assert (sizes[:2], sum(sizes)) == ([1, 1], 303)
    assert 100 < max(sizes) <= 256
    committed = plan(source_options({"path": str(tmp_path), "committed": "true"}), ("offset",), 0)
    assert committed[0] == WholePartition(str(tmp_path / "large-0"))
    assert len(committed) == 301


def test_rows_that_are_missing_are_an_error_unless_they_are_left_out(tmp_path: Path) -> None:
    log = write_segments(tmp_path / "orders-0", {0: batch_v2(records(0, 1)), 1: batch_v2(records(1, 1))})
    strict = source_options({"path": str(log)})
    lax = source_options({"path": str(log), "ignoreUnreadable": "true"})
    work = plan(strict, ("offset",), 0)
    (log / f"{0:020d}.log").unlink()
    sentence = r"was deleted.*\(file.vanished\); set ignoreUnreadable=true to leave it out"
    with pytest.raises(StorageError, match=sentence):
        [*read(work[0], strict, ("offset",))]
    assert [batch["offset"].to_pylist() for batch in read(work[0], lax, ("offset",))] == [[1]]


def test_the_options_page_has_all_of_them() -> None:
    page = (ROOT / "docs" / "spark-data-source.md").read_text()
    for name, option in OPTIONS.items():
        tables = ", ".join(option.tables) or "all"
        assert f"| `{name}` | {option.meaning} | {tables} |" in page


def test_what_nobody_knows_to_be_committed_is_an_error_unless_it_is_left_out(tmp_path: Path) -> None:
    """No broker has said up to where all replicas have the records of one of them."""
    for topic in ("orders", "payments"):
        write_segments(tmp_path / f"{topic}-0", {0: batch_v2(records(0, 3))})
    (tmp_path / "meta.properties").write_bytes(meta_properties({"version": "0", "broker.id": "1"}))
    (tmp_path / "replication-offset-checkpoint").write_bytes(offset_checkpoint([("orders", 0, 2)]))
    given = {"path": str(tmp_path), "committed": "high-watermark"}
    strict, lax = source_options(given), source_options({**given, "ignoreUnreadable": "true"})
    known, unknown = plan(strict, ("offset",), 0)
    assert [batch["offset"].to_pylist() for batch in read(known, strict, ("offset",))] == [[0, 1]]
    with pytest.raises(StorageError, match=r"no broker has checkpointed a high watermark.*ignoreUnreadable"):
        [*read(unknown, strict, ("offset",))]
    assert [*read(unknown, lax, ("offset",))] == []
