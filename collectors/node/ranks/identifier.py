"""Finds out whether processes without a rank in their environment are ranks, and which.

Sources of the number, best first: a launcher's variables, the log of Ray Train, the command line. What no source
numbers here may be numbered by the session, by NCCL's lines, RAS or the order of the GPUs.

Workers of Ray Train have logs of JSON with ``world_rank`` in their lines (ray/train/v2/_internal/logging); such a log
is read through the worker's own descriptor.
"""

from __future__ import annotations

import json
import os
import re
from typing import AbstractSet, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

from collectors.node.blocking import BlockingGuard
from collectors.node.files import link, list_folder, named_file, text
from collectors.node.processes.commands import is_python
from collectors.node.processes.environ import NO_RANK
from collectors.node.processes.procfs import read_status
from collectors.node.ranks.process_tree import ProcessRole, is_spawned, may_be_wrapped
from collectors.node.ranks.search import Search, takes_part
from collectors.node.ranks.tracked import FIRST_PAUSE, LONGEST_PAUSE, Tracked, without_number

WRAPPED_PAUSE = 5.0
"""Seconds between looks at a process that may be a rank below its wrapper, at the most: until then it is not seen."""
READ_SECONDS = 3.0
"""Seconds for Ray's files, which may lie on a network."""
LIMIT = 64 << 10
"""Bytes that are read of a log, the last ones."""
LARGEST = 1 << 20
"""Ranks of a job, at most."""

RANK_OPTIONS = ("rank", "global_rank", "world_rank", "process_id", "process_index")
SIZE_OPTIONS = ("world_size", "num_processes", "process_count")
"""Options of scripts that are started once for each rank: of torch (``--rank``), of JAX (``--process_id``)."""

_TRAIN = re.compile(r"/logs/train/ray-train-(?:sys|app)-worker-[0-9a-f]{56}\.log$")


class ArgvRank(NamedTuple):
    """What a command line says of the rank of its process."""

    rank: int
    world_size: Optional[int]


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
        news = [self._part_task(tracked, places, moment), self._wrapped(tracked, places, moment)]
        for pid, one in tracked.items():
            if one.settled or moment < one.settle_at:
                continue
            one.wait_to_settle(moment)
            if not one.takes_part:
                one.takes_part = takes_part(self._proc, pid)
                news.append(one.takes_part)
            if one.env.rank == NO_RANK:
                news.append(self._by_environment(one))
        news.append(self._by_files_and_commands(tracked, places, moment))
        return any(news)

    def _by_environment(self, one: Tracked) -> bool:
        """Read its environment again: it may have been written over since."""
        found = self._search.again(one.pid, one.library)
        if found is None:
            return False
        env, numbered_by = found.env, found.numbered_by
        if not env.assigned and env.rank == one.shared:
            env, numbered_by = without_number(env), ""
        if (env, found.shown) == (one.env, one.shown):
            return False
        one.shown = found.shown
        one.number(env, numbered_by)
        return True

    def _by_files_and_commands(
        self, tracked: Mapping[int, Tracked], places: Mapping[int, ProcessRole], moment: float
    ) -> bool:
        """Number processes by Ray Train's logs or by their command lines; True when that numbered one.

        Asked when others than before are without a number, and again with growing pauses: logs come late.
        """
        ranks = [tracked[pid] for pid, place in places.items() if place.role == "rank"]
        nameless = {one.pid: one for one in ranks if one.library and one.env.rank == NO_RANK}
        same = nameless.keys() == self._nameless
        if not nameless or (same and moment < self._ask_at):
            return False
        self._pause = min(2 * self._pause, LONGEST_PAUSE) if same else FIRST_PAUSE
        self._nameless, self._ask_at = set(nameless), moment + self._pause
        answer = self._guard.ask({"ray": lambda: ray_train_ranks(self._nameless, self._proc)}).get("ray")
        by_ray = answer if isinstance(answer, dict) else {}
        for pid, rank in by_ray.items():
            one = nameless.pop(pid)
            one.number(one.env._replace(rank=rank), "ray")
        found: Dict[int, ArgvRank] = {}
        for library in ("torch", "jax"):
            found.update(ranks_by_option({pid: one.words for pid, one in nameless.items() if one.library == library}))
        for pid, told in found.items():
            one = nameless[pid]
            size, launcher = told.world_size or one.env.world_size, "jax" if one.library == "jax" else "env"
            one.number(one.env._replace(rank=told.rank, world_size=size, launcher=launcher, assigned=True), "command")
        return bool(found or by_ray)

    def _part_task(self, tracked: Mapping[int, Tracked], places: Mapping[int, ProcessRole], moment: float) -> bool:
        """Find a task of a scheduler whose number is no rank: it started ranks with mp.spawn, and they inherit it."""
        for pid, place in places.items():
            one, task = tracked[pid], tracked.get(place.owner)
            if task is None or one.env.assigned or one.library or not is_spawned(one.words) or moment < one.settle_at:
                continue
            one.wait_to_settle(moment)
            if takes_part(self._proc, pid) and not takes_part(self._proc, task.pid):
                spawned = [other for other in tracked.values() if other.stat.parent == task.pid]
                for other in [task, *(other for other in spawned if is_spawned(other.words))]:
                    other.take_number_away()
                return True
        return False

    def _wrapped(self, tracked: Mapping[int, Tracked], places: Mapping[int, ProcessRole], moment: float) -> bool:
        """Find ranks below a Python program that takes no part itself, as one that starts each rank by itself does."""
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
                may = not owner.takes_part and may_be_wrapped(one.member(), owner.member())
                one.takes_part = may and takes_part(self._proc, pid) and not takes_part(self._proc, owner.pid)
            news = one.takes_part or news
        return news


