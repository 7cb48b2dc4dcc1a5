"""Source ``ranks``: the job's processes on this node, and what moves in them.

Ranks are read every tick, their helpers (data and compile workers, of which there may be hundreds) every few ticks.
"""

from __future__ import annotations

import os
import time
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set

from collectors.node import redact
from collectors.node.blocking import GuardedReader
from collectors.node.files import link, read_or_none
from collectors.node.processes.procfs import (
    Stat,
    boot_time,
    parse_stat,
    parse_status,
    parse_wchan,
    read_stat,
    split_zeros,
)
from collectors.node.ranks.facts import FactFinder
from collectors.node.ranks.identifier import RankIdentifier
from collectors.node.ranks.idle_launchers import IdleLaunchers
from collectors.node.ranks.process_metrics import HeldFiles, bytes_moved, rank_pulse
from collectors.node.ranks.process_tree import ProcessRole, classify_tree, helper_role
from collectors.node.ranks.search import YOUNG, Adopters, Search
from collectors.node.ranks.tracked import Tracked
from collectors.node.source import Denied, Failed, Shared, Source
from collectors.samples.control import Settings
from collectors.samples.ranks import Helper, HelperGone, RankGone, RankProcess
from collectors.samples.stream import Fault

LIST_EVERY = 2.5
"""Seconds between looks for new processes: listing /proc costs as much as reading eight ranks."""
LIST_ANYWAY = 10.0
"""Seconds after which they are looked for even if the kernel has given no pid to any since."""
FACTS_EVERY = 60.0
"""Seconds after which limits, files and folders of a rank are read again."""
HELPER_TURNS = 5
"""Ticks in which every helper is read once, …"""
NEW_HELPER = 6.0
"""… but for the first seconds in which it is seen: whether it works is to be known soon."""
QUIET_LOOKS = 2
"""Looks without a voluntary context switch after which a rank counts as waiting, maybe for a child that has ended."""


