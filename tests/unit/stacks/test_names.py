"""What names say, whose code a file is, and how frames and ranks are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.phrasing import folded, parse_ranks
from hangtop.diagnosis.stacks.frames import library, own, place
from tests.support.stacks import STDLIB, TORCH, frame


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (f"{TORCH}/_tensor.py", "torch"),
        ("/workspace/pytorch/torch/nn/modules/module.py", "torch"),
        ("/srv/Megatron-LM/megatron/core/tensor_parallel/mappings.py", "megatron"),
        ("/src/transformers/src/transformers/trainer.py", "transformers"),
        ("/usr/lib/python3/dist-packages/requests/sessions.py", "requests"),
        (f"{STDLIB}/threading.py", "python"),
        ("/opt/conda/lib/python3.13t/queue.py", "python"),
        ("<frozen importlib._bootstrap>", "python"),
        ("/home/ada/train/train.py", ""),
        ("/home/ada/torch/train.py", ""),
        ("/opt/env/lib/python3.11/site-packages/acme_training/loop.py", ""),
        ("<string>", ""),
        ("/opt/env/lib/python3.11/site-packages/filelock.py", "filelock"),
        ("threading.py", "python"),  # as py-spy's text has them
        ("torch/distributed/distributed_c10d.py", "torch"),
        ("train.py", ""),
    ],
)
def test_whose_code_it_is(path: str, owner: str) -> None:
    assert library(path) == owner


def test_how_frames_are_written() -> None:
    assert place(frame("Shards.read.<locals>.one /home/ada/data.py:88")) == "Shards.read.one (data.py:88)"
    assert place(frame("run /home/ada/job/__init__.py:3")) == "run (job/__init__.py:3)"
    assert place(frame("ncclSend /usr/lib/libnccl.so.2")) == "ncclSend (libnccl.so.2)"


def test_a_forked_process_ends_at_its_fork() -> None:
    frames = [frame(f"_worker_loop {TORCH}/utils/data/_utils/worker.py:374"), frame("main /home/ada/train.py:3")]
    assert own(frames) == (frames[0],)


@given(st.sets(st.integers(0, 3000), min_size=1))
def test_sets_of_ranks_come_back(ranks: set[int]) -> None:
    assert parse_ranks(folded(ranks)) == ranks


@pytest.mark.parametrize("text", ["", "a", "3-", "-3", "7-3", "1,,2", "0-99999999999"])
def test_what_is_no_set_of_ranks(text: str) -> None:
    with pytest.raises(ValueError, match="no ra"):
        parse_ranks(text)
