"""Fingerprints of tensors, bit by bit: two tensors with one bit different have different ones.

A tensor's bytes are taken as 64-bit integers, each multiplied by an odd random number of its place, and added up: any
change of a single one changes the sum, and the work is that of reading the memory once, on the device where it lies.
The upper half of each is mixed into the lower before that: of an even number of changed signs, which are the highest
bits, nothing would be left in the sum.
"""

from __future__ import annotations

from typing import Any, Dict, List

SLICE = 1 << 21
"""Numbers of 8 bytes that are worked on at once: 16 MiB, and as much again for the products."""
STEP = 0x1E3779B97F4A7C15
"""An odd number by which the sum so far is multiplied before the next slice."""
LOW = (1 << 32) - 1
SEED = 20260101
"""Of the numbers of places: the same on all ranks."""

_weights: "Dict[Any, Any]" = {}


def digests(tensors: List[Any]) -> List[int]:
    """Fingerprints of several tensors; what lies on one device is fetched from there at once."""
    import torch

    if not tensors:
        return []
    found = [_digest(tensor) for tensor in tensors]
    if len({one.device for one in found}) == 1:
        return [value & (1 << 64) - 1 for value in torch.stack(found).tolist()]
    return [int(one.item()) & (1 << 64) - 1 for one in found]


def _digest(tensor: Any) -> Any:
    """A 64-bit number that stays on the tensor's device."""
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
    """The odd random numbers of the places of a slice, made once a device."""
    import torch

    if device not in _weights:
        generator = torch.Generator().manual_seed(SEED)
        numbers = torch.randint(0, 1 << 62, (SLICE,), generator=generator, dtype=torch.int64)
        _weights[device] = (numbers * 2 + 1).to(device)
    return _weights[device]
