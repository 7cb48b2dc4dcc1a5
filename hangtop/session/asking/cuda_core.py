"""CUDA's user-triggered core dump, by consent: the last thing that tells which kernel a GPU is in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from shlex import quote

from collectors.fleet.transport import TransportError
from collectors.samples.core_dump import FILE, PIPE, refusal
from hangtop.diagnosis.job import Rank
from hangtop.diagnosis.phrasing import count, listed, rank_text, ranks_text, size
from hangtop.session.asking.odd_kernels import odd_kernels
from hangtop.session.asking.orders import WitnessRefused, WitnessSession, ask_by_node, refuse_read_only, running

SECONDS = 60.0
"""For the driver to write a light dump."""
NEXT_RUN = "hangtop repair launch prints what the next run needs"
RISK = (
    "The driver stops everything on these GPUs until the dump is written. What is written holds registers and stacks "
    "of the kernels, no memory of the GPU, and stays where CUDA_COREDUMP_FILE says. It ends the rank: on an H200 with "
    "driver 580.159 CUDA gave it 'unspecified launch failure' within a second, with skip_abort among its flags or "
    "without."
)
ENDED = "; the rank has ended since"


@dataclass(frozen=True, slots=True)
class CoreOrder:
    """Who is asked."""

    asked: tuple[Rank, ...]
    hosts: Mapping[str, str]
    """What each node calls itself, by its name here."""
    seconds: float = SECONDS
    title: str = "A CUDA core dump"

    def brief(self) -> str:
        """Who is asked for what, in one line."""
        return f"{ranks_text(rank.rank for rank in self.asked)}: which kernels their GPUs are in, by a light core dump"

    def command(self) -> str:
        """What is done on the nodes."""
        return "\n".join(
            f"on {rank.node}: head -c 1M /dev/zero > {quote(self._path(rank, PIPE, 'corepipe.cuda.%h.%p'))}"
            f"  # process {rank.process.pid}, then cuda-gdb --batch -ex "
            + quote(f"target cudacore {self._path(rank, FILE, 'core_%t_%h_%p.nvcudmp')}")
            for rank in self.asked
        )

    def _path(self, rank: Rank, setting: str, usual: str) -> str:
        """The file that a setting names, as the driver fills it in (``%t`` it alone knows)."""
        named = rank.process.env.get(setting) or usual
        whole = named if named.startswith("/") else f"{rank.process.cwd.rstrip('/')}/{named}"
        return whole.replace("%p", str(rank.own_pid)).replace("%h", self.hosts.get(rank.node) or "%h")

    def risk(self) -> str:
        """What it does to the job."""
        return RISK

    async def carry_out(self, session: WitnessSession) -> list[str]:
        """Ask all at once; what each gave, and who is odd. Raises :class:`WitnessRefused` in one that may only look."""
        refuse_read_only(session, self.title)
        seen: dict[int, tuple[str, ...]] = {}
        told = await ask_by_node(self.asked, partial(self._of_node, session, seen))
        odd = odd_kernels(seen)
        return [*([odd] if odd else []), *told]

    async def _of_node(
        self, session: WitnessSession, seen: dict[int, tuple[str, ...]], node: str, ranks: Collection[Rank]
    ) -> list[str]:
        from collectors.probes.cuda_core.run import ask, kernels  # the payload's machinery is not for the first frame

        pairs = [(rank.rank, rank.process.pid) for rank in ranks]
        try:
            found = await ask(session.transport(node), session.python(node), pairs, self.seconds)
        except TransportError as error:
            return [f"{node}: {error}"]
        told = []
        for one in found:
            who = f"{rank_text(one.rank)} on {node}"
            if not one.path:
                told.append(f"{who}: {one.why}")
                continue
            names = kernels(one.shown)
            if one.shown and not one.why:
                seen[one.rank] = names
            said = f"in {listed(names, 8)}" if names else one.why or "cuda-gdb names no kernel: the GPU is empty"
            told.append(f"{who}: {said}  ({one.path}, {size(one.size)}){ENDED if one.ended else ''}")
        missing = {rank.rank for rank in ranks} - {one.rank for one in found}
        return [*told, *(f"{rank_text(rank)} on {node}: no word of it" for rank in sorted(missing))]


def core_dumps(session: WitnessSession, ranks: Collection[int]) -> CoreOrder:
    """An order to these ranks. Raises :class:`WitnessRefused` where none of them was started so that it can be asked.

    A rank that would write all of its GPU's memory is none of them.
    """
    living = running(session, ranks)
    whys = {rank.rank: refusal(rank.process.env) for rank in living}
    able = tuple(rank for rank in living if not whys[rank.rank])
    if not able:
        why = next(iter(whys.values()))
        raise WitnessRefused(f"{count(len(living), 'rank')} cannot be asked: {why}; {NEXT_RUN}")
    nodes = session.job().nodes
    return CoreOrder(able, {name: node.hello.hostname for name, node in nodes.items() if node.hello is not None})
