"""Where a rank's dump lies, by its environment; and asking for a fresh one through the pipe."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from collectors.fleet import payload
from collectors.node.nccl.recorder import ask
from collectors.samples.probes import RecorderFile


def test_a_pipe_that_nobody_reads_does_not_block(tmp_path: Path) -> None:
    pipe = tmp_path / "fr_0.pipe"
    os.mkfifo(pipe)
    assert "No such device" in ask(str(pipe))
    assert "No such file" in ask(str(tmp_path / "other.pipe"))
    (tmp_path / "plain").write_text("")
    assert "is no pipe" in ask(str(tmp_path / "plain"))
    assert "is no pipe of the rank's" in ask(str(pipe), os.getuid() + 1)


def test_what_takes_the_pipe_s_place_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the folder may put a link to any file there between the look and the opening."""
    pipe, other = tmp_path / "fr_0.pipe", tmp_path / "shadow"
    os.mkfifo(pipe)
    other.write_text("root:x")
    opened = os.open

    def swap(path: str, flags: int) -> int:
        pipe.unlink()
        pipe.symlink_to(other)
        return opened(path, flags)

    monkeypatch.setattr(os, "open", swap)
    assert "is no pipe of the rank's" in ask(str(pipe), os.getuid())
    monkeypatch.undo()
    assert other.read_text() == "root:x"


def run(rows: list[list[float]], *, fresh: bool) -> list[RecorderFile]:
    process = subprocess.Popen(payload.command("python3"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(payload.pack("collectors.node.nccl.recorder", {"ranks": rows, "fresh": fresh}))
    process.stdin.flush()
    beating = threading.Thread(target=beat, args=(process,), daemon=True)
    beating.start()
    found = []
    for line in process.stdout:
        _, fields = json.loads(line)
        if not fields:
            break
        found.append(RecorderFile(*fields))
    assert process.wait(60) == 0
    beating.join()
    process.stdin.close()
    process.stdout.close()
    return found


def beat(process: subprocess.Popen[bytes]) -> None:
    """Have it live, however slow this machine is, until it has ended."""
    assert process.stdin is not None
    while process.poll() is None:
        with suppress(BrokenPipeError):
            os.write(process.stdin.fileno(), b"\n")
        time.sleep(0.1)


def test_a_running_rank_is_asked_and_a_silent_one_is_evidence(tmp_path: Path) -> None:
    environment = {"TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/fr_", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/pipe_"}
    rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, **environment})
    pipe = tmp_path / "pipe_0.pipe"
    os.mkfifo(pipe)

    def monitor() -> None:
        """What torch's monitor thread does."""
        with pipe.open("rb") as reader:
            reader.read(1)
        (tmp_path / "fr_0").write_bytes(b"fresh dump")

    thread = threading.Thread(target=monitor, daemon=True)  # where nobody asks it waits for ever
    thread.start()
    try:
        dumped, silent = run([[0, rank.pid, 0.0], [1, rank.pid, 0.0]], fresh=True)
        thread.join()
        assert base64.b64decode(dumped.data) == b"fresh dump"
        assert (silent.data, silent.path) == ("", f"{tmp_path}/fr_1")
        assert "fr_1" in silent.pipe or "pipe_1" in silent.why
        (old,) = run([[0, rank.pid, time.time() + 60]], fresh=False)
        assert "earlier run" in old.why
        assert not old.data
    finally:
        rank.kill()
        rank.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may read what a rank's user may not")
@pytest.mark.parametrize("planted", ["of root's", "link to root's", "pipe", "its own"])
def test_root_reads_no_more_than_the_rank_s_user_may(planted: str) -> None:
    """The rank says where its dump is, and this side is root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "secret").write_bytes(b"root's")
        (folder / "secret").chmod(0o600)
        dump = folder / "fr_0"
        make = {"link to root's": lambda: dump.symlink_to(folder / "secret"), "pipe": lambda: os.mkfifo(dump)}
        make.get(planted, lambda: dump.write_bytes(b"dump"))()
        dump.chmod(0o600)
        if planted in ("pipe", "its own"):
            os.chown(dump, 65534, 65534)
        words = ["sleep", "60"]
        with subprocess.Popen(words, user=65534, group=65534, env={"TORCH_FR_DUMP_TEMP_FILE": f"{name}/fr_"}) as rank:
            (found,) = run([[0, rank.pid, 0.0]], fresh=False)
            rank.kill()
        assert base64.b64decode(found.data) == (b"dump" if planted == "its own" else b"")
        assert bool(found.why) == (planted != "its own")
