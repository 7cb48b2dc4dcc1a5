"""The cases: a framework's job, what befalls it, and what hangtop has to say."""

from __future__ import annotations

from typing import NamedTuple

PORT, FOLDER, PYTHON = "{port}", "{folder}", "{python}"


class Framework(NamedTuple):
    """A framework, and how its users start a job."""

    name: str
    package: str
    """Whose version the table shows."""
    script: str
    ranks: int
    command: tuple[str, ...]
    """``{python}``, ``{bin}``, ``{script}``, ``{port}``, ``{ranks}`` and ``{rank}`` are filled in."""
    each_rank: bool = False
    """The command is run once for each rank, as a batch system does, instead of by a launcher."""
    environment: tuple[tuple[str, str], ...] = ()


_TORCHRUN = (
    "{bin}/torchrun", "--nnodes=1", "--nproc-per-node={ranks}", "--master-addr=127.0.0.1", "--master-port={port}",
    "{script}",
)  # fmt: skip
_LAUNCH = (
    "{bin}/accelerate", "launch", "--multi_gpu", "--num_processes={ranks}", "--num_machines=1", "--mixed_precision=no",
    "--dynamo_backend=no", "--num_cpu_threads_per_process=1", "--main_process_port={port}", "{script}",
)  # fmt: skip
_ITSELF = ("{python}", "{script}")
_MPIRUN = ("{bin}/mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "{ranks}", "{python}", "{script}")

FRAMEWORKS = (
    Framework("mp.spawn", "torch", "spawn_ddp.py", 3, _ITSELF),
    Framework("Lightning", "lightning", "lightning_fit.py", 3, _ITSELF),
    Framework("Lightning spawn", "lightning", "lightning_fit.py", 3, _ITSELF,
              environment=(("LIGHTNING_STRATEGY", "ddp_spawn"),)),
    Framework("Accelerate", "accelerate", "accelerate_loop.py", 2, _LAUNCH),
    Framework("HF Trainer", "transformers", "trainer_fit.py", 2, _TORCHRUN),
    Framework("DeepSpeed ZeRO-3", "deepspeed", "deepspeed_zero3.py", 2, _TORCHRUN,
              environment=(("DS_ACCELERATOR", "cpu"),)),
    Framework("Ray Train", "ray", "ray_train.py", 2, _ITSELF, environment=(("RAY_TRAIN_V2_ENABLED", "1"),)),
    Framework("pipelining", "torch", "pipeline.py", 3, _TORCHRUN),
    Framework("FSDP2 + TP", "torch", "fsdp2_tp.py", 4, _TORCHRUN),
    Framework("JAX", "jax", "jax_processes.py", 3, ("{python}", "{script}", "{rank}", "{ranks}", "{port}"),
              each_rank=True),
    Framework("embeddings", "torch", "embeddings.py", 3, _MPIRUN),
    Framework("mpi4py", "mpi4py", "mpi_mean.py", 3, _MPIRUN),
    Framework("notebook_launcher", "accelerate", "notebook_loop.py", 2, _ITSELF),
    Framework("plain sockets", "numpy", "socket_server.py", 3,
              ("env", "RANK={rank}", "WORLD_SIZE={ranks}", "{python}", "{script}"), each_rank=True),
)  # fmt: skip


class Mishap(NamedTuple):
    """What befalls a job, and what may be said of it."""

    name: str
    told: str
    """For people."""
    kinds: tuple[str, ...]
    """Kinds of the root cause that are right; none for a job that nobody may accuse."""
    words: tuple[str, ...]
    """Verdicts that are right."""
    signal: str = ""
    """What the runner sends to the rank once the job moves; empty where the rank does it itself."""


MISHAPS = {
    mishap.name: mishap
    for mishap in (
        Mishap("reader", "a reader blocks on a pipe", ("rank_stuck_in_data",), ("hung",)),
        Mishap("lock", "waits for a lock that a thread keeps", ("rank_stuck_on_lock",), ("hung",)),
        Mishap("busy", "own code that never ends", ("rank_stuck_in_code",), ("hung",)),
        Mishap("only_here", "a barrier on one rank alone", ("collective_mismatch",), ("hung",)),
        Mishap("stopped", "SIGSTOP", ("rank_stopped",), ("hung",), "SIGSTOP"),
        Mishap("killed", "SIGKILL", ("rank_killed", "rank_crashed"), ("crashed", "hung"), "SIGKILL"),
        Mishap(
            "early",
            "one rank has fewer samples",
            ("rank_left_early", "collective_mismatch", "rank_killed"),
            ("hung", "crashed"),
        ),
        Mishap("checkpoint", "torch.save blocks", ("rank_stuck_in_checkpoint",), ("hung",)),
        Mishap("healthy", "nothing", (), ("healthy", "unknown")),
        Mishap("healthy_eval", "rank 0 evaluates, the others wait", (), ("healthy", "unknown")),
        Mishap("healthy_slow", "every sample takes 0.8 s", (), ("healthy", "unknown", "slow")),
    )
}
ACCUSING = ("hung", "crashed")
"""Verdicts that accuse a job."""
NO_ACCUSATION = ("env_", "data_bound")
"""Kinds that accuse no rank: settings, and that all ranks wait for their data, as they do in these jobs."""


class Case(NamedTuple):
    """One row of the table."""

    framework: Framework
    mishap: Mishap
    culprit: int

    @property
    def name(self) -> str:
        """As ``--only`` takes it."""
        return f"{self.framework.name}/{self.mishap.name}"


_PLAN: dict[str, str] = {
    "mp.spawn": "reader lock only_here:2 stopped killed healthy healthy_eval",
    "Lightning": "reader:2 lock:0 only_here:2 stopped early checkpoint:0 killed healthy healthy_slow healthy_eval",
    "Lightning spawn": "reader busy:0 healthy",
    "Accelerate": "reader busy only_here:0 checkpoint:0 early stopped:0 healthy healthy_eval",
    "HF Trainer": "reader:0 lock checkpoint:0 killed healthy healthy_slow",
    "DeepSpeed ZeRO-3": "reader lock busy:0 only_here stopped checkpoint:0 healthy healthy_slow healthy_eval",
    "Ray Train": "reader lock:0 only_here checkpoint:0 stopped killed healthy healthy_eval",
    "pipelining": "reader lock:0 busy:1 stopped:2 only_here:0 healthy healthy_slow",
    "FSDP2 + TP": "reader:3 lock:2 only_here:1 checkpoint:0 stopped:2 busy:0 healthy healthy_eval",
    "JAX": "reader lock:0 busy:2 stopped killed healthy healthy_slow healthy_eval",
    "embeddings": "reader lock:0 busy:2 only_here:1 checkpoint:0 stopped:2 early healthy healthy_slow healthy_eval",
    "mpi4py": "reader lock:0 busy:2 only_here:1 checkpoint:0 stopped:2 healthy healthy_slow healthy_eval",
    "notebook_launcher": "only_here:0 reader busy stopped killed healthy healthy_eval",
    "plain sockets": "busy:2 reader lock checkpoint:0 stopped healthy healthy_slow healthy_eval",
}
"""Cases of each framework: the mishap, and the rank that it befalls unless that is rank 1."""


def plan() -> list[Case]:
    """All cases, framework after framework."""
    cases = []
    for framework in FRAMEWORKS:
        for word in _PLAN[framework.name].split():
            name, _, culprit = word.partition(":")
            cases.append(Case(framework, MISHAPS[name], int(culprit or 1)))
    return cases
