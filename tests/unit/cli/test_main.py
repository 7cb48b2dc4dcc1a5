"""The command: what it imports, how it fails, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hangtop import __version__
from hangtop.cli.groups import COMMANDS
from hangtop.cli.main import main

RUN = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]


def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=180, check=False, cwd=cwd)


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout.split()[-1], done.stderr) == (0, __version__, "")


@pytest.mark.parametrize(
    ("first", "late"),
    [
        ("from hangtop.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass",
         "asyncssh textual msgspec torch ClusterShell asyncio hangtop.session.session"),
        ("import tui.app, tui.panels.overview, hangtop.cli.screen, hangtop.session.live",
         ("asyncssh torch psutil sqlite3 hangtop.diagnosis.rules hangtop.diagnosis.stacks "
          "hangtop.diagnosis.collectives.recorder hangtop.diagnosis.verdict.wait_boxes tui.dialogs.base")),
    ],
    ids=["help", "first frame"],
)  # fmt: skip
def test_what_is_needed_later_is_imported_later(first: str, late: str) -> None:
    code = f"import sys\n{first}\nprint([name for name in {late.split()} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    assert done.stderr.strip() == "[]"
    assert "--help" not in first or all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-such-option"], "No such option '--no-such-option'"),
        (["triage", "--interval", "x"], "'x' is not a valid float"),
        (["triage", "--job", "x", "node1"], "'x' is not KEY=VALUE"),
        (["triage", "node[1-"], "node[1-"),
        (["triage", "-F", "/nonexistent/config", "node1"], "/nonexistent/config: cannot be read"),
        (["triage", "--hostfile", "/nonexistent/hosts"], "/nonexistent/hosts"),
        (["replay", "/nonexistent/recording", "--json"], "/nonexistent/recording"),
        (["replay", "/dev/null", "--text"], "is no hangtop recording"),
        (["stacks", "--rank", "3-x"], "no ranks"),
        (["stacks", "--samples", "0"], "samples"),
        (["stacks", "--native", "--read-only", "--batch"], "pauses every rank"),
        (["probe", "path", "--read-only"], "--read-only refuses probes"),
        (["probe", "capture", "--read-only"], "--read-only refuses captures"),
        (["repair", "orphans", "--read-only"], "--read-only refuses repairs"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gc.set_threshold", lambda _: None)  # it is for the whole process
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, errors = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert errors.startswith("hangtop: ")
    assert said in errors
    assert errors.count("\n") == 1


def test_a_fault_of_our_own_is_one_line_and_its_traceback_is_kept(tmp_path: Path) -> None:
    code = (
        "import hangtop.cli.groups as r, hangtop.cli.main as m\n"
        "r.COMMANDS['watch'] = r.CommandEntry('hangtop.no_such_module:command', '')\n"
        "m.main(['watch'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 70
    assert done.stderr.count("\n") == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "Traceback" in next(tmp_path.glob("hangtop-crash-*")).read_text()


def interrupted(file: Path, number: signal.Signals, least: int, *words: str) -> tuple[int, bytes, bytes]:
    """Exit code and what was printed of a command that got a signal once its recording had so many bytes."""
    code = f"import hangtop.session.recorder as r; r.BLOCK_SECONDS = 0.2; {RUN[-1]}"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--batch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (file.exists() and file.stat().st_size >= least):
        assert time.monotonic() < deadline, f"{file} has less than {least} bytes"
        time.sleep(0.02)
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_interrupting_ends_quietly_and_the_exit_code_says_by_what(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    file = tmp_path / "x.hangtop"
    words = ("triage", "--watch", "600", "--record", str(file)) if number == signal.SIGINT else ("record", str(file))
    assert interrupted(file, number, 1, *words) == (code, b"", b"")


def test_ctrl_c_is_how_a_recording_is_ended_and_what_was_recorded_is_said(tmp_path: Path) -> None:
    file = tmp_path / "of me.hangtop"
    code, out, errors = interrupted(file, signal.SIGINT, 5_000, "record", str(file))
    assert (code, out) == (0, b"")
    assert b"of 1 node" in errors
    assert f": hangtop replay '{file}'".encode() in errors
