"""``check_mesh``: whether a device mesh fits the job, is the same on every rank, and its inner dimensions fit nodes."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple, Union

from hangtop.inside.checks.meeting import confer, group_of, harmless
from hangtop.inside.checks.whereabouts import position, ranks_text
from hangtop.inside.checks.words import Conclusion, More, Said
from hangtop.inside.results import CheckResult, Noted

DRAWN = 64
"""Ranks of a mesh that is drawn; of a larger one the corner."""
ADVICE = "Every rank must build the same mesh, whose dimensions multiply to the number of its ranks."


class MeshLayout(NamedTuple):
    """A mesh as one rank has it: names and sizes of its dimensions, and its ranks row by row."""

    names: Tuple[str, ...]
    sizes: Tuple[int, ...]
    ranks: Tuple[int, ...]

    def coordinate(self, rank: int) -> Tuple[int, ...]:
        """Where a rank is; empty where it is not in it."""
        if rank not in self.ranks:
            return ()
        place = self.ranks.index(rank)
        found: List[int] = []
        for size in reversed(self.sizes):
            found.append(place % size)
            place //= size
        return tuple(reversed(found))

    def groups(self, dim: int) -> Iterator[Tuple[int, ...]]:
        """Ranks that differ in one dimension alone, group by group."""
        found: Dict[Tuple[int, ...], List[int]] = {}
        for rank in self.ranks:
            place = self.coordinate(rank)
            found.setdefault((*place[:dim], *place[dim + 1 :]), []).append(rank)
        for ranks in found.values():
            yield tuple(ranks)


@harmless("mesh")
def check_mesh(
    mesh: Any, *, within_node: Sequence[str] = ("tp",), group: Any = None, seconds: float = 60.0, number: int = 0
) -> CheckResult:
    """Check a DeviceMesh, or dimensions that one means to make (``{"dp": 4, "tp": 2}``), with all ranks of the job.

    The product of the dimensions is the number of ranks; all ranks have the same mesh, every rank is in it once, at the
    coordinate that it believes in, and in exactly one group of each dimension, which torch has made so; groups of the
    dimensions named in ``within_node`` lie on one node. The summary ends with a drawing.
    """
    members = group_of(group)

    def said() -> Said:
        layout, groups, coordinate = layout_of(mesh, len(members.ranks), members.me)
        return {"layout": layout, "groups": groups, "coordinate": coordinate, "host": position()["host"],
                "slice": is_slice(mesh)}  # fmt: skip

    judge = MeshJudging(members.ranks, tuple(within_node))
    return confer("mesh", members, seconds, said, judge, None, number)


def layout_of(mesh: Any, world: int, me: int) -> Tuple[MeshLayout, Dict[str, List[int]], Sequence[int]]:
    """A mesh as this rank has it, the ranks of its group in each dimension, and its coordinate."""
    if isinstance(mesh, Mapping) or not hasattr(mesh, "mesh"):
        pairs = list(mesh.items()) if isinstance(mesh, Mapping) else [tuple(pair) for pair in mesh]
        names, sizes = tuple(str(name) for name, _ in pairs), tuple(int(size) for _, size in pairs)
        layout = MeshLayout(names, sizes, tuple(range(world)))
        return layout, {}, layout.coordinate(me) if _product(sizes) == world else ()
    from torch.distributed import get_process_group_ranks

    names = tuple(mesh.mesh_dim_names or ["dim%d" % place for place in range(mesh.ndim)])
    layout = MeshLayout(names, tuple(mesh.mesh.shape), tuple(mesh.mesh.flatten().tolist()))
    coordinate = mesh.get_coordinate()
    groups = {} if coordinate is None else {
        name: list(get_process_group_ranks(mesh.get_group(place))) for place, name in enumerate(names)
    }  # fmt: skip
    return layout, groups, tuple(coordinate or ())


def is_slice(mesh: Any) -> bool:
    """Whether this is a part of a larger mesh, as ``mesh["tp"]`` is: ranks then have different ones."""
    root = getattr(mesh, "_get_root_mesh", None)  # since torch 2.9
    if root is not None:
        return root() is not mesh
    from torch.distributed import device_mesh

    known = getattr(device_mesh, "_mesh_resources", None)
    return known is not None and hasattr(mesh, "mesh") and known.get_root_mesh(mesh) is not mesh


class MeshJudging:
    """The leader's side."""

    def __init__(self, ranks: Sequence[int], within_node: Sequence[str]) -> None:
        self._ranks = ranks
        self._within = within_node

    def __call__(self, round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        """There is one round."""
        del round_
        layouts = {rank: MeshLayout(*(tuple(part) for part in one["layout"])) for rank, one in said.items()}
        hosts = {rank: one["host"] for rank, one in said.items()}
        sliced = self._sliced(layouts, said)
        findings = [] if sliced else list(self._fits(layouts))
        usual = max(layouts.values(), key=list(layouts.values()).count)
        slices = list(dict.fromkeys(layouts.values())) if sliced else [usual]
        if not findings:
            for layout in slices:
                own = {rank: one for rank, one in said.items() if len(slices) == 1 or rank in layout.ranks}
                findings += [*self._groups(layout, own), *self._nodes(layout, hosts)]
        shape = " × ".join("%s=%d" % pair for pair in zip(usual.names, usual.sizes))
        alike = "it fits, alike on %d ranks" % len(said)
        if len(slices) > 1:
            alike = "one of %d slices of a larger mesh, each alike on its ranks; the first:" % len(slices)
        word = "; ".join(finding.summary for finding in findings) or alike
        return Conclusion("mesh %s: %s\n%s" % (shape, word, drawing(usual, hosts)), findings)

    def _sliced(self, layouts: Dict[int, MeshLayout], said: Dict[int, Said]) -> bool:
        """Whether the ranks have slices of one mesh: of one shape, and each the same on all of its ranks."""
        first = next(iter(layouts.values()))
        return all(
            said[rank]["slice"] and rank in layout.ranks and (layout.names, layout.sizes) == (first.names, first.sizes)
            and all(layouts.get(other, layout) == layout for other in layout.ranks)
            for rank, layout in layouts.items()
        )  # fmt: skip

    def _fits(self, layouts: Dict[int, MeshLayout]) -> Iterator[Noted]:
        usual = max(layouts.values(), key=list(layouts.values()).count)
        for rank, layout in layouts.items():
            if layout != usual:
                yield Noted(
                    "mesh_wrong", "critical", "rank %d has another mesh than the others" % rank, [rank],
                    ["rank %d: %s" % (rank, _told(layout)), "the others: %s" % _told(usual)], ADVICE,
                )  # fmt: skip
        product = _product(usual.sizes)
        count = len(self._ranks)
        if product != count and set(usual.ranks) >= set(self._ranks):
            yield Noted(
                "mesh_wrong", "critical", "its dimensions multiply to %d, and there are %d ranks" % (product, count),
                evidence=[_told(usual)], advice=ADVICE,
            )  # fmt: skip
        twice = sorted({rank for rank in usual.ranks if usual.ranks.count(rank) > 1})
        lacking = sorted(set(self._ranks) - set(usual.ranks))
        if twice or lacking:
            told = (("%s more than once", twice), ("%s not at all", lacking))
            words = [word % ranks_text(ranks) for word, ranks in told if ranks]
            yield Noted("mesh_wrong", "critical", "it holds " + ", ".join(words), [*twice, *lacking], [_told(usual)],
                        ADVICE)  # fmt: skip

    def _groups(self, usual: MeshLayout, said: Dict[int, Said]) -> Iterator[Noted]:
        for rank, one in said.items():
            expected = usual.coordinate(rank)
            if tuple(one["coordinate"]) != expected:
                yield Noted("mesh_wrong", "critical", "rank %d takes itself to be at %s and is at %s"
                            % (rank, tuple(one["coordinate"]), expected), [rank], advice=ADVICE)  # fmt: skip
            for dim, name in enumerate(usual.names):
                own = next((group for group in usual.groups(dim) if rank in group), ())
                made = one["groups"].get(name)
                if made is not None and sorted(made) != sorted(own):
                    yield Noted("mesh_wrong", "critical", "rank %d's group of dimension %s holds %s, not %s"
                                % (rank, name, ranks_text(made), ranks_text(own)), [rank], advice=ADVICE)  # fmt: skip

    def _nodes(self, usual: MeshLayout, hosts: Mapping[int, str]) -> Iterator[Noted]:
        for dim, name in enumerate(usual.names):
            apart = [group for group in usual.groups(dim) if len({hosts.get(rank, "") for rank in group}) > 1]
            if name in self._within and apart:
                lines = [", ".join("rank %d on %s" % (rank, hosts.get(rank, "?")) for rank in group) for group in apart]
                yield Noted(
                    "mesh_wrong", "warning", "groups of dimension %s reach over nodes: %s of %d"
                    % (name, len(apart), len(list(usual.groups(dim)))),
                    sorted(rank for group in apart for rank in group), lines,
                    "Make it the last dimension of the mesh, or no larger than a node: its collectives want NVLink.",
                )  # fmt: skip


def drawing(layout: MeshLayout, hosts: Mapping[int, str]) -> str:
    """The mesh as a grid: its last dimension goes to the right, all others down; a host where it changes."""
    if _product(layout.sizes) != len(layout.ranks) or not layout.sizes:
        return "no drawing: %d ranks in dimensions %s" % (len(layout.ranks), layout.sizes)
    wide = layout.sizes[-1]
    lines = ["%s → %s" % (" ".join(layout.names[:-1]) or "·", layout.names[-1])]
    shown = layout.ranks[:DRAWN]
    for at in range(0, len(shown), wide):
        row = shown[at : at + wide]
        place = " ".join("%d" % number for number in layout.coordinate(row[0])[:-1]) or "·"
        where = sorted({hosts.get(rank, "?") for rank in row})
        lines.append("%s | %s | %s" % (place, " ".join("%4d" % rank for rank in row), ", ".join(where)))
    if len(layout.ranks) > DRAWN:
        lines.append("… %d ranks more" % (len(layout.ranks) - DRAWN))
    return "\n".join(lines)


def _told(layout: MeshLayout) -> str:
    shape = " × ".join("%s=%d" % pair for pair in zip(layout.names, layout.sizes))
    return "%s of ranks %s" % (shape, list(layout.ranks[:32]))


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
