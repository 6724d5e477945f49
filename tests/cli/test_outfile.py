"""The one door that writes: whole or not there, and never among the files of a broker."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalog_cli.commands import verify as verify_module
from kafkalog_cli.main import cli
from kafkalog_cli.output_file import OutputFile
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import AccessError, NotFoundError

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links of another kind")


@pytest.fixture
def log_dir(tmp_path):
    return Path(shutil.copytree(DEMO, tmp_path / "logs"))


@pytest.fixture
def place(tmp_path):
    directory = tmp_path / "out"
    directory.mkdir()
    return directory / "page.html"


def names(directory):
    return sorted(path.name for path in directory.iterdir())


# --- writing ----------------------------------------------------------------------------------------------------------
def test_a_file_is_written_with_the_mode_of_any_other(place):
    before = os.umask(0o027)
    try:
        OutputFile(str(place)).write(["a\n", "\u00e9"])
    finally:
        os.umask(before)
    assert place.read_bytes() == b"a\n\xc3\xa9"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    assert names(place.parent) == ["page.html"]


def test_it_is_written_again_with_the_mode_that_it_has(place):
    file = OutputFile(str(place))
    file.write(["one"])
    place.chmod(0o600)
    file.write(["two"])
    assert place.read_text(encoding="utf-8") == "two"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_a_link_stays_one(place, tmp_path):
    link = tmp_path / "link.html"
    link.symlink_to(place)
    OutputFile(str(link)).write(["text"])
    assert link.is_symlink()
    assert place.read_text(encoding="utf-8") == "text"


def test_a_name_without_a_directory(place, monkeypatch):
    monkeypatch.chdir(place.parent)
    OutputFile("here.html").write(["text"])
    assert names(place.parent) == ["here.html"]


def _ends_early(error):
    yield "half"
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError()])
def test_what_ends_early_leaves_nothing(place, error):
    place.write_text("before", encoding="utf-8")
    with pytest.raises(type(error)):
        OutputFile(str(place)).write(_ends_early(error))
    assert names(place.parent) == ["page.html"]
    assert place.read_text(encoding="utf-8") == "before"


def test_a_full_disk(place, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AccessError, match=r"page\.html: cannot be written: no space left on device"):
        OutputFile(str(place)).write(["text"])
    assert names(place.parent) == []


def test_a_directory_that_cannot_be_synced_is_no_error(place, monkeypatch):
    synced = os.fsync

    def refusing(number):
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        synced(number)

    monkeypatch.setattr(os, "fsync", refusing)
    OutputFile(str(place)).write(["text"])
    assert names(place.parent) == ["page.html"]


# --- places -----------------------------------------------------------------------------------------------------------
def test_places_that_cannot_be_written(place, tmp_path):
    with pytest.raises(NotFoundError, match="its directory does not exist"):
        OutputFile(str(tmp_path / "none" / "page.html"))
    with pytest.raises(NotFoundError, match="no file name"):
        OutputFile(f"{place.parent}/")
    with pytest.raises(NotFoundError, match="no file name"):
        OutputFile("")
    with pytest.raises(AccessError, match="not a regular file"):
        OutputFile(str(place.parent))
    with pytest.raises(AccessError, match="not a regular file"):
        OutputFile("/dev/null")


def test_a_directory_that_must_not_be_written(place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode, **_: False)
    with pytest.raises(AccessError, match="no permission"):
        OutputFile(str(place))


@pytest.mark.parametrize("inside", ["page.html", "orders-0/page.html"])
def test_nothing_is_written_among_the_files_of_a_broker(log_dir, inside):
    with pytest.raises(AccessError, match="directory"):
        OutputFile(str(log_dir / inside))


def test_nor_through_a_link(log_dir, tmp_path):
    (tmp_path / "link").symlink_to(log_dir / "orders-0")
    with pytest.raises(AccessError, match="directory"):
        OutputFile(str(tmp_path / "link" / "page.html"))


def test_nor_into_what_is_to_be_read(tmp_path):
    copied = tmp_path / "copied"
    copied.mkdir()
    shutil.copytree(DEMO / "orders-0", copied / "orders-0")
    targets = resolve([str(copied)])
    (copied / "sub").mkdir()
    for inside in ("page.html", "sub/page.html"):
        with pytest.raises(AccessError, match="which this command reads"):
            OutputFile(str(copied / inside), (each.path for each in targets))
    OutputFile(str(tmp_path / "page.html"), (each.path for each in targets))
    OutputFile(str(tmp_path / "copied.html"), (each.path for each in targets))


def test_nor_over_a_file_that_is_to_be_read(tmp_path):
    log = tmp_path / "00000000000000000000.log"
    shutil.copy(DEMO / "orders-0" / log.name, log)
    targets = resolve([str(log)])
    with pytest.raises(AccessError, match="a file that this command reads"):
        OutputFile(str(log), (each.path for each in targets))
    OutputFile(str(tmp_path / "page.html"), (each.path for each in targets))


# --- verify --report --------------------------------------------------------------------------------------------------
def verify(*arguments):
    done = CliRunner().invoke(cli, ["verify", "--jobs", "1", "--quiet", *map(str, arguments)])
    lines = done.stderr.splitlines(keepends=True)
    done.stderr_bytes = "".join(line for line in lines if "no compiled kernels" not in line).encode()
    return done


def test_a_report_of_a_whole_disk(log_dir, place):
    done = verify("--report", place, log_dir)
    assert done.exit_code == 0, done.output
    text = place.read_text(encoding="utf-8")
    assert "No damage: 7 partitions checked" in text or "Warnings: 7 partitions without damage" in text
    assert text.endswith("</body></html>\n")


def test_a_report_of_a_damaged_one(log_dir, place):
    log = log_dir / "orders-0" / "00000000000000000000.log"
    changed = bytearray(log.read_bytes())
    changed[100] ^= 0xFF
    log.write_bytes(changed)
    done = verify("--report", place, log_dir)
    assert done.exit_code == 4, done.output
    assert "Damaged: 1 of 7 partitions" in place.read_text(encoding="utf-8")
    assert names(place.parent) == ["page.html"]


def test_a_place_that_cannot_be_is_said_before_anything_is_read(log_dir, monkeypatch):
    monkeypatch.setattr(verify_module, "verify", None)
    before = names(log_dir)
    for place in (log_dir / "page.html", log_dir / "none" / "page.html"):
        done = verify("--report", place, log_dir)
        assert done.exit_code == 3
        assert done.stderr.startswith(f"kafkalog: {place}: ")
    assert names(log_dir) == before


def test_what_is_interrupted_leaves_nothing(log_dir, place, monkeypatch):
    def interrupted(request, progress):
        yield from ()
        raise KeyboardInterrupt

    monkeypatch.setattr(verify_module, "verify", interrupted)
    assert verify("--report", place, log_dir).exit_code == 1
    assert names(place.parent) == []


def test_a_report_is_written_over_an_older_one_and_over_an_empty_file(log_dir, place):
    place.touch()
    for _ in range(2):
        assert verify("--report", place, log_dir).exit_code == 0
        assert place.read_text(encoding="utf-8").endswith("</body></html>\n")


@pytest.mark.parametrize("text", ["precious", "<!DOCTYPE html>\n<title>another</title>"])
def test_a_report_is_not_written_over_anything_else(log_dir, place, text):
    place.write_text(text, encoding="utf-8")
    done = verify("--report", place, log_dir)
    assert (done.exit_code, done.stderr) == (
        3,
        f"kafkalog: {place}: would be overwritten, but is not a file of kafkalog; name another file\n",
    )
    assert place.read_text(encoding="utf-8") == text


def test_arguments_that_were_exchanged_cost_no_state(log_dir, place):
    state = place.with_name("state")
    assert verify("--resume", state, log_dir).exit_code == 0
    before = state.read_bytes()
    assert verify("--report", state, log_dir).exit_code == 3
    assert state.read_bytes() == before


def test_what_is_overwritten_must_be_readable(place, monkeypatch):
    place.write_text("secret", encoding="utf-8")

    def refuse(path, mode):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(AccessError, match="permission denied"):
        OutputFile(str(place), is_ours=lambda start: True)


def test_the_report_and_the_state_are_two_files(log_dir, place):
    place.with_name("link").symlink_to(place)
    done = verify("--report", place, "--resume", place.with_name("link"), log_dir)
    assert done.exit_code == 2
    assert "name the same file" in done.stderr
    assert names(place.parent) == ["link"]


# --- -o FILE ----------------------------------------------------------------------------------------------------------
def o(*arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)), prog_name="kafkalog")


def test_the_result_is_in_the_file_also_of_damage(tmp_path: Path) -> None:
    """A dump by several processes writes to its descriptor too."""
    into = tmp_path / "rows"
    for form in ("table", "ndjson", "json", "csv"):
        words = ("dump", "--records", "--output", form, "--jobs", 2, DEMO.parent / "damaged" / "orders-0")
        piped, done = o(*words), o(*words, "-o", into)
        assert (done.exit_code, done.stdout, done.stderr) == (4, "", piped.stderr)
        assert into.read_bytes() == piped.stdout_bytes
    assert os.listdir(tmp_path) == ["rows"]


def test_a_run_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = tmp_path / "rows"
    into.write_text("of an earlier run")

    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    assert o("dump", tmp_path / "nothing", "-o", into).exit_code == 3
    monkeypatch.setattr("kafkalog_cli.commands.dump.dump", interrupted)
    assert o("dump", "--records", "--jobs", 1, DEMO, "-o", into).exit_code == 1
    assert into.read_text() == "of an earlier run"
    assert os.listdir(tmp_path) == ["rows"]


def test_no_file_of_o_is_where_it_would_be_damage_or_is_read(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path / "kafka")
    before = sorted(map(str, tmp_path.rglob("*")))
    for into, said in (
        (tmp_path / "kafka" / "rows", "is in the log directory"),
        (tmp_path / "kafka" / "orders-0" / "rows", "is in the partition directory"),
        (tmp_path, "is not a regular file"),
        (tmp_path / "none" / "rows", "its directory does not exist"),
    ):
        done = o("verify", tmp_path / "kafka", "-o", into)
        assert (done.exit_code, said in done.stderr) == (3, True), done.stderr
    log = tmp_path / "alone.log"
    log.write_bytes((DEMO / "orders-0" / f"{0:020d}.log").read_bytes())
    assert "is a file that this command reads" in o("dump", log, "-o", log).stderr
    log.unlink()
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kafkalog_cli.output_file.os.fsync", full)
    done = o("verify", "--jobs", 1, DEMO / "orders-0", "-o", tmp_path / "rows")
    assert (done.exit_code, done.stderr) == (
        1,
        "kafkalog: the result could not be written: [Errno 28] No space left on device\n",
    )
    assert os.listdir(tmp_path) == []


# --- -o, and a standard output that takes nothing ---------------------------------------------------------------------
def kafkalog(*words: str, stdout: str = os.devnull, stderr: str = os.devnull, append: bool = False) -> int:
    """The exit status of a command in a process of its own."""
    with open(stdout, "ab" if append else "wb") as out, open(stderr, "ab") as err:
        return subprocess.run(
            [sys.executable, "-m", "kafkalog_cli", *words], stdout=out, stderr=err, check=False
        ).returncode


@pytest.mark.parametrize("option", ["--config", "--plan-out"])
def test_no_file_that_an_option_names_is_replaced(option, log_dir, tmp_path):
    file = tmp_path / "named"
    file.write_text("log.retention.ms=1\n", encoding="utf-8")
    result = CliRunner().invoke(cli, ["retain", str(log_dir), option, str(file), "-o", str(file)])
    assert result.exit_code == 3
    assert file.read_text(encoding="utf-8") == "log.retention.ms=1\n"


@pytest.mark.live
@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_what_standard_output_is_stays_there(name, log_dir, tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("kept\n", encoding="utf-8")
    assert kafkalog("verify", str(log_dir), "-o", name, stdout=str(kept), append=True) == 0
    assert kept.read_text(encoding="utf-8").startswith("kept\npartition ")


@pytest.mark.live
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_the_work_is_done_where_its_report_cannot_be_written(log_dir, tmp_path):
    errors = str(tmp_path / "errors")
    damaged = shutil.copytree(DEMO.parent / "damaged", tmp_path / "damaged")
    places = [str(shutil.copytree(damaged / "orders-0", tmp_path / str(number) / "orders-0")) for number in range(3)]
    assert kafkalog("truncate", *places, "--at-damage", "--apply", stdout="/dev/full", stderr=errors) == 1
    assert "No space left" in Path(errors).read_text(encoding="utf-8")
    for place in places:
        assert os.path.getsize(f"{place}/00000000000000000000.log") == 1497
    assert kafkalog("verify", str(damaged), str(tmp_path / "none"), stderr="/dev/full") == 3
