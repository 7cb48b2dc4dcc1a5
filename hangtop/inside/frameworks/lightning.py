"""PyTorch Lightning: a callback that tells steps and phases.

    trainer = Trainer(callbacks=[hangtop.inside.lightning_callback()])

Where hangtop is installed with its metadata, Lightning finds :func:`callbacks` by itself (entry points of the group
``lightning.pytorch.callbacks_factory``) and adds one to every Trainer of a process that has called ``start()``.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, List

from hangtop.inside import hooks
from hangtop.inside.steps import phase, step, telling

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""The names of one framework; of both the one that the script has imported."""


def lightning_callback() -> Any:
    """A callback for a Trainer. Raises :class:`ImportError` where no Lightning is installed."""
    base: Any = _package().Callback

    class HangtopCallback(base):  # type: ignore[misc]  # Lightning is not followed
        """Tells hangtop step and phase."""

        def __reduce__(self) -> Any:
            """Made anew where it arrives: strategies that spawn their ranks pickle the Trainer and all that it has."""
            return lightning_callback, ()

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            """Phases come from here, not from the model's forward."""
            hooks.hooked.told = True

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            """The first batch is asked for."""
            phase("data")

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            """The batch has come."""
            phase("forward")

        def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
            """The loss is there."""
            phase("backward")

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            """Gradients are there."""
            phase("optimizer")

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            """A batch is done; a step only where the optimizer made one."""
            if telling.page is not None and trainer.global_step != telling.page.last_step:
                step(trainer.global_step)
            phase("data")

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            """Evaluation begins."""
            phase("evaluation")

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            """It is over."""
            phase("data")

    return HangtopCallback()


def callbacks() -> List[Any]:
    """What Lightning adds to each Trainer by itself: nothing where the process has not called ``start()``."""
    return [lightning_callback()] if telling.page is not None else []


def _package() -> Any:
    for name in PACKAGES:
        if name in sys.modules:
            return sys.modules[name]
    for name in PACKAGES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("neither lightning nor pytorch_lightning is installed")
