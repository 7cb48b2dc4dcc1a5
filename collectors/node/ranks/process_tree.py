"""Assigns a role to each process with a rank in its environment, or with a training library mapped.

An environment is inherited: the shell around a rank, the rank itself, its data workers and its compile workers all
have RANK=3, and under Slurm torchrun's agent has a rank number too. The rank is the topmost Python process with that
number (without an interpreter, the topmost program that is not a wrapper); its descendants belong to it.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, NamedTuple, Set

from collectors.node.processes.commands import LAUNCHERS, WRAPPERS, is_own, is_python, program
from collectors.node.processes.environ import NO_RANK
from collectors.node.ranks.job_process import JobProcess


class ProcessRole(NamedTuple):
    """Role of one process of a job."""

    role: str
    """``rank``, ``helper``, ``wrapper``, ``launcher``, ``stray`` (a helper whose rank is gone) or ``own`` (a program of
    hangtop, or a child of one)."""
    owner: int
    """Pid of the rank that a helper belongs to; 0 for other roles. That rank may have no rank number."""


_SPAWNED = "multiprocessing.spawn"
_HELPER_CODE = (_SPAWNED, "multiprocessing.forkserver", "multiprocessing.resource_tracker", "compile_worker")


def classify_tree(members: Mapping[int, JobProcess]) -> Dict[int, ProcessRole]:
    """Role of every member, by pid."""
    launchers, python_below = _launchers(members), _python_below(members)
    roles: Dict[int, ProcessRole] = {}
    for pid in _top_down(members):
        member = members[pid]
        above = roles.get(member.stat.parent, ProcessRole("", 0))
        owner = members[above.owner or member.stat.parent] if above.role in ("rank", "helper") else None
        if is_own(member.words) or above.role == "own":
            roles[pid] = ProcessRole("own", 0)
        elif owner is not None and not _is_another_rank(member, owner):
            roles[pid] = ProcessRole("helper", owner.pid)
        elif above.role == "stray" or (pid not in launchers and _works_for_a_rank(member)):
            roles[pid] = ProcessRole("stray", 0)
        elif pid in launchers:
            roles[pid] = ProcessRole("launcher", 0)
        elif is_python(member.executable, member.words):
            roles[pid] = ProcessRole("rank", 0)
        elif program(member.words) in WRAPPERS or not member.words or pid in python_below:
            roles[pid] = ProcessRole("wrapper", 0)
        else:
            roles[pid] = ProcessRole("rank", 0)
    _adopt_orphans(members, roles)
    return roles


def _is_another_rank(member: JobProcess, owner: JobProcess) -> bool:
    """True for a rank started by another rank: Lightning's rank 0 starts its node's other ranks, vLLM its workers."""
    env, above = member.env, owner.env
    if NO_RANK in (env.rank, above.rank):
        return member.takes_part and owner.takes_part
    meet = env.job == above.job and env.master_port is not None and (env.world_size or 1) > 1
    return env.rank != above.rank and (above.launcher == "lightning" or meet)


def _works_for_a_rank(member: JobProcess) -> bool:
    """True for a process that can only be a helper, whatever its parent; mp.spawn starts ranks as well as workers."""
    code = " ".join(member.words[:4])
    if member.takes_part or (member.env.rank == NO_RANK and _SPAWNED in code and member.stat.comm != "pt_data_worker"):
        return False
    return member.stat.comm == "pt_data_worker" or any(name in code for name in _HELPER_CODE)


def _top_down(members: Mapping[int, JobProcess]) -> List[int]:
    """Pids, parents before children, older siblings before younger."""
    children: Dict[int, List[int]] = {}
    queue: List[int] = []
    for pid in sorted(members, key=lambda pid: (members[pid].stat.start_ticks, pid)):
        parent = members[pid].stat.parent
        (children.setdefault(parent, []) if parent in members and parent != pid else queue).append(pid)
    for pid in queue:  # grows while it is walked
        queue.extend(children.get(pid, ()))
    return queue


def _above(members: Mapping[int, JobProcess], member: JobProcess) -> Iterator[JobProcess]:
    """The member's parent, grandparent, and so on."""
    passed = {member.pid}
    while member.stat.parent in members and member.stat.parent not in passed:
        member = members[member.stat.parent]
        passed.add(member.pid)
        yield member


def _launchers(members: Mapping[int, JobProcess]) -> Set[int]:
    """Pids of launchers: by program, by a rank number that differs from its workers', or by workers that take part.

    A pod or a Slurm task may have a rank number itself; its workers with other numbers are then the ranks. A process
    without an assigned rank that takes no part in collectives, above a process that does, has started the ranks with
    multiprocessing.
    """
    found = {
        member.pid for member in members.values()
        if program(member.words) in LAUNCHERS or member.stat.comm == "pt_elastic"
    }  # fmt: skip
    for member in members.values():
        above = list(_above(members, member))
        if member.takes_part:
            numbered = member.env.rank != NO_RANK
            found.update(
                parent.pid for parent in above
                if not parent.takes_part and (parent.env.rank == NO_RANK or not (numbered or parent.env.assigned))
            )  # fmt: skip
        if member.env.assigned and not _works_for_a_rank(member):
            for parent in above:
                if parent.env.assigned or parent.takes_part:
                    break
                if (parent.env.rank, parent.env.world_size) != (member.env.rank, member.env.world_size):
                    found.add(parent.pid)
    return found


def _python_below(members: Mapping[int, JobProcess]) -> Set[int]:
    """Pids of members with a Python process of the same rank among their descendants."""
    found: Set[int] = set()
    for member in members.values():
        for parent in _above(members, member) if is_python(member.executable, member.words) else ():
            if parent.env.rank != member.env.rank:
                break
            found.add(parent.pid)
    return found


def _adopt_orphans(members: Mapping[int, JobProcess], roles: Dict[int, ProcessRole]) -> None:
    """Make detached helpers and strays of a living rank its helpers again.

    If two processes have the same rank and run: a younger orphan with another command is a helper that detached itself;
    an older one, or one with the same command, is a rank left behind by an earlier run, and stays a rank.
    """
    of_one_rank: Dict[object, List[JobProcess]] = {}
    for pid, role in roles.items():
        env = members[pid].env
        if role.role in ("rank", "stray") and env.rank != NO_RANK:
            of_one_rank.setdefault((env.rank, env.job), []).append(members[pid])
    for processes in of_one_rank.values():
        ranks = [member for member in processes if roles[member.pid].role == "rank"]
        first = min(ranks, key=lambda member: (member.orphan, member.stat.start_ticks), default=None)
        for member in processes if first is not None else ():
            assert first is not None
            younger = member.stat.start_ticks > first.stat.start_ticks
            detached = member.orphan and younger and (list(member.words) != list(first.words) or not first.orphan)
            if detached or (younger and roles[member.pid].role == "stray"):
                for pid, role in list(roles.items()):  # its helpers, too
                    if pid == member.pid or role.owner == member.pid:
                        roles[pid] = ProcessRole("helper", first.pid)