class RankSource(Source):
    """Every rank on this node, and the processes that belong to them."""

    name = "ranks"
    deadline = 5.0
    retry = 2.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._reader = GuardedReader()
        self._search = Search(proc, self._reader)
        self._identifier = RankIdentifier(proc, self._search)
        self._facts = FactFinder(proc, sys, boot_time())
        self._idle = IdleLaunchers(boot_time())
        self._tracked: Dict[int, Tracked] = {}
        self._places: Dict[int, ProcessRole] = {}
        self._left_behind: Set[int] = set()
        self._stale = True
        self._other_job = False
        self._turn = 0
        self._list_at = self._list_anyway = self._calm_at = 0.0
        self._last_pid = b""
        self._hidden = self._nobody = False
        self._adopters = Adopters(proc)

    def configure(self, settings: Settings) -> None:
        """Take the filter on the environment; with another one everything is looked at anew."""
        job = settings.job
        if self._search.restrict((job[0], job[1]) if job else None):
            self._other_job = True

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Samples of ranks, and of helpers in their turn. Raises :class:`Denied` or :class:`Failed`: none is seen."""
        self._turn += 1
        moment = time.monotonic()
        if self._list_due(moment):
            yield from self._list(moment, now)
        self._stale = self._identifier.settle(self._tracked, self._places, moment) or self._stale
        self._read_commands(moment)
        if self._stale:
            self._stale = False
            yield from self._rearrange(now)
        helpers = list(self._helpers(moment, now))
        yield from self._ranks(moment, now)
        # after their ranks: who hears of a helper first does not know whose it is, and one that sleeps is told of once
        yield from helpers
        yield from self._idle.look(list(self._having("launcher")), now, ranks=bool(self.shared.ranks))
        for path in sorted(self._reader.stuck):
            yield Fault(self.name, "reading %s hangs: the kernel holds that process's memory locked" % path, 1)
        if not self.shared.ranks:
            self._explain_emptiness()

    def _list_due(self, moment: float) -> bool:
        """Whether to look for new processes: /proc/loadavg ends with the pid that was given last."""
        if moment < self._list_at and not self._other_job:
            return False
        self._list_at = moment + LIST_EVERY
        last = (read_or_none(self.proc + "/loadavg") or b"").rpartition(b" ")[2]
        if last and last == self._last_pid and moment < self._list_anyway and not self._other_job:
            return False
        if last != self._last_pid:
            self._calm_at = moment + YOUNG + LIST_EVERY
        self._last_pid = last
        # while one is young it may still exec what it wraps
        self._list_anyway = moment + (LIST_ANYWAY if moment > self._calm_at else 0.0)
        return True

    def _list(self, moment: float, now: float) -> Iterator[NamedTuple]:
        """Find processes that came, and drop those that went."""
        present = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        self._nobody = not present
        for pid in [pid for pid in self._tracked if self._other_job or pid not in present]:
            yield from self._drop(pid, now)
        self._other_job = False
        self._hidden = 1 not in present
        for found in self._search.find(present, set(self._tracked), self.shared.computing):
            stat = read_stat(self.proc, found.pid)
            if stat is not None:
                self._tracked[found.pid] = Tracked(found, stat, moment, HeldFiles(self.proc, found.pid))
                self._stale = True

    def _drop(self, pid: int, now: float) -> Iterator[NamedTuple]:
        """Forget a process, and say so if it had been told of."""
        tracked, place = self._tracked.pop(pid), self._places.pop(pid, None)
        tracked.held.close()
        self._stale = True
        if tracked.process is not None:
            yield RankGone(pid, tracked.process.rank, now)
        elif place is not None and place.role == "helper":
            yield HelperGone(pid, place.owner, now)

    def _explain_emptiness(self) -> None:
        """No rank in sight: tell an idle node from one on which too little may be seen."""
        if self._nobody:
            raise Failed("%s shows no process, not even this one: it is not mounted there" % self.proc)
        refused = len(self._search.refused)
        if refused:
            raise Denied("%d Python processes belong to other users: log in as the job's user or as root" % refused)
        if self._hidden and os.getuid() != 0:
            raise Denied("/proc shows only this user's processes (hidepid): log in as the job's user or as root")

    # --- who they are ------------------------------------------------------------------------------------------

    def _read_commands(self, moment: float) -> None:
        """Read what young processes and wrappers run: they may have called exec since."""
        paths: Dict[str, Tracked] = {}
        for pid, tracked in self._tracked.items():
            place = self._places.get(pid)
            young = moment - tracked.seen < YOUNG
            if young or place is None or place.role == "wrapper":
                executable = link("%s/%d/exe" % (self.proc, pid))
                if young or executable != tracked.executable:
                    tracked.executable = executable
                    paths["%s/%d/cmdline" % (self.proc, pid)] = tracked
        if not paths:
            return
        for path, answer in self._reader.read_all(list(paths)).items():
            tracked = paths[path]
            words = split_zeros(answer) if isinstance(answer, bytes) else []
            if words and words != tracked.words:
                tracked.words = words
                tracked.facts_at = 0.0
                self._stale = True

    def _rearrange(self, now: float) -> Iterator[NamedTuple]:
        """Find everybody's place anew, and say who is no longer what it was told to be."""
        before = self._places
        members = {pid: tracked.member(self._is_orphan(tracked.stat)) for pid, tracked in self._tracked.items()}
        self._places = classify_tree(members)
        # a helper with RANK in its environment that lives on is not the rank that it worked for
        self._left_behind &= self._tracked.keys()
        self._left_behind |= {
            pid for pid, old in before.items() if old.role == "helper" and old.owner not in self._tracked
        }
        for pid in self._left_behind:
            if self._places[pid].role == "rank":
                self._places[pid] = ProcessRole("stray", 0)
        for pid, place in self._places.items():
            tracked, old = self._tracked[pid], before.get(pid)
            if tracked.process is not None and place.role != "rank":
                yield RankGone(pid, tracked.process.rank, now, False)
                tracked.process = None
            if old is not None and old.role == "helper" and place != old:
                yield HelperGone(pid, old.owner, now)

    def _is_orphan(self, stat: Stat) -> bool:
        """True when an init adopted the process: then nobody who started it is left."""
        return (stat.parent == 1 or stat.parent not in self._tracked) and self._adopters.adopted(stat)

    # --- what they do ------------------------------------------------------------------------------------------

    def _refresh(self, tracked: Tracked, now: float) -> Iterator[NamedTuple]:
        """Read stat again; a process that has ended, or whose pid is another's now, is dropped.

        One that has ended stays in /proc until its parent asks, which a container's first process may never do.
        """
        stat = parse_stat(tracked.held.read("stat") or b"")
        if stat is None or stat.has_ended or stat.start_ticks != tracked.stat.start_ticks:
            yield from self._drop(tracked.pid, now)
            return
        if (stat.parent, stat.comm) != (tracked.stat.parent, tracked.stat.comm):
            self._stale = True
        tracked.stat = stat

    def _having(self, role: str) -> Iterable[Tracked]:
        return [self._tracked[pid] for pid, place in self._places.items() if place.role == role]

    def _helpers(self, moment: float, now: float) -> Iterator[NamedTuple]:
        for tracked in self._having("helper"):
            pid = tracked.pid
            if pid % HELPER_TURNS != self._turn % HELPER_TURNS and moment - tracked.seen >= NEW_HELPER:
                continue
            yield from self._refresh(tracked, now)
            if pid in self._tracked:
                owner = self._places[pid].owner
                rank = self._tracked.get(owner)
                role = helper_role(tracked.member(), None if rank is None else rank.member())
                command = redact.command(tracked.words, 256)
                if role == "helper" or _is_awaited(tracked, rank):  # of workers there may be hundreds
                    tracked.bytes_moved = bytes_moved(self.proc, pid)
                stat, wchan = tracked.stat, parse_wchan(read_or_none("%s/%d/wchan" % (self.proc, pid)) or b"")
                cpu = round(stat.cpu_user + stat.cpu_system, 2)
                yield Helper(pid, owner, role, stat.state, wchan, cpu, stat.rss, command)

    def _ranks(self, moment: float, now: float) -> Iterator[NamedTuple]:
        spent: Dict[int, float] = {}
        moved: Dict[int, int] = {}
        for helper in self._having("helper"):
            owner = self._places[helper.pid].owner
            used = helper.stat.cpu_user + helper.stat.cpu_system + helper.stat.children_cpu
            spent[owner] = spent.get(owner, 0.0) + used
            if helper.bytes_moved is not None:
                moved[owner] = moved.get(owner, 0) + helper.bytes_moved
        alive: List[RankProcess] = []
        for tracked in self._having("rank"):
            pid = tracked.pid
            tracked.held.keep()
            yield from self._refresh(tracked, now)
            status = parse_status(tracked.held.read("status") or b"", pid)
            if pid not in self._tracked or status is None:
                continue
            versions = self.shared.versions.get(pid, {})
            if tracked.process is None or moment - tracked.facts_at > FACTS_EVERY:
                tracked.facts_at = moment
                tracked.executable = link("%s/%d/exe" % (self.proc, pid)) or tracked.executable
                tracked.process = self._facts.process(tracked, status, versions)
            elif tracked.process.versions != versions:
                tracked.process = tracked.process._replace(versions=versions)
            alive.append(tracked.process)
            yield tracked.process
            tracked.note_switches(status.voluntary_switches)
            helped = spent.get(pid, 0.0) + tracked.stat.children_cpu  # a compiler starts many that end in a second
            yield rank_pulse(self.proc, pid, tracked.held, tracked.stat, status, helped, moved.get(pid))
            if tracked.quiet_looks >= QUIET_LOOKS and tracked.zombies.due(moment, LIST_EVERY):
                yield from tracked.zombies.look(self.proc, pid, now)
        self.shared.ranks = tuple(alive)


def _is_awaited(fork: Tracked, rank: Optional[Tracked]) -> bool:
    """Whether a fork that is no loader's worker may be the one whose end its rank waits for."""
    # its name first: of loaders' workers there may be hundreds, and the rank's wait would be read for each
    return fork.stat.comm != "pt_data_worker" and rank is not None and rank.waits_for_a_child
