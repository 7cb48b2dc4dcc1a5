"""The frames that say what a rank does, as rows: what they mean, the files or symbols, the functions.

Names were looked up in the sources of torch 2.1 to 2.13, DeepSpeed 0.9 to 0.19, Megatron core 0.5 and 0.15,
Accelerate 0.20 and 1.11, Lightning 2.5, transformers 4.30 and 4.57, JAX 0.4 to 0.11 and CPython 3.8 to 3.14; most were
seen in real dumps (``tests/fixtures/stacks``). Native names are of public headers, of pytorch#95944 and of nccl#901.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, get_args

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.frames import function, is_in
from hangtop.diagnosis.stacks.states import Meaning, Phase

C10D = "torch/distributed/distributed_c10d.py"


class FrameRow(NamedTuple):
    """Frames, and what a thread in them does."""

    where: str
    """End of a file's path, or a folder within it (with ``/`` at its end), or the beginning of a file's name; of native
    frames the beginning of the function's name."""
    names: frozenset[str]
    """Functions without their classes; empty: every function of the file."""
    meaning: Meaning | None
    op: str = ""
    """Operation; empty: the function's own name, where the meaning has one."""
    phase: Phase | None = None
    """What everything inside of these functions is a part of; ``meaning`` where no frame further in says more."""


class FrameTable:
    """Rows for Python's frames and for native ones; the first that fits a frame is taken."""

    def __init__(self, python: Sequence[FrameRow], native: Sequence[FrameRow] = ()) -> None:
        self._rows = {False: python, True: native}
        self._known: dict[tuple[str, str, bool], FrameRow | None] = {}

    def of(self, frame: Frame) -> FrameRow | None:
        """The row of a frame; None where no row fits."""
        key = (frame.name, frame.file, frame.native)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            name, rows = function(frame.name), self._rows[frame.native]
            fits = frame.name.startswith if frame.native else partial(is_in, frame.file)
            self._known[key] = next((row for row in rows if fits(row.where) and name in (row.names or {name})), None)
        return self._known[key]


_REMEMBERED = 8192
"""Frames of which the row is kept."""
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
    "_all_gather_base": "all_gather_into_tensor",
    "allgather_fn": "all_gather_into_tensor",  # DeepSpeed
    "all_gather_tensor": "all_gather_into_tensor",  # functional
    "reduce_scatter_single": "reduce_scatter_tensor",  # its name from torch 2.13 on
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_fn": "reduce_scatter_tensor",  # DeepSpeed
    "inference_all_reduce": "all_reduce",  # DeepSpeed
}
"""Other names of the same operation."""


def _rows(table: str) -> Iterator[tuple[str, str, list[str], frozenset[str]]]:
    """Lines ``WHAT=more FILE FILE : NAME NAME`` as (what, more, files, names). ``#`` begins a remark."""
    for line in table.splitlines():
        head, _, tail = line.partition("#")[0].partition(" : ")
        if files := head.split():
            what, _, more = files.pop(0).partition("=")
            yield what, more, files, OPERATIONS | set(ALIASES) if tail == "OPERATIONS" else frozenset(tail.split())


def _meanings(table: str) -> tuple[FrameRow, ...]:
    return tuple(
        FrameRow(where, names, Meaning[what], op) for what, op, found, names in _rows(table) for where in found
    )


def _phases(table: str) -> tuple[FrameRow, ...]:
    by_name: dict[str, Phase] = {phase: phase for phase in get_args(Phase)}
    return tuple(
        FrameRow(where, names, Meaning[said] if said else None, phase=by_name[phase])
        for phase, said, found, names in _rows(table)
        for where in found
    )


