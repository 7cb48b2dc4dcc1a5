"""Processes without a number are told by host, pid and GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.unnumbered import Unnumbered
from hangtop.diagnosis.verdict.on_gpus import with_gpus
from tests.support.jobs import Sketch


def job(**gpus: tuple[int, ...]) -> Job:
    """Processes of one node, and the GPUs that each is on."""
    made = Sketch(world=2, nodes=1).job()
    first = made.ranks[0]
    ranks = [replace(first, rank=Unnumbered("node2", int(name[1:])), gpus=own) for name, own in gpus.items()]
    return replace(made, ranks=tuple(ranks))


@pytest.mark.parametrize(
    ("own", "summary"),
    [
        ((3,), "process 47 on node2 (GPU 3) holds up process 471 on node2"),
        ((3, 1), "process 47 on node2 (GPUs 1 and 3) holds up process 471 on node2"),
        ((), "process 47 on node2 holds up process 471 on node2"),
    ],
)
def test_the_gpu_stands_with_the_process(own: tuple[int, ...], summary: str) -> None:
    said = "process 47 on node2 holds up process 471 on node2"
    finding = Finding("rank_stuck_in_code", "critical", 1.0, said, ranks=(Unnumbered("node2", 47),), nodes=("node2",))
    (told,) = with_gpus(job(p47=own, p471=(7,)), (finding,))
    assert (told.summary, told.gpus) == (summary, ())


def test_of_numbered_ranks_nothing_is_added() -> None:
    finding = Finding("rank_stuck_in_code", "critical", 1.0, "rank 3 on node2 holds up 2 others", ranks=(3,))
    assert with_gpus(job(p47=(1,)), (finding,)) == (finding,)
