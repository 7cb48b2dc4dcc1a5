"""The collectives that the probe measures: buffers, call, and check of every value.

``size`` means what it means in nccl-tests (doc/PERFORMANCE.md there): for all_gather and reduce_scatter the whole
buffer over all ranks, for the others the buffer of one rank. Values are small whole numbers, exact in float32 for any
world size up to 2**17, so a right answer is right to the bit.
"""

from __future__ import annotations

from typing import Any, List, Tuple

ITEM = 4
"""Bytes of an element (float32)."""


class Operation:
    """One collective at one size, on one rank."""

    def __init__(self, name: str, size: int, rank: int, world: int, device: str) -> None:
        self.name = name
        self.rank = rank
        self.world = world
        self.device = device
        count = max(1, size // ITEM)
        if name in ("all_gather", "reduce_scatter", "all_to_all"):
            count = max(1, count // world) * world
        self.count = count
        self.reset()

    def reset(self) -> None:
        """Fill the buffers anew: an in-place operation has used them up."""
        import torch

        pattern = self._pattern(self.rank, self.count)
        share = self.count // self.world
        if self.name == "all_gather":
            self.send, self.receive = self._pattern(self.rank, share), torch.zeros(self.count, device=self.device)
        elif self.name == "reduce_scatter":
            self.send, self.receive = pattern, torch.zeros(share, device=self.device)
        elif self.name in ("all_to_all", "send_recv"):
            self.send, self.receive = pattern, torch.zeros(self.count, device=self.device)
        else:
            self.send = self.receive = pattern

    def _pattern(self, rank: int, count: int) -> Any:
        import torch

        return torch.arange(count, device=self.device).remainder_(7).add_(rank + 1).to(torch.float32)

    def run(self) -> None:
        """Do it once. Raises what torch raises, also for an operation that the backend does not have."""
        import torch.distributed as dist

        if self.name == "all_reduce":
            dist.all_reduce(self.receive)
        elif self.name == "all_gather":
            dist.all_gather_into_tensor(self.receive, self.send)
        elif self.name == "reduce_scatter":
            dist.reduce_scatter_tensor(self.receive, self.send)
        elif self.name == "broadcast":
            dist.broadcast(self.receive, 0)
        elif self.name == "all_to_all":
            dist.all_to_all_single(self.receive, self.send)
        else:
            self._ring()

    def _ring(self) -> None:
        """Send to the next rank and receive from the one before, posted together so that no rank waits for another."""
        import torch.distributed as dist

        after, before = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        requests = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, self.send, after), dist.P2POp(dist.irecv, self.receive, before)]
        )
        for request in requests:
            request.wait()

    def expected(self) -> Any:
        """What the receive buffer must hold after one run from fresh buffers."""
        import torch

        share = self.count // self.world
        base = torch.arange(self.count, device=self.device).remainder_(7).to(torch.float32)
        total = base * self.world + sum(range(1, self.world + 1))
        if self.name == "all_reduce":
            return total
        if self.name == "reduce_scatter":
            return total[self.rank * share : (self.rank + 1) * share]
        if self.name == "all_gather":
            return torch.cat([self._pattern(rank, share) for rank in range(self.world)])
        if self.name == "all_to_all":
            mine = slice(self.rank * share, (self.rank + 1) * share)
            return torch.cat([self._pattern(rank, self.count)[mine] for rank in range(self.world)])
        if self.name == "broadcast":
            return self._pattern(0, self.count)
        return self._pattern((self.rank - 1) % self.world, self.count)

    def _digest(self) -> int:
        """A number that changes with every bit of the receive buffer, and with their order."""
        import torch

        bits = self.receive.view(torch.int32).to(torch.int64)
        places = torch.arange(bits.numel(), device=self.device).mul_(2).add_(1)
        return int((bits * places).sum().item())

    def verify(self) -> Tuple[List[bool], List[int]]:
        """Of every rank whether its values are right; and the ranks whose bits differ from the majority's.

        Bits can only be compared where every rank ends with the same buffer.
        """
        import torch
        import torch.distributed as dist

        right = bool(torch.equal(self.receive, self.expected()))
        same = self.name in ("all_reduce", "all_gather", "broadcast")
        digest = self._digest() if same else 0
        mine = torch.tensor([int(right), digest], dtype=torch.int64, device=self.device)
        every = [torch.zeros_like(mine) for _ in range(self.world)]
        dist.all_gather(every, mine)
        answers = [(bool(value[0].item()), int(value[1].item())) for value in every]
        digests = [digest for _, digest in answers]
        usual = max(sorted(set(digests)), key=digests.count)
        return [good for good, _ in answers], [rank for rank, digest in enumerate(digests) if digest != usual]
