"""Frames in which a rank waits for other ranks or for its own GPU: the table, with its sources.

"run 2.13" was seen in a real dump (``tests/fixtures/stacks``). For "2.1-2.13" every name of the row was looked up in
the Python sources of 2.1.2, 2.2.2, 2.3.1, 2.4.1, 2.5.1, 2.6.0, 2.7.1, 2.8.0, 2.9.1, 2.10.0, 2.11.0, 2.12.1 and 2.13.0:
one of them at least is there in each, and each is there in one at least; a shorter range is where that holds. So were
DeepSpeed 0.9.5, 0.18.2 and 0.19.6, Megatron core 0.5.0 and 0.15.0, Accelerate 0.20.3 and 1.11.0, Lightning 2.5.5.
Native names ("C++") are of the public headers and were not looked up version by version.
"""

from __future__ import annotations

from hangtop.diagnosis.stacks.mpi import MPI_WAITS
from hangtop.diagnosis.stacks.vocabulary import ANY, NativeWait, Wait

C10D = "torch/distributed/distributed_c10d.py"
_WAITS_IN = "waits in {op}"

OPERATIONS = frozenset(
    "send recv isend irecv batch_isend_irecv broadcast all_reduce all_reduce_coalesced reduce all_gather_object "
    "gather_object send_object_list recv_object_list broadcast_object_list scatter_object_list all_gather "
    "all_gather_into_tensor all_gather_coalesced gather scatter reduce_scatter reduce_scatter_tensor all_to_all_single "
    "all_to_all barrier monitored_barrier".split()
)
"""Operations as torch.distributed names them from 2.1 to 2.13; ``send_object_list`` and its peer come with 2.4."""

PACKS = frozenset(("_object_to_tensor", "_tensor_to_object"))
"""Functions of the same file that pickle what is to be sent, or unpickle what came: run 2.13."""

ROOTS = {
    "broadcast": "src", "broadcast_object_list": "src", "scatter": "src", "scatter_object_list": "src",
    "gather": "dst", "gather_object": "dst", "reduce": "dst",
}  # fmt: skip
"""Operations that have a root, and the argument that tells it, 2.1 to 2.13; later also ``group_src``, ``group_dst``."""

POINT_TO_POINT = frozenset("send recv isend irecv batch_isend_irecv send_object_list recv_object_list".split())

ALIASES = {
    "all_gather_single": "all_gather_into_tensor",  # its name from 2.13 on
    "_all_gather_base": "all_gather_into_tensor",
    "allgather_fn": "all_gather_into_tensor",  # DeepSpeed
    "all_gather_tensor": "all_gather_into_tensor",  # functional
    "reduce_scatter_single": "reduce_scatter_tensor",  # its name from 2.13 on
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_fn": "reduce_scatter_tensor",  # DeepSpeed
    "inference_all_reduce": "all_reduce",  # DeepSpeed
    "_batch_p2p": "batch_isend_irecv",
}
"""Other names of the same operation."""

_OPERATION_NAMES = " ".join(sorted(OPERATIONS | set(ALIASES)))

