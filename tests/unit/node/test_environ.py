"""Ranks out of environments, and what may leave the node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.processes.environ import (
    may_have_rank,
    parse,
    presentable,
    rank_of,
)
from tests.support.fake_proc import rank_env


def raw(env: dict[str, str]) -> bytes:
    return b"".join(f"{name}={value}\0".encode() for name, value in env.items())


@pytest.mark.parametrize(
    ("env", "rank", "world", "launcher"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4"}, 3, 4, "env"),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, 2, 4, "mpi"),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2, "mpi"),
        ({"SLURM_PROCID": "6", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_ID": "0"}, 6, 8, "slurm"),
        ({"SLURM_PROCID": "6", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}, 6, 8, "slurm"),
        ({"RANK": "6", "WORLD_SIZE": "8", "SLURM_PROCID": "6", "SLURM_NTASKS": "8"}, 6, 8, "slurm"),
        ({"RANK": "9", "WORLD_SIZE": "16", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, 9, 16, "env"),
        ({"RANK": "2", "WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2"}, 2, 4, "mpi"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 0, 1, "slurm"),
        ({"JAX_PROCESS_ID": "2", "JAX_NUM_PROCESSES": "4"}, 2, 4, "jax"),
        ({"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "4"}, 1, 4, "lightning"),
    ],
)
def test_every_launcher_has_its_names(env: dict[str, str], rank: int, world: int, launcher: str) -> None:
    found = rank_of(env)
    assert found is not None
    assert (found.rank, found.world_size, found.launcher) == (rank, world, launcher)


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"RANK": "3"},
        {"RANK": "gold", "WORLD_SIZE": "4"},
        {"RANK": "-1", "WORLD_SIZE": "4"},
        {"RANK": "٣", "WORLD_SIZE": "4"},
        {"LOCAL_RANK": "0", "WORLD_SIZE": "4"},
        {"LOCAL_RANK": "0", "WORLD_SIZE": "4", "NODE_RANK": "1"},
        {"JOB_COMPLETION_INDEX": "3"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "64"},
    ],
)
def test_what_is_no_rank(env: dict[str, str]) -> None:
    assert rank_of(env) is None


def test_only_listed_names_leave_the_node() -> None:
    env = {
        **rank_env(0), "NCCL_DEBUG": "INFO", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "GLOO_SOCKET_IFNAME": "eth0",
        "CUDA_VISIBLE_DEVICES": "0", "UCX_TLS": "rc", "FI_PROVIDER": "efa", "SLURM_JOB_ID": "9",
        "HOME": "/home/me", "PATH": "/bin", "DATABASE_URL": "postgres://me:pw@db/x", "MY_NCCL_THING": "1",
        "AWS_SECRET_ACCESS_KEY": "hunter2", "WANDB_API_KEY": "hunter2", "HF_TOKEN": "hunter2",
    }  # fmt: skip
    shown = presentable(env)
    assert {"RANK", "NCCL_DEBUG", "TORCH_NCCL_DUMP_ON_TIMEOUT", "GLOO_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES"} <= set(
        shown
    )
    assert {"UCX_TLS", "FI_PROVIDER", "SLURM_JOB_ID", "MASTER_ADDR"} <= set(shown)
    assert not {"HOME", "PATH", "DATABASE_URL", "MY_NCCL_THING"} & set(shown)
    assert "hunter2" not in str(shown)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_HUB_TOKEN", "hunter2"),
        ("OMPI_ARGV", "--lr 1 --api-key hunter2"),
        ("OMPI_MCA_mca_base_env_list", "NCCL_DEBUG=INFO;WANDB_API_KEY=hunter2"),
        ("SLURM_EXPORT_ENV", "ALL,WANDB_API_KEY=hunter2"),
        ("SLURM_JOB_PARTITION", "gpu"),
    ],
)
def test_secrets_in_listed_variables_are_redacted_and_nothing_else(name: str, value: str) -> None:
    assert presentable({name: value}) == {name: value.replace("hunter2", "<redacted>")}


@given(st.dictionaries(st.sampled_from(["RANK", "WORLD_SIZE", "SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "X"]),
                       st.text(alphabet="0123456789ab -\n", max_size=12)))  # fmt: skip
def test_the_cheap_look_never_misses_a_rank(env: dict[str, str]) -> None:
    if rank_of(parse(raw(env))) is not None:
        assert may_have_rank(raw(env))
