"""Source ``ranks``: samples of the job's processes on this node.

Ranks are read every tick, their helpers (perhaps hundreds of data and compile workers) every few ticks.
"""

from __future__ import annotations

import os
import time
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set

from collectors.node import redact
from collectors.node.blocking import BlockingGuard
from collectors.node.files import link, read
from collectors.node.processes import procfs
from collectors.node.processes.commands import is_python, program
from collectors.node.ranks.job_process import JobProcess
from collectors.node.ranks.process_tree import ProcessRole, classify_tree
from collectors.node.ranks.search import YOUNG, Search
from collectors.node.source import Denied, Shared, Source
from collectors.samples.ranks import IdleLauncher, ProcessGone, RankProcess
from collectors.samples.stream import Fault, Settings

LIST_EVERY, CALM = 2.5, 5.0
"""Seconds between listings of /proc, and while ranks run and no process came or went: a listing costs as much as
reading eight ranks."""
FACTS_EVERY = 60.0
"""Seconds after which stable properties of a rank are read again."""
HELPER_TURNS = 5
"""Each helper is read once in this many ticks ..."""
NEW_HELPER = 6.0
"""... and every tick in its first seconds, to learn soon whether it works."""
HELD = 32
"""Ranks whose files are kept open; for further ranks they are opened at each read."""
AGENTS = frozenset(("torchrun", "torch.distributed.run", "torch.distributed.launch"))
"""Programs and modules that start ranks on their node as soon as all nodes have joined. Other launchers may have no
rank for hours: a shell under srun, or a Ray cluster."""
RAN_S = 5.0
"""CPU seconds of an agent's ended children; from this on, ranks were among them (a rank's imports take longer)."""


