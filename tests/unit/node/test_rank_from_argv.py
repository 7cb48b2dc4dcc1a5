"""Ranks of processes by their command lines, for processes of torch and JAX whose environment has none."""

from __future__ import annotations

import pytest

from collectors.node.ranks.rank_from_argv import ArgvRank, jax_ranks, torch_ranks

PYTHON = "/usr/bin/python3.11"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--process_id=3", "--num_processes=8"), ArgvRank(3, 8)),
        (("--multiprocess_gpu", "--process_index", "3", "--process_count", "8"), ArgvRank(3, 8)),
        (("--jax_distributed.process-id=3",), ArgvRank(3, None)),
        (("--process_id=3", "--coordinator_address", "node1:1234"), ArgvRank(3, None, 1234)),
        (("--process_id=3", "--tracker=node1:1234"), ArgvRank(3, None)),
        (("--process_id=8", "--num_processes=8"), None),
        (("--process_id", "--verbose"), None),
        (("--seed=3",), None),
    ],
)
def test_an_option_of_jax(words: tuple[str, ...], found: ArgvRank | None) -> None:
    assert jax_ranks({50: [PYTHON, "train.py", *words]}) == ({} if found is None else {50: found})


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([PYTHON, "main.py", "--rank", "3", "--world-size=8"], ArgvRank(3, 8)),
        ([PYTHON, "tune.py", "--rank=16"], None),
        (["trainer: rank 3"], ArgvRank(3, None)),
        (["my run [global rank 3 of 8]"], ArgvRank(3, None)),
        ([PYTHON, "main.py", "--rank", "8", "--world-size=8"], None),
        ([PYTHON, "main.py", "--lora-rank", "16"], None),
        ([PYTHON, "main.py", "--node-rank=1", "--local_rank=3"], None),
        ([PYTHON, "rank_3.py"], None),
        (["/opt/rank_3"], None),
        (["VLLM::Worker_TP1"], None),
        (["worker (TP rank 1)"], None),
        ([], None),
    ],
)
def test_an_option_or_title_of_torch(words: list[str], found: ArgvRank | None) -> None:
    assert torch_ranks({50: words}) == ({} if found is None else {50: found})


def test_two_processes_with_one_rank_have_none() -> None:
    assert jax_ranks({pid: [PYTHON, "--host_idx=1"] for pid in (50, 51)}) == {}
    for other in ("--rank=3", "--rank=2 --world-size=4"):  # of LoRA it is the rank of a matrix
        assert torch_ranks({50: [PYTHON, "a.py", "--rank=3"], 51: [PYTHON, "a.py", *other.split()]}) == {}


def test_two_jobs_of_jax_with_coordinators_of_their_own() -> None:
    jobs = {pid: [PYTHON, "--process_id=0", f"--coordinator_address=n1:{port}"] for pid, port in ((50, 1), (51, 2))}
    assert jax_ranks(jobs) == {50: ArgvRank(0, None, 1), 51: ArgvRank(0, None, 2)}


def test_bare_rank_options_of_two_processes_are_ranks() -> None:
    found = torch_ranks({50 + rank: [PYTHON, "a.py", f"--rank={rank}"] for rank in (4, 5)})
    assert {pid: one.rank for pid, one in found.items()} == {54: 4, 55: 5}
