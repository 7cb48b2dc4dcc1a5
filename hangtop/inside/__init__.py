"""For a training script that wants to be asked: step and phase told, and checks that only the job itself can make.

    import hangtop.inside; hangtop.inside.start()

Needs the standard library alone, and Python 3.8; a check that works on tensors uses the torch of the job. Off, failing
or without hangtop watching, it changes nothing: see docs/inside.md.
"""

from __future__ import annotations

from hangtop.inside.checks.barrier import barrier
from hangtop.inside.checks.calls import CallsDiffer, check_calls
from hangtop.inside.checks.meshes import check_mesh
from hangtop.inside.checks.placement import check_placement
from hangtop.inside.checks.same import check_same
from hangtop.inside.checks.speed import bandwidth, stragglers
from hangtop.inside.frameworks.lightning import lightning_callback
from hangtop.inside.frameworks.transformers import trainer_callback
from hangtop.inside.hooks import follow
from hangtop.inside.own_rank import identity
from hangtop.inside.starting import start, stop
from hangtop.inside.steps import phase, step

__all__ = [
    "CallsDiffer", "bandwidth", "barrier", "check_calls", "check_mesh", "check_placement", "check_same", "follow",
    "identity", "lightning_callback", "phase", "start", "step", "stop", "stragglers", "trainer_callback",
]  # fmt: skip