_PEERS = _meanings("""
# operations; those between two ranks are told by their names
COLLECTIVE torch/distributed/distributed_c10d.py : OPERATIONS
COLLECTIVE=coalesced torch/distributed/distributed_c10d.py : _coalescing_manager wait
COLLECTIVE torch/distributed/_functional_collectives.py : OPERATIONS
COLLECTIVE=wait_tensor torch/distributed/_functional_collectives : wait_tensor trigger_wait wait _wait_tensor _wait_all
COLLECTIVE deepspeed/comm/ : OPERATIONS
# DDP and FSDP: parts that go through C++ without a Python operation
COLLECTIVE=broadcast torch/nn/parallel/distributed.py : _distributed_broadcast_coalesced _default_broadcast_coalesced
COLLECTIVE=broadcast torch/nn/parallel/distributed.py : _sync_module_buffers _sync_buffers
COLLECTIVE=pre_forward torch/nn/parallel/distributed.py : _pre_forward
COLLECTIVE=all_reduce torch/nn/parallel/distributed.py : _check_global_requires_backward_grad_sync main_hook
COLLECTIVE=verify_params torch/distributed/utils.py : _verify_param_shape_across_processes
COLLECTIVE=broadcast torch/distributed/utils.py : _sync_module_states _sync_params_and_buffers
COLLECTIVE=all_gather_into_tensor _fully_shard/_fsdp_collectives.py : foreach_all_gather_copy_out
COLLECTIVE=broadcast torch/distributed/optim/zero_redundancy_optimizer.py : _sync_params _broadcast_params_from_rank
# libraries that wait on handles
P2P=batch_isend_irecv torch/distributed/pipelining/schedules.py : _wait_batch_p2p
P2P=batch_isend_irecv megatron/core/pipeline_parallel/p2p_communication.py : _communicate _communicate_shapes
P2P=batch_isend_irecv megatron/core/pipeline_parallel/p2p_communication.py : _batched_p2p_ops _p2p_ops
COLLECTIVE=reduce_scatter_tensor megatron/core/distributed/ : finish_grad_sync start_grad_sync
COLLECTIVE=all_gather_into_tensor megatron/core/distributed/ : finish_param_sync start_param_sync
P2P deepspeed/runtime/pipe/p2p.py : send recv
COLLECTIVE=all_gather_into_tensor deepspeed/runtime/zero/partition : wait fetch_sub_module _fetch_sub_module_impl
COLLECTIVE=all_gather_into_tensor deepspeed/runtime/zero/partition : __all_gather_params __all_gather_params_
# start and end
INIT torch/distributed/distributed_c10d.py : init_process_group new_group _new_group_with_tag split_group shrink_group
INIT torch/distributed/distributed_c10d.py : _new_group_via_split_group new_subgroups new_subgroups_by_enumeration
INIT torch/distributed/distributed_c10d.py : _new_process_group_helper _store_based_barrier
RENDEZVOUS=init_process_group torch/distributed/rendezvous.py
INIT=init_device_mesh torch/distributed/device_mesh.py : init_device_mesh _init_process_groups _init_one_process_group
INIT=init_device_mesh torch/distributed/device_mesh.py : _get_or_create_default_group _setup_world_group_and_device
INIT deepspeed/comm/comm.py : init_distributed
LEFT_IN=destroy_process_group torch/distributed/distributed_c10d.py : destroy_process_group _shutdown_backend
# its own GPU
GPU torch/cuda/ torch/accelerator/__init__.py : synchronize
GPU torch/amp/grad_scaler.py : _maybe_opt_step
GPU torch/_tensor_str.py
# JAX: results are awaited where they are read; a collective over hosts is awaited by its name
COLLECTIVE jax/experimental/multihost_utils.py : sync_global_devices broadcast_one_to_all process_allgather
COLLECTIVE jax/experimental/multihost_utils.py : assert_equal _handle_array_process_allgather _pjit
INIT=jax.distributed.initialize jax/_src/distributed.py : initialize connect
LEFT_IN=jax.distributed.shutdown jax/_src/distributed.py : shutdown
GPU jax/_src/array.py : _value __array__ block_until_ready item tolist __float__ __int__ __bool__ __index__
GPU jax/_src/interpreters/pxla.py : __call__
GPU jax/_src/api.py : block_until_ready device_get effects_barrier
""")

