"""Python 3.14's remote attach, by consent: ranks write down their stacks, and torch's flight recorder, themselves.

A look needs no consent, and the rank's own interpreter takes it where py-spy cannot
(``collectors.node.stacks.own_stacks``). This runs code *in* the ranks: it is for the recorder of a job that armed no
pipe, and for stacks as Python tells them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from shlex import quote

from collectors.fleet.transport import TransportError
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Rank
from hangtop.diagnosis.phrasing import count, rank_text, ranks_text
from hangtop.session.asking.orders import WitnessRefused, WitnessSession, ask_by_node, refuse_read_only, running

SECONDS = 10.0
"""Seconds in which a rank must come to a Python instruction."""
RISK = (
    "Runs a short script in the main thread of each of these ranks, at its next Python instruction: faulthandler "
    "writes the stacks of all threads (milliseconds), then torch its flight recorder (a second or more where it is "
    "large; a driver that hangs may hold it, and the rank's main thread with it). What they write lies in a folder of "
    "the rank's user in its /dev/shm or /tmp and is removed. A rank that is inside a call of C does not run it, and "
    "the request is taken back."
)


@dataclass(frozen=True, slots=True)
class AttachOrder:
    """Who is asked."""

    asked: tuple[Rank, ...]
    seconds: float = SECONDS
    title: str = "Stacks and recorder by Python itself"

    def brief(self) -> str:
        """Who is asked for what, in one line."""
        nodes = count(len({rank.node for rank in self.asked}), "node")
        return f"{ranks_text(rank.rank for rank in self.asked)} on {nodes}: sys.remote_exec, {self.seconds:g} s each"

    def command(self) -> str:
        """What is done on the nodes."""
        return "\n".join(
            f"on {rank.node}, as uid {rank.process.uid}: {quote(rank.process.executable or 'python3')} -I -S -c "
            f"'import sys; sys.remote_exec({rank.own_pid}, \"/dev/shm/hangtop-attach-…/script.py\")'"
            for rank in self.asked
        )

    def risk(self) -> str:
        """What it may do to the job."""
        return RISK

    async def carry_out(self, session: WitnessSession) -> list[str]:
        """Ask all at once; what each gave. Raises :class:`WitnessRefused` in a session that may only look."""
        refuse_read_only(session, self.title)
        return await ask_by_node(self.asked, partial(self._of_node, session))

    async def _of_node(self, session: WitnessSession, node: str, ranks: Collection[Rank]) -> list[str]:
        from collectors.probes.attach.run import attach  # the payload's machinery is not for the first frame

        try:
            looks, dumps = await attach(
                session.transport(node), session.python(node),
                [(rank.rank, rank.process.pid) for rank in ranks], self.seconds,
            )  # fmt: skip
        except TransportError as error:
            return [f"{node}: {error}"]
        good = [look for look in looks if look.threads]
        session.witnesses.looked(node, good)
        for dump in dumps:
            if dump.data:
                await session.witnesses.keep(dump)
        told = {dump.rank: f"recorder {len(dump.data)} bytes" if dump.data else dump.why for dump in dumps}
        return [
            f"{rank_text(rank.rank)} on {node}: {_stacks(looks, rank)}; {told.get(rank.rank, 'no word of a recorder')}"
            for rank in ranks
        ]


def _stacks(looks: Collection[StackDump], rank: Rank) -> str:
    found = next((look for look in looks if look.pid == rank.process.pid), None)
    if found is None:
        return "no word of it"
    return f"stacks of {count(len(found.threads), 'thread')}" if found.threads else found.error


def attached(session: WitnessSession, ranks: Collection[int] | None = None) -> AttachOrder:
    """An order to these ranks, or all. Raises :class:`WitnessRefused` where none is there.

    Which Python a rank runs is seen on its node, when it is asked: one that is too old says so.
    """
    living = [rank for rank in running(session, ranks) if rank.process.rank >= 0]
    if not living:
        raise WitnessRefused("no rank with a number runs")
    return AttachOrder(tuple(sorted(living, key=lambda rank: rank.rank)))
