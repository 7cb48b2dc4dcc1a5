"""The leaf switch of each node, as Slurm tells it: ``scontrol show topology``, asked once from this machine.

Lines of ``Name=value`` words (topology.conf(5), scontrol(1) of Slurm 22.05 to 24.11): ``SwitchName=leaf1 Level=0
Nodes=gpu[001-016]`` for a leaf; a line with ``Switches=`` is of a switch above the leaves and is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ClusterShell.NodeSet import NodeSet, NodeSetException

from collectors.fleet.clean import clean_bytes
from collectors.fleet.local import Local
from collectors.fleet.targets.slurm import slurm_words
from collectors.fleet.transport import TransportError

MOST = 200_000
"""Names of one range that are taken: a set such as ``[1-999999999]`` must not fill the memory."""
_DEADLINE = 20.0
_LIMIT = 32 << 20
_WORD = re.compile(r"(\w{1,40})=(\S*)")
_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})")


async def leaf_switches() -> Mapping[str, str]:
    """Leaf switch by Slurm's name of a node, in lower case; empty for a cluster without a topology plugin.

    Raises :class:`TransportError` where scontrol fails.
    """
    done = await Local("Slurm").run(slurm_words(["scontrol", "show", "topology"]), timeout=_DEADLINE, limit=_LIMIT)
    if done.status != 0:
        said = clean_bytes(done.stderr).strip().splitlines()
        raise TransportError(f"scontrol show topology: {said[-1] if said else f'status {done.status}'}")
    return parse_topology(clean_bytes(done.stdout))


def parse_topology(text: str) -> Mapping[str, str]:
    """Leaf switch by name of a node, in lower case."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = {key.lower(): value for key, value in _WORD.findall(line)}
        folded, switch = words.get("nodes", ""), words.get("switchname", "")
        if not switch or words.get("switches", "(null)") not in ("", "(null)"):
            continue
        if any(int(last) - int(first) > MOST for first, last in _RANGE.findall(folded)):
            continue
        try:
            found.update((node.lower(), switch) for node in NodeSet(folded))
        except NodeSetException:
            continue
    return found
