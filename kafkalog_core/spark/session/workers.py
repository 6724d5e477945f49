"""Spark's executors as workers of `engine.pool`: a Spark task does some of our tasks, and results come in their order.

Tasks are sent in Spark jobs of a few Spark tasks a core, at most three jobs at a time. So the executors have enough to
do, tasks are made when they are needed, and results do not pile up in the driver. Damage is part of a result. An error
of kafkalog's is sent as a value too, because Spark would keep only its text and repeat the Spark task.
"""

from __future__ import annotations

import os
import platform
import sys
import tarfile
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYetError
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain, count, islice
from pathlib import Path
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kafkalog_core import kernels
from kafkalog_core.engine.pool import give_way
from kafkalog_core.errors import KafkalogError
from kafkalog_core.kernels.loops import SOURCE_HASH
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.spark.session.errors import SparkError, spark_errors
from kafkalog_core.spark.session.session import LOG_CONF
from kafkalog_core.storage.object_paths import REACHING, StorageOptions
from kafkalog_core.storage.objects import forget, options_in_use
from kafkalog_core.storage.reading import READING
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import RDD, Accumulator
    from pyspark.sql import SparkSession

    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.reading import ReadLimit

__all__ = ["Packed", "Raised", "SparkWorkers", "write_archive"]


_SPARK_TASKS_A_CORE: Final = 4
_JOBS_AT_ONCE: Final = 3
_LOOK_SECONDS: Final = 0.2
_SPARK_TASK_S: Final = 0.2
"""Seconds that a Spark task should work at least: starting one costs about a tenth of it."""

_MOST_TASKS: Final = 64

_OTHER_KERNELS: Final = (
    "{python} on {host} has another kafkalog than this machine, or one without compiled kernels; install the same one "
    "there, or run `kafkalog spark pack` and name the file that it writes with --archives"
)

_Result = TypeVar("_Result")
_Task = tuple[Any, ...]
_groups: Final = count()


