"""Two jobs on the same nodes: figures of the screen are those of one of them, and the other is told apart."""

from __future__ import annotations

from typing import NamedTuple

from collectors.samples.stream import Tick
from tests.support.made import hello, process, pulse
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession

OTHERS = 2


def two_jobs() -> PaperSession:
    """Four nodes of eight ranks each, and beside them on the first node two ranks of a job of two."""
    session = Paper().session()
    samples: list[NamedTuple] = []
    for rank in range(OTHERS):
        pid = 7000 + rank
        samples.append(
            process(rank, pid, started=NOW - 9000, world_size=OTHERS, run_id="other", master_port=29999,
                    command="python eval.py", launcher="torchrun")
        )  # fmt: skip
        samples.append(pulse(pid, state="R"))
    session.samples("node1", [*samples, Tick(1, NOW, 0.01, 0.1, 9 << 20)], 1)
    session.diagnose()
    return session


async def test_ranks_on_a_cpu_are_counted_of_the_job_alone() -> None:
    async with screen(two_jobs(), size=(120, 36)) as shown:
        assert "32 of 32 ranks on CPU now" in shown.text()


async def test_the_table_of_ranks_tells_another_jobs_processes_apart() -> None:
    async with screen(two_jobs(), size=(120, 36)) as shown:
        await shown.press("2")
        text = shown.text()
        assert "32 of 32 ranks alive" in text
        assert "32 on CPU" in text
        assert "2 not of this job" in text


async def test_ranks_that_two_names_of_one_machine_tell_count_once() -> None:
    paper = Paper(nodes=2)
    session = paper.session(ticks=1)
    Paper(nodes=2, names=("alias", "…"), clock=paper.clock).feed(session, 0, 0)
    for name in ("node1", "alias"):
        session.state.nodes[name].hello = hello(boot_id="b1", hostname="gpu17")
    async with screen(session, size=(120, 36)) as shown:
        await shown.press("2")
        session.diagnose()
        session.tick()
        await shown.draw()
        text = shown.text()
        assert "8 told by two names" in text
        assert "not of this job" not in text
        assert "16 of 16 ranks alive" in text
        assert "16 on CPU" in text
