"""Frames as people think of them: whose code they are, which are only machinery, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from collectors.samples.stacks import Frame

LIBRARIES = frozenset(
    "torch torchvision torchaudio torchdata torchtitan torchtune torchmetrics functorch triton numpy scipy pandas "
    "pyarrow deepspeed megatron accelerate transformers datasets tokenizers peft trl diffusers safetensors lightning "
    "pytorch_lightning lightning_fabric lightning_utilities ray composer streaming webdataset litdata nvidia "
    "transformer_engine apex flash_attn xformers ffcv PIL cv2 av decord h5py zarr lmdb "
    "requests urllib3 httpx httpcore aiohttp anyio boto3 botocore s3transfer s3fs aiobotocore fsspec gcsfs adlfs "
    "google azure huggingface_hub smart_open fabric wandb mlflow tensorboard tensorboardX neptune comet_ml clearml "
    "tqdm rich click typer fire hydra omegaconf absl pytest _pytest pluggy IPython ipykernel traitlets joblib loky "
    "dill sympy mpmath networkx jinja2 yaml regex sklearn matplotlib decorator wrapt "
    "tenacity pydantic attr beartype typeguard jaxtyping typing_extensions six "
    "jax jaxlib flax optax orbax equinox haiku chex grain "
    "dask distributed tornado uvloop gevent ignite skorch optuna lightgbm xgboost catboost tensorflow keras horovod "
    "mpi4py fairscale evaluate nltk sentence_transformers timm debugpy sqlalchemy polars numba "
    "cloudpickle psutil filelock packaging einops sentencepiece tiktoken grpc google_crc32c zmq redis kafka".split()
)
"""Packages of other people, by the folder under site-packages: their frames are not where a user looks first."""

_SOURCE_TREES = (
    "/megatron/core/", "/megatron/training/", "/megatron/legacy/", "/deepspeed/runtime/", "/deepspeed/comm/",
    "/deepspeed/utils/", "/deepspeed/moe/", "/torch/distributed/", "/torch/nn/", "/torch/autograd/", "/torch/utils/",
    "/torch/optim/", "/torch/cuda/", "/torch/amp/", "/torch/serialization.py", "/torch/_", "/src/transformers/",
    "/src/accelerate/", "/torchinductor_",
)  # fmt: skip
"""Libraries that are often run from a checkout, outside of site-packages; and the code that torch's compiler writes."""

TRANSPARENT = (
    "torch/distributed/c10d_logger.py", "torch/utils/_contextlib.py", "torch/_dynamo/eval_frame.py", "torch/_ops.py",
    "torch/utils/_pytree.py", "torch/_utils_internal.py", "torch/nn/modules/module.py", "/contextlib.py",
    "/functools.py", "deepspeed/utils/nvtx.py", "torch/_compile.py", "/selectors.py", "/_weakrefset.py",
    "torch/distributed/fsdp/_fully_shard/_fsdp_common.py", "jax/_src/profiler.py", "jax/_src/traceback_util.py",
    "jax/_src/pjit.py", "jax/_src/tree_util.py", "jax/_src/tree.py",
)  # fmt: skip
"""Machinery that passes calls on: it neither waits itself nor tells what is waited for."""

_STDLIB = re.compile(r"/lib(?:64)?/python3(?:\.\d+t?)?(?:\.zip)?/(?!(?:site|dist)-packages/)")
_PACKAGES = re.compile(r"/(?:site|dist)-packages/([^/]+)")
_MACHINERY_NAME = re.compile(r"0x[0-9a-f]+$")
_NAMELESS = frozenset(("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"))
_FORKED = frozenset(("_bootstrap", "_worker_loop"))
_FORK_FILES = ("/multiprocessing/process.py", "torch/utils/data/_utils/worker.py")


_GOES_THROUGH = (
    "/json/", "/pickle.py", "/copy.py", "/gzip.py", "/zipfile.py", "/tarfile.py", "/csv.py", "/xml/", "/shutil.py",
)  # fmt: skip


@lru_cache(maxsize=8192)
def library(path: str) -> str:
    """Name of the library that a Python file belongs to, ``python`` for the interpreter's own; empty for user code."""
    packages = _PACKAGES.findall(path)
    if packages:
        name = str(packages[-1]).removesuffix(".py")
        return name if name in LIBRARIES else ""
    if path.startswith("<frozen ") or _STDLIB.search(path):
        return "python"
    if path.startswith("<eval_with_key>"):
        return "torch"
    for tree in _SOURCE_TREES:
        if tree in path:
            return tree.removeprefix("/src").strip("/").partition("/")[0]
    return ""


def may_compute(path: str) -> bool:
    """True for a file of a library; of Python's own for modules that go through data and come to an end."""
    name = library(path)
    return any(part in path for part in _GOES_THROUGH) if name == "python" else bool(name)


def is_user(frame: Frame) -> bool:
    """True for a frame of the job's own code."""
    imported = frame.name == "<module>" and _PACKAGES.search(frame.file)
    return not frame.native and not library(frame.file) and not imported


@lru_cache(maxsize=8192)
def function(name: str) -> str:
    """Name of a function without its classes; nameless ones take that of the function around them."""
    parts = [part for part in name.split(".") if part != "<locals>"]
    while len(parts) > 1 and parts[-1] in _NAMELESS:
        parts.pop()
    return parts[-1]


def owner_class(name: str) -> str:
    """Class that a qualified name belongs to; empty for a function, and before Python 3.11."""
    parts = name.partition(".<locals>")[0].split(".")
    return parts[-2] if len(parts) > 1 else ""


@lru_cache(maxsize=8192)
def is_in(path: str, part: str) -> bool:
    """True when the path ends with ``part``, or runs through it where that names a folder or a beginning."""
    whole = part if part.startswith("/") else "/" + part
    return ("/" + path).endswith(whole) if part.endswith(".py") else whole in "/" + path


@lru_cache(maxsize=8192)
def is_transparent(path: str) -> bool:
    """True for machinery that passes calls on."""
    return any(is_in(path, part) for part in TRANSPARENT)


def is_machinery(frame: Frame) -> bool:
    """True for native frames that only carry a call: addresses, the interpreter, pybind11."""
    if not frame.native:
        return False
    beginnings = ("pybind11", "thread_run", "_Py", "Py", "std::_Function_handler", "std::", "pthread_", "start_thread")
    return bool(_MACHINERY_NAME.match(frame.name)) or frame.name.startswith(beginnings)


def own(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Frames since the process was forked: what is further out belongs to its parent, at the time of the fork."""
    for index, frame in enumerate(frames):
        if function(frame.name) in _FORKED and any(is_in(frame.file, part) for part in _FORK_FILES):
            return tuple(frames[: index + 1])
    return tuple(frames)


@lru_cache(maxsize=8192)
def short(path: str) -> str:
    """Name of the file; of a package's ``__init__.py`` with its folder."""
    folder, _, name = path.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{name}" if name == "__init__.py" else name


def place(frame: Frame) -> str:
    """A frame as people write it: ``read_shard (data.py:88)``; native ones without a line."""
    return _place(frame.name, frame.file, None if frame.native else frame.line)


@lru_cache(maxsize=8192)
def _place(name: str, path: str, line: int | None) -> str:
    return f"{name} ({short(path)})" if line is None else f"{_readable(name)} ({short(path)}:{line})"


def _readable(name: str) -> str:
    return name.replace(".<locals>", "")
