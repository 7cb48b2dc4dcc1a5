"""Words by which training scripts and their frameworks say that they came to their end."""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Family, Said

_FINISHED = re.compile(
    r"(?i)^(?:[\[(].{0,80}?[\])]\s{0,8})?(?:.{0,60}?(?:info|logs?|rank ?\d{1,9})\W{1,8}(?:[\w.]{1,40}\W{1,4}){0,2})?"
    r"(?:(?:training|the training|train|job|run|fine-?tuning|pre-?training) (?:has |is |was )?(?:successfully )?"
    r"(?:completed?|finished|done)(?: successfully)?\b(?! (?:epoch|step|batch|iteration))"
    r"|(?:finished|completed|done|end|ended|end of) training\b(?! (?:epoch|step|batch|iteration|loop))"
    r"|[(\"']{0,2}final (?:validation|test|evaluation|eval) (?:metrics|results|scores?)\b ?[:=]"
    r"|training took \d{1,4}[:.\d hms]{2,24}$"
    r"|\{'train_runtime': '?\d"
    r"|`?Trainer\.fit`? stopped: `?max_(?:epochs|steps)=)"
)


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    if _FINISHED.match(text):
        yield Said("job.finished", {})


FAMILY = Family(
    "endings",
    (
        b"raining completed", b"raining complete", b"raining finished", b"raining is done", b"raining done",
        b"raining is complete", b"raining has completed", b"raining has finished", b"inished training",
        b"nd training", b"nded training", b"nd of training",
        b"ompleted training", b"one training", b"tuning completed", b"tuning finished", b"Job completed",
        b"Job finished", b"Run completed", b"Run finished", b"Trainer.fit",
        b"raining took ", b"'train_runtime': ", b"inal validation ", b"inal test ", b"inal eval",
    ),
    read,
)  # fmt: skip
