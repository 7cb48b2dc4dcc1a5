"""Finds out whether processes without a rank in their environment are ranks, and which.

Sources of the number, best first: the pipe of torch's flight recorder, NCCL's lines in the log of the process, node and
local rank (Lightning), Ray's files, the command line.
"""

from __future__ import annotations

from typing import Dict, Mapping, Set, Tuple

from collectors.node.blocking import BlockingGuard
from collectors.node.processes.environ import NO_RANK, RankEnvironment
from collectors.node.processes.procfs import CLOCK_TICKS
from collectors.node.ranks.mapped import takes_part
from collectors.node.ranks.process_tree import ProcessRole, is_python, is_spawned, may_be_wrapped
from collectors.node.ranks.rank_from_argv import jax_ranks, torch_ranks
from collectors.node.ranks.rank_from_files import rank_of_pipe, ray_ranks
from collectors.node.ranks.search import Search
from collectors.node.ranks.tracked import FIRST_PAUSE, LONGEST_PAUSE, Tracked, without_number

WRAPPED_PAUSE = 5.0
"""Seconds between looks at one that may be a rank below its wrapper, at the most: until then nothing is seen of it."""
STARTS_WITHIN = 60.0
"""Seconds in which a program that wraps a rank starts it; what is started later is something that a rank runs."""
WAITS_FOR_A_CHILD = (b"do_wait", b"kernel_wait4", b"kernel_waitid")
"""Functions of the kernel in which a process waits for the end of one that it started."""
READ_SECONDS = 3.0
"""Seconds for Ray's files, which may lie on a network."""


def waits_for_a_child(one: Tracked) -> bool:
    """Whether it sleeps until one that it started ends."""
    return (one.held.read("wchan") or b"").strip() in WAITS_FOR_A_CHILD


