"""What `kafkalog dump` makes of its command line."""

from __future__ import annotations

import pytest


def test_the_defaults(dumping):
    assert dumping.run().exit_code == 0
    request = dumping.request
    assert request.level == "batches"
    assert request.committed is None
    assert request.limit is None
    assert request.max_batch_bytes == 256 * 2**20
    flags = (request.files, request.newest_first, request.resync, request.stats)
    assert flags == (False, False, False, False)
    assert [target.path for target in request.targets] == [dumping.path]
    filters = request.filters
    assert filters.offsets == filters.positions == filters.times_ms == (None, None)
    assert filters.key is filters.key_regex is filters.value_regex is filters.producer_id is filters.codec is None
    assert filters.transactional is filters.control is None
    assert filters.headers == ()


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--offsets", "3..9"], "offsets", (3, 9)),
        (["--positions", "..9"], "positions", (None, 9)),
        (["--times", "1970-01-01.."], "times_ms", (0, None)),
        (["--key", "é"], "key", b"\xc3\xa9"),
        (["--key", ""], "key", b""),
        (["--key-hex", "00ff"], "key", b"\x00\xff"),
        (["--key-regex", "^a"], "key_regex", "^a"),
        (["--value-regex", "a$"], "value_regex", "a$"),
        (["--value", "é"], "value", b"\xc3\xa9"),
        (["--value-hex", "00 ff"], "value", b"\x00\xff"),
        (["--contains", "é"], "contains", b"\xc3\xa9"),
        (["--contains", "a", "--ignore-case"], "ignores_case", True),
        (["--contains", "a", "--invert"], "inverted", True),
        (["--header", "a=b", "--header", "c"], "headers", ((b"a", b"b"), (b"c", None))),
        (["--producer-id", "-1"], "producer_id", -1),
        (["--transactional"], "transactional", True),
        (["--no-transactional"], "transactional", False),
        (["--control"], "control", True),
        (["--no-control"], "control", False),
        (["--codec", "lz4"], "codec", "lz4"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_filters(dumping, arguments, name, value):
    assert dumping.run(*arguments).exit_code == 0
    assert getattr(dumping.request.filters, name) == value


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--segments"], "level", "segments"),
        (["--records"], "level", "records"),
        (["--key", "a"], "level", "records"),
        (["--header", "a"], "level", "records"),
        (["--value-regex", "a"], "level", "records"),
        (["--value", "a"], "level", "records"),
        (["--contains", "a"], "level", "records"),
        (["--count"], "level", "records"),
        (["--max-count", "3"], "level", "records"),
        (["--before", "1"], "level", "records"),
        (["--after", "1"], "level", "records"),
        (["--count"], "counts", True),
        (["--max-count", "3"], "max_count", 3),
        (["--before", "2"], "before", 2),
        (["--after", "2"], "after", 2),
        (["--committed"], "committed", "log-end"),
        (["--committed=high-watermark"], "committed", "high-watermark"),
        (["--committed", "high-watermark"], "committed", "high-watermark"),
        (["--committed", "--"], "committed", "log-end"),
        (["--limit", "0"], "limit", 0),
        (["--newest-first"], "newest_first", True),
        (["--resync"], "resync", True),
        (["--files"], "files", True),
        (["--stats"], "stats", True),
        (["--path"], "path", True),
        (["--max-batch-bytes", "64k"], "max_batch_bytes", 65536),
        ([], "decode", "auto"),
        (["--decode", "none"], "decode", "none"),
        (["--decode", "__transaction_state"], "decode", "__transaction_state"),
        (["--decode", "__transaction_state"], "level", "records"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_requests(dumping, arguments, name, value):
    assert dumping.run(*arguments).exit_code == 0
    assert getattr(dumping.request, name) == value


def test_the_empty_text_is_refused(dumping):
    result = dumping.run("--contains", "")
    assert result.exit_code == 2
    assert "every record contains the empty text" in result.stderr


def test_a_topic_that_is_not_there_is_refused(dumping):
    result = dumping.run("--topic", "pay*")
    assert result.exit_code == 3
    assert result.stderr.startswith("kafkalog: ")
