"""What one tick draws: the session's state and what several panels need to know about it, worked out once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.finding import Finding, Verdict, WaitBox
from hangtop.session.state.job_state import GpuState, JobState, NodeState, RankState
from tui.figures.count import Count, KnownRanks, alive_on, counted
from tui.figures.measure import is_stale
from tui.figures.owners import owners_of, pids_are_hidden
from tui.frames import short_stack
from tui.looks.names import ShortNames
from tui.ordering.order import natural
from tui.ordering.rows import NOTHING, GpuRow, Lists, NodeRows, PortRow, RankRow, lists_of, rows_of
from tui.subject import Subject
from tui.timeline import Timeline
from tui.waits import WaitLookup

MOVING = frozenset({"healthy", "slow"})
LOUD = frozenset({"hung", "crashed", "at_risk", "slow"})
"""Verdicts of a job in which something is wrong."""


class Scene:
    """One per application; :meth:`turn` begins a tick, and what depends on the state is worked out when asked for."""

    def __init__(self, session: Subject, *, plain: bool = False) -> None:
        self.session = session
        self.plain = plain
        """Whether only ASCII may be drawn."""
        self.timeline = Timeline(session)
        self.now = session.now()
        self.interval = session.node_settings.interval
        """Seconds between two ticks of a node."""
        self._lists = NOTHING
        self._parts: dict[str, NodeRows] = {}
        self._owners: dict[str, list[tuple[GpuState, list[RankState]]]] = {}
        self._names: tuple[list[NodeState], ShortNames] = ([], ShortNames())
        self._waiting = WaitLookup(())
        self._blamed: tuple[WaitLookup, Lists, list[RankRow]] = (self._waiting, self._lists, [])
        self._named: tuple[Verdict | None, Lists, list[RankRow]] = (None, self._lists, [])
        """Whom the verdict names for anything that is wrong, as ``_blamed`` for a wait."""

    def show(self, session: Subject) -> None:
        """Draw another session's state from now on: nothing is kept of the last one."""
        self.session = session
        self._lists = NOTHING
        self._parts.clear()
        self.turn()

    def turn(self) -> None:
        """Begin a tick: forget what was worked out for the last one."""
        self.now, self.interval = self.session.now(), self.session.node_settings.interval
        self.__dict__.pop("count", None)
        self.__dict__.pop("lists", None)
        self.__dict__.pop("_dumps", None)
        self._owners.clear()

    @property
    def state(self) -> JobState:
        """The session's state."""
        return self.session.state

    @property
    def without_anything(self) -> tuple[str, ...]:
        """Names of panels that would be empty: in a recording, or in files, nothing more may ever come."""
        state = self.state
        has = {
            "overview": self.gpus or self.waits or any(row.rank.looks.newest is not None for row in self.ranks),
            "ranks": self.ranks,
            "gpus": self.gpus,
            "fabric": self.ports or any(node.interfaces for node in self.nodes),
            "stacks": state.stacks,
            "collectives": state.recorders or state.progress or state.ras,
        }
        return tuple(name for name, found in has.items() if not found)

    @property
    def moves(self) -> bool:
        """The verdict is one of a job that was seen to move."""
        verdict = self.session.verdict
        return verdict is not None and verdict.outcome in MOVING

    @property
    def waits(self) -> tuple[WaitBox, ...]:
        """Who waits for whom at this moment; empty for a job that moves."""
        verdict = self.session.verdict
        return () if verdict is None else verdict.waits

    @property
    def crashed(self) -> bool:
        """Whether ranks failed."""
        verdict = self.session.verdict
        return verdict is not None and verdict.outcome == "crashed"

    @property
    def waiting(self) -> WaitLookup:
        """The same by rank; worked out once a verdict."""
        if self._waiting.boxes is not self.waits:
            self._waiting = WaitLookup(self.waits)
        return self._waiting

    @property
    def blamed(self) -> list[RankRow]:
        """Ranks that the verdict blames."""
        waiting, lists = self.waiting, self.lists
        if self._blamed[0] is not waiting or self._blamed[1] is not lists:
            rows = [row for row in lists.ranks if waiting.blames(row.number)] if waiting.blamed else []
            self._blamed = waiting, lists, rows
        return self._blamed[2]

    @property
    def accusation(self) -> Finding | None:
        """What the verdict puts first, where anything is wrong."""
        verdict = self.session.verdict
        if verdict is None or not verdict.findings:
            return None
        first = verdict.findings[0]
        return first if verdict.outcome in LOUD or first.severity == "critical" else None

    def accused_parts(self, kind: Literal["gpus", "ports"]) -> Iterator[tuple[NodeState, str]]:
        """GPUs or ports that the verdict names first: each one's node, if it is known, and its name there."""
        named = self.accusation
        for told in () if named is None else named.gpus if kind == "gpus" else named.ports:
            node, _, name = told.rpartition(":")
            if node in self.state.nodes:
                yield self.state.nodes[node], name

    @property
    def suspected(self) -> NodeState | None:
        """The node of the first suspect, else one that the verdict names first, if it does not name most of them."""
        if rows := self.suspects:
            return rows[0].node
        named = self.accusation
        if named is None or not named.nodes or 2 * len(named.nodes) > len(self.nodes):
            return None
        return self.state.nodes.get(named.nodes[0])

    @property
    def suspects(self) -> list[RankRow]:
        """Ranks that the verdict blames for a wait, or names first for anything that is wrong, if not all of them."""
        verdict, lists, first = self.session.verdict, self.lists, self.accusation
        if self.blamed or first is None:
            return self.blamed
        if self._named[0] is not verdict or self._named[1] is not lists:
            named = frozenset(first.ranks)
            rows = [row for row in lists.ranks if row.number in named] if named else []
            self._named = verdict, lists, rows if 2 * len(rows) <= len(lists.ranks) else []
        return self._named[2]

    @property
    def accused(self) -> list[RankRow]:
        """Whose last lines tell more: who is blamed for a wait, or named first for a crash."""
        return self.suspects if self.crashed else self.blamed

    def stale(self, node: NodeState) -> bool:
        """True when the node's numbers are old."""
        return self.session.live and is_stale(node, self.now, self.interval)

    def silence(self, node: NodeState) -> float | None:
        """Seconds since the node was heard; None when it never was."""
        return None if node.seen_at is None else max(0.0, self.now - node.seen_at)

    @cached_property
    def lists(self) -> Lists:
        """All nodes, ranks, GPUs and ports."""
        nodes = self.state.nodes
        roster = len(nodes) + sum([node.roster for node in nodes.values()])
        strangers = self.session.strangers
        if roster != self._lists.roster or strangers != self._lists.strangers:
            known = self._lists.nodes
            ordered = known if len(known) == len(nodes) else sorted(nodes.values(), key=lambda node: natural(node.name))
            self._lists = lists_of(roster, ordered, [self._part(node) for node in ordered], strangers)
        return self._lists

    @property
    def names(self) -> ShortNames:
        """Names of nodes as they are told where there is little room."""
        nodes = self.nodes
        if self._names[0] is not nodes:
            self._names = nodes, ShortNames([node.name for node in nodes])
        return self._names[1]

    def strange(self, node: NodeState, pid: int) -> bool:
        """True of a process that looks like a rank and is not of the job."""
        strangers = self.lists.strangers
        return bool(strangers) and (node.name, pid) in strangers

    def _part(self, node: NodeState) -> NodeRows:
        """What is on a node; while thousands come, only that of those which changed is made anew."""
        part = self._parts.get(node.name)
        if part is None or part.roster != node.roster:
            part = self._parts[node.name] = rows_of(node)
        return part

    @property
    def nodes(self) -> list[NodeState]:
        """All nodes, by name."""
        return self.lists.nodes

    @property
    def ranks(self) -> list[RankRow]:
        """Every living process of a rank, and the last one of a rank that has none; by rank."""
        return self.lists.ranks

    @property
    def gpus(self) -> list[GpuRow]:
        """All GPUs, by node and index."""
        return self.lists.gpus

    @property
    def ports(self) -> list[PortRow]:
        """All HCA ports, by node and name."""
        return self.lists.ports

    @cached_property
    def count(self) -> Count:
        """The job in numbers."""
        lists = self.lists
        return counted(lists.nodes, KnownRanks(lists.numbers, lists.alive, lists.world_size), self.stale, self.now)

    def ranks_of(self, node: NodeState, gpu: GpuState) -> list[RankState]:
        """Ranks whose process, or a helper's, is on the GPU."""
        return owners_of(node, gpu, alive_on(node))

    def owners(self, node: NodeState) -> list[tuple[GpuState, list[RankState]]]:
        """The same for all GPUs of a node."""
        found = self._owners.get(node.name)
        if found is None:
            alive = alive_on(node)
            found = self._owners[node.name] = [(gpu, owners_of(node, gpu, alive)) for gpu in node.gpus.values()]
        return found

    @cached_property
    def _dumps(self) -> dict[tuple[str, int], StackDump]:
        """The newest look at each rank's own process."""
        return {(node, dump.rank_pid): dump for node, dump in self.state.stacks if dump.pid == dump.rank_pid}

    def dump_of(self, row: RankRow) -> StackDump | None:
        """The newest look at a rank's stack."""
        return self._dumps.get((row.node.name, row.rank.process.pid))

    def leaf_of(self, row: RankRow) -> str | None:
        """Function and line of a rank's own code that it was in when it was last looked at."""
        dump = None if row.rank.gone_at is not None else self.dump_of(row)
        return next(iter(short_stack(dump, 1)), None) if dump is not None else None

    def gpu_of(self, row: RankRow) -> GpuState | None:
        """First GPU that a rank's process, or a helper's, is on."""
        pid = row.rank.process.pid
        for gpu in row.node.gpus.values():
            for process in gpu.processes:
                if process.pid == pid:
                    return gpu
        return next(self.gpus_of(row), None)

    def gpus_of(self, row: RankRow) -> Iterator[GpuState]:
        """GPUs that a rank's process, or a helper's, is on."""
        process, helpers = row.rank.process, row.rank.helpers
        hidden = pids_are_hidden(row.node)
        for gpu in row.node.gpus.values():
            if any(other.pid == process.pid or other.pid in helpers for other in gpu.processes) or (
                hidden and process.local_rank == gpu.index
            ):
                yield gpu