_NATIVE_PEERS = _meanings("""
# c10d, any backend; longer names before their beginnings
COLLECTIVE=all_reduce c10d::Reducer::
COLLECTIVE=verify_params c10d::verify_params_across_processes
COLLECTIVE=broadcast c10d::broadcast_coalesced
COLLECTIVE=wait_tensor c10d_functional::wait_tensor
HANDLE c10d::Work::wait c10d::ProcessGroupNCCL::WorkNCCL::
INIT=ncclCommInitRank c10d::ProcessGroupNCCL::initNCCLComm c10d::ProcessGroupNCCL::getNCCLComm
INIT=ncclGetUniqueId c10d::ProcessGroupNCCL::broadcastUniqueNCCLID
LEFT_IN=destroy_process_group c10d::ProcessGroupNCCL::shutdown c10d::ProcessGroupNCCL::~ProcessGroupNCCL
COLLECTIVE=monitored_barrier c10d::ProcessGroupGloo::monitoredBarrier
RECV=recv c10d::ProcessGroupGloo::RecvWork::
SEND=send c10d::ProcessGroupGloo::SendWork::
GLOO_CONNECTS=init_process_group c10d::ProcessGroupGloo::ProcessGroupGloo gloo::rendezvous::
COLLECTIVE=all_reduce c10d::ProcessGroupNCCL::allreduce c10d::ProcessGroupGloo::allreduce
COLLECTIVE=broadcast c10d::ProcessGroupNCCL::broadcast c10d::ProcessGroupGloo::broadcast
COLLECTIVE=reduce_scatter c10d::ProcessGroupNCCL::reduce_scatter c10d::ProcessGroupGloo::reduce_scatter
COLLECTIVE=reduce c10d::ProcessGroupNCCL::reduce c10d::ProcessGroupGloo::reduce
COLLECTIVE=all_gather_into_tensor c10d::ProcessGroupNCCL::_allgather_base c10d::ProcessGroupGloo::_allgather_base
COLLECTIVE=all_gather c10d::ProcessGroupNCCL::allgather c10d::ProcessGroupGloo::allgather
COLLECTIVE=reduce_scatter_tensor c10d::ProcessGroupNCCL::_reduce_scatter_base
COLLECTIVE=reduce_scatter_tensor c10d::ProcessGroupGloo::_reduce_scatter_base
COLLECTIVE=all_to_all_single c10d::ProcessGroupNCCL::alltoall_base c10d::ProcessGroupGloo::alltoall_base
COLLECTIVE=all_to_all c10d::ProcessGroupNCCL::alltoall c10d::ProcessGroupGloo::alltoall
COLLECTIVE=barrier c10d::ProcessGroupNCCL::barrier c10d::ProcessGroupGloo::barrier
COLLECTIVE=gather c10d::ProcessGroupNCCL::gather c10d::ProcessGroupGloo::gather
COLLECTIVE=scatter c10d::ProcessGroupNCCL::scatter c10d::ProcessGroupGloo::scatter
COLLECTIVE=send c10d::ProcessGroupNCCL::send c10d::ProcessGroupGloo::send
COLLECTIVE=recv c10d::ProcessGroupNCCL::recv c10d::ProcessGroupGloo::recv
HANDLE c10d::ProcessGroup torch::comms:: gloo::
RENDEZVOUS=init_process_group c10d::TCPStore::waitForWorkers
STORE c10d::TCPStore:: c10d::FileStore:: c10d::HashStore:: c10d::PrefixStore:: c10d::detail::TCPClient::
# NCCL: what it was asked for, then what it does on the host
NCCL_PROXY ncclLocalOpAppend
COLLECTIVE=all_reduce ncclAllReduce
COLLECTIVE=all_gather_into_tensor ncclAllGather
COLLECTIVE=reduce_scatter_tensor ncclReduceScatter
COLLECTIVE=broadcast ncclBroadcast ncclBcast
COLLECTIVE=reduce ncclReduce
SEND=send ncclSend
RECV=recv ncclRecv
COLLECTIVE=coalesced ncclGroupEnd
NCCL_QUEUE_FULL=enqueue waitWorkFifoAvailable
INIT=ncclCommInitRank ncclCommInit
INIT=ncclCommSplit ncclCommSplit
LEFT_IN=destroy_process_group ncclCommFinalize ncclCommDestroy ncclCommAbort
NCCL_BOOTSTRAP=ncclCommInitRank bootstrap
# its own GPU
GPU at::native::_local_scalar_dense_cuda at::_ops::_local_scalar_dense THPVariable_item xla::PjRtStreamExecutor
GPU cudaStreamSynchronize cudaDeviceSynchronize cudaEventSynchronize cudaMemcpy cudaFree
GPU cuStreamSynchronize cuCtxSynchronize cuEventSynchronize cuMemcpy cuMemFree
GPU hipStreamSynchronize hipDeviceSynchronize hipEventSynchronize hipMemcpy hipFree
# a full queue of launches blocks whatever is launched next, in any line of the forward or backward pass
GPU_QUEUE_FULL cudaLaunchKernel cudaLaunchCooperativeKernel cudaGraphLaunch
GPU_QUEUE_FULL cuLaunchKernel cuLaunchCooperativeKernel cuGraphLaunch
GPU_QUEUE_FULL hipLaunchKernel hipModuleLaunchKernel hipExtModuleLaunchKernel hipGraphLaunch
""")
PEERS = FrameTable(_PEERS, _NATIVE_PEERS)
"""Frames in which a rank waits for other ranks or for its own GPU; native ones are in ``--native`` dumps alone."""

