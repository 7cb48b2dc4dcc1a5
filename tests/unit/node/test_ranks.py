"""Source ``ranks`` over a folder that plays /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from collectors.node import files
from collectors.node.ranks import search
from collectors.node.source import Denied
from collectors.samples.ranks import Helper, IdleLauncher, ProcessGone, RankProcess, RankPulse
from collectors.samples.stream import Settings
from tests.support.fake_proc import PYTHON, rank_env
from tests.support.rank_bench import Bench, of, rank_bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return rank_bench(tmp_path, monkeypatch)


def test_a_rank_with_all_its_facts(bench: Bench) -> None:
    env = rank_env(1, 4, NCCL_DEBUG_FILE="/logs/nccl.%h.%p.%d.log", NCCL_DEBUG="INFO", HF_TOKEN="hunter2")
    bench.proc.add(
        50, env=env, argv=[PYTHON, "train.py", "--password=hunter2"], parent=40, inner=9, uid=1, cpu=(300, 150),
        cgroup=f"0::/system.slice/docker-{'ab' * 32}.scope\n", state="D",
    )  # fmt: skip
    bench.proc.add(60, argv=["sshd"], executable="/usr/sbin/sshd", comm="sshd")
    samples = bench.read()
    (process,), (pulse,) = of(samples, RankProcess), of(samples, RankPulse)
    host = os.uname().nodename.partition(".")[0]
    assert process.nccl_log == f"/logs/nccl.{host}.9.%d.log"
    assert (process.rank, process.local_rank, process.world_size, process.master_port) == (1, 1, 4, 29500)
    assert (process.pid, process.parent, process.cwd) == (50, 40, "/home/x")
    assert (process.stdout, process.stderr, process.container) == ("/logs/out.log", "pipe:[77]", "ab" * 32)
    assert process.uid == 1
    assert process.env["NCCL_DEBUG"] == "INFO"
    assert "hunter2" not in str(samples)
    assert (pulse.state, pulse.wchan) == ("D", "futex_wait_queue")
    assert (pulse.read_bytes, pulse.written_bytes, pulse.threads, pulse.voluntary_switches) == (1000, 2000, 3, 5)
    assert pulse.cpu_user == 2 * pulse.cpu_system > 0
    assert bench.shared.ranks == (process,)


def test_helpers_and_their_cpu(bench: Bench) -> None:
    bench.proc.add(50, env=rank_env(0))
    bench.proc.add(55, env=rank_env(0), parent=50, comm="pt_data_worker", cpu=(100, 0))
    bench.proc.add(56, env=rank_env(0), parent=50, comm="pt_data_worker", cpu=(50, 50))
    samples = bench.read()
    assert {(helper.pid, helper.rank_pid, helper.role) for helper in of(samples, Helper)} == {
        (55, 50, "data_worker"), (56, 50, "data_worker"),
    }  # fmt: skip
    (pulse,) = of(samples, RankPulse)
    assert pulse.helpers_cpu == pytest.approx(200 / os.sysconf("SC_CLK_TCK"))
    first = [helper.pid for _ in range(2) for helper in of(bench.read(1.0), Helper)]
    assert sorted(first) == [55, 55, 56, 56], "whether new ones work is to be known soon"
    bench.read(20)
    seen = [helper.pid for _ in range(5) for helper in of(bench.read(), Helper)]
    assert sorted(seen) == [55, 56]
    bench.proc.remove(55)
    assert [gone.pid for gone in of(bench.read(), ProcessGone)] == [55]


def test_what_a_fork_reads_and_writes_is_told_but_for_data_workers(bench: Bench) -> None:
    """A fork that saves looks like a loader's worker that was not renamed, by its command."""
    for rank, comm in enumerate(("python3", "pt_data_worker")):
        bench.proc.add(50 + rank, env=rank_env(rank))
        bench.proc.add(60 + rank, env=rank_env(rank), parent=50 + rank, comm=comm)
    bench.read()
    assert [pulse.helpers_bytes for pulse in of(bench.read(), RankPulse)] == [3000, None]


