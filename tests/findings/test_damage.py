"""Every reason that the code gives stands in the catalogue, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.format import compression, kernels
from kafkalog_core.storage import scan
from kafkalog_core.storage import scan as items


def test_catalogue_is_what_scan_and_decode_say() -> None:
    text = "".join(Path(str(module.__file__)).read_text(encoding="utf-8") for module in (scan, items))
    framing = set(re.findall(r'"([a-z]+-[a-z]+|unreadable)"', text))
    payload = {name for _, name in compression._INFLATE_ERRORS} | {
        "wrapper-value",
        "headers-limit",
        "message-crc",
        "header-contradiction",
        "record-offset",
    }
    assert framing | payload | set(kernels.DECODE_ERRORS.values()) == set(LOG_DAMAGE)
