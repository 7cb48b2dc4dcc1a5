"""The plan of a probe: its ranks, sizes and time limits."""

from __future__ import annotations

from dataclasses import dataclass

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")


@dataclass(frozen=True, slots=True)
class ProbeNode:
    """One node that takes part.

    ``address`` is where the others reach its store, ``interface`` the one that gloo and NCCL shall use (empty: their
    own choice), ``pid`` a rank of the job whose interpreter and environment the probe borrows, ``gpu_numbers`` the
    indices of its GPUs as nvidia-smi counts.
    """

    name: str
    address: str
    interface: str = ""
    gpus: int = 0
    pid: int | None = None
    gpu_numbers: tuple[int, ...] = ()

    def gpu(self, local: int) -> int:
        """Index of the GPU of a local rank."""
        return self.gpu_numbers[local] if local < len(self.gpu_numbers) else local


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """One run: who, with what, and how long at most. Sizes are bytes, all times seconds."""

    nodes: tuple[ProbeNode, ...]
    backend: str = "gloo"
    operations: tuple[str, ...] = ("all_reduce",)
    sizes: tuple[int, ...] = (1 << 20, 1 << 22, 1 << 24)
    python: str = ""
    barrier: float = 5.0
    """For all ranks to reach the barrier."""
    timeout: float = 8.0
    """Of one collective."""
    budget: float = 0.25
    """Spent on repeating one size."""
    patience: float = 2.0
    """One operation that takes longer ends the doubling of sizes."""
    straggler_rounds: int = 20
    import_time: float = 60.0
    """For the import of torch, on a cold file system."""
    bisect: str = "auto"
    """``auto``: every pair of a few nodes, neighbours and suspects of many; ``always``: every pair; ``never``."""
    ranks_per_node: int = 1
    """With gloo; with nccl there is one rank a GPU."""
    pair_sizes: tuple[int, ...] = (1 << 16, 1 << 20)
    pair_timeout: float = 5.0
    """Of one collective of two nodes."""
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
            nodes, backend, sizes=(1 << 20, 1 << 23, 1 << 26, 1 << 29), timeout=30.0,
            pair_sizes=(1 << 20, 1 << 26), pair_timeout=15.0, pair_deadline=30.0,
        )  # fmt: skip

    def locals_of(self, node: ProbeNode) -> int:
        """Ranks on a node: one a GPU, or as many as are wanted on CPU."""
        return max(1, node.gpus) if self.backend == "nccl" else self.ranks_per_node


def doubled(low: int, high: int) -> tuple[int, ...]:
    """Sizes from ``low`` to ``high``, doubling. Raises :class:`ValueError` when there are none."""
    if low < 4 or high < low:
        raise ValueError(f"sizes run from a small one (4 bytes or more) to a larger one, not from {low} to {high}")
    sizes = []
    while low <= high:
        sizes.append(low)
        low *= 2
    return tuple(sizes)


def parse_size(text: str) -> int:
    """Bytes of ``1M``, ``64K``, ``1G`` or a plain number (powers of 1024). Raises :class:`ValueError`."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text[:-1] if scale > 1 else text
    if not digits.isdecimal():
        raise ValueError(f"{text!r} is no size; write 65536, 64K, 1M or 1G")
    return int(digits) * scale


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes of ``1M:1G`` (doubling) or of one size. Raises :class:`ValueError`."""
    low, colon, high = text.partition(":")
    return doubled(parse_size(low), parse_size(high if colon else low))


def tournament(names: tuple[str, ...]) -> list[list[tuple[str, str]]]:
    """Rounds in which every pair occurs once and no node is in two pairs of a round (the circle method)."""
    players: list[str | None] = list(names)
    if len(players) % 2:
        players.append(None)
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        rounds.append([(a, b) for a, b in pairs if a is not None and b is not None])
        players = [players[0], players[-1], *players[1:-1]]
    return rounds
