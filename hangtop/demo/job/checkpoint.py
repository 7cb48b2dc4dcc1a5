"""Checkpoints to a folder."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from hangtop.demo.job import faults


def save_checkpoint(model: torch.nn.Module, step: int, folder: Path, takes: float = 0.0) -> Path:
    """Write the weights as ``step-N.pt``, replace the one before, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step}.pt"
    if faults.struck("checkpoint"):
        path = faults.dead_file(folder)
    torch.save({"step": step, "model": model.state_dict()}, path)
    time.sleep(takes)
    for old in folder.glob("step-*.pt"):
        if old != path:
            old.unlink()
    return path
