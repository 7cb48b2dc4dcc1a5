"""Who is a rank among the processes that carry one's number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.processes.environ import NO_RANK, rank_of, unnumbered
from collectors.node.ranks.process_tree import (
    FamilyMember,
    ProcessRole,
    classify_tree,
    helper_role,
    is_python,
    may_be_wrapped,
    program,
)
from tests.support.fake_proc import PYTHON, rank_env

TRAIN = [PYTHON, "-u", "train.py", "--launcher", "torchrun"]
RANK = ProcessRole("rank", 0)


def member(
    pid: int,
    env: dict[str, str],
    words: list[str] | None = None,
    *,
    parent: int = 1,
    executable: str = PYTHON,
    comm: str = "python3",
    start: int | None = None,
    orphan: bool = False,
) -> FamilyMember:
    rank = rank_of(env)
    assert rank is not None
    return FamilyMember(pid, parent, pid if start is None else start, rank, words or TRAIN, comm, executable, orphan)


def placed(*members: FamilyMember) -> dict[int, ProcessRole]:
    return classify_tree({one.pid: one for one in members})


def shell(pid: int, env: dict[str, str], parent: int = 1) -> FamilyMember:
    return member(pid, env, ["bash", "-c", "python train.py"], parent=parent, executable="/usr/bin/bash", comm="bash")


def test_ranks_of_torchrun_and_their_helpers() -> None:
    places = placed(
        member(10, rank_env(0)),
        member(11, rank_env(1)),
        member(20, rank_env(0), parent=10),
        member(21, rank_env(0), ["/bin/sh", "-c", "nvidia-smi"], parent=20, executable="/bin/sh"),
        member(22, rank_env(1), [PYTHON, "x/torch/_inductor/compile_worker/__main__.py"], parent=11),
    )
    assert places == {
        10: RANK,
        11: RANK,
        20: ProcessRole("helper", 10),
        21: ProcessRole("helper", 10),
        22: ProcessRole("helper", 11),
    }


def test_a_shell_that_started_the_others_and_became_the_first_rank() -> None:
    places = placed(
        member(10, rank_env(0)),
        member(11, rank_env(1), parent=10),
        member(12, rank_env(0), parent=10),
        member(13, rank_env(1), parent=11),
    )
    assert places == {10: RANK, 11: RANK, 12: ProcessRole("helper", 10), 13: ProcessRole("helper", 11)}


@pytest.mark.parametrize(
    "other",
    [{"WORLD_SIZE": "3"}, {"MASTER_PORT": "29501"}, {"MASTER_ADDR": "10.0.0.2"}, {"TORCHELASTIC_RUN_ID": "job8"}],
)
def test_what_a_rank_starts_for_another_job_is_its_helper(other: dict[str, str]) -> None:
    assert placed(member(10, rank_env(0)), member(11, {**rank_env(1), **other}, parent=10))[11] == ProcessRole(
        "helper", 10
    )


def test_programs_of_this_tool_and_what_they_run_are_no_ranks() -> None:
    """In a container they inherit its rank, whose own process is there too or not."""
    own = [PYTHON, "-I", "-S", "-B", "-u", "-c", "exec('import os')", "hangtop", "0"]
    assert placed(
        shell(5, rank_env(0), parent=0),
        member(6, rank_env(0), own, parent=5),
        member(7, rank_env(0), ["dmesg", "-w"], parent=6, executable="/usr/bin/dmesg", comm="dmesg"),
        member(8, rank_env(0), parent=6),
        member(9, rank_env(0), parent=1),
    ) == {
        5: ProcessRole("wrapper", 0),
        6: ProcessRole("own", 0),
        7: ProcessRole("own", 0),
        8: ProcessRole("own", 0),
        9: RANK,
    }


def test_a_shell_around_a_rank_is_no_rank() -> None:
    env = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}
    assert placed(shell(5, env), shell(6, env, parent=5), member(7, env, parent=6)) == {
        5: ProcessRole("wrapper", 0), 6: ProcessRole("wrapper", 0), 7: RANK,
    }  # fmt: skip


def test_a_shell_alone_is_not_taken_for_a_rank() -> None:
    assert placed(shell(5, rank_env(0)))[5].role == "wrapper"


def test_torchrun_under_srun_is_no_rank() -> None:
    task = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
    agent = member(5, task, [PYTHON, "/opt/venv/bin/torchrun", "--nnodes", "2", "train.py"])
    places = placed(
        agent, member(6, {**task, **rank_env(8, 16)}, parent=5), member(7, {**task, **rank_env(9, 16)}, parent=5)
    )
    assert places == {5: ProcessRole("launcher", 0), 6: RANK, 7: RANK}


def test_a_pods_own_number_is_not_a_ranks() -> None:
    pod = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}
    starter = member(5, pod, [PYTHON, "entry.py"])
    assert placed(starter, member(6, {**pod, **rank_env(8, 16)}, parent=5))[5].role == "launcher"
    assert placed(starter)[5] == RANK


def test_a_hand_made_launcher_under_slurm_gives_way_to_its_workers() -> None:
    task = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
    worker = {**task, "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3"}
    assert placed(member(5, task, [PYTHON, "spawn.py"]), member(6, worker, parent=5)) == {
        5: ProcessRole("launcher", 0),
        6: RANK,
    }


def test_a_slurm_rank_keeps_the_helper_that_learned_its_number() -> None:
    task = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}
    told = {**task, "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3"}
    assert placed(member(5, task), member(6, told, parent=5)) == {5: RANK, 6: ProcessRole("helper", 5)}


def test_a_ranks_own_workers_stay_its_helpers_whatever_their_number() -> None:
    rollout = {**rank_env(3, 8), "RANK": "0", "WORLD_SIZE": "2"}
    assert placed(member(5, rank_env(3, 8)), member(6, rollout, parent=5))[6] == ProcessRole("helper", 5)


def test_the_word_torchrun_among_the_arguments_makes_no_launcher() -> None:
    assert placed(member(5, rank_env(0), [PYTHON, "train.py", "torchrun"]))[5] == RANK


def test_programs_without_an_interpreter() -> None:
    env = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    perf = member(6, env, ["./all_reduce_perf", "-b", "8"], parent=5, executable="/opt/all_reduce_perf")
    assert placed(shell(5, env), perf) == {5: ProcessRole("wrapper", 0), 6: RANK}
    python = member(7, env, parent=6)
    assert placed(perf, python) == {6: ProcessRole("wrapper", 0), 7: RANK}


def test_an_elder_orphan_is_what_an_earlier_run_left() -> None:
    assert placed(member(5, rank_env(0), orphan=True), member(9, rank_env(0))) == {5: RANK, 9: RANK}


def test_a_younger_orphan_is_a_helper_that_detached_itself() -> None:
    daemon = member(9, rank_env(0), [PYTHON, "-m", "wandb.service"], orphan=True)
    below = member(10, rank_env(0), ["wandb-core"], parent=9, executable="/x/wandb-core")
    for orphaned in (False, True):
        places = placed(member(5, rank_env(0), orphan=orphaned), daemon, below)
        assert places == {5: RANK, 9: ProcessRole("helper", 5), 10: ProcessRole("helper", 5)}


def test_two_runs_started_by_hand_are_two_ranks() -> None:
    assert placed(member(5, rank_env(0), orphan=True), member(9, rank_env(0), orphan=True)) == {5: RANK, 9: RANK}


def test_a_restart_is_a_run_of_its_own() -> None:
    again = rank_env(0, TORCHELASTIC_RESTART_COUNT="1")
    assert placed(member(5, rank_env(0)), member(9, again, [PYTHON, "other.py"], orphan=True)) == {5: RANK, 9: RANK}


def test_a_data_worker_whose_rank_is_gone_is_a_stray() -> None:
    worker = member(9, rank_env(0), comm="pt_data_worker", orphan=True)
    tracker = member(10, rank_env(0), [PYTHON, "-c", "from multiprocessing.resource_tracker import main"], orphan=True)
    assert placed(worker, tracker) == {9: ProcessRole("stray", 0), 10: ProcessRole("stray", 0)}
    assert placed(member(5, rank_env(0)), worker)[9] == ProcessRole("helper", 5)
    assert placed(member(12, rank_env(0)), worker)[9] == ProcessRole("stray", 0)


def test_roles_of_helpers() -> None:
    owner = member(5, rank_env(0))
    assert helper_role(member(6, rank_env(0), parent=5), owner) == "data_worker"
    assert helper_role(member(6, rank_env(0), parent=5, comm="pt_data_worker"), None) == "data_worker"
    compiler = [PYTHON, "/x/torch/_inductor/compile_worker/__main__.py", "--workers=4"]
    assert helper_role(member(6, rank_env(0), compiler, parent=5), owner) == "compile_worker"
    tracker = [PYTHON, "-c", "from multiprocessing.resource_tracker import main;main(5)"]
    assert helper_role(member(6, rank_env(0), tracker, parent=5), owner) == "helper"
    assert helper_role(member(7, rank_env(0), parent=6), owner) == "helper"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([PYTHON, "-u", "-X", "utf8", "-W", "ignore", "/a/train.py", "-m", "x"], "train.py"),
        ([PYTHON, "-m", "torch.distributed.run", "x.py"], "torch.distributed.run"),
        ([PYTHON, "-mtorch.distributed.launch"], "torch.distributed.launch"),
        ([PYTHON, "-c", "import x"], "-c"),
        ([PYTHON, "-m"], ""),
        ([PYTHON], "python3.11"),
        (["/usr/bin/srun", "python"], "srun"),
        ([], ""),
    ],
)
def test_what_a_command_runs(words: list[str], name: str) -> None:
    assert program(words) == name


def test_interpreters() -> None:
    assert is_python("/usr/bin/python3.11", [])
    assert is_python("", ["pypy3", "x.py"])
    assert not is_python("/usr/bin/bash", ["python"])
    assert not is_python("", [])


ENVS = [rank_env(0), rank_env(1), {"RANK": "0", "WORLD_SIZE": "2"}, {"SLURM_PROCID": "1", "SLURM_NTASKS": "1"}]
WORDS = [TRAIN, ["bash"], [PYTHON, "-m", "torch.distributed.run"], ["./perf"], [PYTHON, "-c", "multiprocessing.spawn"]]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(ENVS), st.sampled_from(WORDS), st.integers(0, 5), st.booleans()),
        max_size=9,
    )
)
def test_everybody_has_a_place_and_every_helper_a_rank(
    drawn: list[tuple[int, dict[str, str], list[str], int, bool]],
) -> None:
    members = {
        pid: member(pid, env, words, parent=parent if parent < pid else 0, executable="", start=start, orphan=orphan)
        for pid, (parent, env, words, start, orphan) in enumerate(drawn, start=1)
    }
    places = classify_tree(members)
    assert set(places) == set(members)
    for place in places.values():
        assert (place.role == "helper") == (place.owner != 0)
        assert not place.owner or places[place.owner].role == "rank"


def nameless(pid: int, words: list[str] | None = None, *, parent: int = 1, takes_part: bool = False) -> FamilyMember:
    return FamilyMember(
        pid, parent, pid, unnumbered({}), words or TRAIN, "python3", PYTHON, orphan=False, takes_part=takes_part
    )


SPAWNED = [PYTHON, "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=6)"]


def test_who_started_those_that_take_part_and_takes_none_is_no_rank() -> None:
    places = placed(
        nameless(10),
        nameless(20, SPAWNED, parent=10, takes_part=True),
        nameless(21, SPAWNED, parent=10),
        nameless(30, parent=20),
    )
    assert places == {10: ProcessRole("launcher", 0), 20: RANK, 21: RANK, 30: ProcessRole("helper", 20)}


def test_a_rank_that_started_others_stays_one() -> None:
    places = placed(nameless(10, takes_part=True), nameless(20, parent=10, takes_part=True), nameless(21, parent=10))
    assert places == {10: RANK, 20: RANK, 21: ProcessRole("helper", 10)}


def test_what_nobody_takes_part_in_is_one_process_and_its_helpers() -> None:
    assert placed(nameless(10), nameless(20, SPAWNED, parent=10)) == {10: RANK, 20: ProcessRole("helper", 10)}


def test_a_launcher_without_a_number_whose_workers_have_theirs() -> None:
    places = placed(nameless(10), member(20, rank_env(0), parent=10), member(21, rank_env(1), parent=10))
    assert places == {10: ProcessRole("launcher", 0), 20: RANK, 21: RANK}


def test_an_agent_inside_of_a_program_that_serves_the_store_of_its_ranks_is_no_rank() -> None:
    """As ``accelerate.notebook_launcher`` starts ranks: the store's threads look like a process group's."""
    places = placed(
        nameless(10, takes_part=True), member(20, rank_env(0), parent=10), member(21, rank_env(1), parent=10)
    )
    assert places == {10: ProcessRole("launcher", 0), 20: RANK, 21: RANK}


def test_a_rank_without_a_number_that_started_none_but_later_ones_stays_one() -> None:
    places = placed(nameless(10, takes_part=True), member(21, rank_env(1), parent=10))
    assert places[10] == RANK


def test_processes_without_a_number_are_never_one_another() -> None:
    orphan = nameless(20)._replace(orphan=True, words=["x"])
    assert orphan.env.rank == NO_RANK
    assert placed(nameless(10), orphan) == {10: RANK, 20: RANK}


def test_a_program_of_pythons_that_starts_each_rank_and_waits_for_it_wraps_it() -> None:
    """Both say one number; the rank is the one that takes part, and what else the wrapper started belongs to it."""
    wrapper = member(10, rank_env(2), [PYTHON, "launch.py", "train.py"])
    between = shell(11, rank_env(2), parent=10)
    rank = member(12, rank_env(2), parent=11)
    beside = member(13, rank_env(2), [PYTHON, "upload_logs.py"], parent=10)
    worker = member(14, rank_env(2), parent=12)
    assert placed(wrapper, between, rank, worker)[10] == RANK, "not known yet"
    places = placed(wrapper, between, rank._replace(takes_part=True), beside, worker)
    assert {pid: place.role for pid, place in places.items() if pid < 13} == {10: "wrapper", 11: "wrapper", 12: "rank"}
    assert places[13] == places[14] == ProcessRole("helper", 12)


def test_who_takes_part_itself_wraps_nobody() -> None:
    rank = member(10, rank_env(2))._replace(takes_part=True)
    evaluates = member(11, rank_env(2), [PYTHON, "evaluate.py"], parent=10)._replace(takes_part=True)
    assert placed(rank, evaluates) == {10: RANK, 11: ProcessRole("helper", 10)}


def test_a_fork_and_a_worker_are_nobody_s_wrapped_rank() -> None:
    owner = member(10, rank_env(2))
    assert may_be_wrapped(member(11, rank_env(2), [PYTHON, "evaluate.py"], parent=10), owner)
    assert not may_be_wrapped(member(11, rank_env(2), parent=10), owner)
    assert not may_be_wrapped(member(11, rank_env(2), [PYTHON, "x.py"], parent=10, comm="pt_data_worker"), owner)
    assert not may_be_wrapped(member(11, rank_env(3), [PYTHON, "evaluate.py"], parent=10), owner)