_PROGRAM = _meanings("""
PROMPT /pdb.py : interaction _cmdloop cmdloop
PROMPT /code.py : interact raw_input
THREAD /threading.py : join _wait_for_tstate_lock _shutdown
EVENT /threading.py : wait wait_for acquire __enter__
QUEUE /queue.py : get put
QUEUE_TAKEN /queue.py : join
PROCESS_QUEUE /multiprocessing/queues.py : get put join_thread
QUEUE_TAKEN /multiprocessing/queues.py : _finalize_join
PROCESS_LOCK /multiprocessing/synchronize.py : acquire wait __enter__
MESSAGE /multiprocessing/connection.py : recv recv_bytes poll _recv _recv_bytes _poll wait accept
PROCESS_POOL /multiprocessing/pool.py : get wait next join map apply starmap
CHILD /multiprocessing/popen_fork.py : wait poll
FUTURE /concurrent/futures/_base.py : result exception wait as_completed result_iterator
THREAD_POOL /concurrent/futures/thread.py : shutdown _python_exit
PROCESS_POOL /concurrent/futures/process.py : shutdown _python_exit
LOCK_FILE /filelock/
LOCK_FILE torch/utils/file_baton.py : wait
CHILD /subprocess.py : wait _wait _try_wait communicate _communicate run call check_call check_output
EVENT_LOOP /asyncio/
NETWORK /ssl.py : read recv recv_into do_handshake send sendall write
NETWORK /socket.py : readinto recv accept create_connection getaddrinfo
SERVES /socketserver.py : serve_forever
""")

_NATIVE_PROGRAM = _meanings("""
GIL take_gil PyEval_RestoreThread PyEval_AcquireThread PyGILState_Ensure
LOCK lock_PyThread_acquire_lock rlock_acquire PyThread_acquire_lock _PyMutex_Lock
QUEUE simplequeue_get _queue_SimpleQueue_get
PROCESS_LOCK _multiprocessing_SemLock_acquire
SLEEPS time_sleep pysleep
NETWORK sock_call_ex sock_sendall sock_recv internal_connect _ssl__SSLSocket
# no waits: arithmetic, the garbage collector, compression
COMPUTES mkl_blas at::native:: sgemm_kernel dgemm_kernel gc_collect_main
COMPUTES deflate inflate BZ2_bz lzma_code ZSTD_ LZ4_
""")
PROGRAM = FrameTable(_PROGRAM, _NATIVE_PROGRAM)
"""Frames in which any Python program waits. They count only where no row above does, and no phase says more."""

