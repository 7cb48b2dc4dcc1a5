"""Finds, on one node, orphans of an earlier run and stopped processes of this one. It reads /proc and changes nothing.

An orphan carries a rank in its environment, is no rank of the running job and belongs to none, and nobody who started
it is left: the way up through its family ends at an init. A live launcher, or any other living parent (a shell, a
scheduler's step), makes it none. Ranks that somebody started by hand and left are another job for as long as they work:
a run that is whole here and uses the processor is none either.
"""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Set

from collectors.node import redact, watchdog
from collectors.node.blocking import GuardedReader
from collectors.node.files import link, read_or_none
from collectors.node.processes.procfs import CLOCK_TICKS, boot_time, parse_status, read_stat, split_zeros
from collectors.node.processes.socket_tables import held_sockets, listening, read_tables
from collectors.node.ranks.facts import users
from collectors.node.ranks.process_tree import FamilyMember, ProcessRole, classify_tree
from collectors.node.ranks.search import Adopters, Search
from collectors.node.say import say_all
from collectors.probes.repair.remote.words import Curable

YOUNG = 60.0
"""Seconds for which a run that is not whole may still be starting."""
PAUSE = 0.5
"""Seconds between two looks at the processor time of a run that looks whole."""
END = Curable("end", 0, 0, 0.0, 0, "", "", "", "", "", "", [], False, "")


class Doom(NamedTuple):
    """Why a process is an orphan, and if its run is certainly over."""

    sure: bool
    why: str


