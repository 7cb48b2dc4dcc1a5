"""The lines that would have caught this: names that this torch and this NCCL read, and only what the job lacks."""

from __future__ import annotations

import shlex

from hangtop.diagnosis.environment.catching import Catching, catching
from hangtop.diagnosis.environment.names import NCCL_NAMES, TORCH_NAMES
from hangtop.diagnosis.job import Job, Rank
from tests.support.made import process


def job(*environments: dict[str, str], **versions: str) -> Job:
    ranks = [
        Rank(rank, "node1", process(rank, env=env, versions=versions, command="python -u train.py --lr 3"))
        for rank, env in enumerate(environments)
    ]
    return Job(now=1.0, watched=1.0, live=True, ranks=tuple(ranks))


def names(found: Catching) -> set[str]:
    return {setting.name for setting in found.settings}


OLD = {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}
NEW = {"TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"}


def test_the_recorders_names_go_by_torchs_release() -> None:
    assert names(catching(job({}, torch="2.13.0+cu130"))) & (OLD | NEW) == NEW
    between = {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"}
    assert names(catching(job({}, torch="2.9.1"))) & (OLD | NEW) == between
    assert names(catching(job({}, torch="2.8.0"))) & (OLD | NEW) == OLD
    assert names(catching(job({}))) >= OLD | NEW
    assert not names(catching(job({}, torch="2.1.2"))) & (OLD | NEW | {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE"})


def test_up_to_torch_2_11_only_the_older_name_of_the_size_arms_the_pipe() -> None:
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" in names(catching(job({"TORCH_FR_BUFFER_SIZE": "2000"}, torch="2.11.0")))
    assert "TORCH_FR_BUFFER_SIZE" not in names(catching(job({"TORCH_FR_BUFFER_SIZE": "2000"}, torch="2.12.0")))


def test_times_in_the_log_only_where_nccl_knows_them() -> None:
    name = "NCCL_DEBUG_TIMESTAMP_LEVELS"
    assert name in names(catching(job({}, nccl="2.26.2")))
    assert name not in names(catching(job({}, nccl="2.21.5")))


def test_what_the_job_has_is_not_asked_for_again() -> None:
    have = {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "5000", "NCCL_DEBUG": "info", "NCCL_DEBUG_FILE": "/logs/%h-%p",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/tmp/p",
    }  # fmt: skip
    found = catching(job(have, have))
    assert not {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", *have} & names(found)
    assert "NCCL_DEBUG" in found.present
    assert "NCCL_DEBUG" in names(catching(job(have, {})))


def test_a_value_that_does_not_do_counts_as_missing() -> None:
    poor = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "/logs/nccl.%d", "TORCH_FR_BUFFER_SIZE": "0"}
    assert {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "TORCH_FR_BUFFER_SIZE"} <= names(catching(job(poor, torch="2.13")))


def test_every_name_is_read_by_somebody() -> None:
    known = set(NCCL_NAMES) | set(TORCH_NAMES) | {"TORCH_DISTRIBUTED_DEBUG", "PYTHONFAULTHANDLER"}
    assert names(catching(job({}))) <= known


def test_what_a_rank_was_started_with_does_nothing_in_the_shell_of_who_copies_it() -> None:
    odd = process(0, command="python -u train.py; id $(id) `id` --name a&b")
    made = Job(now=1.0, watched=1.0, live=True, ranks=(Rank(0, "node1", odd),))
    found = catching(made)
    words = ["train.py;", "id", "$(id)", "`id`", "--name", "a&b"]
    assert shlex.split(found.torchrun)[-6:] == words
    lexer = shlex.shlex(found.srun, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    assert list(lexer)[-6:] == words, "no word is an operator"


def test_launch_lines_carry_the_jobs_own_figures() -> None:
    found = catching(job({}, torch="2.13"))
    assert "--nnodes=1 --nproc_per_node=4" in found.torchrun
    assert "--rdzv_endpoint=node1:29500" in found.torchrun
    assert found.torchrun.endswith("train.py --lr 3")
    assert "--output=%x.%j.%N.%t.log" in found.srun
    text = "\n".join(found.text())
    assert "export NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log  #" in text
    assert "@record" in text
    assert "timeout=timedelta" in text


def test_a_job_of_which_nothing_is_known_gets_everything() -> None:
    nothing = Job(now=1.0, watched=0.0, live=True)
    assert names(catching(nothing)) >= OLD | NEW
    assert "train.py" in catching(nothing).torchrun