WAITS: tuple[Wait, ...] = (
    # operations; kind "p2p" is given by the operation's name
    Wait(C10D, _OPERATION_NAMES, "collective", "peers", _WAITS_IN, "run 2.13; 2.1-2.13"),
    Wait(C10D, "_coalescing_manager wait", "collective", "peers", _WAITS_IN, "2.1-2.13", op="coalesced"),
    Wait("torch/distributed/_functional_collectives.py", _OPERATION_NAMES, "collective", "peers", _WAITS_IN,
         "2.1-2.13"),
    Wait("torch/distributed/_functional_collectives.py", "wait_tensor trigger_wait wait", "collective", "peers",
         "waits for a functional collective", "run 2.13; 2.1-2.13", op="wait_tensor"),
    Wait("torch/distributed/_functional_collectives_impl.py", "_wait_tensor _wait_all wait", "collective", "peers",
         "waits for a functional collective", "2.1-2.3", op="wait_tensor"),
    Wait("torch/distributed/tensor/_tp_conv.py", "_ring_send_recv_construct _ring_send_recv_aggregate", "p2p", "peers",
         _WAITS_IN, "2.5-2.13", op="batch_isend_irecv"),
    Wait("torch/distributed/nn/functional.py", "forward backward", "collective", "peers", _WAITS_IN, "2.1-2.13",
         op="wait_tensor"),
    Wait("deepspeed/comm/comm.py", _OPERATION_NAMES, "collective", "peers", _WAITS_IN,
         "DeepSpeed 0.9.5-0.19"),
    Wait("deepspeed/comm/torch.py", _OPERATION_NAMES, "collective", "peers", _WAITS_IN, "DeepSpeed 0.9.5-0.19"),
    Wait("accelerate/state.py", "wait_for_everyone", "collective", "peers", _WAITS_IN, "Accelerate 0.20, 1.11",
         op="barrier"),
    # DDP: its buffers and shapes go through C++ without a Python operation
    Wait("torch/nn/parallel/distributed.py",
         "_distributed_broadcast_coalesced _default_broadcast_coalesced _sync_module_buffers _sync_buffers",
         "collective", "peers", "waits in the forward pass of DDP ({op})", "run 2.13; 2.1-2.13", op="broadcast"),
    # … its buckets, too, or the events of an earlier step (Logger::set_runtime_stats_and_log): run 2.11 over NCCL
    Wait("torch/nn/parallel/distributed.py", "_pre_forward", "collective", "peers",
         "waits in the forward pass of DDP ({op})", "run 2.13; 2.1-2.13", op="pre_forward"),
    Wait("torch/nn/parallel/distributed.py",
         "_match_all_reduce_for_bwd_pass _check_global_requires_backward_grad_sync main_hook", "collective", "peers",
         "waits for ranks that joined ({op})", "2.1-2.13", op="all_reduce"),
    Wait("torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_all_gather_copy_out", "collective",
         "peers", "waits for the parameters of FSDP2 ({op})", "2.6-2.13", op="all_gather_into_tensor"),
    Wait("torch/distributed/_composable/fsdp/_fsdp_collectives.py", "foreach_all_gather_copy_out", "collective",
         "peers", "waits for the parameters of FSDP2 ({op})", "2.3-2.5", op="all_gather_into_tensor"),
    Wait("torch/distributed/fsdp/sharded_grad_scaler.py", "unscale_", "collective", "peers",
         "waits in the gradient scaler of FSDP ({op})", "2.1-2.13", op="all_reduce"),
    Wait("torch/distributed/utils.py", "_verify_param_shape_across_processes", "collective", "peers",
         "waits in the constructor of DDP ({op})", "run 2.13; 2.1-2.13", op="verify_params"),
    Wait("torch/distributed/utils.py", "_sync_module_states _sync_params_and_buffers", "collective", "peers",
         "waits for the first parameters ({op})", "2.1-2.13", op="broadcast"),
    Wait("torch/distributed/optim/zero_redundancy_optimizer.py",
         "_sync_params _broadcast_params_from_rank consolidate_state_dict", "collective", "peers",
         "waits in the step of ZeroRedundancyOptimizer ({op})", "run 2.13; 2.1-2.13", op="broadcast"),
    # libraries that wait on handles
    Wait("torch/distributed/pipelining/schedules.py", "_wait_batch_p2p", "p2p", "peers", _WAITS_IN, "2.8-2.13",
         op="batch_isend_irecv"),
    Wait("megatron/core/pipeline_parallel/p2p_communication.py",
         "_communicate _communicate_shapes _batched_p2p_ops _p2p_ops", "p2p", "peers",
         "waits for the neighbouring pipeline stage ({op})", "Megatron core 0.5, 0.15", op="batch_isend_irecv"),
    Wait("megatron/core/distributed/grad_buffer.py", "finish_grad_sync start_grad_sync", "collective", "peers",
         "waits for the gradients' {op}", "Megatron core 0.5", op="all_reduce"),
    Wait("megatron/core/distributed/param_and_grad_buffer.py", "finish_grad_sync start_grad_sync", "collective",
         "peers", "waits for the gradients' {op}", "Megatron core 0.15", op="reduce_scatter_tensor"),
    Wait("megatron/core/distributed/param_and_grad_buffer.py", "finish_param_sync start_param_sync", "collective",
         "peers", "waits for the parameters' {op}", "Megatron core 0.15", op="all_gather_into_tensor"),
    Wait("deepspeed/runtime/pipe/p2p.py", "send recv send_obj recv_obj wait", "p2p", "peers",
         "waits for the neighbouring pipeline stage ({op})", "DeepSpeed 0.9.5-0.19"),
    Wait("deepspeed/runtime/zero/partition_parameters.py", "wait", "collective", "peers",
         "waits for ZeRO-3 parameters ({op})", "DeepSpeed 0.9.5-0.19", op="all_gather_into_tensor"),
    Wait("deepspeed/runtime/zero/partitioned_param_coordinator.py",
         "fetch_sub_module _fetch_sub_module_impl __all_gather_params __all_gather_params_", "collective", "peers",
         "waits for ZeRO-3 parameters ({op})", "DeepSpeed 0.9.5-0.19", op="all_gather_into_tensor"),
    # start and end
    Wait(C10D,
         "init_process_group new_group _new_group_with_tag _new_group_via_split_group split_group new_subgroups "
         "new_subgroups_by_enumeration _new_process_group_helper _store_based_barrier shrink_group",
         "init", "peers", _WAITS_IN, "run 2.13; 2.1-2.13"),
    Wait("torch/distributed/rendezvous.py",
         "_create_c10d_store _env_rendezvous_handler _tcp_rendezvous_handler _file_rendezvous_handler rendezvous",
         "init", "peers", "waits for the rendezvous of init_process_group", "run 2.13; 2.1-2.13",
         op="init_process_group"),
    Wait("torch/distributed/device_mesh.py",
         "init_device_mesh _init_process_groups _init_one_process_group "
         "_get_or_create_default_group _setup_world_group_and_device",
         "init", "peers", _WAITS_IN, "2.2-2.13", op="init_device_mesh"),
    Wait("torch/distributed/_tensor/device_mesh.py", "_init_process_groups _get_or_create_default_group",
         "init", "peers", _WAITS_IN, "2.1", op="init_device_mesh"),
    Wait("deepspeed/comm/comm.py", "init_distributed", "init", "peers", _WAITS_IN, "DeepSpeed 0.9.5-0.19"),
    Wait("torch/distributed/elastic/utils/store.py",
         "barrier synchronize get_all _barrier_nonblocking _try_detecting_missing_ranks", "store", "peers",
         "waits at torchelastic's store", "2.1-2.13"),
    Wait(C10D, "destroy_process_group _shutdown_backend _abort_process_group", "shutdown", "unknown",
         "has left training: in {op}", "2.1-2.13", op="destroy_process_group"),
    # remote calls: who calls waits for whoever is called, who serves for all others to be done
    Wait("torch/distributed/rpc/api.py", "rpc_sync remote _invoke_rpc", "p2p", "peers",
         "waits for another rank's answer ({op})", "run 2.13", op="rpc_sync"),
    Wait("torch/distributed/rpc/api.py", "shutdown _wait_all_workers _all_gather _barrier", "collective", "peers",
         "serves others' calls until all are done", "run 2.13", op="rpc.shutdown"),
    # its own GPU
    Wait("torch/cuda/__init__.py", "synchronize", "device", "device", "waits for its GPU (synchronize)", "2.1-2.13"),
    Wait("torch/cuda/streams.py", "synchronize", "device", "device", "waits for its GPU (a stream or an event)",
         "2.1-2.13"),
    Wait("torch/accelerator/__init__.py", "synchronize", "device", "device", "waits for its GPU (synchronize)",
         "2.6-2.13"),
    Wait("torch/xpu/__init__.py", "synchronize", "device", "device", "waits for its GPU (synchronize)", "2.3-2.13"),
    Wait("torch/amp/grad_scaler.py", "_maybe_opt_step", "device", "device",
         "waits for its GPU (the gradient scaler's .item())", "2.3-2.13"),
    Wait("torch/cuda/amp/grad_scaler.py", "_maybe_opt_step", "device", "device",
         "waits for its GPU (the gradient scaler's .item())", "2.1-2.2"),
    Wait("torch/_tensor_str.py", ANY, "device", "device", "waits for its GPU (prints a tensor)", "2.1-2.13"),
    # TensorFlow: replicas of several workers meet over a pool of threads; in a function that it traced they may compute
    Wait("tensorflow/python/distribute/cross_device_ops.py", "_all_reduce_per_replica_values _batch_all_reduce "
         "_all_reduce reduce_implementation batch_reduce_implementation _gather_implementation", "collective", "peers",
         _WAITS_IN, "run TensorFlow 2.21", "all_reduce"),
    # JAX: results are awaited where they are read; a collective over hosts is awaited by its name
    Wait("jax/experimental/multihost_utils.py", "sync_global_devices broadcast_one_to_all process_allgather "
         "assert_equal _handle_array_process_allgather _pjit", "collective", "peers", _WAITS_IN,
         "run JAX 0.10; 0.4-0.11"),
    Wait("jax/_src/distributed.py", "initialize connect", "init", "peers", "waits for JAX's coordinator",
         "JAX 0.4-0.11", op="jax.distributed.initialize"),
    Wait("jax/_src/distributed.py", "shutdown", "shutdown", "unknown", "has left training: in {op}", "JAX 0.4-0.11",
         op="jax.distributed.shutdown"),
    Wait("jax/_src/array.py", "_value __array__ block_until_ready item tolist __float__ __int__ __bool__ __index__",
         "device", "device", "waits for its GPU (reads an array)", "run JAX 0.10; 0.4-0.11; marin#7344"),
    Wait("jax/_src/interpreters/pxla.py", "__call__", "device", "device", "waits for its GPU (starts a program)",
         "run JAX 0.10"),
    Wait("jax/_src/api.py", "block_until_ready device_get effects_barrier", "device", "device",
         "waits for its GPU (block_until_ready)", "JAX 0.4-0.11"),
)  # fmt: skip