def test_the_end_of_a_rank(bench: Bench) -> None:
    """One whose first thread alone has ended goes on; one that nobody has waited for has ended."""
    bench.proc.add(50, env=rank_env(3))
    bench.proc.add(51, env=rank_env(4))
    bench.read()
    bench.proc.add(50, env={}, state="Z")
    bench.proc.remove(51)
    samples = bench.read()
    assert [pulse.state for pulse in of(samples, RankPulse)] == ["Z"]
    assert of(samples, ProcessGone) == [ProcessGone(51, bench.clock.time())]
    bench.proc.add(50, env={}, state="Z", left=1)
    samples = bench.read()
    assert of(samples, ProcessGone) == [ProcessGone(50, bench.clock.time())]
    assert not of(samples, RankPulse)
    assert bench.shared.ranks == ()
    assert not of(bench.read(), RankProcess), "nor is it another one without a number"


def test_a_helper_that_lives_on_is_not_the_rank_that_it_worked_for(bench: Bench) -> None:
    bench.proc.add(50, env=rank_env(3), parent=9)
    bench.proc.add(55, env=rank_env(3), parent=50, argv=[PYTHON, "-c", "serve()"])
    bench.read()
    bench.proc.remove(50)
    bench.proc.add(55, env=rank_env(3), parent=1, argv=[PYTHON, "-c", "serve()"])
    samples = [sample for _ in range(3) for sample in bench.read()]
    assert [gone.pid for gone in of(samples, ProcessGone)] == [50, 55]
    assert of(samples, RankProcess) == []


def test_a_rank_is_told_with_its_children_that_have_ended(bench: Bench) -> None:
    """Nothing of theirs says a rank any more; one that lives, and what another process started, are none of them."""
    bench.proc.add(50, env=rank_env(3), children=(61, 62, 63, 64))
    bench.proc.add(61, parent=50, env={}, argv=(), comm="worker", state="Z", left=1, ended=9)
    bench.proc.add(62, parent=50, env={}, comm="sleep")
    bench.proc.add(63, parent=1, env={}, argv=(), state="Z", left=1)
    bench.proc.add(64, parent=50, env={}, argv=(), comm="sh", state="Z", left=1, ended=256)
    told = [(one.pid, one.rank_pid, one.state, one.command, one.ended) for one in of(bench.read(), Helper)]
    assert told == [(61, 50, "Z", "worker", 9), (64, 50, "Z", "sh", 256)]
    assert not of(bench.read(), Helper), "each is told of once"
    bench.proc.add(50, env=rank_env(3), children=(62, 64))
    bench.proc.remove(61)
    assert [gone.pid for gone in of(bench.read(), ProcessGone)] == [61]


def test_a_process_may_get_its_rank_by_an_exec(bench: Bench) -> None:
    """A young one under the same name, a wrapper at any time."""
    env = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}
    bench.proc.add(50)
    bench.proc.add(51, env=env, argv=["bash", "run.sh"], executable="/usr/bin/bash", comm="bash")
    assert not of(bench.read(), RankProcess)
    bench.proc.add(50, env=rank_env(0))
    assert [process.pid for process in of(bench.read(), RankProcess)] == [50]
    bench.read(100)
    bench.proc.add(51, env=env)
    assert of(bench.read(), RankProcess)[1].command == f"{PYTHON} train.py"


def test_only_the_users_job(bench: Bench) -> None:
    bench.proc.add(50, env=rank_env(0, SLURM_JOB_ID="7"))
    bench.proc.add(51, env=rank_env(0, SLURM_JOB_ID="8"))
    settings = Settings(1.0, 0.0, ["SLURM_JOB_ID", "8"], [], [], [])
    bench.source.configure(settings)
    assert [process.pid for process in of(bench.read(), RankProcess)] == [51]
    bench.source.configure(settings._replace(job=None))
    samples = bench.read()
    assert {process.pid for process in of(samples, RankProcess)} == {50, 51}
    bench.source.configure(settings._replace(job=["SLURM_JOB_ID", "7"]))
    samples = bench.read()
    assert [process.pid for process in of(samples, RankProcess)] == [50]
    assert {gone.pid for gone in of(samples, ProcessGone)} == {50, 51}


