"""Shards of token sequences, and checkpoints, on disk, read and written as by a training job."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from hangtop.demo.job import faults

SEQUENCES = 64
LENGTH = 32


def write_shards(folder: Path, count: int = 4) -> None:
    """Write ``count`` shards of random sequences to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        tokens = torch.randint(0, 256, (SEQUENCES, LENGTH), dtype=torch.uint8)
        (folder / f"shard-{number:05d}.bin").write_bytes(bytes(tokens.flatten().tolist()))


def read_shard(path: Path) -> Tensor:
    """Read one shard: shape (SEQUENCES, LENGTH), float32, 0 to 1."""
    with path.open("rb") as file:
        raw = bytearray(file.read())
    return torch.frombuffer(raw, dtype=torch.uint8).view(SEQUENCES, LENGTH).float() / 255


class ShardedTokens(Dataset[Tensor]):
    """Sequences by index; an access to a sequence reads its whole shard, unless it is loaded."""

    def __init__(self, folder: Path) -> None:
        """Find the shards in ``folder``."""
        self._paths = sorted(folder.glob("shard-*.bin"))
        self._loaded = -1
        self._shard = torch.empty(0)

    def __len__(self) -> int:
        return len(self._paths) * SEQUENCES

    def __getitem__(self, index: int) -> Tensor:
        number, offset = divmod(index, SEQUENCES)
        if faults.struck("dataloader"):
            self._loaded, self._paths[number] = -1, faults.dead_file(self._paths[number].parent)
        if number != self._loaded:
            self._shard, self._loaded = read_shard(self._paths[number]), number
        return self._shard[offset]


def save_checkpoint(model: torch.nn.Module, step: int, folder: Path) -> Path:
    """Write the weights to ``step-N.pt``, remove the checkpoint before, and return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step}.pt"
    if faults.struck("checkpoint"):
        path = faults.dead_file(folder)
    torch.save({"step": step, "model": model.state_dict()}, path)
    for old in folder.glob("step-*.pt"):
        if old != path:
            old.unlink()
    return path
