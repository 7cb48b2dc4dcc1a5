"""Agents of torchrun on a node on which no rank runs: what the source ``ranks`` tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectors.node.ranks import search, source
from collectors.node.ranks.source import RankSource
from collectors.node.source import Shared
from collectors.samples.ranks import IdleLauncher
from tests.support.fake_proc import PYTHON, FakeProc, rank_env

TORCH = "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
AGENT = [PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "train.py"]


class Bench:
    """The source and its /proc, with a clock that each look moves on."""

    def __init__(self, folder: Path) -> None:
        self.proc = FakeProc(folder / "proc")
        self.now = 1000.0
        self.source = RankSource(Shared(), str(folder / "proc"), str(folder / "sys"))

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 5e8 + self.now

    def told(self) -> list[Any]:
        self.now += 12.0
        return [sample for sample in self.source.look(self.time()) if isinstance(sample, IdleLauncher)]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path)
    for module in (search, source):
        monkeypatch.setattr(module, "time", made)
    monkeypatch.delenv(search.ONLY, raising=False)
    return made


def test_an_agent_without_ranks_is_told_once_and_again_when_it_has_some(bench: Bench) -> None:
    bench.proc.add(50, rss=50_000, mapped=[TORCH], argv=AGENT)
    (told,) = bench.told()
    assert (told.pid, told.idle, told.command) == (50, True, " ".join(AGENT))
    assert bench.told() == []
    bench.proc.add(60, parent=50, env=rank_env(0))
    assert bench.told() == [told._replace(idle=False)]
    bench.proc.remove(60)
    (again,) = (*bench.told(), *bench.told())
    assert (again.idle, again.started) == (True, told.started)
    assert told.since is None
    assert again.since is not None, "it had a rank before"
    bench.proc.remove(50)
    assert bench.told() == [again._replace(idle=False)]


def test_of_one_whose_ranks_ended_before_it_was_seen_it_is_known_that_it_had_some(bench: Bench) -> None:
    bench.proc.add(50, rss=50_000, mapped=[TORCH], argv=AGENT)
    stat = bench.proc.root / "50" / "stat"
    head, _, rest = stat.read_text().rpartition(")")
    fields = rest.split()
    fields[13] = "4200"  # of children that have ended
    stat.write_text(f"{head}) {' '.join(fields)}\n")
    (told,) = bench.told()
    assert told.since == bench.time()
    assert bench.told() == []


@pytest.mark.parametrize(
    "argv",
    [["raylet", "--node_ip"], ["srun", "--pty", "bash"], [PYTHON, "/venv/bin/accelerate", "launch", "train.py"]],
    ids=["Ray", "Slurm", "Accelerate"],
)
def test_other_launchers_wait_for_whatever_they_are_given(bench: Bench, argv: list[str]) -> None:
    bench.proc.add(50, rss=50_000, mapped=[TORCH], argv=argv)
    assert bench.told() == []