class Relatives:
    """Everything on the node that carries a rank, in its place."""

    def __init__(self, proc: str, keep: Set[int], young: float = YOUNG, pause: float = PAUSE) -> None:
        """``keep`` are the running job's ranks; one whose run is broken here for ``young`` seconds is not kept."""
        self._proc = proc
        self._keep = keep
        self._young = young
        self._pause = pause
        self._reader = GuardedReader()
        self._booted = boot_time()
        self._users = users()
        self._states: Dict[int, str] = {}
        self.members = self._members()
        self.places: Dict[int, ProcessRole] = classify_tree(self.members)

    def _members(self) -> Dict[int, FamilyMember]:
        adopters = Adopters(self._proc)
        present = {int(name) for name in os.listdir(self._proc) if name.isdigit()} - {os.getpid()}
        found = Search(self._proc, self._reader, nameless=False).find(present, set())
        paths = {one.pid: "%s/%d/cmdline" % (self._proc, one.pid) for one in found}
        answers = self._reader.read_all(list(paths.values()))
        members: Dict[int, FamilyMember] = {}
        for one in found:
            stat, answer = read_stat(self._proc, one.pid), answers.get(paths[one.pid])
            if stat is None or stat.state in ("Z", "X"):
                continue
            words = split_zeros(answer) if isinstance(answer, bytes) else []
            executable = link("%s/%d/exe" % (self._proc, one.pid))
            self._states[one.pid] = stat.state
            members[one.pid] = FamilyMember(
                one.pid, stat.parent, stat.start_ticks, one.env, words, stat.comm, executable, adopters.adopted(stat)
            )  # fmt: skip
        return members

    def curable(self) -> Iterator[Curable]:
        """Orphans, ranks before their helpers, then stopped processes of what is no orphan."""
        dooms = {pid: doom for pid in self.members for doom in [self._doom(pid)] if doom is not None}
        at_work = self._at_work([pid for pid in sorted(dooms) if not dooms[pid].sure])
        for pid in sorted(dooms, key=lambda pid: (self.places[pid].role != "rank", pid)):
            if pid not in at_work:
                yield self._told("orphan", pid, dooms[pid])
        for pid in sorted(self.members):
            if pid not in dooms and self._states[pid] == "T" and self._kept(self._way_up(pid), self.places[pid].owner):
                yield self._told("stopped", pid, Doom(True, "a stop signal holds it (state T)"))

    def _at_work(self, doubtful: List[int]) -> Set[int]:
        """Those of these processes of whose run some rank used the processor while it was looked at."""
        if not doubtful:
            return set()
        runs = {pid: self._run(self.places[pid].owner or pid) for pid in doubtful}
        everybody = {other for run in runs.values() for other in run}
        before = {pid: self._used(pid) for pid in everybody}
        time.sleep(self._pause)
        moved = {pid for pid in everybody if self._used(pid) > before[pid]}
        return {pid for pid, run in runs.items() if moved.intersection(run)}

    def _used(self, pid: int) -> float:
        stat = read_stat(self._proc, pid)
        return stat.cpu_user + stat.cpu_system if stat is not None else 0.0

    def _kept(self, way: List[int], owner: int) -> bool:
        """True for what belongs to a rank of the running job."""
        return owner in self._keep or any(one in self._keep for one in way)

    # --- who is an orphan ----------------------------------------------------------------------------------------

    def _way_up(self, pid: int) -> List[int]:
        """The process and its ancestors, as far as they carry a rank."""
        way = [pid]
        while self.members[way[-1]].parent in self.members and self.members[way[-1]].parent not in way:
            way.append(self.members[way[-1]].parent)
        return way

    def _doom(self, pid: int) -> Optional[Doom]:
        """Why a process is an orphan; None for one that is none."""
        way = self._way_up(pid)
        owner = self.places[pid].owner
        if owner and owner not in way:  # a helper that detached itself from its rank goes with it
            return self._doom(owner)
        launched = any(self.places[one].role == "launcher" for one in way)
        if launched or not self.members[way[-1]].orphan:
            return None
        doom = self._reason(pid, way, owner)
        return None if self._kept(way, owner) and not (doom.sure and self._broken(owner or pid)) else doom

    def _reason(self, pid: int, way: List[int], owner: int) -> Doom:
        if self.places[pid].role == "stray":
            return Doom(True, "a helper whose rank is gone")
        rank = next((one for one in way if self.places[one].role == "rank"), owner or pid)
        env = self.members[rank].env
        here = len(self._run(rank))
        if env.local_world_size is not None and here < env.local_world_size:
            return Doom(True, "%d of the %d ranks that its run had here are left" % (here, env.local_world_size))
        if env.launcher != "env":
            return Doom(True, "its launcher (%s) is gone" % env.launcher)
        return Doom(False, "nobody who started it is left, but its run looks whole here: make sure that it is over")

    def _run(self, pid: int) -> List[int]:
        """Ranks on this node of the run that a rank belongs to."""
        env = self.members[pid].env
        return [
            other
            for other, place in self.places.items()
            if place.role == "rank" and self.members[other].env.job == env.job
        ]

    def _broken(self, pid: int) -> bool:
        """True when ranks are missing here, and have been expected for long."""
        env = self.members[pid].env
        run = self._run(pid)
        if env.local_world_size is None or len(run) >= env.local_world_size:
            return False
        youngest = max(self.members[one].start_ticks for one in run) if run else 0
        return time.time() - (self._booted + youngest / CLOCK_TICKS) > self._young

    # --- what is told --------------------------------------------------------------------------------------------

    def _told(self, what: str, pid: int, doom: Doom) -> Curable:
        member = self.members[pid]
        base = "%s/%d" % (self._proc, pid)
        status = parse_status(read_or_none(base + "/status") or b"", pid)
        uid = status.uid if status is not None else -1
        tables = read_tables(base + "/net")
        held = held_sockets(self._proc, pid)
        return Curable(
            what=what,
            pid=pid,
            start_ticks=member.start_ticks,
            started=round(self._booted + member.start_ticks / CLOCK_TICKS, 2),
            rank=member.env.rank,
            role=self.places[pid].role,
            user=self._users.get(uid, str(uid)),
            run_id=member.env.run_id,
            launcher=member.env.launcher,
            command=redact.command(member.words, 256) or member.comm,
            state=self._states[pid],
            ports=sorted({port for port, inode in listening(tables) if inode in held}),
            sure=doom.sure,
            why=doom.why,
        )


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``keep``: pids of the running job's ranks here; ``young``: seconds that a run may take to start."""
    keep = arguments.get("keep")
    young = float(str(arguments.get("young", YOUNG)))
    scene = Relatives("/proc", {int(str(pid)) for pid in (keep if isinstance(keep, list) else [])}, young)
    say_all([*scene.curable(), END])
