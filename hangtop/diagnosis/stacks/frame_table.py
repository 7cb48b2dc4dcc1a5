"""Table of frames that show what a rank does: meaning, files, functions.

Names are from the sources of torch 2.1 to 2.13, DeepSpeed, Megatron core, Accelerate, Lightning, transformers, JAX and
CPython; most were seen in real dumps (``tests/fixtures/stacks``). Native names are from public headers, pytorch#95944
and nccl#901. If no row fits a stack, the kernel and the user's own line decide.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, get_args

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.frames import function, is_in, is_user
from hangtop.diagnosis.stacks.states import Meaning, Phase

OPERATIONS = frozenset(
    "send recv isend irecv batch_isend_irecv broadcast all_reduce all_reduce_coalesced reduce all_gather_object "
    "gather_object send_object_list recv_object_list broadcast_object_list scatter_object_list all_gather "
    "all_gather_into_tensor all_gather_coalesced gather scatter reduce_scatter reduce_scatter_tensor all_to_all_single "
    "all_to_all barrier monitored_barrier".split()
)
"""Operations as torch.distributed names them."""
POINT_TO_POINT = frozenset("send recv isend irecv batch_isend_irecv send_object_list recv_object_list".split())
ALIASES = {
    "all_gather_single": "all_gather_into_tensor",  # its name from torch 2.13 on
    "all_gather_tensor": "all_gather_into_tensor",  # functional
    "reduce_scatter_single": "reduce_scatter_tensor",  # its name from torch 2.13 on
    "_reduce_scatter_base": "reduce_scatter_tensor",
    # of c10d's C++, then of NCCL
    "allreduce": "all_reduce", "allgather": "all_gather", "_allgather_base": "all_gather_into_tensor",
    "alltoall_base": "all_to_all_single", "alltoall": "all_to_all", "monitoredBarrier": "monitored_barrier",
    "AllReduce": "all_reduce", "AllGather": "all_gather_into_tensor", "ReduceScatter": "reduce_scatter_tensor",
    "Broadcast": "broadcast", "Bcast": "broadcast", "Reduce": "reduce",
}  # fmt: skip
"""Other names of the same operation."""


class FrameRow(NamedTuple):
    """Frames with one meaning: what a thread in such a frame does."""

    meaning: Meaning | None
    op: str = ""
    """Name of the operation; empty: the name of the function."""
    phase: Phase | None = None
    """Phase of every frame inside these functions; ``meaning`` counts unless a frame further in has one."""
    files: tuple[str, ...] = ()
    """Ends of a file's path (``.py``), folders in the path (with ``/`` at the end), or starts of a file's name; ``*``:
    any library file."""
    names: frozenset[str] = frozenset()
    """Names of functions without their classes; empty: every function of the files."""
    native: re.Pattern[str] | None = None
    """For native frames: the start of the function's name; a group of the pattern is the operation."""

    def operation(self, frame: Frame) -> str:
        """Name of the operation of a frame of this row, the same for all versions of torch."""
        name = "" if frame.native else function(frame.name)
        if self.native is not None and (match := self.native.match(frame.name)) is not None and match.lastindex:
            name = match[1]
        return self.op or ALIASES.get(name, name)


class FrameTable:
    """Rows of frames; the first row that fits a frame counts."""

    def __init__(self, python: str, native: str = "") -> None:
        """Parse lines ``MEANING=op FILE FILE : NAME NAME`` or ``phase=MEANING …``; native: ``MEANING=op PATTERN``."""
        self._python = [_row(line) for line in python.splitlines() if line and line[0] != "#"]
        heads = (line.partition(" ") for line in native.splitlines() if line and line[0] != "#")
        self._native = [_row(head)._replace(native=re.compile(pattern)) for head, _, pattern in heads]
        self._known = lru_cache(maxsize=8192)(self._find)  # thousands of ranks are in the same few frames

    def of(self, frame: Frame) -> FrameRow | None:
        """The first row that fits a frame; None without one."""
        return self._known(frame.name, frame.file, frame.native)

    def _find(self, name: str, path: str, native: bool) -> FrameRow | None:
        if native:
            return next((row for row in self._native if row.native is not None and row.native.match(name)), None)
        called, of_library = function(name), not is_user(Frame(name, path, 0, False))
        if called == "<module>":
            return None  # the file is being imported
        for row in self._python:
            in_file = (of_library if where == "*" else is_in(path, where) for where in row.files)
            if called in (row.names or {called}) and any(in_file):
                return row
        return None


