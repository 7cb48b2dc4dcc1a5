"""Optional help from a training script: it reports step and phase, and runs checks that only the job itself can do.

    import hangtop.inside; hangtop.inside.start()

Needs Python 3.8 and only the standard library; checks of tensors use the torch of the job. If it is off, fails, or
hangtop does not watch, the job is unchanged: see docs/inside.md.
"""

from hangtop.inside.checks.meeting import barrier
from hangtop.inside.checks.placement import check_placement
from hangtop.inside.checks.same import check_same
from hangtop.inside.hooks import follow
from hangtop.inside.starting import start, stop
from hangtop.inside.steps import phase, step

__all__ = ["barrier", "check_placement", "check_same", "follow", "phase", "start", "step", "stop"]
