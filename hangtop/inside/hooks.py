"""Count steps and report phases through public hooks of torch.

A step of an optimizer is a training step; with several optimizers (a GAN), only the first one to step counts. Steps in
frameworks on torch (Lightning, Accelerate, Transformers, DeepSpeed) end in a step of an optimizer and so count, too.
:func:`follow` adds phases, from the forward of the model.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Callable, List

from collectors.samples.page import PHASE_NAMES
from hangtop.inside.page import PHASE, STEP, now, put_both, put_pair
from hangtop.inside.steps import telling

_UNKNOWN, _DATA, _FORWARD, _BACKWARD, _OPTIMIZER, _EVALUATION = (
    PHASE_NAMES.index(name) for name in ("", "data", "forward", "backward", "optimizer", "evaluation")
)


class Hooked:
    """Hooks that are installed."""

    def __init__(self) -> None:
        self.handles: List[Any] = []
        self.counter: Callable[[], Any] = _nobody
        """Returns the optimizer whose steps count; None without one."""
        self.between = _UNKNOWN
        """The phase after a step: ``data`` with a followed model, else unknown: then no hook reports the next phase."""


def _nobody() -> None:
    """No optimizer."""


hooked = Hooked()


def count_steps() -> str:
    """Hook torch's optimizers and return a line about it. Imports nothing: torch must be imported already."""
    optim = sys.modules.get("torch.optim.optimizer")
    if optim is None:
        return "steps: torch is not imported yet; call step(n), or start() after import torch"
    before = getattr(optim, "register_optimizer_step_pre_hook", None)
    after = getattr(optim, "register_optimizer_step_post_hook", None)
    if before is None or after is None:
        return "steps: this torch has no hooks for all optimizers (2.0 and newer have); call step(n)"
    hooked.handles += [before(stepping), after(stepped)]
    return "steps: counted by the optimizer's own hook until step(n) is called"


def follow(model: Any) -> None:
    """Report phases by the forward of this model, the outermost one, which the loop calls. Never raises."""
    try:
        hooked.between = _DATA
        told = _evaluated(model)
        first = {} if told is model else {"prepend": True}  # before hooks that gather its parameters
        hooked.handles += [told.register_forward_pre_hook(entering, **first), told.register_forward_hook(left)]
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in here must not reach the job
        telling.problem("follow(): %s: %s" % (type(error).__name__, error))


def _evaluated(model: Any) -> Any:
    """The module whose ``training`` flag counts: DeepSpeed's engine only forwards ``train()`` and ``eval()``."""
    return model.module if type(model).__module__.startswith("deepspeed.") else model


def remove() -> None:
    """Remove all hooks."""
    for handle in hooked.handles:
        handle.remove()
    hooked.handles = []


# The functions below run in every step of the job, so they call as little as possible.


def stepping(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001 - torch's signature
    """Torch's hook before the step of any optimizer."""
    page = telling.page
    if page is not None and (hooked.counter() is optimizer or _counts(optimizer)):
        put_pair(page.bytes, PHASE, _OPTIMIZER, now())


def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
    """Torch's hook after the step of any optimizer."""
    page = telling.page
    if page is None or (hooked.counter() is not optimizer and not _counts(optimizer)):
        return
    if telling.by_hand:
        put_pair(page.bytes, PHASE, hooked.between, now())
        return
    number = page.last_step + 1 or 1
    page.last_step, at = number, now()
    put_both(page.bytes, STEP, number, at, hooked.between, at)


def entering(module: Any, args: Any) -> None:  # noqa: ARG001
    """Torch's hook before the forward of the followed model."""
    page = telling.page
    if page is not None:
        put_pair(page.bytes, PHASE, _FORWARD if module.training else _EVALUATION, now())


def left(module: Any, args: Any, output: Any) -> None:  # noqa: ARG001
    """Torch's hook after the forward of the followed model."""
    page = telling.page
    if page is not None and module.training:
        put_pair(page.bytes, PHASE, _BACKWARD, now())


def _counts(optimizer: Any) -> bool:
    """Whether the steps of an unknown optimizer count: yes if no counted optimizer lives."""
    if hooked.counter() is not None:
        return False
    hooked.counter = weakref.ref(optimizer)
    return True