class SparkWorkers:
    """The executors of a session. `progress` advances by the bytes that a Spark task has read when it ends."""

    def __init__(self, spark: SparkSession, progress: Progress = NO_PROGRESS) -> None:
        self.spark = spark
        self.context = spark.sparkContext
        self._progress = progress
        self.read_bytes = self.context.accumulator(0)
        """The accumulator to which every Spark task adds the bytes that it has read."""
        self._log = self.context.getConf().get(LOG_CONF)
        self._reported_bytes = 0
        self._done_tasks = 0
        self._busy_s = 0.0

    @property
    def jobs(self) -> int:
        """The number of cores of the executors that have registered so far."""
        return self.context.defaultParallelism

    def map(self, work_of: Callable[..., _Result], tasks: Iterable[_Task]) -> Iterator[_Result]:
        """Yield the result of each task; see `kafkalog_core.engine.pool.Workers`.

        `work_of` must be a function of a module, and results are pickled. Raises WorkerLostError if a task failed in
        every attempt that Spark makes.
        """
        source = iter(tasks)

        def jobs() -> Iterator[RDD[_Finished]]:
            while slices := self._slices(source):
                yield self.context.parallelize(slices, len(slices)).mapPartitions(_Slice(self.task_of(work_of)))

        for finished in chain.from_iterable(self._collected(jobs())):
            self._done_tasks += len(finished.results)
            self._busy_s += finished.seconds
            for result in finished.results:
                yield _unwrapped(result)

    def task_of(self, work_of: Callable[..., _Result]) -> Callable[..., _Result | Raised]:
        """Return a callable that runs `work_of(*task, advance)` on an executor; it returns errors as values."""
        limit = None if READING.limit is None else READING.limit.share(max(1, self.jobs))
        reads_as = _ReadsAs(READING.keeps_cache, limit, READING.gives_way, options_in_use())
        return _OnExecutor(work_of, self.read_bytes, SOURCE_HASH, reads_as)

    def collect(self, rdd: RDD[Any]) -> list[Any]:
        """Return all elements, as `RDD.collect` does, but with progress, and so that Ctrl-C ends the job.

        Raises WorkerLostError, and the error of the first element that is a `Raised`.
        """
        return [_unwrapped(element) for element in next(self._collected(iter([rdd])))]

    # --- jobs ---------------------------------------------------------------------------------------------------------
    def _slices(self, source: Iterator[_Task]) -> list[list[_Task]]:
        """Return the tasks of the next job, one list a Spark task; empty: there are no more tasks."""
        slices: list[list[_Task]] = []
        count_of_tasks = self._tasks_a_spark_task()
        most = self.jobs * _SPARK_TASKS_A_CORE
        while len(slices) < most and (tasks := list(islice(source, count_of_tasks))):
            slices.append(tasks)
        return slices

    def _tasks_a_spark_task(self) -> int:
        """Return how many tasks make a Spark task worth its cost, by the tasks that have ended; 1: none has."""
        if not self._done_tasks:
            return 1
        return max(
            1, min(_MOST_TASKS, int(_SPARK_TASK_S * self._done_tasks / max(self._busy_s, _SPARK_TASK_S / _MOST_TASKS)))
        )

    def _collected(self, rdds: Iterator[RDD[Any]]) -> Iterator[list[Any]]:
        """Yield the elements of each RDD; a few are computed at a time, and closing the generator cancels those."""
        group = f"kafkalog-{next(_groups)}"
        waiting: deque[Future[list[Any]]] = deque()
        threads = ThreadPoolExecutor(_JOBS_AT_ONCE, thread_name_prefix=group)
        try:
            while True:
                for rdd in islice(rdds, _JOBS_AT_ONCE - len(waiting)):
                    waiting.append(threads.submit(self._run, group, rdd))
                if not waiting:
                    return
                elements = self._elements(waiting[0])
                waiting.popleft()
                yield elements
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            while not all(job.done() for job in waiting):  # one that begins just now is cancelled the next time
                self.context.cancelJobGroup(group)
                wait(waiting, _LOOK_SECONDS)

    def _run(self, group: str, rdd: RDD[Any]) -> list[Any]:
        """Run one job, in a thread of its own: Spark keeps the job group a thread."""
        with spark_errors(self._log):
            self.context.setJobGroup(group, "kafkalog")
            return rdd.collect()

    def _elements(self, job: Future[list[Any]]) -> list[Any]:
        while True:
            try:
                return job.result(_LOOK_SECONDS)
            except NotYetError:
                continue
            finally:
                read_bytes = self.read_bytes.value
                self._progress.advance(read_bytes - self._reported_bytes)
                self._reported_bytes = read_bytes


# --- on the executors -------------------------------------------------------------------------------------------------
class Raised(Struct, frozen=True):
    """A KafkalogError on its way to the driver."""

    error: KafkalogError


class _ReadsAs(NamedTuple):
    """How a Spark task reads, by the options of its command. The registered cores share the limit of bytes a second."""

    keeps_cache: bool
    limit: ReadLimit | None
    gives_way: bool
    storage: StorageOptions = StorageOptions()

    def begin(self) -> None:
        """Read so from now on. The limit goes on, where the last Spark task of this process had the same."""
        READING.keeps_cache, REACHING.options = self.keeps_cache, self.storage
        forget()
        last = READING.limit
        if last is None or self.limit is None or last.bytes_per_s != self.limit.bytes_per_s:
            READING.limit = self.limit
        if self.gives_way and not READING.gives_way:  # Spark uses the process again
            READING.gives_way = True
            give_way()


class _OnExecutor(Struct, frozen=True):
    """The callable that `SparkWorkers.task_of` returns."""

    work_of: Callable[..., Any]
    read_bytes: Accumulator[int]
    kernels: str
    """The hash of the source from which the driver's kernels were built."""
    reading: _ReadsAs

    def __call__(self, *task: Any) -> Any:
        if self.kernels != SOURCE_HASH:
            return Raised(SparkError(_OTHER_KERNELS.format(host=os.uname().nodename, python=sys.executable)))
        self.reading.begin()
        try:
            return self.work_of(*task, self.read_bytes.add)
        except KafkalogError as error:
            return Raised(error)


