"""The session's state and derived values that several panels share, computed once a tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.finding import Finding, WaitBox
from hangtop.diagnosis.node import Gpu, Node, Rank
from hangtop.diagnosis.phrasing import ranks_text
from hangtop.session.state import JobState
from tui.frames import short_stack
from tui.logs.logbook import LogBook
from tui.measure import is_stale
from tui.ordering.rows import Count, GpuRow, RankRow, Rows, counted, natural, owners_of, rows_of
from tui.timeline import Timeline

if TYPE_CHECKING:
    from hangtop.session.session import Session

MOVING = frozenset({"healthy", "slow"})
"""Verdicts of a job that moves."""
LOUD = frozenset({"hung", "crashed", "at_risk", "slow"})
"""Verdicts of a job with a fault."""


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class WaitLookup:
    """Wait boxes by rank, made once per verdict, because every cell of the overview looks up its own."""

    def __init__(self, boxes: tuple[WaitBox, ...]) -> None:
        self.boxes = boxes
        self.place_of: Mapping[int, int] = {rank: place for place, box in enumerate(boxes) for rank in box.ranks}
        """Index of the box, by rank."""
        self.blamed = frozenset(rank for box in boxes if box.blamed for rank in box.ranks)
        """Ranks of the boxes that the verdict blames."""

    def waits_for(self, rank: int) -> str:
        """The ranks that a rank waits for, as text; empty if there are none or they are unknown."""
        place = self.place_of.get(rank)
        others = () if place is None else self.boxes[place].waits_for
        return ", ".join(f"{letter_of(other)} {ranks_text(self.boxes[other].ranks)}" for other in others)


def letter_of(place: int) -> str:
    """Letter of a wait box by its index."""
    return LETTERS[place] if place < len(LETTERS) else "+"


class ViewModel:
    """One per application; :meth:`turn` begins a tick, and derived values are computed on demand."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.timeline = Timeline(session)
        self.now = session.now()
        self._rows = Rows()
        self._waiting = WaitLookup(())
        self._book = LogBook()
        self._owners: dict[str, list[tuple[Gpu, list[Rank]]]] = {}

    def show(self, session: Session) -> None:
        """Switch to another session, and drop everything derived from the last one."""
        self.session = session
        self._rows, self._book = Rows(), LogBook()
        self.turn()

    def turn(self) -> None:
        """Begin a tick: drop the values computed in the last one."""
        self.now = self.session.now()
        for name in ("count", "rows", "suspects", "nodes_of_rank", "book", "_dumps"):
            self.__dict__.pop(name, None)
        self._owners.clear()

    @property
    def state(self) -> JobState:
        """The session's state."""
        return self.session.state

    # --- the verdict ---------------------------------------------------------------------------------------

    @property
    def outcome(self) -> str:
        """The verdict's outcome; empty before the first verdict."""
        return "" if self.session.verdict is None else self.session.verdict.outcome

    @property
    def causes(self) -> int:
        """Number of findings that are not consequences of others."""
        verdict = self.session.verdict
        return 0 if verdict is None else sum(not finding.cause for finding in verdict.findings)

    @property
    def waits(self) -> tuple[WaitBox, ...]:
        """The verdict's wait boxes; empty for a job that moves."""
        return () if self.session.verdict is None else self.session.verdict.waits

    @property
    def waiting(self) -> WaitLookup:
        """The wait boxes by rank, made once per verdict."""
        if self._waiting.boxes is not self.waits:
            self._waiting = WaitLookup(self.waits)
        return self._waiting

    @property
    def accusation(self) -> Finding | None:
        """The first finding, if it is a fault."""
        verdict = self.session.verdict
        if verdict is None or not verdict.findings:
            return None
        first = verdict.findings[0]
        return first if verdict.outcome in LOUD or first.severity == "critical" else None

    def accused_parts(self, kind: Literal["gpus", "ports"]) -> Iterator[tuple[Node, str]]:
        """GPUs or ports in the first finding: the node, if known, and the name on that node."""
        named = self.accusation
        for part in () if named is None else named.gpus if kind == "gpus" else named.ports:
            node, _, name = part.rpartition(":")
            if node in self.state.nodes:
                yield self.state.nodes[node], name

    @cached_property
    def suspects(self) -> list[RankRow]:
        """Ranks blamed for a wait, else ranks of the first finding, unless that names more than half of all."""
        first, blamed = self.accusation, self.waiting.blamed
        named = blamed or (frozenset(first.ranks) if first is not None else ())
        rows = [row for row in self.ranks if row.number in named] if named else []
        return rows if blamed or 2 * len(rows) <= len(self.ranks) else []

    @property
    def suspected(self) -> Node | None:
        """Node of the first suspect, else of the first finding, unless that names more than half of all nodes."""
        if rows := self.suspects:
            return rows[0].node
        named = self.accusation
        if named is None or not named.nodes or 2 * len(named.nodes) > len(self.nodes):
            return None
        return self.state.nodes.get(named.nodes[0])

    def hint(self, live: str) -> str:
        """Text for an empty panel; the live hint, which names keys, only if nodes can be asked."""
        if self.session.can_act:
            return live
        return "no data at this moment" if self.session.live else "no such data in these files"

    # --- rows -----------------------------------------------------------------------------------------------

    def stale(self, node: Node) -> bool:
        """True if the node's values are old."""
        return self.session.live and is_stale(node, self.now, self.state.interval)

    def silence(self, node: Node) -> float | None:
        """Seconds since the node's last sample; None if there was none."""
        return None if node.seen_at is None else max(0.0, self.now - node.seen_at)

    @cached_property
    def rows(self) -> Rows:
        """All nodes, ranks and GPUs."""
        nodes, known = self.state.nodes, self._rows.nodes
        roster = len(nodes) + sum([node.roster for node in nodes.values()])
        unrelated = self.session.unrelated
        if roster != self._rows.roster or unrelated != self._rows.unrelated:
            in_order = len(known) == len(nodes)
            ordered = known if in_order else tuple(sorted(nodes.values(), key=lambda node: natural(node.name)))
            self._rows = rows_of(roster, ordered, unrelated)
        return self._rows

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, by name."""
        return self.rows.nodes

    @property
    def ranks(self) -> tuple[RankRow, ...]:
        """Every living process of a rank, and the last process of a rank without one; sorted by rank."""
        return self.rows.ranks

    @property
    def gpus(self) -> tuple[GpuRow, ...]:
        """All GPUs, by node and index."""
        return self.rows.gpus

    def strange(self, node: Node, pid: int) -> bool:
        """True for a process that looks like a rank but does not belong to the job."""
        unrelated = self.rows.unrelated
        return bool(unrelated) and (node.name, pid) in unrelated

    @cached_property
    def count(self) -> Count:
        """The job in numbers."""
        return counted(self.rows, self.stale, self.now)

    @cached_property
    def nodes_of_rank(self) -> dict[int, set[str]]:
        """Names of each rank's nodes."""
        found: dict[int, set[str]] = {}
        for row in self.ranks:
            found.setdefault(row.number, set()).add(row.node.name)
        return found

    @cached_property
    def book(self) -> LogBook:
        """The lines of all logs up to this moment."""
        self._book.take(self.state)
        return self._book

    # --- ranks, their stacks and their GPUs --------------------------------------------------------------------------

    def ranks_of(self, node: Node, gpu: Gpu) -> list[Rank]:
        """Ranks that use the GPU, themselves or through a helper."""
        return next((owners for each, owners in self.owners(node) if each is gpu), [])

    def owners(self, node: Node) -> list[tuple[Gpu, list[Rank]]]:
        """All GPUs of a node, each with the ranks that use it."""
        found = self._owners.get(node.name)
        if found is None:
            found = self._owners[node.name] = owners_of(node)
        return found

    @cached_property
    def _dumps(self) -> dict[tuple[str, int], StackDump]:
        """The newest stack of each rank's own process, by node and pid."""
        return {(node, dump.rank_pid): dump for node, dump in self.state.stacks if dump.pid == dump.rank_pid}

    def dump_of(self, row: RankRow) -> StackDump | None:
        """The newest stack of a rank."""
        return self._dumps.get((row.node.name, row.rank.process.pid))

    def leaf_of(self, row: RankRow) -> str | None:
        """Innermost function and line of the user's code in the newest stack."""
        dump = None if row.rank.gone_at is not None else self.dump_of(row)
        return next(iter(short_stack(dump, 1)), None) if dump is not None else None

    def gpus_of(self, row: RankRow) -> list[Gpu]:
        """GPUs that a rank uses, itself or through a helper."""
        return [gpu for gpu, owners in self.owners(row.node) if row.rank in owners]

    def gpu_of(self, row: RankRow) -> Gpu | None:
        """The first GPU that a rank uses."""
        return next(iter(self.gpus_of(row)), None)
