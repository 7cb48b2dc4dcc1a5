"""Processes that say no rank, by what they have mapped, over a folder that plays /proc."""

from __future__ import annotations

import pytest

from collectors.node.ranks.search import is_foreign, library_of

TORCH = "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"


@pytest.mark.parametrize(
    ("path", "library"),
    [
        (TORCH, "torch"),
        ("/opt/torch/lib/libtorch.so", "torch"),
        ("/venv/site-packages/jaxlib/libjax_common.so", "jax"),
        ("/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3", "nccl"),
        ("/usr/lib/libtorchlight.so", ""),
        ("/home/x/my_jaxlib_notes.txt", ""),
        ("/usr/lib/libc.so.6", ""),
    ],
)
def test_libraries_by_their_paths(path: str, library: str) -> None:
    assert library_of(f"7f00-7f01 r-xp 00000000 08:01 7 {path}\n".encode()) == library


@pytest.mark.parametrize(
    ("words", "comm", "foreign"),
    [
        (["python3", "-I", "-S", "-B", "-u", "-c", "import sys", "hangtop", "0"], "python3", True),
        (["python3", "train.py", "--name", "hangtop"], "python3", False),
        (["ray::IDLE", "", ""], "ray::IDLE", True),
        (["ray::Train.run"], "ray::Train.run", False),
        (["ncu", "--attach"], "ncu", True),
        # a lent py-spy has mapped the libraries of the rank that it reads native frames of
        (["/proc/865/fd/5", "dump", "--json", "--pid", "792", "--native"], "5", True),
        (["/proc/865/fd/5", "train.py"], "5", False),
        (["/opt/tools/dump", "dump"], "dump", False),
    ],
)
def test_what_is_never_a_rank(words: list[str], comm: str, foreign: bool) -> None:
    assert is_foreign(words, comm) is foreign
