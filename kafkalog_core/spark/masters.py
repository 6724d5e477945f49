"""What can be told of a master before Java is started: how it is spelled, and whether anybody answers there."""

from __future__ import annotations

import re
import socket
from typing import Final

from kafkalog_core.spark.errors import SparkError

__all__ = ["check_answers", "check_spelled"]

_SPELLINGS: Final = re.compile(
    r"local(\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^/\s]+|yarn|k8s://\S+"
)
_STANDALONE: Final = "spark://"
_PORT: Final = 7077
_SECONDS: Final = 5


def check_spelled(master: str) -> None:
    """Raises SparkError where it is none of Spark's spellings."""
    if _SPELLINGS.fullmatch(master) is None:
        raise SparkError(f"{master!r} is no master of Spark: local[*], local[N], spark://HOST:7077, yarn or k8s://URL")


def check_answers(master: str) -> None:
    """Raises SparkError where a standalone master does not answer: Spark itself would try for more than a minute."""
    if not master.startswith(_STANDALONE):
        return
    places = [_place(text) for text in master.removeprefix(_STANDALONE).split(",")]
    if not any(_answers(host, port) for host, port in places):
        raise SparkError(f"no Spark master answers at {master}; --master 'local[*]' needs none")


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host:
        return text, _PORT
    if not port.isdigit():
        raise SparkError(f"{text!r} is no HOST:PORT of a Spark master")
    return host.strip("[]"), int(port)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _SECONDS).close()
    except (OSError, OverflowError, UnicodeError):
        return False
    return True
