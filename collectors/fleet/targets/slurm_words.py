"""Slurm's commands take options from the environment, too, and whoever sits in an allocation has many of them set.

``SLURM_LABELIO`` puts a number before each line, ``SLURM_STDOUTMODE`` sends them to a file, ``SLURM_NTASKS_PER_NODE``
and the like ask for more than one task, ``SQUEUE_USERS`` hides jobs. Only what says which cluster is meant is kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

_PREFIXES = ("SLURM_", "SRUN_", "SQUEUE_", "SINFO_", "SCONTROL_")
_KEPT = frozenset(("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"))


def slurm_words(words: Sequence[str], env: Mapping[str, str] = os.environ) -> list[str]:
    """The command, without the options that the environment holds."""
    names = sorted(name for name in env if name.startswith(_PREFIXES) and name not in _KEPT)
    without = [word for name in names for word in ("-u", name)]
    return ["env", *without, *words] if without else list(words)
