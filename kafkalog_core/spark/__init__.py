"""The data pipeline on Apache Spark: a catalogue of all disks, exports, checks and forecasts for a whole cluster.

The front door for notebooks and scripts: `Disks` has a method for each job, and `open_session`, `open_catalog` and
`open_export` open what it needs and what it leaves. A name is imported when it is first used, so that pyspark and
pyarrow are not imported before they are needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalog_core.spark.notebook import Disks, Result, open_catalog, open_export, open_session
    from kafkalog_core.spark.session.errors import SparkError
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["Disks", "Result", "SessionSettings", "SparkError", "open_catalog", "open_export", "open_session"]

_HOME_OF: Final = {
    "Disks": "notebook",
    "Result": "notebook",
    "SessionSettings": "session.session",
    "SparkError": "session.errors",
    "open_catalog": "notebook",
    "open_export": "notebook",
    "open_session": "notebook",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
