"""Who waits for whom: follow every wait to its end and find the ranks that hold the others up.

A rank that does not wait ends the chain: it is the culprit however few wait for it. Where all wait, the places decide:
ranks wait per process group, so a wait in a sub-group ends before the wait of the crowd that needs both; peers of
sends and receives close cycles; else the minority is the odd one. Pure functions over a :class:`Scene`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Literal

from hangtop.diagnosis.scene import Scene
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.standing import Stance, Standing

Shape = Literal["held_up", "deadlock", "mismatch", "stuck_group", "stalled"]
"""How a jam looks.

``held_up``: somebody does not wait; ``deadlock``: sends and receives wait in a circle; ``mismatch``: ranks wait at
different operations; ``stuck_group``: a sub-group waits in one operation, and the others wait for it; ``stalled``: all
wait in the same operation.
"""

HARD: tuple[Stance, ...] = ("gone", "missing", "stopped", "uninterruptible", "refused")
MEANING = "⟨"
"""Begins a folded frame that says what library frames mean."""
OPEN_PHASES = ("backward", "forward")
INNER_GROUPS = frozenset({"tensor", "pipeline", "expert", "context"})
"""Model-parallel groups: their operations come inside a step, those of data-parallel groups at its end."""


@dataclass(frozen=True, slots=True)
class Site:
    """Ranks that wait in the same operation at the same place of the program."""

    kind: str
    op: str
    place: str
    inner: bool
    """The operation belongs to a group that is smaller than the job."""
    members: tuple[Standing, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(member.rank for member in self.members)

    @property
    def name(self) -> str:
        """``all_reduce``, ``backward``, ``its GPU``."""
        return self.op or {"device": "its GPU", "store": "a store wait", "code": "C code"}.get(self.kind, self.kind)

    @property
    def where(self) -> str:
        """User frame of its first rank."""
        return self.members[0].where

    @property
    def path(self) -> tuple[str, ...]:
        """The user's functions that lead there, outermost first, without their lines."""
        doing = self.members[0].activity
        frames = [frame for frame in doing.frames if not frame.startswith(MEANING)] if doing else []
        return tuple(frame.rpartition(":")[0] for frame in frames)


@dataclass(frozen=True, slots=True)
class Jam:
    """Ranks that wait, and the end of their wait."""

    shape: Shape
    crowd: tuple[Standing, ...]
    """Those who wait and are not to blame. Empty in ``stalled``, where nobody is more to blame than another."""
    culprits: tuple[Standing, ...]
    sites: tuple[Site, ...]
    """Where the ranks wait that wait, the largest first."""
    accused: tuple[Site, ...]
    """Sites of the culprits, where culprits wait too."""
    held: float
    """Seconds for which the crowd was seen to wait without a break."""
    frozen: bool
    """The crowd was seen to stand still; False where it spins and cannot be told from moving by its CPU."""
    tied: bool = False
    """Nothing tells which of the sites is the odd one."""

    @property
    def waiting_ranks(self) -> tuple[int, ...]:
        """Numbers of all that wait and are not to blame."""
        return tuple(standing.rank for standing in self.crowd)


def find_jam(scene: Scene) -> Jam | None:
    """Find the jam of a job; None while nobody waits or the waits are seen to end and begin again."""
    waiting = [standing for standing in scene.of("waiting") if standing.frozen is not False]
    moving = sum(1 for standing in scene.of("waiting") if standing.frozen is False)
    if not waiting or moving > len(waiting):
        return None
    sites = _sites(waiting)
    hard = scene.of(*HARD)
    working = scene.of("working", "leaving")
    if hard or working:
        culprits = (*hard, *_least_moving(working, alone=not hard))
        return _jam("held_up", waiting, culprits, sites, ())
    if scene.of("unseen"):
        return None
    return _all_wait(waiting, sites)


def _least_moving(working: Sequence[Standing], *, alone: bool) -> list[Standing]:
    """Of those who do not wait, the ones that stand still; when none does and nobody else is to blame, all of them."""
    still = [standing for standing in working if standing.frozen is not False or loops(standing)]
    leaving = [standing for standing in working if standing.stance == "leaving"]
    return still or leaving or (list(working) if alone else [])


def loops(standing: Standing) -> bool:
    """True when every look found it in one function of the user's, and in nothing that is called from it."""
    glances = standing.glances
    functions = {(glance.frame.name, glance.frame.file) for glance in glances if glance.frame}
    own_code = all(glance.kind == "code" and glance.frame for glance in glances)
    return len(glances) > 1 and len(functions) == 1 and own_code


