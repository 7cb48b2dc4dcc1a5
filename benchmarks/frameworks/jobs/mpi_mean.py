"""Data parallel training over MPI itself, with mpi4py; started by mpirun."""

from __future__ import annotations

from pathlib import Path

import mishaps
import numpy as np
from mpi4py import MPI


def save_checkpoint(path: Path, weights: np.ndarray) -> None:
    """Write the weights."""
    with path.open("wb") as file:
        np.save(file, weights)


def main() -> None:
    """One rank."""
    world = MPI.COMM_WORLD
    rank = world.Get_rank()
    mishaps.leave_word("begins", rank)
    weights, total = np.ones((32, 8)), np.empty((32, 8))
    for step in mishaps.samples(rank):
        batch = np.random.default_rng(step).normal(size=(4, 32))
        slope = batch.T @ (batch @ weights)
        mishaps.look_up(rank, step)
        world.Allreduce(slope, total)
        weights -= 1e-5 * total / world.Get_size()
        if mishaps.is_due("only_here", rank, step):
            world.Barrier()
        path = mishaps.checkpoint_path(rank, step)
        if path is not None:
            save_checkpoint(path, weights)
            world.Barrier()
        if mishaps.evaluate(rank, step):
            world.Barrier()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {float(np.square(weights).mean()):.4f}", flush=True)
    world.Barrier()


if __name__ == "__main__":
    main()
