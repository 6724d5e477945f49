"""Every reason that the code gives is in the catalog, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

from kafkalog_core import kernels
from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.format import decode, decompression, lz4_frames, streams
from kafkalog_core.storage import scan
from kafkalog_core.storage import scan as items


def test_catalog_is_what_scan_and_decode_say() -> None:
    text = "".join(Path(str(module.__file__)).read_text(encoding="utf-8") for module in (scan, items))
    framing = set(re.findall(r'"([a-z]+-[a-z]+|unreadable)"', text))
    texts = (Path(str(module.__file__)).read_text(encoding="utf-8") for module in (streams, lz4_frames, decompression))
    odd = set(re.findall(r'"(payload-[a-z]+)"', "".join(texts)))
    payload = {name for _, name in decode._INFLATE_ERRORS} | {
        "wrapper-value",
        "headers-limit",
        "message-crc",
        "header-contradiction",
        "record-offset",
    }
    assert framing | odd | payload | set(kernels.DECODE_ERRORS.values()) == set(LOG_DAMAGE)