class RankSource(Source):
    """Every rank on this node, and the processes that belong to them."""

    name = "ranks"
    deadline = 5.0
    retry = 2.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._booted = procfs.boot_time()
        self._guard = BlockingGuard()
        self._search = Search(proc, self._guard)
        self._tracked: Dict[int, JobProcess] = {}
        self._roles: Dict[int, ProcessRole] = {}
        self._left_behind: Set[int] = set()
        self._stale = True
        self._other_job = False
        self._turn = 0
        self._list_at = 0.0
        self._hidden = False
        # In a container, process 1 may be the launcher itself: its children are not orphans.
        self._init_adopts = not is_python(link(proc + "/1/exe"), [])
        self._idle: Dict[int, IdleLauncher] = {}
        self._ran_at: Optional[float] = None
        """Last time at which a rank was seen."""

    def configure(self, settings: Settings) -> None:
        """Take the filter on the environment; a changed filter starts the search anew."""
        job = settings.job
        if self._search.restrict((job[0], job[1]) if job else None):
            self._other_job = True

    def read(self, now: float) -> Iterator[NamedTuple]:
        """Samples of ranks, and of the helpers due this tick. Raises :class:`Denied` if ranks may be hidden from us."""
        self._turn += 1
        moment = time.monotonic()
        if moment >= self._list_at or self._other_job:
            yield from self._list(now)
            self._list_at = moment + (LIST_EVERY if self._stale or not self.shared.ranks else CALM)
        for tracked in self._tracked.values():
            self._stale = tracked.begins_to_take_part(moment) or self._stale
        self._read_commands(moment)
        if self._stale:
            self._stale = False
            yield from self._classify(now)
        helpers = list(self._helpers(moment, now))
        yield from self._idle_launchers(now)
        yield from self._ranks(moment, now)
        # after their ranks: a helper sent first would belong to no known rank, and is sent only once while it sleeps
        yield from helpers
        for path in sorted(self._guard.stuck):
            yield Fault(self.name, "reading %s hangs: the kernel holds that process's memory locked" % path, 1)
        if not self.shared.ranks and self._search.refused:
            why = "%d Python processes belong to other users" % len(self._search.refused)
            raise Denied(why + ": log in as the job's user or as root")
        if not self.shared.ranks and self._hidden and os.getuid() != 0:
            raise Denied("/proc shows only this user's processes (hidepid): log in as the job's user or as root")

    def _list(self, now: float) -> Iterator[NamedTuple]:
        """Add new processes, and drop those that have ended."""
        present = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        for pid in [pid for pid in self._tracked if self._other_job or pid not in present]:
            yield from self._drop(pid, now)
        self._other_job = False
        self._hidden = 1 not in present
        for found in list(self._search.find(present, self._tracked.keys())):
            self._tracked[found.pid] = found
            self._stale = True

    def _drop(self, pid: int, now: float) -> Iterator[NamedTuple]:
        """Forget a process; yield :class:`ProcessGone` if a sample of it had been sent."""
        tracked, role = self._tracked.pop(pid), self._roles.pop(pid, None)
        tracked.close()
        self._stale = True
        if tracked.sent is not None or (role is not None and role.role == "helper"):
            yield ProcessGone(pid, now)

    # --- roles -------------------------------------------------------------------------------------------------

    def _read_commands(self, moment: float) -> None:
        """Read the commands of young processes and wrappers: they may have called exec since."""
        paths: Dict[str, JobProcess] = {}
        for pid, tracked in self._tracked.items():
            role = self._roles.get(pid)
            young = moment - tracked.seen < YOUNG
            if young or role is None or role.role == "wrapper":
                executable = link("%s/%d/exe" % (self.proc, pid))
                if young or executable != tracked.executable:
                    tracked.executable = executable
                    paths["%s/%d/cmdline" % (self.proc, pid)] = tracked
        for path, answer in self._guard.ask(list(paths), read).items():
            tracked = paths[path]
            words = procfs.split_zeros(answer) if isinstance(answer, bytes) else []
            if words and words != tracked.words:
                tracked.words = words
                tracked.facts_at = 0.0
                self._stale = True

    def _classify(self, now: float) -> Iterator[NamedTuple]:
        """Assign the roles anew; yield :class:`ProcessGone` for processes that lost their role."""
        before = self._roles
        for tracked in self._tracked.values():
            tracked.orphan = self._is_orphan(tracked.stat)
        self._roles = classify_tree(self._tracked)
        # a helper that outlives its rank inherits RANK, but does not become that rank
        self._left_behind &= self._tracked.keys()
        self._left_behind |= {
            pid for pid, old in before.items() if old.role == "helper" and old.owner not in self._tracked
        }
        for pid in self._left_behind:
            if self._roles[pid].role == "rank":
                self._roles[pid] = ProcessRole("stray", 0)
        for pid, role in self._roles.items():
            tracked, old = self._tracked[pid], before.get(pid)
            no_helper = old is not None and old.role == "helper" and role != old
            if no_helper or (tracked.sent is not None and role.role != "rank"):
                yield ProcessGone(pid, now, False)
                tracked.sent = None

    def _is_orphan(self, stat: procfs.Stat) -> bool:
        """True when an init adopted the process: its original parent is gone."""
        if stat.parent == 1:
            return self._init_adopts
        parent = procfs.read_stat(self.proc, stat.parent) if stat.parent and stat.parent not in self._tracked else None
        return parent is not None and parent.comm == "systemd"

    def _having(self, role: str) -> Iterable[JobProcess]:
        return [self._tracked[pid] for pid, place in self._roles.items() if place.role == role]

    def _idle_launchers(self, now: float) -> Iterator[NamedTuple]:
        """Agents of torchrun while no rank runs on this node: they wait for other nodes' agents, or to be stopped."""
        before, self._idle, ranks = self._idle, {}, self._having("rank")
        self._ran_at = now if ranks else self._ran_at
        for agent in () if ranks else self._having("launcher"):
            if program(agent.words) in AGENTS:
                since = before[agent.pid].since if agent.pid in before else self._ran_at
                if since is None and agent.stat.children_cpu >= RAN_S:
                    since = now
                started = self._booted + agent.stat.start_ticks / procfs.CLOCK_TICKS
                self._idle[agent.pid] = IdleLauncher(agent.pid, started, redact.command(agent.words, 512), since)
        yield from (ProcessGone(pid, now, False) for pid in before if pid not in self._idle)
        yield from self._idle.values()

    # --- samples -----------------------------------------------------------------------------------------------

    def _refresh(self, tracked: JobProcess, now: float) -> Iterator[NamedTuple]:
        """Read stat again; drop the process if it has ended or its pid was reused.

        A zombie stays in /proc until its parent waits for it, which a container's first process may never do.
        """
        stat = procfs.parse_stat(tracked.read("stat"))
        if stat is None or stat.has_ended or stat.start_ticks != tracked.stat.start_ticks:
            yield from self._drop(tracked.pid, now)
            return
        if (stat.parent, stat.comm) != (tracked.stat.parent, tracked.stat.comm):
            self._stale = True
        tracked.stat = stat

    def _helpers(self, moment: float, now: float) -> Iterator[NamedTuple]:
        for tracked in self._having("helper"):
            pid = tracked.pid
            if pid % HELPER_TURNS != self._turn % HELPER_TURNS and moment - tracked.seen >= NEW_HELPER:
                continue
            yield from self._refresh(tracked, now)
            tracked.close()  # there may be hundreds
            if pid not in self._tracked:
                continue
            yield tracked.helper(self._roles[pid].owner)

    def _ranks(self, moment: float, now: float) -> Iterator[NamedTuple]:
        spent: Dict[int, float] = {}
        moved: Dict[int, int] = {}
        for helper in self._having("helper"):
            owner = self._roles[helper.pid].owner
            spent[owner] = spent.get(owner, 0.0) + helper.cpu + helper.stat.children_cpu
            if helper.bytes_moved is not None:
                moved[owner] = moved.get(owner, 0) + helper.bytes_moved
        alive: List[RankProcess] = []
        for tracked in self._having("rank"):
            pid = tracked.pid
            yield from self._refresh(tracked, now)
            status = procfs.parse_status(tracked.read("status"), pid)
            if pid not in self._tracked or status is None:
                continue
            versions = self.shared.versions.get(pid, {})
            if tracked.sent is None or moment - tracked.facts_at > FACTS_EVERY:
                tracked.facts_at = moment
                tracked.executable = link("%s/%d/exe" % (self.proc, pid)) or tracked.executable
                tracked.sent = tracked.facts(self._booted, status, versions)
            elif tracked.sent.versions != versions:
                tracked.sent = tracked.sent._replace(versions=versions)
            alive.append(tracked.sent)
            yield tracked.sent
            yield tracked.pulse(status, moment, spent.get(pid, 0.0), moved.get(pid))
            if moment >= tracked.zombies_at:
                tracked.zombies_at = moment + CALM
                yield from tracked.zombies(now)
            if len(alive) > HELD:
                tracked.close()
        self.shared.ranks = tuple(alive)
