"""``hangtop check`` over a real job on this machine: one flipped value is named, its healthy twin passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from hangtop.cli.check import command
from tests.support.torch_ranks import free_port

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.torch


@contextmanager
def job(*words: str, module: str = "inside_job", world: int = 2) -> Iterator[str]:
    """Ranks over gloo; gives the variable that marks them."""
    pytest.importorskip("torch")
    mark = uuid.uuid4().hex
    env = {**os.environ, "PYTHONPATH": str(ROOT), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": str(free_port()), "HX_MARK": mark}  # fmt: skip
    ranks = [
        subprocess.Popen([sys.executable, "-m", f"tests.support.{module}", *words], cwd=ROOT,
                         env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
        for rank in range(world)
    ]  # fmt: skip
    try:
        for rank in ranks:
            assert rank.stdout is not None
            assert rank.stdout.readline() == b"up\n"
        yield f"HX_MARK={mark}"
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def ask(mark: str, *words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(command, [*words, "--job", mark, "--python", sys.executable], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.slow
def test_one_weight_that_differs_is_named() -> None:
    with job("fault") as mark:
        code, out, said = ask(mark, "same", "--yes", "--json")
        assert code == 1, said
        answer = json.loads(out)
        assert (answer["check"], answer["ok"], answer["ranks"], answer["silent"]) == ("same", False, [0, 1], [])
        (finding,) = answer["findings"]
        assert (finding["kind"], finding["ranks"]) == ("replicas_differ", [0, 1])
        assert finding["summary"] == "weight differs on rank 1 from that of rank 0"
        assert "write “check same at the end of step" in said, "what is written is shown before"
        code, out, said = ask(mark, "placement", "--yes")
        assert (code, out.startswith("✓ check placement after step ")) == (0, True), out + said
        code, out, said = ask(mark, "same")
        assert code == 2
        assert "All 2 ranks stop for it at the end of that step, 60 s at most. Go on?" in said
        assert "--yes" in said


@pytest.mark.slow
def test_the_healthy_twin_passes() -> None:
    with job() as mark:
        code, out, said = ask(mark, "same", "--yes")
        assert (code, out.startswith("✓ check same after step ")) == (0, True), out + said
        assert "are equal on 2 ranks, bit by bit" in out


@pytest.mark.slow
def test_one_group_of_a_job_is_asked_and_its_twin_passes() -> None:
    with job("flip", module="inside_groups_job", world=4) as mark:
        code, out, said = ask(mark, "same", "--rank", "0,2", "--yes", "--json")
        assert code == 1, said
        assert "write “check same of ranks 0,2 at the end of step" in said
        answer = json.loads(out)
        assert (answer["group"], answer["ranks"], answer["silent"]) == ([0, 2], [0, 2], [])
        (finding,) = answer["findings"]
        assert finding["summary"] == "weight differs on rank 2 from that of rank 0"
        code, out, said = ask(mark, "same", "--rank", "1,3", "--yes")
        assert (code, out.startswith("✓ check same of ranks 1,3 after step ")) == (0, True), out + said
        assert "are equal on 2 ranks, bit by bit" in out
        code, out, said = ask(mark, "barrier", "--rank", "0,3", "--yes")
        assert (code, "no process group of the ranks that were asked" in out) == (1, True), out + said
        code, out, said = ask(mark, "barrier", "--rank", "0,4", "--yes")
        assert (code, out) == (1, "")
        assert "rank 4 would not come: no such process is seen, so nobody was asked" in said


@pytest.mark.slow
def test_a_member_that_stops_stepping_is_named_and_the_other_group_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("hangtop.session.asking.inside", "hangtop.cli.check"):
        monkeypatch.setattr(f"{module}.DEADLINE", 3.0)
    with job("apart", module="inside_groups_job", world=4) as mark:
        code, out, said = ask(mark, "barrier", "--rank", "1,3", "--yes", "--json")
        answer = json.loads(out)
        assert (code, answer["ranks"], answer["silent"]) == (1, [1], [3]), said
        assert answer["summaries"] == ["rank 3 did not come in time; 1 rank came"]
        assert [(one["kind"], one["ranks"]) for one in answer["findings"]] == [("check_incomplete", [3])]
        code, out, said = ask(mark, "barrier", "--rank", "0,2", "--yes")
        assert (code, "2 ranks came" in out) == (0, True), out + said


def test_a_job_that_tells_no_steps_cannot_be_asked() -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    mark = uuid.uuid4().hex
    with subprocess.Popen(sleeper, env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "HX_MARK": mark}) as rank:
        try:
            code, out, said = ask(f"HX_MARK={mark}", "barrier", "--yes", "--wait", "2")
        finally:
            rank.kill()
    assert (code, out) == (1, "")
    assert "no rank tells its steps: the job must call hangtop.inside.start()" in said


def test_read_only_refuses_it() -> None:
    code, _, said = ask("A=b", "barrier", "--read-only", "--yes")
    assert (code, "--read-only refuses checks" in said) == (2, True)
