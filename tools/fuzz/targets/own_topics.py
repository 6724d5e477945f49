"""Records of Kafka's own topics: keys and values as JSON text, and messages that are encoded again."""

from __future__ import annotations

import json
from typing import Any, Final

from kafkalog_cli.render.cells import decoded_cell
from kafkalog_core.text import json_text
from kafkalog_core.topics.record_decoders import DECODED_TOPICS, decoder_of, text_decoder_of
from kafkalog_core.wire.codec import codec
from tools.fuzz.memory import check

__all__ = ["own_topics"]

NO_KEY: Final = 128
NO_VALUE: Final = 64


def own_topics(data: bytes) -> object:
    """The first byte: topic (6 bits), no value (1 bit), no key (1 bit); the second: bytes of the key."""
    switches, key_size = data[:2].ljust(2, b"\0")
    topic = DECODED_TOPICS[switches % NO_VALUE % len(DECODED_TOPICS)]
    key = None if switches & NO_KEY else data[2 : 2 + key_size]
    value = None if switches & NO_VALUE else data[2 + key_size :]
    text_of, decode = text_decoder_of(topic), decoder_of(topic)
    if text_of is None or decode is None:
        raise LookupError(topic)
    found, plain = text_of(key, value), decode(key, value)
    check(text_of(key, value) == found, "another result at the second time")
    check((found.problem is None) == (plain.problem is None), "one form has a problem")
    for text, shown in ((found.key, plain.key), (found.value, plain.value)):
        if text is None:
            continue
        check(json.loads(text) == shown, "another value")
        check(json_text(shown) == text, f"not the form of all JSON: {text[:200]}")
        check(decoded_cell(shown, None).isprintable(), "a line that a terminal would act on")
    if found.problem is None and plain.key is not None and value is not None:
        _check_encoded(f"{plain.key['name']}Value", plain.value["version"], value[2:])
    return found


def _check_encoded(name: str, version: int, data: bytes) -> None:
    """A decoded message is encoded, and decoded to the same one; a tag that is stored twice is not written twice."""
    reader = codec(name, version)
    message: dict[str, Any] = reader.decode_whole(data)
    again = b"".join(map(bytes, reader.encode(message)))
    check(repr(reader.decode_whole(again)) == repr(message), f"{name} {version} changed")
