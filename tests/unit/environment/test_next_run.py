"""The settings that would have caught this: names that this torch and NCCL read, and only what the job lacks."""

from __future__ import annotations

import shlex

import pytest

from hangtop.diagnosis.environment.next_run import next_run
from hangtop.diagnosis.environment.settings import NAMES
from hangtop.diagnosis.job import Job, Rank
from tests.support.made import process

OLD = {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}
NEW = {"TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"}
TIMES = "NCCL_DEBUG_TIMESTAMP_LEVELS"


def job(*environments: dict[str, str], command: str = "python -u train.py --lr 3", **versions: str) -> Job:
    ranks = [
        Rank(rank, "node1", process(rank, env=env, versions=versions, command=command))
        for rank, env in enumerate(environments)
    ]
    return Job(now=1.0, watched=1.0, live=True, ranks=tuple(ranks))


def names(*environments: dict[str, str], **versions: str) -> set[str]:
    return {setting.name for setting in next_run(job(*environments, **versions)).settings}


@pytest.mark.parametrize(
    ("versions", "recorder"),
    [
        ({"torch": "2.13.0+cu130"}, NEW),
        ({"torch": "2.9.1"}, {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"}),
        ({"torch": "2.8.0"}, OLD),
        ({"torch": "2.1.2"}, set()),
        ({}, OLD | NEW),
    ],
)
def test_the_recorders_names_go_by_torchs_release(versions: dict[str, str], recorder: set[str]) -> None:
    assert names({}, **versions) & (OLD | NEW) == recorder


def test_up_to_torch_2_11_only_the_older_name_of_the_size_arms_the_pipe() -> None:
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" in names({"TORCH_FR_BUFFER_SIZE": "2000"}, torch="2.11.0")
    assert "TORCH_FR_BUFFER_SIZE" not in names({"TORCH_FR_BUFFER_SIZE": "2000"}, torch="2.12.0")


def test_times_in_the_log_only_where_nccl_knows_them() -> None:
    assert TIMES in names({}, nccl="2.26.2")
    assert TIMES not in names({}, nccl="2.21.5")


def test_what_the_job_has_is_not_asked_for_again_and_a_value_that_does_not_do_is_missing() -> None:
    have = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "5000", "NCCL_DEBUG": "info", "NCCL_DEBUG_FILE": "/logs/%h-%p"}
    assert not {"TORCH_FR_BUFFER_SIZE", *have} & names(have, have)
    assert "NCCL_DEBUG" in next_run(job(have, have)).present
    assert "NCCL_DEBUG" in names(have, {})
    poor = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "/logs/nccl.%d", "TORCH_FR_BUFFER_SIZE": "0"}
    assert names(poor, torch="2.13") >= set(poor)


def test_every_name_is_read_by_somebody() -> None:
    assert names({}) <= {*NAMES, "TORCH_DISTRIBUTED_DEBUG", "PYTHONFAULTHANDLER"}


def test_what_a_rank_was_started_with_does_nothing_in_the_shell_that_it_is_copied_to() -> None:
    found = next_run(job({}, command="python -u train.py; id $(id) `id` --name a&b"))
    words = ["train.py;", "id", "$(id)", "`id`", "--name", "a&b"]
    assert shlex.split(found.torchrun)[-6:] == words
    lexer = shlex.shlex(found.srun, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    assert list(lexer)[-6:] == words, "no word is an operator"


def test_launch_lines_carry_the_jobs_own_figures() -> None:
    found = next_run(job({}, torch="2.13"))
    assert "--nnodes=1 --nproc_per_node=4" in found.torchrun
    assert "--rdzv_endpoint=node1:29500" in found.torchrun
    assert found.torchrun.endswith("train.py --lr 3")
    text = "\n".join(found.text())
    assert "export NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log  #" in text
    assert "@record" in text


def test_a_job_of_which_nothing_is_known_gets_everything() -> None:
    nothing = next_run(Job(now=1.0, watched=0.0, live=True))
    assert {setting.name for setting in nothing.settings} >= OLD | NEW
    assert "train.py" in nothing.torchrun
