"""Collectives of objects: what is pickled and unpickled in them is work of the rank's own."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.stacks import activity
from tests.support.jobs import Sketch, c10d
from tests.support.stacks import SCRIPT, TORCH, main_dump

C10D = f"{TORCH}/distributed/distributed_c10d.py"
GATHER = f"all_gather_object {C10D}:3501"
PACKS = f"_object_to_tensor {C10D}:3405"
UNPACKS = f"_tensor_to_object {C10D}:3435"
STEP = f"train_step {SCRIPT}:44"


@pytest.mark.parametrize("inner", [PACKS, UNPACKS])
def test_who_makes_bytes_of_an_object_computes_and_waits_for_nobody(inner: str) -> None:
    look = main_dump(inner, GATHER, STEP, syscall="none")
    doing = activity([look._replace(state="R")])
    assert (doing.kind, doing.waits, doing.where) == ("code", "nothing", "train_step (train.py:44)")
    assert doing.native_would_tell, "a copy to the GPU is in the same function"


@pytest.mark.parametrize(
    ("inner", "syscall"), [((PACKS,), "futex"), ((f"all_gather {C10D}:3000",), "none"), ((), "none")]
)
def test_who_sleeps_there_or_is_elsewhere_in_it_waits(inner: tuple[str, ...], syscall: str) -> None:
    doing = activity([main_dump(*inner, GATHER, STEP, syscall=syscall)])
    assert (doing.kind, doing.op, doing.waits) == ("collective", "all_gather_object", "peers")


def gathering(state: str, syscall: str, cores: float) -> Sketch:
    """All four ranks are met there in every look, and nothing else is seen to move."""
    inner = f"_tensor_to_object {c10d('x')[0].partition(' ')[2]}"
    job = Sketch(patience=2.0, watched=14.0, span=13.0, stood_still=13.0)
    job.ranks().at([inner, *c10d("all_gather_object")], state=state, syscall=syscall).pulse(cores=cores)
    return job


def test_a_job_whose_ranks_unpack_huge_objects_is_not_stalled() -> None:
    assert gathering("R", "none", 0.2).verdict().outcome == "unknown"
    assert gathering("S", "futex", 0.0).verdict().outcome == "hung"
