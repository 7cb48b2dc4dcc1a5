"""Jobs that wait below Python, on nodes where less is to be seen: what is said is poorer, and never "healthy"."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.device_cases import CASES, Case
from tests.support.device_jobs import DeviceJobs, device_jobs, line, wrong
from tests.support.simulated_nccl.library import compiler

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(not compiler(), reason="a C compiler makes what the ranks wait in"),
]


@pytest.fixture(scope="module")
def refused() -> Iterator[DeviceJobs]:
    with device_jobs("ptrace_refused") as jobs:
        yield jobs


@pytest.fixture(scope="module")
def container() -> Iterator[DeviceJobs]:
    with device_jobs("container") as jobs:
        yield jobs


def assert_right(jobs: DeviceJobs, name: str, case: Case | None = None) -> None:
    case = case or CASES[name]
    answers = jobs.answers(name, case=case)
    said = "\n".join(line(name, way, case, answer) for way, answer in answers.items())
    assert not any(wrong(case, answer) for answer in answers.values()), said


def test_the_one_idle_gpu_names_the_rank_where_stacks_are_refused(refused: DeviceJobs) -> None:
    kinds = ("job_stalled", "rank_stuck_in_code", "rank_stuck_in_data")
    assert_right(refused, "data_reader", Case("data", "dataloader", 2, kinds))


@pytest.mark.parametrize("name", ["data_all_wait", "data_gpu_hangs"])
def test_what_stands_is_said_to_stand_where_stacks_are_refused(refused: DeviceJobs, name: str) -> None:
    assert_right(refused, name)


def test_what_moves_is_healthy_where_stacks_are_refused(refused: DeviceJobs) -> None:
    assert_right(refused, "data_moves")


@pytest.mark.parametrize("name", ["data_reader", "pipeline_lock", "data_moves"])
def test_ranks_in_a_container(container: DeviceJobs, name: str) -> None:
    assert_right(container, name)
