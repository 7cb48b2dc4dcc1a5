"""Hugging Face Transformers: a callback of its Trainer that tells steps and phases.

trainer = Trainer(…, callbacks=[hangtop.inside.trainer_callback()])
"""

from __future__ import annotations

import importlib
from typing import Any

from hangtop.inside import hooks
from hangtop.inside.steps import phase, step


def trainer_callback() -> Any:
    """A callback for a Trainer. Raises :class:`ImportError` where transformers is not installed."""
    base: Any = importlib.import_module("transformers").TrainerCallback

    class HangtopTrainerCallback(base):  # type: ignore[misc]  # transformers is not followed
        """Tells hangtop step and phase."""

        def __reduce__(self) -> Any:
            """Made anew where it arrives: whoever starts ranks by spawning pickles the Trainer and all that it has."""
            return trainer_callback, ()

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """The model's forward tells that it runs, and that evaluation does."""
            if more.get("model") is not None:
                hooks.follow(more["model"])
            phase("data")

        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Batches have come."""
            phase("forward")

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Gradients are there."""
            phase("optimizer")

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """The step is done; what comes next is decided already, by callbacks that were asked before this one."""
            step(state.global_step)
            phase(_next(control))

        def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """An evaluation and a checkpoint may come between two epochs."""
            phase(_next(control))

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """The first batches are asked for."""
            phase("data")

        def on_prediction_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """A batch of an evaluation is done."""
            phase("evaluation")

        def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """An evaluation is over; a checkpoint is written after it."""
            phase("checkpoint" if getattr(control, "should_save", False) else "data")

        def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """A checkpoint was written."""
            phase("data")

    return HangtopTrainerCallback()


def _next(control: Any) -> str:
    """The phase after a step or an epoch: the Trainer evaluates first, and saves then."""
    if getattr(control, "should_evaluate", False):
        return "evaluation"
    return "checkpoint" if getattr(control, "should_save", False) else "data"
