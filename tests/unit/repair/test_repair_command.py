"""``hangtop repair`` on this machine: a real orphan with a port, never ended unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import orphans

RUN = [sys.executable, "-c", "from hangtop.cli.main import main; main()", "repair"]
ENV = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29555", "TORCHELASTIC_RUN_ID": "old",
}  # fmt: skip


def repair(mark: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **orphans.only(mark)}
    command = [*RUN, *words]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, env=environment, check=False
    )


def test_read_only_refuses_and_nothing_is_asked() -> None:
    done = repair("nobody", "orphans", "--read-only", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--read-only refuses repairs" in done.stderr


@contextmanager
def rank_of_the_job(mark: str) -> Iterator[int]:
    """A rank of a run that is younger than the orphan's: that run is the job."""
    env = {**ENV, "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "new", orphans.MARK: mark}
    command = [sys.executable, "-S", "-c", orphans.SLEEP, "train.py"]
    with subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        try:
            yield rank.pid
        finally:
            rank.kill()


def test_an_orphan_is_listed_refused_without_a_word_and_ended_with_one() -> None:
    mark = uuid.uuid4().hex
    with orphans.orphan({**ENV, orphans.MARK: mark}, orphans.LISTENING) as (pid, port), rank_of_the_job(mark) as rank:
        refused = repair(mark, "orphans")
        assert refused.returncode == 2
        assert "Nobody can be asked here: --yes says so" in refused.stderr
        assert f"kill -TERM {pid}; sleep 5; kill -KILL {pid}" in refused.stderr
        assert f"listens on port {port}" in refused.stderr
        assert orphans.wait_for_state(pid, "S")
        done = repair(mark, "orphans", "--yes", "--json")
        (row,) = row_of(done)
        assert (done.returncode, row["pid"], row["outcome"], row["ports"]) == (0, pid, "terminated", [port])
        assert orphans.state_of(pid) == ""
        assert orphans.wait_for_state(rank, "S")


def row_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.stdout, done.stderr
    return list(json.loads(done.stdout)["results"])


def test_a_node_is_taken_out_by_the_scheduler_of_its_ranks(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\nfor word; do echo "$word"; done >> {tmp_path}/asked\n')
    (tmp_path / "scontrol").chmod(0o755)
    env = {**os.environ, **orphans.only(mark), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ranks = {**os.environ, **ENV, "LOCAL_WORLD_SIZE": "1", "SLURM_JOB_ID": "17", "SLURMD_NODENAME": "cn-7",
             orphans.MARK: mark}  # fmt: skip
    here = os.uname().nodename

    def drain(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*RUN, "drain", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=180, env=env, check=False)  # fmt: skip

    command = [sys.executable, "-S", "-c", orphans.SLEEP, "train.py"]
    with subprocess.Popen(command, env=ranks, stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        try:
            assert drain("--out", "elsewhere", "--yes").returncode == 2
            unasked = drain("--out", here)
            assert (unasked.returncode, "Nobody can be asked here" in unasked.stderr) == (2, True)
            assert drain("--out", here, "--read-only", "--yes").returncode == 2
            assert not (tmp_path / "asked").exists()
            done = drain("--out", here, "--reason", "fan broken", "--yes")
        finally:
            rank.kill()
    assert done.returncode == 0, done.stderr
    assert "✓ scontrol update nodename=cn-7 state=drain" in done.stdout
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["update", "nodename=cn-7", "state=drain", "reason=hangtop: fan broken"]