class RankIdentifier:
    """Looks at such processes again and again, with growing pauses."""

    def __init__(self, proc: str, search: Search) -> None:
        self._proc = proc
        self._search = search
        self._nameless: Set[int] = set()
        """Processes for which command lines and files were read, the next time at …"""
        self._ask_at = 0.0
        self._pause = FIRST_PAUSE
        self._guard: "BlockingGuard[Dict[int, int]]" = BlockingGuard(READ_SECONDS)

    def settle(self, tracked: Mapping[int, Tracked], places: Mapping[int, ProcessRole], moment: float) -> bool:
        """Look at those whose turn it is; True when something came of it on which the places of all depend."""
        news = self._part_task(tracked, places, moment)
        news = self._wrapped(tracked, places, moment) or news
        for pid, one in tracked.items():
            if one.settled or moment < one.settle_at:
                continue
            one.wait_to_settle(moment)
            if not one.takes_part and takes_part(self._proc, pid):
                one.takes_part = news = True
            if one.env.rank == NO_RANK:
                news = self._number(one, tracked) or news
        return self._by_files_and_commands(tracked, places, moment) or news

    def _by_files_and_commands(
        self, tracked: Mapping[int, Tracked], places: Mapping[int, ProcessRole], moment: float
    ) -> bool:
        """Number processes by Ray's logs or by their command lines; True when that numbered one.

        Asked when others than before are without a number, and again with growing pauses: logs and titles come late.
        """
        nameless = {
            pid: tracked[pid]
            for pid, place in places.items()
            if place.role == "rank" and tracked[pid].library and tracked[pid].env.rank == NO_RANK
        }
        if not nameless or (nameless.keys() == self._nameless and moment < self._ask_at):
            return False
        self._pause = FIRST_PAUSE if nameless.keys() != self._nameless else min(2 * self._pause, LONGEST_PAUSE)
        self._nameless, self._ask_at = set(nameless), moment + self._pause
        pids = frozenset(nameless)
        answer = self._guard.ask({"ray": lambda: ray_ranks(pids, self._proc)}).get("ray")
        by_ray = answer if isinstance(answer, dict) else {}
        for pid, rank in by_ray.items():
            one = nameless.pop(pid)
            one.env = one.env._replace(rank=rank)
            one.numbered_by, one.facts_at = "ray", 0.0
        commands = {pid: one.words for pid, one in nameless.items() if one.words}
        found = jax_ranks({pid: words for pid, words in commands.items() if nameless[pid].library == "jax"})
        found.update(torch_ranks({pid: words for pid, words in commands.items() if nameless[pid].library == "torch"}))
        for pid, told in found.items():
            one = nameless[pid]
            one.env = one.env._replace(
                rank=told.rank,
                world_size=told.world_size or one.env.world_size,
                master_port=told.port or one.env.master_port,
                launcher="jax" if one.library == "jax" else "env",
                assigned=True,
            )
            one.numbered_by, one.facts_at = "command", 0.0
        return bool(found or by_ray)

    def _part_task(self, tracked: Mapping[int, Tracked], places: Mapping[int, ProcessRole], moment: float) -> bool:
        """Find a task of a scheduler whose number is no rank: it started ranks with mp.spawn, and they inherit it."""
        for pid, place in places.items():
            one, task = tracked[pid], tracked.get(place.owner)
            if task is None or one.env.assigned or one.library or not is_spawned(one.words) or moment < one.settle_at:
                continue
            one.wait_to_settle(moment)
            if takes_part(self._proc, pid) and not takes_part(self._proc, task.pid):
                task.take_number_away()
                for other in tracked.values():
                    if other.stat.parent == task.pid and is_spawned(other.words):
                        other.take_number_away()
                return True
        return False

    def _wrapped(self, tracked: Mapping[int, Tracked], places: Mapping[int, ProcessRole], moment: float) -> bool:
        """Find ranks below a program of Python's that waits for them, as one that starts each rank by itself does.

        One that has a training library may yet take part itself, and was found too early.
        """
        news = False
        for pid, place in places.items():
            one, owner = tracked[pid], tracked.get(place.owner)
            if one.takes_part or moment < one.settle_at:
                continue
            if place.role == "wrapper" and is_python(one.executable, one.words):
                one.wait_to_settle(moment)
                one.takes_part = takes_part(self._proc, pid)
            elif place.role == "helper" and owner is not None and not is_spawned(one.words):
                one.wait_to_settle(moment)
                one.pause = min(one.pause, WRAPPED_PAUSE)
                one.takes_part = self._is_wrapped(one, owner)
            news = one.takes_part or news
        return news

    def _is_wrapped(self, one: Tracked, owner: Tracked) -> bool:
        if owner.takes_part or not may_be_wrapped(one.member(), owner.member()):
            return False
        if takes_part(self._proc, owner.pid) or self._search.has_library(owner.pid, owner.stat):
            return False
        return takes_part(self._proc, one.pid) or self._is_waited_for(one, owner)

    def _is_waited_for(self, one: Tracked, owner: Tracked) -> bool:
        """Of what meets by JAX or MPI no thread tells: started early on, by one that cannot and only waits for it."""
        later = (one.stat.start_ticks - owner.stat.start_ticks) / CLOCK_TICKS
        if later > STARTS_WITHIN or not waits_for_a_child(owner):
            return False
        return self._search.may_meet(one.pid) and not self._search.may_meet(owner.pid)

    def _number(self, one: Tracked, tracked: Mapping[int, Tracked]) -> bool:
        """Look for its number: recorder's pipe, node and local rank."""
        found = self._search.again(one.pid, one.library)
        if found is None:
            return False
        env, numbered_by = found.env, found.numbered_by
        if not env.assigned and env.rank == one.shared:
            env, numbered_by = without_number(env), ""
        piped = None if numbered_by else rank_of_pipe(self._proc, one.pid, found.shown)
        if piped is not None:
            env, numbered_by = env._replace(rank=piped), "recorder"
        elif not numbered_by and one.takes_part:
            env, numbered_by = _by_neighbours(env, tracked)
        if (env, found.shown) == (one.env, one.shown):
            return False
        one.env, one.shown, one.numbered_by = env, found.shown, numbered_by
        one.facts_at = 0.0
        return True


def _by_neighbours(env: RankEnvironment, tracked: Mapping[int, Tracked]) -> Tuple[RankEnvironment, str]:
    """The rank that the number of the node and the local rank make, where all of this node are there to be counted.

    Lightning gives its processes these two and no more; that one takes part in a process group means that all came.
    """
    local, node, world = env.local_rank, env.node_rank, env.world_size
    if local is None or node is None or world is None:
        return env, ""
    here = {
        one.env.local_rank
        for one in tracked.values()
        if (one.env.node_rank, one.env.world_size, one.env.master_port) == (node, world, env.master_port)
    }
    size = len(here)
    if local not in here or here != set(range(size)) or world % size or node >= world // size:
        return env, ""
    return env._replace(rank=node * size + local, launcher="lightning", assigned=True), "neighbours"
