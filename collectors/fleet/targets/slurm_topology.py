"""Where Slurm says that nodes hang: ``scontrol show topology``, asked once from this machine."""

from __future__ import annotations

from collectors.fleet.clean import clean_bytes
from collectors.fleet.local import Local
from collectors.fleet.targets.slurm import slurm_words
from collectors.fleet.transport import TransportError
from collectors.formats.slurm_topology import NodeLocations, read

SOURCE = "scontrol"
_DEADLINE = 20.0
_LIMIT = 32 << 20


async def ask() -> NodeLocations:
    """What slurmctld knows; a cluster without a topology plugin knows nothing, and that is no fault."""
    try:
        done = await Local("Slurm").run(slurm_words(["scontrol", "show", "topology"]), timeout=_DEADLINE, limit=_LIMIT)
    except TransportError as error:
        return NodeLocations(why=str(error))
    found = read(clean_bytes(done.stdout), SOURCE)
    if found.by_name or done.status == 0:
        return found
    said = clean_bytes(done.stderr).strip().splitlines()
    return NodeLocations(why=f"scontrol show topology: {said[-1] if said else f'status {done.status}'}")
