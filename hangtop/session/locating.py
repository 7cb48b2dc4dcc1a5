"""Where the job's nodes hang: what witnesses outside the nodes say, put to the nodes as their names become known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from collectors.fleet.clean import clean
from collectors.fleet.targets.error import TargetError
from collectors.formats import ibnetdiscover
from collectors.formats.floor_plan import FloorPlan, of_slurm
from collectors.samples.location import Location
from hangtop.session.state.job_state import JobState, NodeState

MOST_BYTES = 64 << 20


class Locator:
    """Tells each node's locations once, and again when it is known by more than before."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._plans: list[FloorPlan] = []
        self._asked: dict[str, tuple[object, ...]] = {}

    def learn(self, plan: FloorPlan) -> None:
        """Take what one witness says; of the same nodes, in the place of what was said before."""
        if not plan.by_name and not plan.by_lid:
            return
        kept = (known for known in self._plans if known.by_lid or known.by_name.keys() != plan.by_name.keys())
        self._plans = [*kept, plan]
        self._asked.clear()

    def news(self) -> Iterator[tuple[str, list[Location]]]:
        """Nodes with what is said of them now."""
        if not self._plans:
            return
        for name, node in self._state.nodes.items():
            known = (node.roster, node.hello)  # the roster moves when a rank or a port comes
            if self._asked.get(name) == known:
                continue
            self._asked[name] = known
            names = _names(node)
            ports = [(port.facts.device, lid) for port in node.ports.values() if (lid := port.facts.lid)]
            told = [place for plan in self._plans for place in plan.of(names, ports)]
            if told:
                yield name, told


def _names(node: NodeState) -> tuple[str, ...]:
    """What the node is called, by its user first: a cluster's own name for it may be another."""
    hostname = node.hello.hostname if node.hello is not None else ""
    host = node.name.rpartition("@")[2]
    own = {rank.process.env.get("SLURMD_NODENAME", "") for rank in node.ranks.values()}
    return tuple(dict.fromkeys(filter(None, (*sorted(own), hostname, host))))


def read_floor_plan(path: Path) -> FloorPlan:
    """What a file says, whichever of the formats it has. Raises :class:`TargetError`."""
    try:
        with path.open("rb") as file:
            text = clean(file.read(MOST_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        raise TargetError(f"{path}: cannot be read: {error.strerror}") from None
    for found in (ibnetdiscover.read(text), of_slurm(text, path.name)):
        if found.by_name or found.by_lid:
            return found
    raise TargetError(f"{path}: is neither a topology.conf of Slurm nor what scontrol or ibnetdiscover prints")
