"""For a training script that wants to be asked: step and phase told, and checks that only the job itself can make.

    import hangtop.inside; hangtop.inside.start()

Needs the standard library alone, and Python 3.8; a check that works on tensors uses the torch of the job. Off, failing
or without hangtop watching, it changes nothing: see docs/inside.md. What a job does not use is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from hangtop.inside.hooks import follow
from hangtop.inside.starting import start, stop
from hangtop.inside.steps import phase, step

if TYPE_CHECKING:
    from hangtop.inside.checks.meeting import barrier
    from hangtop.inside.checks.meshes import check_mesh
    from hangtop.inside.checks.placement import check_placement
    from hangtop.inside.checks.same import check_same

__all__ = [
    "barrier", "check_mesh", "check_placement", "check_same", "follow", "phase", "start", "step", "stop",
]  # fmt: skip

_LATER = {
    "barrier": "checks.meeting",
    "check_mesh": "checks.meshes",
    "check_placement": "checks.placement",
    "check_same": "checks.same",
}
"""Where the names are that are imported when they are first used."""


if not TYPE_CHECKING:  # whoever checks types is to see these names alone

    def __getattr__(name: str) -> object:
        """A check, when the job first uses it: memory that most never need."""
        if name not in _LATER:
            raise AttributeError("module %r has no attribute %r" % (__name__, name))
        from importlib import import_module

        found: object = getattr(import_module("%s.%s" % (__name__, _LATER[name])), name)
        globals()[name] = found
        return found


def __dir__() -> List[str]:
    return sorted(set(__all__) | set(globals()))
