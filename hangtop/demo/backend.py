"""Which job a demo runs: one whose ranks wait over gloo, or one whose ranks wait as over NCCL, below Python."""

from __future__ import annotations

from typing import Final

from hangtop.demo.job.nccl.library import compiler

AUTO, GLOO, NCCL = "auto", "gloo", "nccl"
PREFERRED: Final = GLOO
"""What ``auto`` takes where both can run: GPUs look the same in both, and ranks over gloo leave processors alone."""
ONLY_GLOO: Final = ("mismatch", "size", "unused", "early", "oom")
"""Faults that the job over NCCL cannot have: its GPU is no tensor's."""
ONLY_NCCL: Final = ("missing", "gpu-hang", "network")
"""Faults that need a GPU which works by itself."""


class CannotRunError(ValueError):
    """The job that was asked for cannot run here; the text says why, and how to go on."""


def choose(asked: str, fault: str) -> tuple[str, str]:
    """The job for ``asked`` and ``fault``, and in a few words why, where that is not what was preferred.

    Raises :class:`ValueError` for two that do not go together, and :class:`CannotRunError`.
    """
    needed = GLOO if fault in ONLY_GLOO else NCCL if fault in ONLY_NCCL else ""
    if asked not in (AUTO, needed or asked):
        raise ValueError(f"--fault {fault} needs --job {needed}")
    wanted = needed or (PREFERRED if asked == AUTO else asked)
    if wanted == GLOO or compiler():
        return wanted, f"--fault {fault} needs it" if needed and needed != PREFERRED else ""
    if asked == AUTO and not needed:
        return GLOO, "no C compiler is here, which --job nccl needs"
    instead = "another --fault" if needed else "--job gloo"
    raise CannotRunError(f"--job nccl needs a C compiler (cc, gcc or clang): install one, or use {instead}")