_PHASE_NAMES: dict[str, Phase] = {phase: phase for phase in get_args(Phase)}


def _row(line: str) -> FrameRow:
    head, _, rest = line.partition(" ")
    what, _, more = head.partition("=")
    files, _, names = rest.partition(" : ")
    called = OPERATIONS | set(ALIASES) if names == "OPERATIONS" else frozenset(names.split())
    if (phase := _PHASE_NAMES.get(what)) is not None:
        return FrameRow(Meaning[more] if more else None, "", phase, tuple(files.split()), called)
    return FrameRow(Meaning[what], more, None, tuple(files.split()), called)


PEERS = FrameTable(
    """
# operations; point-to-point operations are recognised by name
COLLECTIVE torch/distributed/distributed_c10d.py torch/distributed/_functional_collectives.py : OPERATIONS
COLLECTIVE=coalesced torch/distributed/distributed_c10d.py : _coalescing_manager wait
COLLECTIVE=wait_tensor torch/distributed/_functional_collectives : wait_tensor trigger_wait wait _wait_tensor _wait_all
# DDP and FSDP: parts that go through C++ without a Python operation
COLLECTIVE=broadcast torch/nn/parallel/distributed.py : _distributed_broadcast_coalesced _sync_module_buffers
COLLECTIVE=broadcast torch/distributed/utils.py : _sync_module_states _sync_params_and_buffers
COLLECTIVE=pre_forward torch/nn/parallel/distributed.py : _pre_forward
COLLECTIVE=verify_params torch/distributed/utils.py : _verify_param_shape_across_processes
COLLECTIVE=all_gather_into_tensor _fully_shard/_fsdp_collectives.py : foreach_all_gather_copy_out
# libraries that wait on handles
P2P=batch_isend_irecv torch/distributed/pipelining/schedules.py : _wait_batch_p2p
P2P=batch_isend_irecv megatron/core/pipeline_parallel/p2p_communication.py
COLLECTIVE=reduce_scatter_tensor megatron/core/distributed/ : finish_grad_sync start_grad_sync
COLLECTIVE=all_gather_into_tensor megatron/core/distributed/ : finish_param_sync start_param_sync
COLLECTIVE=all_gather_into_tensor deepspeed/runtime/zero/partition : wait fetch_sub_module _fetch_sub_module_impl
# start and end
INIT torch/distributed/distributed_c10d.py : init_process_group new_group split_group shrink_group new_subgroups
RENDEZVOUS=init_process_group torch/distributed/rendezvous.py
INIT=init_device_mesh torch/distributed/device_mesh.py : init_device_mesh _init_process_groups
LEFT_IN=destroy_process_group torch/distributed/distributed_c10d.py : destroy_process_group
# its own GPU
GPU torch/cuda/ torch/accelerator/__init__.py : synchronize
GPU torch/amp/grad_scaler.py torch/_tensor_str.py : _maybe_opt_step _str
# JAX: a result is awaited where it is read; collectives over hosts have functions of their own
COLLECTIVE jax/experimental/multihost_utils.py
INIT=jax.distributed.initialize jax/_src/distributed.py : initialize connect
LEFT_IN=jax.distributed.shutdown jax/_src/distributed.py : shutdown
GPU jax/_src/array.py jax/_src/interpreters/pxla.py jax/_src/api.py : _value block_until_ready __call__ device_get
""",
    r"""
# c10d, any backend
COLLECTIVE=all_reduce c10d::Reducer::
COLLECTIVE=verify_params c10d::verify_params_across_processes
COLLECTIVE=broadcast c10d::broadcast_coalesced
COLLECTIVE=wait_tensor c10d_functional::wait_tensor
INIT=ncclCommInitRank c10d::ProcessGroupNCCL::(?:initNCCLComm|getNCCLComm|broadcastUniqueNCCLID)|ncclCommInit
INIT=ncclCommSplit ncclCommSplit
LEFT_IN=destroy_process_group c10d::ProcessGroupNCCL::(?:shutdown|~)|ncclComm(?:Finalize|Destroy|Abort)
P2P=recv c10d::ProcessGroupGloo::RecvWork|ncclRecv
P2P=send c10d::ProcessGroupGloo::SendWork|ncclSend
INIT=init_process_group c10d::ProcessGroupGloo::ProcessGroupGloo|gloo::rendezvous::
COLLECTIVE c10d::ProcessGroup(?:NCCL|Gloo)::(allreduce|allgather|alltoall_base|alltoall|monitoredBarrier)
COLLECTIVE c10d::ProcessGroup(?:NCCL|Gloo)::(_allgather_base|_reduce_scatter_base|reduce_scatter|reduce|broadcast)
COLLECTIVE c10d::ProcessGroup(?:NCCL|Gloo)::(barrier|gather|scatter|send|recv)
HANDLE c10d::Work::wait|c10d::ProcessGroup|torch::comms::|gloo::
RENDEZVOUS=init_process_group c10d::TCPStore::waitForWorkers
STORE c10d::(?:TCP|File|Hash|Prefix)Store::|c10d::detail::TCPClient::
# NCCL: first the calls of its API, then its work on the host
NCCL_PROXY ncclLocalOpAppend
COLLECTIVE nccl(AllReduce|AllGather|ReduceScatter|Broadcast|Bcast|Reduce)
COLLECTIVE=coalesced ncclGroupEnd
NCCL_QUEUE_FULL=enqueue waitWorkFifoAvailable
INIT=ncclCommInitRank bootstrap
# its own GPU; a full launch queue blocks the next launch, at any line of the forward or backward pass
GPU at::native::_local_scalar_dense_cuda|at::_ops::_local_scalar_dense|THPVariable_item|xla::PjRtStreamExecutor
GPU (?:cuda|cu|hip)(?:(?:Stream|Device|Ctx|Event)Synchronize|Memcpy|Free|MemFree)
GPU_QUEUE_FULL (?:cuda|cu|hip)(?:Ext)?(?:Module)?(?:Graph)?Launch
""",
)
"""Frames in which a rank waits for other ranks or for its own GPU; only ``--native`` dumps have native frames."""

