"""Fingerprints of tensors: tensors that differ in one bit have different fingerprints.

The bytes of a tensor are read as 64-bit integers. Each integer is multiplied by an odd random number of its place, and
the products are added: a change of a single integer changes the sum, and the cost is one read of the memory, on the
tensor's device. First, the upper half of each integer is mixed into the lower half, because an even number of changed
signs (the highest bits) would cancel out in the sum.
"""

from __future__ import annotations

from typing import Any, Dict, List

SLICE = 1 << 21
"""Integers per slice: 16 MiB, and as much again for the products."""
STEP = 0x1E3779B97F4A7C15
"""Odd factor of the sum so far before the next slice is added."""
LOW = (1 << 32) - 1
SEED = 20260101
"""Seed of the random numbers, equal on all ranks."""

_weights: "Dict[Any, Any]" = {}


def digests(tensors: List[Any]) -> List[int]:
    """Fingerprints of several tensors; with all tensors on one device, a single transfer fetches them."""
    import torch

    if not tensors:
        return []
    found = [_digest(tensor) for tensor in tensors]
    if len({one.device for one in found}) == 1:
        return [value & (1 << 64) - 1 for value in torch.stack(found).tolist()]
    return [int(one.item()) & (1 << 64) - 1 for one in found]


def _digest(tensor: Any) -> Any:
    """The 64-bit fingerprint of a tensor, on its device."""
    import torch

    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    rest = -flat.numel() % 8
    if rest or flat.storage_offset() % 8:
        flat = torch.cat([flat, torch.zeros(rest, dtype=torch.uint8, device=flat.device)])
    words, weights = flat.view(torch.int64), _weights_on(flat.device)
    total = torch.full((), tensor.numel(), dtype=torch.int64, device=flat.device)
    for at in range(0, words.numel(), SLICE):
        part = words[at : at + SLICE]
        mixed = (part >> 32).bitwise_and_(LOW).bitwise_xor_(part).mul_(weights[: part.numel()])
        total = total * STEP + mixed.sum()
    return total


def _weights_on(device: Any) -> Any:
    """Odd random numbers for the places of a slice, made once per device."""
    import torch

    if device not in _weights:
        generator = torch.Generator().manual_seed(SEED)
        numbers = torch.randint(0, 1 << 62, (SLICE,), generator=generator, dtype=torch.int64)
        _weights[device] = (numbers * 2 + 1).to(device)
    return _weights[device]
