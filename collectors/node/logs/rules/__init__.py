"""All rules by subject. Of the rules of one subject the first that matches a line reads it (and those marked ``also``).

A new rule is one row in the file of its subject; its example is its test.
"""

from __future__ import annotations

from typing import Dict, Tuple

from collectors.node.logs.rule import Rule
from collectors.node.logs.rules import cuda, engines, kernel, launchers, nccl, process, slurm, store, torch

SUBJECTS: Dict[str, Tuple[Rule, ...]] = {
    "nccl": nccl.RULES,
    "watchdog": torch.WATCHDOG,
    "reports": torch.REPORTS,
    "store": store.STORE,
    "gloo": store.GLOO,
    "workers": torch.WORKERS,
    "sizes": torch.SIZES,
    "cuda": cuda.RULES,
    "host": process.HOST,
    "elastic": launchers.ELASTIC,
    "process": process.ENDS,
    "launchers": launchers.OTHERS,
    "slurm": slurm.SLURM,
    "kubernetes": slurm.KUBERNETES,
    "ray": engines.RAY,
    "engines": engines.ENGINES,
    "kernel": kernel.RULES,
    "fatal": process.FATAL_LINES,
}
FALLBACK = "fatal"
"""Subject that is asked only about lines of which no other says anything."""