PROGRAM = FrameTable(
    """
PROMPT /pdb.py : interaction _cmdloop cmdloop
PROMPT /code.py : interact raw_input
THREAD /threading.py : join _wait_for_tstate_lock _shutdown
LOCK /threading.py : wait wait_for acquire __enter__
QUEUE /queue.py : get put join
PROCESS_QUEUE /multiprocessing/queues.py : get put join_thread
QUEUE /multiprocessing/queues.py : _finalize_join
LOCK /multiprocessing/synchronize.py : acquire wait __enter__
MESSAGE /multiprocessing/connection.py : recv recv_bytes poll _recv _recv_bytes _poll wait accept
PROCESS_POOL /multiprocessing/pool.py : get wait next join map apply starmap
PROCESS_POOL /concurrent/futures/process.py : shutdown _python_exit
FUTURE /concurrent/futures/_base.py : result exception wait as_completed result_iterator
THREAD_POOL /concurrent/futures/thread.py : shutdown _python_exit
LOCK_FILE /filelock/
LOCK_FILE torch/utils/file_baton.py : wait
CHILD /subprocess.py : wait _wait _try_wait communicate _communicate run call check_call check_output
CHILD /multiprocessing/popen_fork.py : wait poll
EVENT_LOOP /asyncio/
NETWORK /socket.py /ssl.py : getaddrinfo do_handshake
SERVES /socketserver.py : serve_forever
""",
    """
GIL take_gil|PyEval_RestoreThread|PyEval_AcquireThread|PyGILState_Ensure
LOCK lock_PyThread_acquire_lock|rlock_acquire|PyThread_acquire_lock|_PyMutex_Lock|_multiprocessing_SemLock_acquire
QUEUE simplequeue_get|_queue_SimpleQueue_get
SLEEPS time_sleep|pysleep
""",
)
"""Frames in which any Python program waits. They count only if no row of ``PEERS`` and no phase gives a meaning."""

