"""The Trainer of transformers, started by torchrun."""

from __future__ import annotations

from typing import Any

import mishaps
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments


class Samples(Dataset[dict[str, torch.Tensor]]):
    """So many that no epoch ends."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.number = 0

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        self.number += 1
        mishaps.read_sample(self.rank, self.number)
        return {"x": torch.randn(32)}


class Regression(torch.nn.Module):
    """A line through noise, as the Trainer wants a model to be."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss of a batch."""
        return {"loss": self.layer(x).square().mean()}


class Steps(TrainerCallback):
    """What the user does at the end of each step."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def on_step_end(self, args: object, state: TrainerState, control: object, **rest: Any) -> None:  # noqa: ARG002
        """Save or evaluate now and then."""
        step = state.global_step
        mishaps.look_up(self.rank, step)
        if mishaps.is_due("only_here", self.rank, step):
            torch.distributed.barrier()
        path = mishaps.checkpoint_path(self.rank, step)
        if path is not None:
            torch.save(rest["model"].state_dict(), path)
            torch.distributed.barrier()
        if mishaps.evaluate(self.rank, step):
            torch.distributed.barrier()


def main() -> None:
    """One rank."""
    torch.set_num_threads(1)
    inside = mishaps.inside()
    arguments = TrainingArguments(
        output_dir=str(mishaps.FOLDER), use_cpu=True, max_steps=1_000_000, per_device_train_batch_size=1,
        save_strategy="no", report_to=[], logging_steps=10, disable_tqdm=True, dataloader_pin_memory=False,
        remove_unused_columns=False, ddp_backend="gloo",
    )  # fmt: skip
    rank = arguments.process_index
    mishaps.leave_word("begins", rank)
    callbacks = [inside.trainer_callback()] if inside else []
    Trainer(Regression(), arguments, train_dataset=Samples(rank), callbacks=[*callbacks, Steps(rank)]).train()


if __name__ == "__main__":
    main()
