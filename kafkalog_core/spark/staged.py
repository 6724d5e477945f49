"""Files that a task writes for a commit: a name that no other attempt has, and bytes that are on the disk."""

from __future__ import annotations

import os
import re
import sys
from itertools import count
from typing import Final

from kafkalog_core.storage.changing.writer import Disk

__all__ = ["attempt_name", "hive_name", "sync_file"]

HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_HIVE_ESCAPED: Final = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_attempts = count()


def attempt_name(stem: str, suffix: str = ".parquet") -> str:
    """A name for a staged file that no other attempt at the same task, and no other task, ever has."""
    if "pyspark" in sys.modules:  # else this is no task of Spark's
        from pyspark import TaskContext  # noqa: PLC0415 -- this module is used without it too

        task = TaskContext.get()
        if task is not None:
            ids = f"s{task.stageId()}-p{task.partitionId()}-a{task.attemptNumber()}-t{task.taskAttemptId()}"
            return f"{stem}-{ids}-{next(_attempts)}{suffix}"
    return f"{stem}-local{os.getpid()}-{next(_attempts)}{suffix}"


def sync_file(path: str) -> None:
    """Bring a file that was written by another library to the disk. Raises WriteError."""
    Disk().sync_file(path)


def hive_name(column: str, value: object) -> str:
    """The name of a directory of a partition column, escaped as Spark reads it back."""
    text = HIVE_NULL if value is None else str(value)
    return f"{column}={_HIVE_ESCAPED.sub(lambda match: f'%{ord(match[0]):02X}', text)}"
