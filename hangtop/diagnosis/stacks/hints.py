"""What the job's own names tell, where no library's frame says what a rank is doing.

Names are hints, not proof: a function ``load_batch`` reads data as people name things. They are asked only after all
tables, and only for user frames.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.frames import function, owner_class, short

Hint = Literal["data", "checkpoint", "evaluation"]

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")

_DATA_WORDS = frozenset(
    "dataset datasets dataloader dataloaders datamodule datapipe reader readers shard shards tokenize tokenizer "
    "tokenizing tokenization detokenize collate collator prefetch prefetcher sampler getitem corpus "
    "tfrecord parquet augment".split()
)
_DATA_THINGS = frozenset("batch batches sample samples example examples data record records minibatch".split())
_DATA_VERBS = frozenset("load loads get gets next fetch read reads iter decode preprocess parse download".split())
_SAVE_WORDS = frozenset("checkpoint checkpoints checkpointing ckpt ckpts snapshot snapshots".split())
_SAVE_VERBS = frozenset("save saves saving".split())
_LOCK_WORDS = frozenset("lock locks flock lockfile mutex semaphore".split())
_EVALUATION_WORDS = frozenset("evaluate evaluation evaluator validate validation valid eval".split())
_DATA_FILES = frozenset(
    "data dataset datasets dataloader dataloaders loader loaders reader readers tokenizer tokenizers tokenization "
    "datamodule data_loader data_utils data_module collate sampler preprocess preprocessing".split()
)
_SAVE_FILES = frozenset("checkpoint checkpoints checkpointing ckpt saving snapshot".split())
_EVALUATION_FILES = frozenset("evaluate evaluation evaluator validate validation eval".split())


_FILES: dict[Hint, frozenset[str]] = {
    "data": _DATA_FILES, "checkpoint": _SAVE_FILES, "evaluation": _EVALUATION_FILES
}  # fmt: skip


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Words of a name in either style: ``read_shard`` and ``ReadShard`` are ``read``, ``shard``."""
    return tuple(word.lower() for word in _WORDS.findall(name))


@lru_cache(maxsize=4096)
def of_name(name: str) -> Hint | None:
    """What a function's name says; None for one that says nothing."""
    found = words(name)
    if not found:
        return None
    unique = frozenset(found)
    if unique & _SAVE_WORDS or found[0] in _SAVE_VERBS:
        return "checkpoint"
    if unique & _DATA_WORDS or (unique & _DATA_THINGS and found[0] in _DATA_VERBS):
        return "data"
    if found[0] in _EVALUATION_WORDS:
        return "evaluation"
    return None


def of_frame(frame: Frame) -> Hint | None:
    """What a user frame's function, class and file say, in this order."""
    hint = of_name(function(frame.name))
    if hint is not None:
        return hint
    hint = of_name(owner_class(frame.name))
    if hint is not None:
        return hint
    stem = short(frame.file).removesuffix(".py")
    return next((meaning for meaning, files in _FILES.items() if stem in files), None)


def of_stack(user: Sequence[Frame]) -> Hint | None:
    """What the user frames say, innermost first: the innermost wholly, those around it by their names alone."""
    if not user:
        return None
    hint = of_frame(user[0])
    for frame in user[1:]:
        if hint is not None:
            break
        hint = of_name(function(frame.name))
    return hint


def wants_lock(user: Sequence[Frame]) -> bool:
    """Whether the innermost user frame, its class or its caller is called like one that takes a lock."""
    if not user:
        return False
    names = [function(user[0].name), owner_class(user[0].name), *(function(frame.name) for frame in user[1:2])]
    return any(_LOCK_WORDS & set(words(name)) for name in names)