class _Finished(NamedTuple):
    """The results of a Spark task's tasks, and how long they took."""

    results: list[Any]
    seconds: float


class _Slice(Struct, frozen=True):
    """The work of one Spark task: its tasks, up to the first one that fails."""

    call: Callable[..., Any]

    def __call__(self, slices: Iterable[list[_Task]]) -> Iterator[_Finished]:
        for tasks in slices:
            begun_s = perf_counter()
            results: list[Any] = []
            for task in tasks:
                results.append(self.call(*task))
                if isinstance(results[-1], Raised):
                    break
            yield _Finished(results, perf_counter() - begun_s)


def _unwrapped(result: Any) -> Any:
    """Return a result; raise the error of a `Raised`."""
    if isinstance(result, Raised):
        raise result.error
    return result


_ROOT: Final = Path(__file__).resolve().parents[3]
_PACKAGE: Final = "kafkalog_core"
_REQUIRED: Final = (
    "crc32c",
    "lz4",
    "msgspec",
    "python-snappy",
    "cramjam",
    "zstandard",
)  # cramjam: used by python-snappy
_OPTIONAL: Final = ("isal",)
_ARROW: Final = "pyarrow"
_NOT_NEEDED: Final = tuple(
    f"pyarrow/{name}" for name in ("include/", "src/", "tests/", "libarrow_flight", "libarrow_python_flight", "_flight")
)
_QUICKLY: Final = 1
"""Compression level of an archive: the best level takes three times as long and saves a tenth."""

_COMPILED_CACHE: Final = "__pycache__"


class Packed(Struct, frozen=True):
    """The contents of an archive. It fits executors with the same release of Python and the same kind of machine."""

    files: int
    size_bytes: int
    distributions: tuple[str, ...]
    python: str
    machine: str
    compiled: bool


def write_archive(file: IO[bytes], *, with_pyarrow: bool, progress: Progress = NO_PROGRESS) -> Packed:
    """Write kafkalog and the packages that it needs as a tar.gz. Raises SparkError if one of them is not installed."""
    names = (*_REQUIRED, *filter(_is_installed, _OPTIONAL), *([_ARROW] if with_pyarrow else []))
    members = dict(_ours())
    for name in names:
        members |= _files_of(name)
    sizes = {path: os.stat(path).st_size for path in members.values()}
    progress.expect(sum(sizes.values()))
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_QUICKLY) as archive:
        for name, path in sorted(members.items()):
            archive.add(path, name, recursive=False)
            progress.advance(sizes[path])
    return Packed(
        files=len(members),
        size_bytes=file.tell(),
        distributions=names,
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        machine=f"{platform.system()} {platform.machine()}",
        compiled=kernels.COMPILED,
    )


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _ours() -> Iterator[tuple[str, Path]]:
    """Yield name and path of kafkalog's files: the core and the module by which Spark finds the data source."""
    yield from ((path.name, path) for path in _ROOT.glob("pyspark_kafkalog.py"))
    for path in (_ROOT / _PACKAGE).rglob("*"):
        if path.is_file() and _COMPILED_CACHE not in path.parts:
            yield path.relative_to(_ROOT).as_posix(), path


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    """Yield name and path of a distribution's files, without scripts and files for compilers and its own tests."""
    try:
        files = distribution(name).files
    except PackageNotFoundError:
        raise SparkError(f"{name} is not installed here, and executors need it: pip install {name}") from None
    for file in files or ():
        inside = file.as_posix()
        if not inside.startswith(("..", "/", *_NOT_NEEDED)) and _COMPILED_CACHE not in file.parts:
            yield inside, Path(str(file.locate()))
