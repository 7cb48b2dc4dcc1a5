"""Owner of a frame (user code or a library), its text, and the phase that names in user code suggest."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import lru_cache

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.states import Phase

LIBRARIES = frozenset(
    "torch torchvision torchaudio torchdata functorch triton numpy scipy pandas pyarrow deepspeed megatron accelerate "
    "transformers datasets tokenizers peft trl diffusers safetensors lightning pytorch_lightning lightning_fabric "
    "ray streaming webdataset nvidia transformer_engine apex flash_attn xformers PIL h5py requests urllib3 httpx "
    "aiohttp boto3 botocore s3fs fsspec gcsfs google huggingface_hub wandb mlflow tensorboard tqdm hydra click IPython "
    "jax jaxlib flax optax orbax zmq grpc filelock uvloop anyio "
    "tenacity typing_extensions decorator wrapt beartype jaxtyping".split()
)
"""Packages whose successive frames fold into one line, ``[torch]``; any other package may hold the training loop."""
_SOURCE_TREES = (
    "/megatron/core/", "/megatron/training/", "/megatron/legacy/", "/deepspeed/", "/torch/distributed/", "/torch/nn/",
    "/torch/autograd/", "/torch/utils/", "/torch/optim/", "/torch/cuda/", "/torch/amp/", "/torch/serialization.py",
    "/torch/_", "/src/transformers/", "/src/accelerate/", "/torchinductor_",
)  # fmt: skip
"""Libraries that often run from a checkout outside of site-packages, and the code that torch's compiler writes."""
_TRANSPARENT = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/c10d_logger.py", "torch/utils/_contextlib.py", "torch/_dynamo/eval_frame.py", "torch/_ops.py",
    "torch/utils/_pytree.py", "torch/nn/modules/module.py", "/contextlib.py", "/functools.py",
    "deepspeed/utils/nvtx.py", "torch/_compile.py", "/selectors.py", "/_weakrefset.py",
    "torch/distributed/fsdp/_fully_shard/_fsdp_common.py", "jax/_src/",
)  # fmt: skip
"""Code that only forwards calls: it neither waits nor shows what is waited for."""
_STDLIB = re.compile(r"/lib(?:64)?/python3(?:\.\d+t?)?(?:\.zip)?/(?!(?:site|dist)-packages/)")
_PACKAGES = re.compile(r"/(?:site|dist)-packages/([^/]+)")
_CARRIERS = re.compile(
    r"0x[0-9a-f]+$|\?\?$|pybind11|thread_run|_?Py|std::|pthread_|start_thread|clone3?$|__libc_start|_start$"
)
"""Starts of names of native functions that only forward a call: the interpreter, pybind11, the C library."""
_FORKS = ("/multiprocessing/process.py", "torch/utils/data/_utils/worker.py")
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_USER_NAMES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    ("checkpoint", re.compile(r"(?:^|_)(?:checkpoint|ckpt|snapshot)|^_*sav(?:e|ing)(?:_|$)")),
    ("data", re.compile(
        r"(?:^|_)(?:dataset|data_?loader|reader|shard|tokeni[sz]|collat|sampler|getitem|prefetch|corpus|augment)"
        r"|^data$|loader$"
        r"|^_*(?:load|next|gets?|fetch|read|iter|decode|pre_?process|parse|download)_.*(?:batch|sample|example|data|record)"
    )),
    ("evaluation", re.compile(r"^_*(?:eval|valid)")),
)  # fmt: skip
"""Usual names of user functions and classes that read data, save or evaluate: a hint, no proof."""


@lru_cache(maxsize=8192)
def library(path: str) -> str:
    """Name of the library of a Python file; ``python`` for the interpreter's own files; empty for user code."""
    if installed := _PACKAGES.findall(path):
        name = str(installed[-1]).removesuffix(".py")
        return name if name in LIBRARIES else ""
    if path.startswith("<frozen ") or _STDLIB.search(path):
        return "python"
    if path.startswith("<eval_with_key>"):
        return "torch"
    if not path.startswith("/"):  # py-spy's text leaves out the folder that Python imports from
        first = path.partition("/")[0].removesuffix(".py")
        return "python" if first in sys.stdlib_module_names else first if first in LIBRARIES else ""
    tree = next((tree for tree in _SOURCE_TREES if tree in path), "")
    return tree.removeprefix("/src").strip("/").partition("/")[0]


def is_user(frame: Frame) -> bool:
    """True for a frame of the job's own code."""
    imported = frame.name == "<module>" and _PACKAGES.search(frame.file)
    return not frame.native and not library(frame.file) and not imported


def function(name: str) -> str:
    """Name of a function without its classes; for a lambda or comprehension, the name of the function around it."""
    parts = [part for part in name.split(".") if part != "<locals>"]
    while len(parts) > 1 and parts[-1].startswith("<"):
        parts.pop()
    return parts[-1]


@lru_cache(maxsize=8192)
def is_in(path: str, part: str) -> bool:
    """True if the path ends with ``part`` (``.py``) or contains ``part`` (a folder or the start of a name)."""
    whole = part if part.startswith("/") else "/" + part
    return ("/" + path).endswith(whole) if part.endswith(".py") else whole in "/" + path


def is_transparent(path: str) -> bool:
    """True for a file that only forwards calls."""
    return any(is_in(path, part) for part in _TRANSPARENT)


def is_carrier(frame: Frame) -> bool:
    """True for native frames that only forward a call: addresses, the interpreter, pybind11."""
    return frame.native and _CARRIERS.match(frame.name) is not None


def own(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Frames since the process was forked: frames further out are the parent's at the time of the fork."""
    for index, frame in enumerate(frames):
        if function(frame.name) in ("_bootstrap", "_worker_loop") and any(is_in(frame.file, file) for file in _FORKS):
            return tuple(frames[: index + 1])
    return tuple(frames)


def place(frame: Frame, *, line: bool = True) -> str:
    """A frame as text: ``read_shard (data.py:88)``; native frames have no line."""
    folder, _, short = frame.file.rpartition("/")
    if short == "__init__.py":  # needs the name of its package
        short = f"{folder.rpartition('/')[2]}/{short}"
    if frame.native:
        return f"{frame.name} ({short})" if short else frame.name
    return f"{frame.name.replace('.<locals>', '')} ({short}{f':{frame.line}' if line else ''})"


def phase_by_name(user: Sequence[Frame]) -> Phase | None:
    """The phase that names suggest: of user functions (innermost first), and of the innermost one's class and file."""
    inner = user[:1]
    names = [part for frame in inner for part in reversed(frame.name.split("."))]
    names += [frame.file.rpartition("/")[2].removesuffix(".py") for frame in inner]
    names += [function(frame.name) for frame in user[1:]]
    return next((phase for name in names if (phase := _phase_of_name(name)) is not None), None)


@lru_cache(maxsize=4096)
def _phase_of_name(name: str) -> Phase | None:
    words = _WORD_STARTS.sub("_", name).lower()
    return next((phase for phase, pattern in _USER_NAMES if pattern.search(words)), None)
