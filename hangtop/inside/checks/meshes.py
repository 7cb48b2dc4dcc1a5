"""``check_mesh``: whether a device mesh fits the job, equals on all ranks, and has inner dimensions within nodes."""

from __future__ import annotations

import itertools
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from hangtop.inside.checks.meeting import Conclusion, Said, confer, group_of, harmless
from hangtop.inside.results import CheckResult, Noted

ADVICE = "Every rank must build the same mesh, whose dimensions multiply to the number of its ranks."


class MeshLayout(NamedTuple):
    """A mesh on one rank: names and sizes of its dimensions, and its ranks in row-major order."""

    names: Tuple[str, ...]
    sizes: Tuple[int, ...]
    ranks: Tuple[int, ...]

    def groups(self, dim: int) -> List[List[int]]:
        """Groups of ranks that differ only along dimension ``dim``."""
        found: Dict[Tuple[int, ...], List[int]] = {}
        for rank, place in zip(self.ranks, itertools.product(*map(range, self.sizes))):
            found.setdefault((*place[:dim], *place[dim + 1 :]), []).append(rank)
        return list(found.values())

    def text(self) -> str:
        """``dp=2 × tp=2``."""
        return " × ".join("%s=%d" % pair for pair in zip(self.names, self.sizes))


@harmless("mesh")
def check_mesh(
    mesh: Any, *, within_node: Sequence[str] = ("tp",), group: Any = None, seconds: float = 60.0
) -> CheckResult:
    """Check a DeviceMesh, or planned dimensions (``{"dp": 4, "tp": 2}``), with all ranks of ``group`` (default: all).

    Checked: the product of the dimensions is the number of ranks; all ranks of a mesh (or of a slice such as
    ``mesh["tp"]``) have the same mesh; each group along a dimension in ``within_node`` is on one node.
    """
    members = group_of(group)

    def said(_request: Said) -> Said:
        return {"layout": layout_of(mesh, len(members.ranks)), "host": os.uname().nodename}

    def judge(_round: int, told: Dict[int, Said]) -> Conclusion:
        layouts = {rank: MeshLayout(*(tuple(part) for part in one["layout"])) for rank, one in told.items()}
        return judged(layouts, {rank: one["host"] for rank, one in told.items()}, within_node)

    return confer("mesh", members, seconds, said, judge)


def layout_of(mesh: Any, world: int) -> MeshLayout:
    """Layout of a mesh on this rank."""
    if isinstance(mesh, Mapping):
        return MeshLayout(tuple(map(str, mesh)), tuple(map(int, mesh.values())), tuple(range(world)))
    names = tuple(mesh.mesh_dim_names or ["dim%d" % place for place in range(mesh.ndim)])
    return MeshLayout(names, tuple(mesh.mesh.shape), tuple(mesh.mesh.flatten().tolist()))


def judged(layouts: Dict[int, MeshLayout], hosts: Mapping[int, str], within_node: Sequence[str]) -> Conclusion:
    """Conclusion from the layouts of all ranks."""
    usual = max(layouts.values(), key=list(layouts.values()).count)
    slices = list(dict.fromkeys(layouts.values()))
    findings = list(_apart(layouts, usual)) or [finding for one in slices for finding in _unfit(one)]
    if not findings:
        findings = [finding for one in slices for finding in _over_nodes(one, hosts, within_node)]
    word = "; ".join(finding.summary for finding in findings) or "it fits, and is equal on %d ranks" % len(layouts)
    return Conclusion("mesh %s: %s" % (usual.text(), word), findings)


def _apart(layouts: Dict[int, MeshLayout], usual: MeshLayout) -> Iterator[Noted]:
    """Findings for ranks whose mesh is not equal on all its ranks."""
    for rank, layout in layouts.items():
        alike = (layout.names, layout.sizes) == (usual.names, usual.sizes) and rank in layout.ranks
        if layout != usual and not (alike and all(layouts.get(one, layout) == layout for one in layout.ranks)):
            lines = ["rank %d: %s" % (rank, _shown(layout)), "the others: %s" % _shown(usual)]
            yield Noted(
                "placement_wrong", "critical", "rank %d has another mesh than the others" % rank, [rank], lines, ADVICE
            )


def _unfit(layout: MeshLayout) -> Iterator[Noted]:
    product = 1
    for size in layout.sizes:
        product *= size
    if product != len(set(layout.ranks)):
        summary = "its dimensions multiply to %d, and there are %d ranks" % (product, len(set(layout.ranks)))
        yield Noted("placement_wrong", "critical", summary, (), [_shown(layout)], ADVICE)


def _over_nodes(layout: MeshLayout, hosts: Mapping[int, str], within_node: Sequence[str]) -> Iterator[Noted]:
    for dim, name in enumerate(layout.names):
        groups = layout.groups(dim)
        apart = [group for group in groups if len({hosts.get(rank, "") for rank in group}) > 1]
        if name in within_node and apart:
            lines = [", ".join("rank %d on %s" % (rank, hosts.get(rank, "?")) for rank in group) for group in apart]
            yield Noted(
                "placement_wrong", "warning", "groups of dimension %s span several nodes: %s of %d"
                % (name, len(apart), len(groups)), sorted(rank for group in apart for rank in group), lines,
                "Make it the last dimension of the mesh, or no larger than a node: its collectives need NVLink.",
            )  # fmt: skip


def _shown(layout: MeshLayout) -> str:
    return "%s of ranks %s" % (layout.text(), list(layout.ranks[:32]))
