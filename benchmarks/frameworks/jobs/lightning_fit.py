"""PyTorch Lightning: the Trainer starts its own ranks (strategy "ddp", or "ddp_spawn" by LIGHTNING_STRATEGY)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import lightning
import mishaps
import torch
from torch.utils.data import DataLoader, IterableDataset

mishaps.inside()  # where ranks that are spawned come by, too: they import this file


class Shards(IterableDataset[torch.Tensor]):
    """Samples without an end."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in mishaps.samples(self.rank):
            yield torch.randn(32)


class Regression(lightning.LightningModule):
    """A line through noise."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(32, 8)

    def setup(self, stage: str) -> None:  # noqa: ARG002
        """Before training."""
        torch.set_num_threads(1)
        mishaps.leave_word("begins", self.global_rank)

    def train_dataloader(self) -> DataLoader[torch.Tensor]:
        """Samples of this rank."""
        return DataLoader(Shards(self.global_rank), batch_size=1, num_workers=int(os.environ.get("WORKERS", "0")))

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        """One step."""
        mishaps.look_up(self.global_rank, index + 1)
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        if mishaps.is_due("only_here", self.global_rank, index + 1):
            self.trainer.strategy.barrier()
        return loss

    def on_train_batch_end(self, outputs: object, batch: object, index: int) -> None:  # noqa: ARG002
        """Save or evaluate now and then."""
        path = mishaps.checkpoint_path(self.global_rank, index + 1)
        if path is not None:
            torch.save(self.state_dict(), path)  # save_checkpoint writes beside it and renames: no pipe holds it up
            self.trainer.strategy.barrier()
        if mishaps.evaluate(self.global_rank, index + 1):
            self.trainer.strategy.barrier()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


if __name__ == "__main__":
    trainer = lightning.Trainer(
        accelerator="cpu", devices=int(os.environ.get("DEVICES", "3")),
        strategy=os.environ.get("LIGHTNING_STRATEGY", "ddp"), max_epochs=1,
        default_root_dir=mishaps.FOLDER, logger=False, enable_checkpointing=False, log_every_n_steps=5,
    )  # fmt: skip
    trainer.fit(Regression())
