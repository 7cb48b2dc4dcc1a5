"""The role of each process that carries a rank in its environment."""

from __future__ import annotations

import pytest

from collectors.node.processes.commands import program
from collectors.node.processes.environ import rank_of, rank_of_member
from collectors.node.processes.procfs import Stat
from collectors.node.ranks.job_process import JobProcess
from collectors.node.ranks.process_tree import classify_tree
from collectors.node.ranks.search import is_foreign, library_of
from tests.support.fake_proc import PYTHON, rank_env

TRAIN = [PYTHON, "-u", "train.py", "--launcher", "torchrun"]
OTHER = [PYTHON, "evaluate.py"]
TORCHRUN = [PYTHON, "/opt/venv/bin/torchrun", "--nnodes", "2", "train.py"]
COMPILER = [PYTHON, "/x/torch/_inductor/compile_worker/__main__.py", "--workers=4"]
TRACKER = [PYTHON, "-c", "from multiprocessing.resource_tracker import main;main(5)"]
SPAWNED = [PYTHON, "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=6)"]
OWN = [PYTHON, "-I", "-S", "-B", "-u", "-c", "exec('import os')", "hangtop", "0"]

NONE: dict[str, str] = {}
R0, R1, R2 = rank_env(0), rank_env(1), rank_env(2)
AGAIN = rank_env(0, TORCHELASTIC_RESTART_COUNT="1")
TASK = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
POD = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}
MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}


def member(
    pid: int,
    env: dict[str, str],
    words: list[str] | None = None,
    *,
    parent: int = 1,
    comm: str = "python3",
    orphan: bool = False,
    takes_part: bool = False,
) -> JobProcess:
    made = JobProcess(pid, rank_of(env) or rank_of_member(env), Stat(comm, "S", parent, 0.0, 0.0, 1, pid, 0))
    made.words = words = TRAIN if words is None else words
    made.executable = words[0] if words and "/" in words[0] else "/usr/bin/" + "".join(words[:1])
    made.orphan, made.takes_part = orphan, takes_part
    return made


def shell(pid: int, env: dict[str, str], parent: int = 1) -> JobProcess:
    return member(pid, env, ["bash", "-c", "python train.py"], parent=parent, comm="bash")


def roles(*members: JobProcess) -> dict[int, str]:
    """``rank``, ``launcher`` …; a helper by the pid of its rank."""
    places = classify_tree({one.pid: one for one in members})
    return {pid: f"of {place.owner}" if place.owner else place.role for pid, place in places.items()}


