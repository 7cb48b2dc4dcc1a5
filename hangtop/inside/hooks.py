"""Counts steps, and tells phases, through the hooks that torch itself offers to everybody.

An optimizer's step is a training step: of several optimizers (a GAN's) that of the first one that stepped. Frameworks
over torch (Lightning, Accelerate, Transformers, DeepSpeed) all end in such a step, so it is counted there, too. Phases
come with :func:`follow`: the model's own forward, training or not, tells the rest.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Iterable, List, Optional

from collectors.samples.page import PHASE_NAMES
from hangtop.inside.steps import counted, telling

_UNKNOWN, _DATA, _FORWARD, _BACKWARD, _OPTIMIZER, _EVALUATION = (
    PHASE_NAMES.index(name) for name in ("", "data", "forward", "backward", "optimizer", "evaluation")
)


class Hooked:
    """What was hooked, and what is worth a check."""

    def __init__(self) -> None:
        self.handles: List[Any] = []
        self.counter: "Optional[weakref.ReferenceType[Any]]" = None
        """The optimizer whose steps are the job's."""
        self.model: "Optional[weakref.ReferenceType[Any]]" = None
        self.group: Any = None
        """Whose ranks are replicas of one another; None for all."""
        self.optimizers: "weakref.WeakSet[Any]" = weakref.WeakSet()
        """Those that have stepped, or were named."""
        self.told = False
        """A framework's callback tells all phases: in some, the whole step runs inside that of the optimizer."""


hooked = Hooked()


def count_steps() -> str:
    """Hook torch's optimizers; what to say of it. Imports nothing: torch that is not there yet is not waited for."""
    optim = sys.modules.get("torch.optim.optimizer")
    if optim is None:
        return "steps: torch is not imported yet; call step(n), or start() after import torch"
    before = getattr(optim, "register_optimizer_step_pre_hook", None)
    after = getattr(optim, "register_optimizer_step_post_hook", None)
    if before is None or after is None:
        return "steps: this torch has no hooks for all optimizers (2.0 and newer have); call step(n)"
    hooked.handles += [before(stepping), after(stepped)]
    return "steps: counted by the optimizer's own hook until step(n) is called"


def follow(model: Any, *optimizers: Any, group: Any = None) -> None:
    """Tell phases by the forward of this model (the outermost: the one that the loop calls), and check it when asked.

    ``optimizers`` and ``group`` (whose ranks are replicas of one another) are what a check that is asked for from the
    screen compares. Never raises.
    """
    try:
        remember(model, optimizers, group)
        hooked.handles += [model.register_forward_pre_hook(entering), model.register_forward_hook(left)]
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in here must not reach the job
        telling.problem("follow(): %s: %s" % (type(error).__name__, error))


def remember(model: Any, optimizers: Iterable[Any], group: Any = None) -> None:
    """Have these at hand for a check that is asked for from the screen."""
    hooked.model, hooked.group = weakref.ref(model), group
    for optimizer in optimizers:
        hooked.optimizers.add(optimizer)


def followed() -> Any:
    """The model that is followed; None without one."""
    return None if hooked.model is None else hooked.model()


def remove() -> None:
    """Take all hooks away."""
    for handle in hooked.handles:
        handle.remove()
    hooked.handles = []


def stepping(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Torch's hook before the step of any optimizer."""
    del args, kwargs
    page = telling.page
    if page is not None and _counts(optimizer) and not hooked.told:
        page.phase(_OPTIMIZER)


def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Torch's hook after it."""
    del args, kwargs
    page = telling.page
    if page is not None and _counts(optimizer):
        counted()
        if hooked.told:
            return
        # Of a step in which nothing else is told nobody knows which part comes next.
        page.phase(_DATA if hooked.model is not None else _UNKNOWN)


def _counts(optimizer: Any) -> bool:
    """Whether its steps are the job's: of several optimizers those of the first that stepped, while it lives."""
    known = hooked.counter
    counter = None if known is None else known()
    if counter is optimizer:
        return True
    hooked.optimizers.add(optimizer)
    if counter is None:
        hooked.counter = weakref.ref(optimizer)
    return counter is None


def entering(module: Any, args: Any) -> None:
    """Torch's hook before the forward of the model that is followed."""
    del args
    page = telling.page
    if page is not None:
        page.phase(_FORWARD if module.training else _EVALUATION)


def left(module: Any, args: Any, output: Any) -> None:
    """Torch's hook after it."""
    del args, output
    page = telling.page
    if page is not None and module.training:
        page.phase(_BACKWARD)
