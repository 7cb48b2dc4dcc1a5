"""Agents of torchrun on a node on which no rank runs: what the source ``ranks`` tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectors.samples.ranks import IdleLauncher
from tests.support.fake_proc import PYTHON, rank_env
from tests.support.rank_bench import Bench, of, rank_bench

TORCH = "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
AGENT = [PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "train.py"]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return rank_bench(tmp_path, monkeypatch)


def told(bench: Bench) -> list[Any]:
    return of(bench.look(12.0), IdleLauncher)


def test_an_agent_without_ranks_is_told_once_and_again_when_it_has_some(bench: Bench) -> None:
    bench.proc.add(50, rss=50_000, mapped=[TORCH], argv=AGENT)
    (first,) = told(bench)
    assert (first.pid, first.idle, first.command) == (50, True, " ".join(AGENT))
    assert told(bench) == []
    bench.proc.add(60, parent=50, env=rank_env(0))
    assert told(bench) == [first._replace(idle=False)]
    bench.proc.remove(60)
    (again,) = (*told(bench), *told(bench))
    assert (again.idle, again.started) == (True, first.started)
    assert first.since is None
    assert again.since is not None, "it had a rank before"
    bench.proc.remove(50)
    assert told(bench) == [again._replace(idle=False)]


def test_of_one_whose_ranks_ended_before_it_was_seen_it_is_known_that_it_had_some(bench: Bench) -> None:
    bench.proc.add(50, rss=50_000, mapped=[TORCH], argv=AGENT)
    stat = bench.proc.root / "50" / "stat"
    head, _, rest = stat.read_text().rpartition(")")
    fields = rest.split()
    fields[13] = "4200"  # of children that have ended
    stat.write_text(f"{head}) {' '.join(fields)}\n")
    (first,) = told(bench)
    assert first.since == bench.clock.time()
    assert told(bench) == []


@pytest.mark.parametrize(
    "argv",
    [["raylet", "--node_ip"], ["srun", "--pty", "bash"], [PYTHON, "/venv/bin/accelerate", "launch", "train.py"]],
    ids=["Ray", "Slurm", "Accelerate"],
)
def test_other_launchers_wait_for_whatever_they_are_given(bench: Bench, argv: list[str]) -> None:
    bench.proc.add(50, rss=50_000, mapped=[TORCH], argv=argv)
    assert told(bench) == []