def _all_wait(waiting: list[Standing], sites: tuple[Site, ...]) -> Jam:
    sends = [site for site in sites if site.kind == "p2p"]
    if sends:
        members = [member for site in sends for member in site.members]
        circle = _circle(members)
        if circle:
            return _split("deadlock", waiting, sites, sends, circle)
    if len(sites) == 1:
        return _jam("stalled", (), waiting, sites, sites)
    inner = [site for site in sites if site.inner]
    inside = sum(len(site.members) for site in inner)
    if inner and inside * 2 <= len(waiting):
        together = len(inner) == 1 and inside > 1 and inner[0].kind != "p2p"
        shape: Shape = "stuck_group" if together else "mismatch"
        return _split(shape, waiting, sites, inner, {rank for site in inner for rank in site.ranks})
    accused, tied = _odd_sites(sites)
    jam = _split("mismatch", waiting, sites, accused, {rank for site in accused for rank in site.ranks})
    return Jam(jam.shape, jam.crowd, jam.culprits, jam.sites, jam.accused, jam.held, jam.frozen, tied)


def _odd_sites(sites: tuple[Site, ...]) -> tuple[list[Site], bool]:
    """Choose the sites to accuse by how few are there, and tell whether that was undecided.

    Ranks in the same function of the program are in one loop, at most an operation apart; those in another function
    left it. So functions are counted first, and places within them only where all are in one.
    """
    by_path: dict[tuple[str, ...], list[Site]] = defaultdict(list)
    for site in sites:
        by_path[site.path].append(site)
    groups = list(by_path.values()) if len(by_path) > 1 else [[site] for site in sites]
    sizes = [sum(len(site.members) for site in group) for group in groups]
    largest = max(sizes)
    odd = [site for group, size in zip(groups, sizes, strict=True) if size < largest for site in group]
    if not odd or sizes.count(largest) > 1:
        return list(sites), True
    return odd, False


def _split(
    shape: Shape, waiting: list[Standing], sites: tuple[Site, ...], accused: Iterable[Site], ranks: set[int]
) -> Jam:
    crowd = [standing for standing in waiting if standing.rank not in ranks]
    culprits = [standing for standing in waiting if standing.rank in ranks]
    return _jam(shape, crowd, culprits, sites, tuple(accused))


def _jam(
    shape: Shape,
    crowd: Sequence[Standing],
    culprits: Sequence[Standing],
    sites: tuple[Site, ...],
    accused: tuple[Site, ...],
) -> Jam:
    measured = [standing for standing in crowd or culprits if standing.glances]
    held = median_low([standing.held for standing in measured]) if measured else 0.0
    frozen = bool(measured) and 2 * sum(standing.frozen is True for standing in measured) > len(measured)
    return Jam(shape, tuple(crowd), tuple(culprits), sites, accused, held, frozen)


def _sites(waiting: Sequence[Standing]) -> tuple[Site, ...]:
    """Group those who wait. A wait for one's own GPU is one site whatever the line: kernels are queued far ahead.

    Inside a backward or forward pass the Python frames do not name the operation. Where native frames did so for some
    ranks only, those and the others at the same line are one site.
    """
    groups: dict[tuple[str, str, str, bool], list[Standing]] = defaultdict(list)
    for standing in waiting:
        doing = standing.activity
        if doing is not None:
            groups[_site_of(doing)].append(standing)
    for key, members in list(groups.items()):
        if key[0] in OPEN_PHASES:
            for other in [
                other for other in groups if other[0] == "collective" and _same_phase(key, members, groups[other])
            ]:
                members.extend(groups.pop(other))
    made = (
        Site(kind, op, place, inner, tuple(sorted(members, key=lambda member: member.rank)))
        for (kind, op, place, inner), members in groups.items()
    )
    return tuple(sorted(made, key=lambda site: (-len(site.members), site.ranks)))


def _site_of(doing: Activity) -> tuple[str, str, str, bool]:
    named_inner = doing.world is None and doing.group in INNER_GROUPS
    inner = doing.kind == "p2p" or doing.world is False or named_inner
    return doing.kind, doing.op, "" if doing.kind == "device" else doing.place, inner


def _same_phase(key: tuple[str, str, str, bool], members: Sequence[Standing], others: Sequence[Standing]) -> bool:
    own, other = members[0].activity, others[0].activity
    return own is not None and other is not None and key[0] in other.context and own.where == other.where


def _circle(members: Sequence[Standing]) -> set[int]:
    """Ranks whose sends and receives wait for one another in a circle.

    With the peers known, the circle is followed; with none known, all of them must want the same side (all receive, or
    all send): then nobody can be served. A send that meets its receive is no circle, even when neither ends.
    """
    doing = {member.rank: member.activity for member in members if member.activity}
    peers = {rank: own.peer for rank, own in doing.items() if own.peer is not None}
    if not peers:
        sides = {own.op for own in doing.values()}
        return set(doing) if len(doing) > 1 and len(sides) == 1 else set()
    waits_for = {
        rank: peer for rank, peer in peers.items() if not (peers.get(peer) == rank and doing[peer].op != doing[rank].op)
    }
    found: set[int] = set()
    for start in waits_for:
        path = [start]
        while (after := waits_for.get(path[-1])) is not None and after not in path:
            path.append(after)
        if after is not None:
            found.update(path[path.index(after) :])
    return found
