"""What Spark and the bridge to it say, as one sentence of ours. The texts are those that PySpark 4.3.0 gave."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException, PythonException

from kafkalog_core.errors import NotFoundError, WorkerLostError
from kafkalog_core.spark.session.errors import SparkError, spark_errors

NO_TABLE = """[TABLE_OR_VIEW_NOT_FOUND] The table or view `nope` cannot be found. Verify the spelling and \
correctness of the schema and catalog.
If you did not qualify the name with a schema, verify the current_schema() output, or qualify the name \
with the correct schema and catalog.
To tolerate the error on drop use DROP VIEW IF EXISTS or DROP TABLE IF EXISTS. SQLSTATE: 42P01; line 1 pos 14;
'Project [*]
+- 'UnresolvedRelation [nope], [], false
"""
NO_SYNTAX = """
[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)

== SQL ==
selec 1
^^^
"""
IN_A_TASK = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/tasks.py", line 30, in fail
    raise OSError(28, "No space left on device", "/out/x")
OSError: [Errno 28] No space left on device: '/out/x'
"""
OURS_IN_A_SOURCE = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent \
call last):
  File "/x/pyspark/sql/worker/create_data_source.py", line 130, in main
    data_source = data_source_cls(options=options)
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/x/kafkalog_core/spark/source/options.py", line 9, in parsed
    raise SettingError("there is no option inferSchema")
kafkalog_core.errors.SettingError: there is no option inferSchema

 SQLSTATE: 38000
"""
DIED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 3 times, most recent \
failure: Lost task 0.2 in stage 7.0 (TID 45) (localhost executor driver): org.apache.spark.SparkException: Python \
worker exited unexpectedly (crashed):
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:680)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:398)
"""
NO_MASTER = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.lang.IllegalStateException: All masters are unresponsive! Giving up.
"""
MEMORY = """An error occurred while calling o1.collectToPython.
: java.lang.OutOfMemoryError: Java heap space
"""


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (AnalysisException(NO_TABLE), SparkError, "Spark reports: The table or view `nope` cannot be found."),
        (AnalysisException(NO_SYNTAX), SparkError, "Spark reports: Syntax error at or near 'selec'."),
        (AnalysisException(OURS_IN_A_SOURCE), SparkError, "there is no option inferSchema"),
        (
            PythonException(IN_A_TASK),
            WorkerLostError,
            (
                "the work failed on Spark in every attempt: OSError: [Errno 28] No space left on device: "
                "'/out/x' (Spark's log: /l)"
            ),
        ),
        (
            Py4JError(DIED),
            WorkerLostError,
            (
                "the work failed on Spark in every attempt: Python worker exited unexpectedly (crashed) "
                "(Spark's log: /l)"
            ),
        ),
        (
            Py4JError(NO_MASTER),
            SparkError,
            "no Spark master answers there; --master 'local[*]' needs none (Spark's log: /l)",
        ),
        (
            Py4JError(MEMORY),
            WorkerLostError,
            (
                "Spark ran out of memory: run the command again with --driver-memory 4g, or on a cluster with "
                "--conf spark.executor.memory=4g (Spark's log: /l)"
            ),
        ),
        (
            Py4JNetworkError("Answer from Java side is empty"),
            WorkerLostError,
            "Spark's Java process has ended in the middle of the work (Spark's log: /l)",
        ),
        (
            Py4JError("An error occurred while calling o41.sc"),
            WorkerLostError,
            "Spark's Java process has ended in the middle of the work (Spark's log: /l)",
        ),
        (
            ConnectionRefusedError(111, "Connection refused"),
            WorkerLostError,
            "Spark's Java process has ended in the middle of the work (Spark's log: /l)",
        ),
        (
            PySparkException("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."),
            SparkError,
            "Spark's Java process did not start (Spark's log: /l)",
        ),
        (PySparkException("x" * 500), SparkError, f"Spark reports: {'x' * 397}..."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_one_sentence(error, kind, sentence):
    with pytest.raises(kind) as caught, spark_errors("/l"):
        raise error
    assert type(caught.value) is kind
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "log", "sentence"),
    [
        (
            "Job aborted due to stage failure: Master removed our application: FAILED",
            "",
            (
                "the master removed the application: its executors failed (each worker keeps their stderr in its work "
                "directory, $SPARK_HOME/work if no other is set, below the id of the application)"
            ),
        ),
        (
            "Cannot call methods on a stopped SparkContext.",
            "ERROR Application has been killed. Reason: Master removed our application: KILLED\n" + "\tat x\n" * 99,
            "the master removed the application: it is killed there",
        ),
        (
            "Cannot call methods on a stopped SparkContext.",
            "ERROR All masters are unresponsive! Giving up.",
            "no Spark master answers there; --master 'local[*]' needs none",
        ),
    ],
)
def test_an_application_that_the_master_removed(text, log, sentence, tmp_path):
    path = tmp_path / "log"
    path.write_text(log)
    with pytest.raises(SparkError) as caught, spark_errors(str(path)):
        raise Py4JError(text)
    assert str(caught.value) == f"{sentence} (Spark's log: {path})"


@pytest.mark.parametrize("error", [ValueError("a bug"), NotFoundError("no such file", path="x"), KeyboardInterrupt()])
def test_what_is_not_sparks_stays_as_it_is(error):
    with pytest.raises(type(error)) as caught, spark_errors():
        raise error
    assert caught.value is error


def test_ctrl_c_is_not_hidden_by_what_follows_it():
    def interrupted():
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(KeyboardInterrupt), spark_errors():
        interrupted()