def test_other_users_processes_are_a_reason_not_a_silence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.proc.add(50, env=rank_env(0), uid=1001)
    original = files.read

    def refuse(path: str) -> bytes:
        if path.endswith("/50/environ"):
            raise PermissionError(13, "Permission denied")
        return original(path)

    monkeypatch.setattr(search, "read", refuse)
    with pytest.raises(Denied, match="1 Python processes belong to other users"):
        bench.read()
    bench.proc.add(51, env=rank_env(1))
    assert of(bench.read(), RankProcess)


TORCH = "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
LARGE = 50_000
"""Pages."""
SPAWNED = [PYTHON, "-B", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=4, pipe_handle=6)"]


def numbers(samples: list[Any]) -> dict[int, int]:
    """Rank of every process that was told of, by pid."""
    return {process.pid: process.rank for process in of(samples, RankProcess)}


def test_a_process_with_torch_mapped_that_says_no_rank_is_told_of_without_a_number(bench: Bench) -> None:
    bench.proc.add(50, rss=LARGE, mapped=[TORCH], env={"MASTER_PORT": "29500", "HF_TOKEN": "hunter2"})
    bench.proc.add(60, rss=LARGE)
    samples = bench.read()
    (process,) = of(samples, RankProcess)
    assert (process.pid, process.rank, process.world_size, process.launcher) == (50, -1, None, "")
    assert (process.library, process.master_port) == ("torch", 29500)
    assert "hunter2" not in str(samples)
    assert [pulse.pid for pulse in of(samples, RankPulse)] == [50]
    bench.proc.remove(50)
    assert of(bench.read(), ProcessGone) == [ProcessGone(50, bench.clock.time())]


def test_of_those_whom_mp_spawn_starts_each_is_a_rank_and_the_starter_is_none(bench: Bench) -> None:
    bench.proc.add(40, rss=LARGE, mapped=[TORCH])
    assert numbers(bench.read()) == {40: -1}
    for pid in (50, 51):
        bench.proc.add(pid, parent=40, rss=LARGE, mapped=[TORCH], argv=SPAWNED, threads=["pt_gloo_runloop"])
    samples = bench.read()
    assert numbers(samples) == {50: -1, 51: -1}
    assert of(samples, ProcessGone) == [ProcessGone(40, bench.clock.time(), False)]


def test_agents_and_this_tool_itself_are_no_processes_of_a_job(bench: Bench) -> None:
    bench.proc.add(50, rss=LARGE, mapped=[TORCH], argv=[PYTHON, "/venv/bin/torchrun", "train.py"])
    bench.proc.add(51, rss=LARGE, mapped=[TORCH], argv=[PYTHON, "-B", "-u", "-c", "import sys", "hangtop", "0"])
    assert numbers(bench.read()) == {}