_BACKEND_NAMES = {
    "allreduce": "all_reduce", "broadcast": "broadcast", "reduce_scatter": "reduce_scatter", "reduce": "reduce",
    "_allgather_base": "all_gather_into_tensor", "allgather": "all_gather",
    "_reduce_scatter_base": "reduce_scatter_tensor", "alltoall_base": "all_to_all_single", "alltoall": "all_to_all",
    "barrier": "barrier", "gather": "gather", "scatter": "scatter", "send": "send", "recv": "recv",
}  # fmt: skip
"""Methods of c10d's backends, longer names before their beginnings, and the operations that they are."""

_BACKEND_CALLS = tuple(
    NativeWait(f"c10d::{backend}::{method}", "collective", "peers", _WAITS_IN, "C++", op)
    for backend in ("ProcessGroupNCCL", "ProcessGroupGloo")
    for method, op in _BACKEND_NAMES.items()
)

NATIVE_WAITS: tuple[NativeWait, ...] = (
    # c10d, any backend
    NativeWait("c10d::Reducer::", "collective", "peers", "waits for the gradients of DDP ({op})", "run 2.13; C++",
               "all_reduce"),
    NativeWait("c10d::verify_params_across_processes", "collective", "peers",
               "waits in the constructor of DDP ({op})", "run 2.13", "verify_params"),
    NativeWait("c10d::broadcast_coalesced", "collective", "peers", "waits in the forward pass of DDP ({op})",
               "C++", "broadcast"),
    NativeWait("c10d::Work::wait", "collective", "peers", "waits for an operation begun earlier", "run 2.13; C++"),
    NativeWait("c10d_functional::wait_tensor", "collective", "peers", _WAITS_IN, "C++", "wait_tensor"),
    NativeWait("c10d::ProcessGroupNCCL::WorkNCCL::", "collective", "peers", "waits for an NCCL operation", "C++"),
    NativeWait("c10d::ProcessGroupNCCL::initNCCLComm", "init", "peers", _WAITS_IN, "C++, from 2.6", "ncclCommInitRank"),
    NativeWait("c10d::ProcessGroupNCCL::getNCCLComm", "init", "peers", _WAITS_IN, "C++, to 2.5", "ncclCommInitRank"),
    NativeWait("c10d::ProcessGroupNCCL::broadcastUniqueNCCLID", "init", "peers", "waits for the NCCL id of rank 0",
               "C++", "ncclGetUniqueId"),
    NativeWait("c10d::ProcessGroupNCCL::shutdown", "shutdown", "unknown", "has left training: shuts NCCL down",
               "C++", "destroy_process_group"),
    NativeWait("c10d::ProcessGroupNCCL::~ProcessGroupNCCL", "shutdown", "unknown",
               "has left training: shuts NCCL down", "C++", "destroy_process_group"),
    *_BACKEND_CALLS,
    NativeWait("c10d::ProcessGroupNCCL::", "collective", "peers", "waits for an NCCL operation", "C++"),
    NativeWait("c10d::ProcessGroupGloo::monitoredBarrier", "collective", "peers", _WAITS_IN, "C++",
               "monitored_barrier"),
    NativeWait("c10d::ProcessGroupGloo::RecvWork::", "p2p", "peers", "waits to receive", "C++", "recv"),
    NativeWait("c10d::ProcessGroupGloo::SendWork::", "p2p", "peers", "waits to send", "C++", "send"),
    NativeWait("c10d::ProcessGroupGloo::ProcessGroupGloo", "init", "peers", "waits for gloo's connections",
               "C++", "init_process_group"),
    NativeWait("c10d::ProcessGroupGloo::", "collective", "peers", "waits for a gloo operation", "C++"),
    NativeWait("gloo::rendezvous::", "init", "peers", "waits for gloo's connections", "C++",
               "init_process_group"),
    NativeWait("gloo::", "collective", "peers", "waits for a gloo operation", "C++"),
    # store
    NativeWait("c10d::TCPStore::waitForWorkers", "init", "peers", "waits for the rendezvous of init_process_group",
               "run 2.13; C++", "init_process_group"),
    NativeWait("c10d::TCPStore::", "store", "peers", "waits at the store (TCPStore)", "C++"),
    NativeWait("c10d::FileStore::", "store", "peers", "waits at the store (FileStore)", "C++"),
    NativeWait("c10d::HashStore::", "store", "peers", "waits at the store (HashStore)", "C++"),
    NativeWait("c10d::PrefixStore::", "store", "peers", "waits at the store", "C++"),
    NativeWait("c10d::detail::TCPClient::", "store", "peers", "waits at the store (TCPStore)", "C++"),
    # NCCL: what it was asked for, then what it does on the host
    NativeWait("ncclAllReduce", "collective", "peers", _WAITS_IN, "nccl.h 2.18-2.30", "all_reduce"),
    NativeWait("ncclAllGather", "collective", "peers", _WAITS_IN, "nccl.h 2.18-2.30", "all_gather_into_tensor"),
    NativeWait("ncclReduceScatter", "collective", "peers", _WAITS_IN, "nccl.h 2.18-2.30", "reduce_scatter_tensor"),
    NativeWait("ncclBroadcast", "collective", "peers", _WAITS_IN, "nccl.h 2.18-2.30", "broadcast"),
    NativeWait("ncclBcast", "collective", "peers", _WAITS_IN, "nccl.h 2.18-2.30", "broadcast"),
    NativeWait("ncclReduce", "collective", "peers", _WAITS_IN, "nccl.h 2.18-2.30", "reduce"),
    NativeWait("ncclSend", "p2p", "peers", "waits to send", "nccl.h 2.18-2.30", "send"),
    NativeWait("ncclRecv", "p2p", "peers", "waits to receive", "nccl.h 2.18-2.30", "recv"),
    NativeWait("ncclGroupEnd", "collective", "peers", "waits for NCCL's group of operations", "nccl.h 2.18-2.30",
               "coalesced"),
    NativeWait("waitWorkFifoAvailable", "collective", "peers", "waits for room in NCCL's queue of operations",
               "nccl src/enqueue.cc, nccl#1251", "enqueue"),
    NativeWait("ncclCommInit", "init", "peers", "waits in {op}", "nccl.h 2.18-2.30", "ncclCommInitRank"),
    NativeWait("ncclCommSplit", "init", "peers", "waits in {op}", "nccl.h 2.18-2.30", "ncclCommSplit"),
    NativeWait("ncclCommFinalize", "shutdown", "unknown", "has left training: in {op}", "nccl.h 2.18-2.30",
               "destroy_process_group"),
    NativeWait("ncclCommDestroy", "shutdown", "unknown", "has left training: in {op}", "nccl.h 2.18-2.30",
               "destroy_process_group"),
    NativeWait("ncclCommAbort", "shutdown", "unknown", "has left training: in {op}", "nccl.h 2.18-2.30",
               "destroy_process_group"),
    NativeWait("bootstrapAllGather", "init", "peers", "waits in NCCL's bootstrap", "nccl src/bootstrap.cc",
               "ncclCommInitRank"),
    NativeWait("bootstrapNetInit", "init", "peers", "waits in NCCL's bootstrap", "nccl src/bootstrap.cc",
               "ncclCommInitRank"),
    *MPI_WAITS,
    # its own GPU: pytorch#95944 and nccl#901 show these in hung ranks
    NativeWait("at::native::_local_scalar_dense_cuda", "device", "device", "waits for its GPU (.item())",
               "pytorch#95944"),
    NativeWait("at::_ops::_local_scalar_dense", "device", "device", "waits for its GPU (.item())", "C++"),
    NativeWait("THPVariable_item", "device", "device", "waits for its GPU (.item())", "C++"),
    NativeWait("cudaStreamSynchronize", "device", "device", "waits for its GPU (synchronize)", "nccl#901"),
    NativeWait("cudaDeviceSynchronize", "device", "device", "waits for its GPU (synchronize)", "pytorch#95944"),
    NativeWait("cudaEventSynchronize", "device", "device", "waits for its GPU (an event)", "CUDA runtime API"),
    NativeWait("cudaMemcpy", "device", "device", "waits for its GPU (a copy)", "pytorch#95944"),
    NativeWait("cudaFree", "device", "device", "waits for its GPU (frees memory)", "CUDA runtime API"),
    NativeWait("cuStreamSynchronize", "device", "device", "waits for its GPU (synchronize)", "CUDA driver API"),
    NativeWait("cuEventSynchronize", "device", "device", "waits for its GPU (an event)", "CUDA driver API"),
    NativeWait("cuCtxSynchronize", "device", "device", "waits for its GPU (synchronize)", "CUDA driver API"),
    # a full queue of launches blocks whatever is launched next, in any line of the forward or backward pass (nccl#901)
    *(NativeWait(symbol, "device", "device", "waits for its GPU (its queue of kernels is full)", "nccl#901")
      for symbol in ("cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaGraphLaunch", "cuLaunchKernel",
                     "cuLaunchCooperativeKernel", "cuGraphLaunch", "hipLaunchKernel", "hipModuleLaunchKernel",
                     "hipExtModuleLaunchKernel", "hipGraphLaunch")),
    NativeWait("xla::PjRtStreamExecutor", "device", "device", "waits for its GPU (XLA)", "JAX"),
    NativeWait("hipStreamSynchronize", "device", "device", "waits for its GPU (synchronize)", "HIP API"),
    NativeWait("hipDeviceSynchronize", "device", "device", "waits for its GPU (synchronize)", "HIP API"),
    NativeWait("hipEventSynchronize", "device", "device", "waits for its GPU (an event)", "HIP API"),
)  # fmt: skip
"""Rows for native frames, which only ``--native`` dumps have; the first that fits a name is taken."""