PHASES = FrameTable(
    _phases("""
data=DATA_WORKERS torch/utils/data/dataloader.py : _try_get_data _get_data _shutdown_workers _reset
data=DATA torch/utils/data/ /torchdata/ /webdataset/ /site-packages/datasets/ /streaming/base/
data=DATA accelerate/data_loader.py loops/fetchers.py megatron/core/datasets/ megatron/training/datasets/
data=DATA transformers/tokenization_utils transformers/data/
checkpoint=SAVES torch/serialization.py : save _save _legacy_save __exit__
checkpoint=LOADS torch/serialization.py : load _load _legacy_load
checkpoint=CHECKPOINT torch/distributed/checkpoint/ accelerate/checkpointing.py megatron/training/checkpointing.py
checkpoint=CHECKPOINT megatron/checkpointing.py megatron/core/dist_checkpointing/ deepspeed/runtime/checkpoint_engine/
checkpoint=CHECKPOINT connectors/checkpoint_connector.py fabric/utilities/cloud_io.py /orbax/checkpoint/
checkpoint=CHECKPOINT safetensors/torch.py : save_file save load_file load save_model load_model
checkpoint=CHECKPOINT transformers/trainer.py : _save_checkpoint save_model _save _save_optimizer_and_scheduler
checkpoint=CHECKPOINT transformers/trainer.py : _load_from_checkpoint _load_optimizer_and_scheduler
checkpoint=CHECKPOINT transformers/modeling_utils.py : save_pretrained from_pretrained
checkpoint=CHECKPOINT accelerate/accelerator.py : save save_state save_model load_state
checkpoint=CHECKPOINT deepspeed/runtime/engine.py : save_checkpoint load_checkpoint save_16bit_model
checkpoint=CHECKPOINT callbacks/model_checkpoint.py : _save_checkpoint _save_topk_checkpoint _save_last_checkpoint
# not eval_frame.py nor runtime_wrappers.py, which stay on the stack of compiled code that runs
compile=COMPILES torch/_dynamo/convert_frame.py torch/_dynamo/output_graph.py torch/_dynamo/symbolic_convert.py
compile=COMPILES torch/_functorch/aot_autograd.py torch/_functorch/_aot_autograd/graph_compile.py
compile=COMPILES torch/_inductor/graph.py torch/_inductor/scheduler.py torch/_inductor/select_algorithm.py
compile=COMPILES torch/_inductor/async_compile.py triton/compiler/ triton/runtime/build.py jax/_src/compiler.py
compile=COMPILES torch/_inductor/compile_fx.py : compile_fx compile_fx_inner fx_codegen_and_compile bw_compiler
compile=COMPILES torch/_inductor/compile_fx.py : codegen_and_compile fw_compiler_base _compile_fx_inner
compile=COMPILES torch/_inductor/codecache.py : load load_async compile result wait
compile=COMPILES torch/_inductor/runtime/triton_heuristics.py : autotune_to_one_config benchmark_all_configs bench
compile=COMPILES jax/_src/interpreters/ : compile from_hlo _cached_compilation lower_sharding_computation
compile=COMPILES jax/_src/interpreters/ : _cached_lowering_to_hlo lower_jaxpr_to_module
compile=COMPILES torch/utils/cpp_extension.py : load load_inline _jit_compile _run_ninja_build
compile=COMPILES deepspeed/ops/op_builder/ : load jit_load
evaluation=EVALUATES transformers/trainer.py : evaluate evaluation_loop prediction_loop predict
evaluation=EVALUATES loops/evaluation_loop.py
evaluation=EVALUATES megatron/training/training.py : evaluate evaluate_and_print_results
# forward and backward: only the phase, unless nothing of the user's is further in
backward torch/autograd/graph.py : _engine_run_backward
backward torch/autograd/__init__.py : backward grad
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
shutdown=LEFT /threading.py : _shutdown
shutdown=LEFT /concurrent/futures/thread.py /concurrent/futures/process.py : _python_exit
shutdown=LEFT /multiprocessing/util.py : _exit_function _run_finalizers
shutdown=LEFT /logging/__init__.py : shutdown
shutdown=LEFT wandb/sdk/wandb_run.py : finish _finish _atexit_cleanup
""")
)