def test_lightning_starts_ranks_from_its_first_one(bench: Bench) -> None:
    env = {"NODE_RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    bench.proc.add(50, env={**env, "LOCAL_RANK": "0"})
    bench.proc.add(51, parent=50, env={**env, "LOCAL_RANK": "1"})
    bench.proc.add(52, parent=51, env={**env, "LOCAL_RANK": "1"})
    samples = bench.read()
    assert numbers(samples) == {50: 0, 51: 1}
    assert [(helper.pid, helper.rank_pid) for helper in of(samples, Helper)] == [(52, 51)]


AGENT = [PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "train.py"]


def agents(bench: Bench) -> list[Any]:
    return of(bench.read(12.0), IdleLauncher)


def test_an_agent_is_told_while_it_has_no_ranks(bench: Bench) -> None:
    bench.proc.add(50, rss=50_000, mapped=[TORCH], argv=AGENT)
    (first,) = agents(bench)
    assert (first.pid, first.command) == (50, " ".join(AGENT))
    assert agents(bench) == [first]
    bench.proc.add(60, parent=50, env=rank_env(0))
    samples = bench.read()
    assert [gone.pid for gone in of(samples, ProcessGone)] == [50]
    assert not of(samples, IdleLauncher)
    bench.proc.remove(60)
    bench.read()
    (again,) = agents(bench)
    assert again.started == first.started
    assert first.since is None
    assert again.since is not None, "it had a rank before"
    bench.proc.remove(50)
    assert [gone.pid for gone in of(bench.read(12.0), ProcessGone)] == [50]


@pytest.mark.parametrize(
    "argv",
    [["raylet", "--node_ip"], ["srun", "--pty", "bash"], [PYTHON, "/venv/bin/accelerate", "launch", "train.py"]],
    ids=["Ray", "Slurm", "Accelerate"],
)
def test_other_launchers_wait_for_whatever_they_are_given(bench: Bench, argv: list[str]) -> None:
    bench.proc.add(50, rss=50_000, mapped=[TORCH], argv=argv)
    assert agents(bench) == []


# --- what moves in a rank, in cases that a plain process does not show --------------------------------------------


@pytest.mark.parametrize(("states", "told"), [("ZSD", "D"), ("ZS", "S"), ("Z", "Z"), ("ZZ", "Z")])
def test_of_a_process_whose_first_thread_has_ended_one_that_cannot_be_killed_is_told(
    bench: Bench, states: str, told: str
) -> None:
    bench.proc.add(50, env=rank_env(0))
    bench.read()
    folder = bench.proc.add(50, env=rank_env(0), state="Z", left=max(2, len(states)))
    (folder / "wchan").write_text("0")
    for number, state in enumerate(states, start=50):
        task = folder / "task" / str(number)
        task.mkdir(exist_ok=True)
        (task / "stat").write_text((folder / "stat").read_text().replace(") Z ", f") {state} "))
        (task / "wchan").write_text(f"waits_{state}")
    (found,) = of(bench.read(), RankPulse)
    assert (found.state, found.wchan) == (told, "" if told == "Z" else f"waits_{told}")


def test_how_long_a_rank_waited_for_a_cpu(bench: Bench) -> None:
    told: list[tuple[int, int | None]] = []
    for second in range(0, 28, 4):
        for pid, waited in ((50, 0.7 * min(second, 12)), (51, 0.0)):
            folder = bench.proc.add(pid, env=rank_env(pid - 50))
            (folder / "schedstat").write_text(f"700 {int(waited * 1e9)} 9\n")
            with (folder / "status").open("a") as status:
                status.write("Cpus_allowed_list:\t0-3\n")
        samples = bench.read(4.0)
        told += [(one.pid, one.waited) for one in of(samples, RankPulse)]
    assert list(dict.fromkeys(told)) == [(50, None), (51, None), (50, 70), (51, 0), (50, 0)]
    assert {(one.allowed, one.nice) for one in of(samples, RankProcess)} == {("0-3", 0)}


@pytest.mark.parametrize(("schedstat", "cpu"), [("0 0 0\n", None), ("x", None), ("1500000000 7000000000 3\n", 1.5)])
def test_of_a_kernel_that_does_not_count_nothing_is_told(bench: Bench, schedstat: str, cpu: float | None) -> None:
    (bench.proc.add(50, env=rank_env(0)) / "schedstat").write_text(schedstat)
    samples = [sample for _ in range(5) for sample in bench.read(4.0)]
    assert [pulse.waited for pulse in of(samples, RankPulse)][-1] == (None if cpu is None else 0)
    assert {pulse.main_cpu for pulse in of(samples, RankPulse)} == {cpu}