CASES: dict[str, tuple[list[JobProcess], dict[int, str]]] = {
    "torchrun": (
        [
            member(10, R0),
            member(11, R1),
            member(20, R0, parent=10),
            member(21, R0, ["/bin/sh", "-c", "nvidia-smi"], parent=20),
            member(22, R1, COMPILER, parent=11),
        ],
        {10: "rank", 11: "rank", 20: "of 10", 21: "of 10", 22: "of 11"},
    ),
    "a shell that started the others and became the first rank": (
        [member(10, R0), member(11, R1, parent=10), member(12, R0, parent=10), member(13, R1, parent=11)],
        {10: "rank", 11: "rank", 12: "of 10", 13: "of 11"},
    ),
    "what a rank starts for another job": (
        [member(10, R0), member(11, {**R1, "MASTER_PORT": "29501"}, parent=10)],
        {10: "rank", 11: "of 10"},
    ),
    "this tool in a container of a rank": (
        [
            shell(5, R0, parent=0),
            member(6, R0, OWN, parent=5),
            member(7, R0, ["dmesg"], parent=6, comm="dmesg"),
            member(9, R0),
        ],
        {5: "wrapper", 6: "own", 7: "own", 9: "rank"},
    ),
    "shells around a rank": (
        [shell(5, TASK), shell(6, TASK, parent=5), member(7, TASK, parent=6)],
        {5: "wrapper", 6: "wrapper", 7: "rank"},
    ),
    "a shell alone": ([shell(5, R0)], {5: "wrapper"}),
    "torchrun under srun": (
        [
            member(5, TASK, TORCHRUN),
            member(6, {**TASK, **rank_env(8, 16)}, parent=5),
            member(7, {**TASK, **rank_env(9, 16)}, parent=5),
        ],
        {5: "launcher", 6: "rank", 7: "rank"},
    ),
    "a pod has a number of its own": (
        [member(5, POD, [PYTHON, "entry.py"]), member(6, {**POD, **rank_env(8, 16)}, parent=5)],
        {5: "launcher", 6: "rank"},
    ),
    "a Slurm rank and a helper that learned its number": (
        [member(5, TASK), member(6, {**TASK, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}, parent=5)],
        {5: "rank", 6: "of 5"},
    ),
    "the word torchrun among the arguments": ([member(5, R0, [PYTHON, "train.py", "torchrun"])], {5: "rank"}),
    "a program without an interpreter": (
        [shell(5, MPI), member(6, MPI, ["./all_reduce_perf", "-b", "8"], parent=5)],
        {5: "wrapper", 6: "rank"},
    ),
    "a program that starts Python": (
        [member(6, MPI, ["./start"]), member(7, MPI, parent=6)],
        {6: "wrapper", 7: "rank"},
    ),
    "what an earlier run left": ([member(5, R0, orphan=True), member(9, R0)], {5: "rank", 9: "rank"}),
    "a helper that detached itself": (
        [member(5, R0), member(9, R0, OTHER, orphan=True), member(10, R0, ["wandb-core"], parent=9)],
        {5: "rank", 9: "of 5", 10: "of 5"},
    ),
    "a restart": ([member(5, R0), member(9, AGAIN, OTHER, orphan=True)], {5: "rank", 9: "rank"}),
    "a data worker whose rank is gone": (
        [member(9, R0, comm="pt_data_worker", orphan=True), member(10, R0, TRACKER, orphan=True)],
        {9: "stray", 10: "stray"},
    ),
    "a detached data worker": (
        [member(5, R0), member(9, R0, comm="pt_data_worker", orphan=True)],
        {5: "rank", 9: "of 5"},
    ),
    "mp.spawn": (
        [
            member(10, NONE),
            member(20, NONE, SPAWNED, parent=10, takes_part=True),
            member(21, NONE, SPAWNED, parent=10),
            member(30, NONE, parent=20),
        ],
        {10: "launcher", 20: "rank", 21: "rank", 30: "of 20"},
    ),
    "a rank without a number that started others": (
        [
            member(10, NONE, takes_part=True),
            member(20, NONE, parent=10, takes_part=True),
            member(21, NONE, parent=10),
        ],
        {10: "rank", 20: "rank", 21: "of 10"},
    ),
    "nothing takes part": ([member(10, NONE), member(20, NONE, SPAWNED, parent=10)], {10: "rank", 20: "of 10"}),
    "a rank without a number that started a later one": (
        [member(10, NONE, takes_part=True), member(21, R1, parent=10)],
        {10: "rank", 21: "of 10"},
    ),
    "a rank that evaluates in another program": (
        [member(10, R2, takes_part=True), member(11, R2, OTHER, parent=10, takes_part=True)],
        {10: "rank", 11: "of 10"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_roles_of_processes(case: str) -> None:
    members, expected = CASES[case]
    assert roles(*members) == expected


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


# --- processes that say no rank, by what they have mapped ---------------------------------------------------------


TORCH = "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"


@pytest.mark.parametrize(
    ("path", "library"),
    [
        (TORCH, "torch"),
        ("/opt/torch/lib/libtorch.so", "torch"),
        ("/venv/site-packages/jaxlib/libjax_common.so", "jax"),
        ("/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3", "nccl"),
        ("/usr/lib/libtorchlight.so", ""),
        ("/home/x/my_jaxlib_notes.txt", ""),
        ("/usr/lib/libc.so.6", ""),
    ],
)
def test_libraries_by_their_paths(path: str, library: str) -> None:
    assert library_of(f"7f00-7f01 r-xp 00000000 08:01 7 {path}\n".encode()) == library


@pytest.mark.parametrize(
    ("words", "comm", "foreign"),
    [
        (["python3", "-I", "-S", "-B", "-u", "-c", "import sys", "hangtop", "0"], "python3", True),
        (["python3", "train.py", "--name", "hangtop"], "python3", False),
        (["ray::IDLE", "", ""], "ray::IDLE", True),
        (["ray::Train.run"], "ray::Train.run", False),
        (["ncu", "--attach"], "ncu", True),
        # a lent py-spy has mapped the libraries of the rank that it reads native frames of
        (["/proc/865/fd/5", "dump", "--json", "--pid", "792", "--native"], "5", True),
        (["/proc/865/fd/5", "train.py"], "5", False),
        (["/opt/tools/dump", "dump"], "dump", False),
    ],
)
def test_what_is_never_a_rank(words: list[str], comm: str, foreign: bool) -> None:
    assert is_foreign(words, comm) is foreign
