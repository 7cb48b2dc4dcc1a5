"""For a training script that wants to be asked: step and phase told, and checks that only the job itself can make.

    import hangtop.inside; hangtop.inside.start()

Needs the standard library alone, and Python 3.8; a check that works on tensors uses the torch of the job. Off, failing
or without hangtop watching, it changes nothing: see docs/inside.md.
"""

from hangtop.inside.checks.meeting import barrier
from hangtop.inside.checks.meshes import check_mesh
from hangtop.inside.checks.placement import check_placement
from hangtop.inside.checks.same import check_same
from hangtop.inside.hooks import follow
from hangtop.inside.starting import start, stop
from hangtop.inside.steps import phase, step

__all__ = [
    "barrier", "check_mesh", "check_placement", "check_same", "follow", "phase", "start", "step", "stop",
]  # fmt: skip