PHASES = FrameTable("""
data=DATA_WORKERS torch/utils/data/dataloader.py : _try_get_data _get_data _shutdown_workers _reset
data=DATA torch/utils/data/ /torchdata/ /webdataset/ /site-packages/datasets/ /streaming/base/ accelerate/data_loader.py
data=DATA loops/fetchers.py megatron/core/datasets/ megatron/training/datasets/ transformers/tokenization_utils
checkpoint=SAVES torch/serialization.py : save _save _legacy_save __exit__
checkpoint=LOADS torch/serialization.py : load _load _legacy_load
checkpoint=CHECKPOINT torch/distributed/checkpoint/ accelerate/checkpointing.py megatron/training/checkpointing.py
checkpoint=CHECKPOINT megatron/core/dist_checkpointing/ deepspeed/runtime/checkpoint_engine/ /orbax/checkpoint/
checkpoint=CHECKPOINT * : save_checkpoint load_checkpoint _save_checkpoint _load_from_checkpoint save_16bit_model
checkpoint=CHECKPOINT * : save_model load_model save_state load_state save_file load_file
checkpoint=CHECKPOINT * : save_pretrained from_pretrained
# without functions that stay on the stack while compiled code runs
compile=COMPILES torch/_dynamo/convert_frame.py triton/compiler/ triton/runtime/build.py jax/_src/compiler.py
compile=COMPILES torch/_inductor/compile_fx.py : compile_fx compile_fx_inner fx_codegen_and_compile bw_compiler
compile=COMPILES torch/_inductor/runtime/triton_heuristics.py : autotune_to_one_config benchmark_all_configs bench
compile=COMPILES torch/_inductor/async_compile.py torch/_inductor/graph.py torch/_functorch/aot_autograd.py
compile=COMPILES jax/_src/interpreters/ : compile from_hlo _cached_compilation lower_jaxpr_to_module
compile=COMPILES torch/utils/cpp_extension.py deepspeed/ops/op_builder/ : load load_inline _jit_compile jit_load
evaluation * : evaluate evaluation_loop prediction_loop evaluate_and_print_results
evaluation loops/evaluation_loop.py
# forward and backward: only a phase, unless no user frame is further in
backward torch/autograd/graph.py torch/autograd/__init__.py : _engine_run_backward backward grad
backward torch/_tensor.py deepspeed/runtime/engine.py : backward
backward megatron/core/pipeline_parallel/schedules.py : backward_step custom_backward
forward torch/nn/parallel/distributed.py : forward _run_ddp_forward _pre_forward
forward torch/distributed/fsdp/fully_sharded_data_parallel.py deepspeed/runtime/engine.py : forward
forward fsdp/_fsdp_state.py fsdp/_fully_shard/_fsdp_state.py : _pre_forward _root_pre_forward _post_forward
joined torch/distributed/algorithms/join.py : __exit__
# start and end
init <frozen : _find_and_load
init torch/nn/parallel/distributed.py : __init__ _ddp_init_helper
init torch/distributed/distributed_c10d.py : init_process_group new_group
shutdown=LEFT /threading.py /concurrent/futures/thread.py /concurrent/futures/process.py : _shutdown _python_exit
shutdown=LEFT /multiprocessing/util.py : _exit_function _run_finalizers
shutdown=LEFT /logging/__init__.py wandb/sdk/wandb_run.py : shutdown finish _finish _atexit_cleanup
""")
