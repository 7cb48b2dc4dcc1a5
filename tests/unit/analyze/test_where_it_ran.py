"""Where it was that something failed, by words beside the failure; and tables, limits and devices in odd forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session
from tests.support.saved import verdict

RAISED = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\n    go()\n'
NCCL = (
    RAISED + "torch.distributed.DistBackendError: NCCL error in: x.cpp:16, unhandled system error, NCCL version 2.19.3"
)
UNHANDLED = (
    "(Runner pid=11) Unhandled error (suppress with 'X=1'): ray::Worker.init_model() (pid=17, ip=10.0.0.56, repr=<W>)\n"
    '(Runner pid=11)   File "/x/base.py", line 625, in func\n(Runner pid=11)     return go()\n'
    '(Runner pid=11)   File "/x/work.py", line 53, in inner\n(Runner pid=11)     return up()\n'
)
NESTED = (
    RAISED
    + "ray.exceptions.RayTaskError(RuntimeError): ray::Worker.save() (pid=21, ip=[2605:340:cd51::3043], repr=<W>)\n"
    '  File "/x/serialization.py", line 1266, in _save\n    write()\nRuntimeError: file write failed'
)
DIED = (
    RAISED + "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "\tclass_name: Worker\n\tpid: 43\n\tip: 10.0.0.7\nThe actor is dead because its worker process has died."
)
LOW = "Memory on the node (IP: 10.0.0.7, ID: ba65c8) where the task (task ID: d221, name=head, pid=45, memory used"
QUEUE = (
    ":0:rocdevice.cpp :2614: 1 us: 68 : Device::callbackQueue aborting with error : HSA_STATUS_ERROR_MEMORY_FAULT: x"
)
LISTED = "1c:00.0 VGA compatible controller: NVIDIA Corporation TU102GL [Quadro RTX 6000] (rev ff)"
HISTORY = "[   84.7] NVRM: GPU6 RPC event history (CPU <- GSP):"
HEAD = "       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error"

FOUND = [
    ("".join("[node7] " + line + "\n" for line in NCCL.splitlines()), "rank_crashed", ("node7",)),
    (UNHANDLED, "rank_crashed", ("10.0.0.56",)),
    (NESTED, "rank_crashed", ("2605:340:cd51::3043",)),
    (DIED, "child_failed_no_detail", ("10.0.0.7",)),
    (LOW, "host_out_of_memory", ("10.0.0.7",)),
    (QUEUE, "rank_crashed", ()),
    (LISTED, "gpu_lost", ("node",)),
    (HISTORY, "gpu_driver_hung", ("node",)),
]
NOTHING = [
    HEAD,
    "mpirun -np 8 all_reduce_perf -b 8 -e 8G\n" + HEAD,
    LISTED.replace("ff)", "a1)"),
    "1c:00.2 USB controller: NVIDIA Corporation TU102 USB 3.1 Host Controller (rev ff)",
    "[   84.7] NVRM: GPU6 RPC buffer is set up",
    "(Runner pid=11) ray::Worker.init_model() (pid=17, ip=10.0.0.56, repr=<W>) has started",
    "Memory on the node (IP: 10.0.0.7, ID: ba65c8): 40 % of 2 TB",
]


@pytest.mark.parametrize("text", NOTHING)
def test_nothing(tmp_path: Path, text: str) -> None:
    assert [finding.summary for finding in verdict(tmp_path, text).findings] == []


def test_a_line_further_up_tells_of_another(tmp_path: Path) -> None:
    ran = UNHANDLED.replace("\n", "\n(Runner pid=11) the next one:\n", 1)
    assert verdict(tmp_path, ran).findings[0].nodes == ()


def test_a_rank_whose_local_number_alone_is_known_is_called_by_it(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n    go()\n{}\n'
    (tmp_path / "workerlog.1").write_text(
        raised.format("AttributeError: module 'x.core' has no attribute 'NCCLContext'")
    )
    finding = diagnose(files_session([tmp_path]).job()).findings[0]
    assert (finding.kind, finding.ranks) == ("rank_crashed", ())
    assert finding.summary.startswith("local rank 1 failed first: AttributeError")


def test_lines_of_several_pods_are_told_apart_and_the_pod_is_named(tmp_path: Path) -> None:
    said = ["Traceback (most recent call last):", '  File "/x/t.py", line {}, in <module>', "    go()", "{}: {}"]
    ends = {1: ("ValueError", "bad shard"), 2: ("RuntimeError", "Connection closed by peer [10.0.0.1]:4")}
    rows = [f"run-a-worker-{pod} pytorch {row.format(*ends[pod]) if row[0] == '{' else row.format(pod)}\n"
            for row in said for pod in ends]  # fmt: skip
    (tmp_path / "job.log").write_text("".join(rows))
    finding = diagnose(files_session([tmp_path]).job()).findings[0]
    assert (finding.kind, finding.nodes) == ("rank_crashed", ("run-a-worker-1",))
    assert finding.summary.startswith("a rank on run-a-worker-1 failed first: ValueError")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (
            (
                "Name:           other-0\nNode:           gpu-n7/10.0.0.7\nName:           train-worker-0\n"
                "Message:        The node was low on resource: memory.\n"
            ),
            "",
        ),
    ],
)
def test_where_an_evicted_pod_was(text: str, node: str, tmp_path: Path) -> None:
    (tmp_path / "pods.txt").write_text(text)
    (found,) = diagnose(files_session([tmp_path]).job()).findings
    assert (found.kind, found.nodes) == ("rank_killed", (node,) if node else ())
