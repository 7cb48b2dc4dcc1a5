"""What frames and system calls mean, whose code a frame is, and how it is written."""

from __future__ import annotations

import pytest

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.activity import activity
from hangtop.diagnosis.stacks.frames import library
from tests.support.stacks import SCRIPT, STDLIB, TORCH, dump, frame, main_dump

SITE = "/opt/env/lib/python3.10/site-packages"
DEEPSPEED = f"{SITE}/deepspeed"
JAX = f"{SITE}/jax"
MEGATRON = "/workspace/Megatron-LM/megatron"
C10D = f"{TORCH}/distributed/distributed_c10d.py"
STEP = f"train_step {SCRIPT}:44"
CUDA = "/usr/local/cuda/lib64/libcudart.so.12"
LIBTORCH = f"{TORCH}/lib/libtorch_cuda.so"
NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"


CASES: dict[str, tuple[tuple[str | Frame, ...], str, str, str]] = {
    # Python frames: kind, operation, and what is waited for
    "JAX: reads a result": (
        (f"ArrayImpl._value {JAX}/_src/array.py:623",
         f"annotate_function.<locals>.wrapper {JAX}/_src/profiler.py:420", STEP), "device", "", "device"),
    "JAX: meets the other processes": (
        (f"ExecuteReplicated.__call__ {JAX}/_src/interpreters/pxla.py:395", f"map {JAX}/_src/tree.py:156",
         f"process_allgather {JAX}/experimental/multihost_utils.py:159",
         f"sync_global_devices {JAX}/experimental/multihost_utils.py:165", STEP),
        "collective", "sync_global_devices", "peers"),
    "DDP reads the events of an earlier step": (
        (f"_pre_forward {TORCH}/nn/parallel/distributed.py:1566", f"forward {TORCH}/nn/parallel/distributed.py:1695",
         f"_call_impl {TORCH}/nn/modules/module.py:1790", STEP), "collective", "pre_forward", "peers"),
    "torch.cuda.synchronize": ((f"synchronize {TORCH}/cuda/__init__.py:783", STEP), "device", "", "device"),
    "destroy_process_group": (
        (f"_shutdown_backend {C10D}:1490", f"destroy_process_group {C10D}:2035", STEP),
        "shutdown", "destroy_process_group", "unknown"),
    "ZeRO-3 fetches parameters": (
        (f"wait {DEEPSPEED}/runtime/zero/partition_parameters.py:77",
         f"fetch_sub_module {DEEPSPEED}/runtime/zero/partitioned_param_coordinator.py:310",
         f"pre_sub_module_forward_function {DEEPSPEED}/runtime/zero/parameter_offload.py:505", STEP),
        "collective", "all_gather_into_tensor", "peers"),
    "Megatron: pipeline": (
        (f"_communicate {MEGATRON}/core/pipeline_parallel/p2p_communication.py:400",
         f"recv_forward {MEGATRON}/core/pipeline_parallel/p2p_communication.py:440", STEP),
        "p2p", "batch_isend_irecv", "peers"),
    "a build of an extension by another process": (
        (f"wait {TORCH}/utils/file_baton.py:49", f"_jit_compile {TORCH}/utils/cpp_extension.py:1726", STEP),
        "compile", "", "lock"),
    "Python's end: threads are waited for": ((f"_shutdown {STDLIB}/threading.py:1590",), "shutdown", "", "lock"),
    "importing the compiler is not compiling": (
        (f"<module> {TORCH}/_inductor/scheduler.py:3",
         Frame("_find_and_load", "<frozen importlib._bootstrap>", 1176, False),
         f"<module> {TORCH}/_inductor/graph.py:9", STEP), "code", "", "unknown"),
    "importing what makes a mesh is not making one": (
        (f"<module> {TORCH}/distributed/device_mesh.py:46",
         Frame("_find_and_load", "<frozen importlib._bootstrap>", 1176, False), f"<module> {SCRIPT}:4"),
        "code", "", "unknown"),
    "compiled code that runs is not compiling": (
        (f"inner_fn {TORCH}/_functorch/_aot_autograd/runtime_wrappers.py:300",
         f"_fn {TORCH}/_dynamo/eval_frame.py:489", STEP), "code", "", "unknown"),
    # native frames
    ".item()": ((f"cudaStreamSynchronize {CUDA}", f"at::native::_local_scalar_dense_cuda {LIBTORCH}", STEP),
                "device", "", "device"),
    "NCCL launches": ((f"cudaLaunchKernelExC {CUDA}", f"ncclLaunchKernel {NCCL}", f"ncclGroupEnd {NCCL}",
                       f"c10d::ProcessGroupNCCL::allreduce {LIBTORCH}", STEP), "collective", "all_reduce", "peers"),
    "NCCL connects": ((f"bootstrapAllGather {NCCL}", f"ncclCommInitRankConfig {NCCL}", STEP),
                      "init", "ncclCommInitRank", "peers"),
    "work.wait()": ((f"pthread_cond_wait {CUDA}", f"c10d::Work::wait {LIBTORCH}", STEP), "collective", "", "peers"),
    "store.get()": ((f"recv {CUDA}", f"c10d::TCPStore::get {LIBTORCH}", STEP), "store", "", "peers"),
    "gloo receives": ((f"c10d::ProcessGroupGloo::RecvWork::wait {LIBTORCH}", STEP), "p2p", "recv", "peers"),
    "the GIL": ((f"pthread_cond_timedwait {CUDA}", "take_gil /usr/bin/python3.10", STEP), "lock", "", "lock"),
    "time.sleep": (("clock_nanosleep /lib/libc.so.6", "time_sleep /usr/bin/python3.10", STEP), "sleep", "", "time"),
    "a row's name inside of a template is no row": (
        (f"pybind11::cpp_function::initialize<bool, c10d::Work, long> {LIBTORCH}", STEP), "code", "", "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_stack_means(name: str) -> None:
    frames, *expected = CASES[name]
    doing = activity([main_dump(*frames)])
    assert [doing.kind, doing.op, doing.waits] == expected


def test_user_code_inside_of_a_library_is_not_the_librarys_wait() -> None:
    hook = f"log_gradients {SCRIPT}:12"
    inside = (hook, f"_engine_run_backward {TORCH}/autograd/graph.py:768", f"backward {TORCH}/_tensor.py:521", STEP)
    doing = activity([main_dump(*inside)])
    assert (doing.kind, doing.where) == ("code", "log_gradients (train.py:12)")
    assert "backward" in doing.context


def peer_frame(name: str, **arguments: str) -> Frame:
    return frame(f"{name} {C10D}:1700", **arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "peer", "label"),
    [
        ("recv", {"src": "3"}, 3, "waits to receive from rank 3"),
        ("send", {"dst": "12"}, 12, "waits to send to rank 12"),
        ("recv", {"src": "None"}, None, "waits in recv"),
    ],
)
def test_the_peer_of_an_operation(name: str, arguments: dict[str, str], peer: int | None, label: str) -> None:
    doing = activity([main_dump(peer_frame(name, **arguments), STEP)])
    assert (doing.peer, doing.label) == (peer, label)


@pytest.mark.parametrize(
    ("syscall", "wchan", "state", "waits"),
    [
        ("", "hrtimer_nanosleep", "S", "time"),
        ("", "futex_wait_queue_me", "S", "unknown"),
        ("", "flock_lock_inode_wait", "S", "lock"),
        ("", "rpc_wait_bit_killable", "S", "unknown"),
        ("wait4", "hrtimer_nanosleep", "S", "helper"),
        ("", "hrtimer_nanosleep", "R", "nothing"),
    ],
)
def test_the_call_that_is_seen_else_where_it_sleeps_tells_the_wait(
    syscall: str, wchan: str, state: str, waits: str
) -> None:
    (main,) = main_dump(STEP).threads
    assert activity([dump(main, syscall=syscall, wchan=wchan, state=state)]).waits == waits


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (f"{TORCH}/_tensor.py", "torch"),
        ("/srv/Megatron-LM/megatron/core/tensor_parallel/mappings.py", "megatron"),
        (f"{STDLIB}/threading.py", "python"),
        ("/home/ada/torch/train.py", ""),
        ("/opt/env/lib/python3.11/site-packages/acme_training/loop.py", ""),
        ("<string>", ""),
        ("threading.py", "python"),  # as py-spy's text has them
        ("torch/distributed/distributed_c10d.py", "torch"),
    ],
)
def test_whose_code_it_is(path: str, owner: str) -> None:
    assert library(path) == owner
