"""The data pipeline on Apache Spark: a catalog of all disks, exports, checks and forecasts for a whole cluster.

The front door for notebooks and scripts: `Disks` has a method for each job, `open_session` opens the session that it
needs, and `open_catalog`, `open_export` and `open_export_findings` open what its jobs write. A name is imported when it
is first used, so that pyspark and pyarrow are not imported before they are needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalog_core.spark.notebook import Disks, Result
    from kafkalog_core.spark.session.errors import SparkError
    from kafkalog_core.spark.session.session import SessionSettings, open_session
    from kafkalog_core.spark.source.sql import open_catalog, open_export, open_export_findings

__all__ = [
    "Disks",
    "Result",
    "SessionSettings",
    "SparkError",
    "open_catalog",
    "open_export",
    "open_export_findings",
    "open_session",
]

_HOME_OF: Final = {
    "Disks": "notebook",
    "Result": "notebook",
    "SessionSettings": "session.session",
    "SparkError": "session.errors",
    "open_catalog": "source.sql",
    "open_export": "source.sql",
    "open_export_findings": "source.sql",
    "open_session": "session.session",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