def ranks_by_option(commands: Mapping[int, Sequence[str]]) -> Dict[int, ArgvRank]:
    """Ranks by pid, given the command lines of processes of one library; none where two would have one rank.

    An option counts beside the world size, or beside the option of another process: a lone ``--rank=16`` may be that
    of a matrix.
    """
    told = {pid: _by_option(words) for pid, words in commands.items()}
    found = {pid: one for pid, one in told.items() if one is not None}
    sizes = {one.world_size for one in found.values()}
    lone = len(found) == 1 and None in sizes
    return {} if lone or len({one.rank for one in found.values()}) < len(found) or len(sizes) > 1 else found


def _by_option(words: Sequence[str]) -> Optional[ArgvRank]:
    """By ``--rank=3``, ``--process-index 3``, ``--jax_distributed.process_id=3``."""
    given: Dict[str, int] = {}
    for word, after in zip(words, [*words[1:], ""]):
        name, equals, value = word.partition("=")
        value = value if equals else after
        if name.startswith("-") and value.isascii() and value.isdigit() and len(value) < 10:
            given.setdefault(name.lstrip("-").rpartition(".")[2].replace("-", "_").lower(), int(value))
    rank = next((given[name] for name in RANK_OPTIONS if name in given), None)
    size = next((given[name] for name in SIZE_OPTIONS if name in given), None)
    return None if rank is None or (size is not None and rank >= size) else ArgvRank(rank, size)


def ray_train_ranks(pids: AbstractSet[int], proc: str = "/proc") -> Dict[int, int]:
    """Ranks by pid of the workers of Ray Train among these processes; none of two that would have one rank."""
    found = {pid: rank for pid in pids for rank in [_ray_train_rank(pid, proc)] if rank is not None}
    taken = list(found.values())
    return {pid: rank for pid, rank in found.items() if taken.count(rank) == 1}


def _ray_train_rank(pid: int, proc: str) -> Optional[int]:
    """``world_rank`` of the last line of its log that has one."""
    folder = "%s/%d/fd" % (proc, pid)
    logs = [path for path in ("%s/%s" % (folder, name) for name in list_folder(folder)) if _TRAIN.search(link(path))]
    status = read_status(proc, pid) if logs else None
    lines: List[bytes] = []
    if status is not None:
        lines = [line for path in logs for line in reversed(_end_of(path, status.uid).splitlines())]
    for line in lines:
        if b'"world_rank"' not in line:
            continue
        try:
            entry = json.loads(text(line))
        except (ValueError, RecursionError):
            continue  # the first line of a part is a torn one
        rank = entry.get("world_rank") if isinstance(entry, dict) else None
        if type(rank) is int and 0 <= rank < LARGEST:
            return rank
    return None


def _end_of(path: str, uid: int) -> bytes:
    """The end of a regular file that this user, who is the owner of the process, may read."""
    try:
        file = named_file(path, uid)
    except OSError:
        return b""
    try:
        return os.pread(file, LIMIT, max(0, os.fstat(file).st_size - LIMIT))
    except OSError:
        return b""
    finally:
        os.close(file)
