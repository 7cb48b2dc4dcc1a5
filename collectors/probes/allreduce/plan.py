"""The plan of a probe: its nodes, sizes and time limits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeNode:
    """One node that takes part."""

    name: str
    address: str
    """Where the others reach its store."""
    interface: str = ""
    """The one that gloo and NCCL shall use; empty for their own choice."""
    pid: int | None = None
    """A rank of the job whose interpreter and environment the probe borrows."""
    gpus: tuple[int, ...] = ()
    """Indices of its GPUs as nvidia-smi counts; with nccl there is one rank on each."""

    @property
    def ranks(self) -> int:
        """Ranks on this node."""
        return max(1, len(self.gpus))

    def gpu(self, local: int) -> int | None:
        """Index of the GPU of a local rank; None on CPU."""
        return self.gpus[local] if local < len(self.gpus) else None


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """One run: who, with what, and how long at most. Sizes are bytes, all times seconds."""

    nodes: tuple[ProbeNode, ...]
    backend: str = "gloo"
    sizes: tuple[int, ...] = (1 << 20, 1 << 22, 1 << 24)
    python: str = ""
    barrier: float = 5.0
    """For all ranks to reach the barrier."""
    timeout: float = 8.0
    """Of one collective."""
    import_time: float = 60.0
    """For the import of torch, on a cold file system."""
    pair_sizes: tuple[int, ...] = (1 << 16, 1 << 20)
    pair_deadline: float = 12.0
    """Of the whole round of two nodes."""

    @staticmethod
    def suited(nodes: tuple[ProbeNode, ...], backend: str) -> ProbePlan:
        """The plan with the sizes and times that suit a backend.

        NVLink and InfiniBand show what they can with hundreds of megabytes alone, and NCCL takes seconds to set up;
        over TCP a megabyte is enough to tell a slow link.
        """
        if backend != "nccl":
            return ProbePlan(nodes, backend)
        return ProbePlan(
            nodes, backend, sizes=(1 << 20, 1 << 23, 1 << 26, 1 << 29), timeout=30.0, pair_sizes=(1 << 20, 1 << 26),
            pair_deadline=40.0,
        )  # fmt: skip


def parse_size(text: str) -> int:
    """Bytes of ``1M``, ``64K``, ``1G`` or a plain number (powers of 1024). Raises :class:`ValueError`."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text[:-1] if scale > 1 else text
    if not digits.isdecimal():
        raise ValueError(f"{text!r} is no size; write 65536, 64K, 1M or 1G")
    return int(digits) * scale


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes of ``1M:1G`` (doubling) or of one size. Raises :class:`ValueError`."""
    first, colon, last = text.partition(":")
    low, high = parse_size(first), parse_size(last if colon else first)
    if low < 4 or high < low:
        raise ValueError(f"sizes run from a small one (4 bytes or more) to a larger one, not from {low} to {high}")
    return tuple(low << step for step in range((high // low).bit_length()))


def tournament(names: tuple[str, ...]) -> list[list[tuple[str, str]]]:
    """Rounds in which every pair occurs once and no node is in two pairs of a round (the circle method)."""
    players: list[str | None] = [*names, *[None] * (len(names) % 2)]
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        rounds.append([(a, b) for a, b in pairs if a is not None and b is not None])
        players = [players[0], players[-1], *players[1:-1]]
    return rounds
