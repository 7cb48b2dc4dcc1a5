"""The role of each process that carries a rank in its environment.

An environment is inherited: the shell around a rank, the rank itself, its data workers and its compile workers all
say RANK=3, and under Slurm torchrun's agent has a number too. The rank is the topmost Python process with that number
(where there is no interpreter, the topmost program that is no mere wrapper); what runs below it belongs to it. A Python
process that takes no part in a process group, above one of the same number that does, only wraps the rank.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set

from collectors.node.processes.commands import LAUNCHERS, WRAPPERS, is_own, is_python, program
from collectors.node.processes.environ import NO_RANK, RankEnvironment


class FamilyMember(NamedTuple):
    """One process that carries a rank in its environment."""

    pid: int
    parent: int
    start_ticks: int
    env: RankEnvironment
    words: Sequence[str]
    """Its command line."""
    comm: str
    executable: str
    """Path of its program; empty where that may not be read."""
    orphan: bool
    """True when whoever started it is gone."""
    takes_part: bool = False
    """It runs threads of a process group or of the CUDA driver itself; looked at where the environment says no rank,
    and below a rank that may be a wrapper."""


class ProcessRole(NamedTuple):
    """What a member is."""

    role: str
    """``rank``, ``helper``, ``wrapper``, ``launcher``, ``stray`` (a helper whose rank is gone) or ``own``: a program of
    this tool, or what it runs."""
    owner: int
    """Pid of the rank that a helper belongs to; 0 for all others. A rank may be one without a number."""


_HELPER_CODE = ("multiprocessing.spawn", "multiprocessing.forkserver", "multiprocessing.resource_tracker")


def _of_its_own(member: FamilyMember, owner: Optional[FamilyMember]) -> bool:
    """True for a rank that another rank started.

    Lightning's first one starts those beside it; a shell that has started all others may become the first one itself.
    """
    if owner is None:
        return False
    if NO_RANK in (member.env.rank, owner.env.rank):
        return member.takes_part and owner.takes_part
    return member.env.rank != owner.env.rank and (owner.env.launcher == "lightning" or _meet(member.env, owner.env))


def _meet(one: RankEnvironment, other: RankEnvironment) -> bool:
    """Whether the environments of two processes say that they meet in one job of several ranks."""
    return one.job == other.job and one.master_port is not None and (one.world_size or 1) > 1


def helper_role(member: FamilyMember, owner: Optional[FamilyMember]) -> str:
    """``data_worker``, ``compile_worker`` or ``helper``."""
    if any("compile_worker" in word for word in member.words[:4]):
        return "compile_worker"
    if member.comm == "pt_data_worker":
        return "data_worker"
    # A worker that was forked and not renamed (torch before 2.7) still shows its rank's own command line.
    forked = owner is not None and member.parent == owner.pid and len(member.words) > 0
    return "data_worker" if forked and owner is not None and list(member.words) == list(owner.words) else "helper"


def _works_for_a_rank(member: FamilyMember) -> bool:
    """True for what can only be a helper, whoever its parent is."""
    code = " ".join(member.words[:4])
    if member.takes_part:
        return False  # mp.spawn starts ranks as multiprocessing starts workers
    if member.env.rank == NO_RANK and is_spawned(member.words):
        return member.comm == "pt_data_worker"
    return member.comm == "pt_data_worker" or "compile_worker" in code or any(name in code for name in _HELPER_CODE)


def may_be_wrapped(member: FamilyMember, owner: FamilyMember) -> bool:
    """Whether a helper, no fork of its owner, may be the rank of which that is but the wrapper."""
    alike = member.env.rank == owner.env.rank != NO_RANK and is_python(member.executable, member.words)
    return alike and not _works_for_a_rank(member) and list(member.words) != list(owner.words)


def is_spawned(words: Sequence[str]) -> bool:
    """True for what ``multiprocessing`` started with a fresh interpreter."""
    return _HELPER_CODE[0] in " ".join(words[:4])


def classify_tree(members: Mapping[int, FamilyMember]) -> Dict[int, ProcessRole]:
    """Place of every member, by pid."""
    order = _top_down(members)
    launchers = _launchers(members)
    python_below = _python_below(members, launchers)
    wraps = _wrapping(members)
    places: Dict[int, ProcessRole] = {}
    for pid in order:
        member = members[pid]
        above = places.get(member.parent)
        owner = None if above is None else members.get(above.owner or member.parent)
        if is_own(member.words) or (above is not None and above.role == "own"):
            places[pid] = ProcessRole("own", 0)
        elif above is not None and above.role in ("rank", "helper") and not _of_its_own(member, owner):
            places[pid] = ProcessRole("helper", above.owner or member.parent)
        elif above is not None and above.role == "stray":
            places[pid] = ProcessRole("stray", 0)
        elif pid in launchers:
            places[pid] = ProcessRole("launcher", 0)
        elif _works_for_a_rank(member) or (member.parent in wraps and not (member.takes_part or pid in wraps)):
            places[pid] = ProcessRole("stray", 0)
        elif is_python(member.executable, member.words):
            places[pid] = ProcessRole("wrapper" if pid in wraps else "rank", 0)
        elif program(member.words) in WRAPPERS or not member.words or pid in python_below:
            places[pid] = ProcessRole("wrapper", 0)
        else:
            places[pid] = ProcessRole("rank", 0)
    _adopt_orphans(members, places)
    return places


def _top_down(members: Mapping[int, FamilyMember]) -> List[int]:
    """Pids, parents before children, elder siblings before younger."""
    children: Dict[int, List[int]] = {}
    queue: List[int] = []
    for pid in sorted(members, key=lambda pid: (members[pid].start_ticks, pid)):
        parent = members[pid].parent
        (children.setdefault(parent, []) if parent in members and parent != pid else queue).append(pid)
    for pid in queue:  # grows while it is walked
        queue.extend(children.get(pid, ()))
    return queue


def _above(members: Mapping[int, FamilyMember], member: FamilyMember) -> Iterator[FamilyMember]:
    """The member's parent, that one's parent, and so on."""
    passed = {member.pid}
    while member.parent in members and member.parent not in passed:
        member = members[member.parent]
        passed.add(member.pid)
        yield member


def _launchers(members: Mapping[int, FamilyMember]) -> Set[int]:
    """Launchers by their program, by a number that their workers did not keep, and by the workers that take part.

    A pod or a Slurm task may have a number of its own; the workers that were given others are the ranks then. A process
    that says no rank and takes no part itself, above one that does, has started the ranks with multiprocessing.
    """
    found = {
        pid for pid, member in members.items() if program(member.words) in LAUNCHERS or member.comm == "pt_elastic"
    }
    for member in members.values():
        if member.takes_part:
            above = _above(members, member)
            found.update(one.pid for one in above if one.env.rank == NO_RANK and not one.takes_part)
        if not member.env.assigned or _works_for_a_rank(member):
            continue
        for parent in _above(members, member):
            if parent.env.assigned:
                break
            other = (parent.env.rank, parent.env.world_size) != (member.env.rank, member.env.world_size)
            # a launcher has started its node's first rank; an agent serves its ranks' store in threads
            first = member.env.local_rank == 0 or member.env.rank == 0
            if other and (first or not parent.takes_part):
                found.add(parent.pid)
    return found


def _wrapping(members: Mapping[int, FamilyMember]) -> Set[int]:
    """Processes that say the number of one below them that takes part in a process group, and take no part."""
    found: Set[int] = set()
    for member in members.values():
        for parent in _above(members, member) if member.takes_part and member.env.rank != NO_RANK else ():
            if parent.takes_part or parent.env.rank != member.env.rank:
                break
            found.add(parent.pid)
    return found


def _python_below(members: Mapping[int, FamilyMember], launchers: Set[int]) -> Set[int]:
    """Members with a Python process of the same rank somewhere below them."""
    found: Set[int] = set()
    for pid, member in members.items():
        if pid in launchers or not is_python(member.executable, member.words):
            continue
        for parent in _above(members, member):
            if parent.env.rank != member.env.rank:
                break
            found.add(parent.pid)
            if parent.pid in launchers:
                break
    return found


def _adopt_orphans(members: Mapping[int, FamilyMember], places: Dict[int, ProcessRole]) -> None:
    """Give daemons and strays of a rank that lives back to it.

    Two processes of one rank of one run: a younger orphan with another command is a helper that detached itself; an
    elder one, or one with the same command, is a rank that an earlier run left behind, and stays a rank.
    """
    of_one_rank: Dict[object, List[FamilyMember]] = {}
    for pid, place in places.items():
        env = members[pid].env
        if place.role in ("rank", "stray") and env.rank != NO_RANK:
            of_one_rank.setdefault((env.rank, env.job), []).append(members[pid])
    for processes in of_one_rank.values():
        ranks = [member for member in processes if places[member.pid].role == "rank"]
        if not ranks:
            continue
        first = min(ranks, key=lambda member: (member.orphan, member.start_ticks))
        for member in processes:
            stray = places[member.pid].role == "stray" and member.start_ticks >= first.start_ticks
            detached = member.orphan and member.start_ticks > first.start_ticks
            if stray or (detached and (list(member.words) != list(first.words) or not first.orphan)):
                places[member.pid] = ProcessRole("helper", first.pid)
                for pid, place in places.items():  # and what it has started
                    if place.owner == member.pid:
                        places[pid] = ProcessRole("helper", first.pid)
    ranks = [members[pid] for pid, place in places.items() if place.role == "rank"]
    for member in ranks:
        if _outlived_its_rank(member, [one for one in ranks if places[one.pid].role == "rank"]):
            places[member.pid] = ProcessRole("stray", 0)
            places.update({pid: ProcessRole("stray", 0) for pid, place in places.items() if place.owner == member.pid})


def _outlived_its_rank(member: FamilyMember, ranks: Sequence[FamilyMember]) -> bool:
    """True for a helper of a rank that is gone: an orphan, where all other ranks of its job here have their parents.

    It is younger than they are, and runs another command.
    """
    others = [one for one in ranks if one.env.rank not in (member.env.rank, NO_RANK) and _meet(one.env, member.env)]
    return (
        member.orphan
        and bool(others)
        and not any(
            one.orphan or one.start_ticks > member.start_ticks or list(one.words) == list(member.words)
            for one in others
        )
    )
