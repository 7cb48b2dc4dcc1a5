"""JAX with one process a rank (jax.distributed), collectives of gloo; the number is a command line argument."""

from __future__ import annotations

import sys

import jax

RANK, WORLD, PORT = (int(word) for word in sys.argv[1:4])
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{PORT}", num_processes=WORLD, process_id=RANK)

import jax.numpy as jnp  # noqa: E402
import mishaps  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import multihost_utils  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

MESH = Mesh(np.array(jax.devices()), ("data",))


@jax.jit
def update(weights: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One step: the mean over all ranks' batches makes XLA reduce over them."""
    loss, slope = jax.value_and_grad(lambda w: jnp.square(batch @ w).mean())(weights)
    return weights - 0.01 * slope, loss


def main() -> None:
    """One process."""
    mishaps.leave_word("begins", RANK)
    over_ranks = NamedSharding(MESH, PartitionSpec("data"))
    weights = jax.device_put(jnp.ones((32, 8)), NamedSharding(MESH, PartitionSpec()))
    for step in mishaps.samples(RANK):
        local = np.random.default_rng(step).normal(size=(1, 32)).astype(np.float32)
        batch = jax.make_array_from_process_local_data(over_ranks, local)
        weights, loss = update(weights, batch)
        mishaps.look_up(RANK, step)
        shown = float(loss)
        if mishaps.is_due("only_here", RANK, step):
            multihost_utils.sync_global_devices("only here")
        path = mishaps.checkpoint_path(RANK, step)
        if path is not None:
            with path.open("wb") as file:
                np.save(file, np.asarray(weights))
            multihost_utils.sync_global_devices("saved")
        if mishaps.evaluate(RANK, step):
            multihost_utils.sync_global_devices("evaluated")
        if RANK == 0 and step % 10 == 0:
            print(f"step {step} loss {shown:.4f}", flush=True)
    multihost_utils.sync_global_devices("done")


if __name__ == "__main__":
    main()
