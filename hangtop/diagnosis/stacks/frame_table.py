"""The frames that say what a rank does, one row each: a file, functions in it, and what they mean.

Names were looked up in the sources of torch 2.1 to 2.13, DeepSpeed 0.9 to 0.19, Megatron core 0.5 and 0.15,
Accelerate 0.20 and 1.11, Lightning 2.5, transformers 4.30 and 4.57, JAX 0.4 to 0.11 and CPython 3.8 to 3.14; most were
seen in real dumps (``tests/fixtures/stacks``). Native names are of public headers, of pytorch#95944 and of nccl#901.
"""

from __future__ import annotations

from typing import NamedTuple

from hangtop.diagnosis.stacks.states import Meaning

ANY = ""
"""Instead of names: every function of the file."""
C10D = "torch/distributed/distributed_c10d.py"


class PythonRow(NamedTuple):
    """Functions of a file, and what a thread in them does."""

    file: str
    """End of the file's path, or a folder within it (with ``/`` at its end)."""
    names: str
    """Names of functions without their classes, separated by spaces."""
    meaning: Meaning
    op: str = ""
    """Operation; empty: the function's own name, where the meaning has one."""


class NativeRow(NamedTuple):
    """Beginning of a native function's name, and what a thread in it does."""

    symbol: str
    meaning: Meaning
    op: str = ""


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
_ANY_OPERATION = " ".join(sorted(OPERATIONS | set(ALIASES)))
_FUNCTIONAL = "torch/distributed/_functional_collectives"
DDP = "torch/nn/parallel/distributed.py"

PEERS: tuple[PythonRow, ...] = (
    # operations; those between two ranks are told by their names
    PythonRow(C10D, _ANY_OPERATION, Meaning.COLLECTIVE),
    PythonRow(C10D, "_coalescing_manager wait", Meaning.COLLECTIVE, "coalesced"),
    PythonRow(f"{_FUNCTIONAL}.py", _ANY_OPERATION, Meaning.COLLECTIVE),
    PythonRow(_FUNCTIONAL, "wait_tensor trigger_wait wait _wait_tensor _wait_all", Meaning.COLLECTIVE, "wait_tensor"),
    PythonRow("deepspeed/comm/", _ANY_OPERATION, Meaning.COLLECTIVE),
    # DDP and FSDP: parts that go through C++ without a Python operation
    PythonRow(DDP, "_distributed_broadcast_coalesced _default_broadcast_coalesced _sync_module_buffers _sync_buffers",
              Meaning.COLLECTIVE, "broadcast"),
    PythonRow(DDP, "_pre_forward", Meaning.COLLECTIVE, "pre_forward"),
    PythonRow(DDP, "_match_all_reduce_for_bwd_pass _check_global_requires_backward_grad_sync main_hook",
              Meaning.COLLECTIVE, "all_reduce"),
    PythonRow("torch/distributed/utils.py", "_verify_param_shape_across_processes", Meaning.COLLECTIVE,
              "verify_params"),
    PythonRow("torch/distributed/utils.py", "_sync_module_states _sync_params_and_buffers", Meaning.COLLECTIVE,
              "broadcast"),
    PythonRow("torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_all_gather_copy_out",
              Meaning.COLLECTIVE, "all_gather_into_tensor"),
    PythonRow("torch/distributed/optim/zero_redundancy_optimizer.py",
              "_sync_params _broadcast_params_from_rank consolidate_state_dict", Meaning.COLLECTIVE, "broadcast"),
    # libraries that wait on handles
    PythonRow("torch/distributed/pipelining/schedules.py", "_wait_batch_p2p", Meaning.P2P, "batch_isend_irecv"),
    PythonRow("megatron/core/pipeline_parallel/p2p_communication.py",
              "_communicate _communicate_shapes _batched_p2p_ops _p2p_ops", Meaning.P2P, "batch_isend_irecv"),
    PythonRow("megatron/core/distributed/", "finish_grad_sync start_grad_sync", Meaning.COLLECTIVE,
              "reduce_scatter_tensor"),
    PythonRow("megatron/core/distributed/", "finish_param_sync start_param_sync", Meaning.COLLECTIVE,
              "all_gather_into_tensor"),
    PythonRow("deepspeed/runtime/pipe/p2p.py", "send recv", Meaning.P2P),
    PythonRow("deepspeed/runtime/zero/partition", "wait fetch_sub_module _fetch_sub_module_impl __all_gather_params "
              "__all_gather_params_", Meaning.COLLECTIVE, "all_gather_into_tensor"),
    # start and end
    PythonRow(C10D, "init_process_group new_group _new_group_with_tag _new_group_via_split_group split_group "
              "new_subgroups new_subgroups_by_enumeration _new_process_group_helper _store_based_barrier shrink_group",
              Meaning.INIT),
    PythonRow("torch/distributed/rendezvous.py", ANY, Meaning.RENDEZVOUS, "init_process_group"),
    PythonRow("torch/distributed/device_mesh.py", "init_device_mesh _init_process_groups _init_one_process_group "
              "_get_or_create_default_group _setup_world_group_and_device", Meaning.INIT, "init_device_mesh"),
    PythonRow("deepspeed/comm/comm.py", "init_distributed", Meaning.INIT),
    PythonRow(C10D, "destroy_process_group _shutdown_backend _abort_process_group", Meaning.LEFT_IN,
              "destroy_process_group"),
    # its own GPU
    PythonRow("torch/cuda/", "synchronize", Meaning.GPU),
    PythonRow("torch/accelerator/__init__.py", "synchronize", Meaning.GPU),
    PythonRow("torch/amp/grad_scaler.py", "_maybe_opt_step", Meaning.GPU),
    PythonRow("torch/_tensor_str.py", ANY, Meaning.GPU),
    # JAX: results are awaited where they are read; a collective over hosts is awaited by its name
    PythonRow("jax/experimental/multihost_utils.py", "sync_global_devices broadcast_one_to_all process_allgather "
              "assert_equal _handle_array_process_allgather _pjit", Meaning.COLLECTIVE),
    PythonRow("jax/_src/distributed.py", "initialize connect", Meaning.INIT, "jax.distributed.initialize"),
    PythonRow("jax/_src/distributed.py", "shutdown", Meaning.LEFT_IN, "jax.distributed.shutdown"),
    PythonRow("jax/_src/array.py", "_value __array__ block_until_ready item tolist __float__ __int__ __bool__ "
              "__index__", Meaning.GPU),
    PythonRow("jax/_src/interpreters/pxla.py", "__call__", Meaning.GPU),
    PythonRow("jax/_src/api.py", "block_until_ready device_get effects_barrier", Meaning.GPU),
)  # fmt: skip
"""Frames in which a rank waits for other ranks or for its own GPU."""

_BACKEND_CALLS = {
    "allreduce": "all_reduce", "broadcast": "broadcast", "reduce_scatter": "reduce_scatter", "reduce": "reduce",
    "_allgather_base": "all_gather_into_tensor", "allgather": "all_gather",
    "_reduce_scatter_base": "reduce_scatter_tensor", "alltoall_base": "all_to_all_single", "alltoall": "all_to_all",
    "barrier": "barrier", "gather": "gather", "scatter": "scatter", "send": "send", "recv": "recv",
}  # fmt: skip
"""Methods of c10d's backends, longer names before their beginnings, and the operations that they are."""
_NCCL_CALLS = {
    "AllReduce": "all_reduce", "AllGather": "all_gather_into_tensor", "ReduceScatter": "reduce_scatter_tensor",
    "Broadcast": "broadcast", "Bcast": "broadcast", "Reduce": "reduce",
}  # fmt: skip

NATIVE_PEERS: tuple[NativeRow, ...] = (
    # c10d, any backend
    NativeRow("c10d::Reducer::", Meaning.COLLECTIVE, "all_reduce"),
    NativeRow("c10d::verify_params_across_processes", Meaning.COLLECTIVE, "verify_params"),
    NativeRow("c10d::broadcast_coalesced", Meaning.COLLECTIVE, "broadcast"),
    NativeRow("c10d::Work::wait", Meaning.HANDLE),
    NativeRow("c10d_functional::wait_tensor", Meaning.COLLECTIVE, "wait_tensor"),
    NativeRow("c10d::ProcessGroupNCCL::WorkNCCL::", Meaning.HANDLE),
    NativeRow("c10d::ProcessGroupNCCL::initNCCLComm", Meaning.INIT, "ncclCommInitRank"),
    NativeRow("c10d::ProcessGroupNCCL::getNCCLComm", Meaning.INIT, "ncclCommInitRank"),
    NativeRow("c10d::ProcessGroupNCCL::broadcastUniqueNCCLID", Meaning.INIT, "ncclGetUniqueId"),
    NativeRow("c10d::ProcessGroupNCCL::shutdown", Meaning.LEFT_IN, "destroy_process_group"),
    NativeRow("c10d::ProcessGroupNCCL::~ProcessGroupNCCL", Meaning.LEFT_IN, "destroy_process_group"),
    NativeRow("c10d::ProcessGroupGloo::monitoredBarrier", Meaning.COLLECTIVE, "monitored_barrier"),
    NativeRow("c10d::ProcessGroupGloo::RecvWork::", Meaning.RECV, "recv"),
    NativeRow("c10d::ProcessGroupGloo::SendWork::", Meaning.SEND, "send"),
    NativeRow("c10d::ProcessGroupGloo::ProcessGroupGloo", Meaning.GLOO_CONNECTS, "init_process_group"),
    *(NativeRow(f"c10d::ProcessGroup{backend}::{method}", Meaning.COLLECTIVE, op)
      for backend in ("NCCL", "Gloo") for method, op in _BACKEND_CALLS.items()),
    NativeRow("c10d::ProcessGroup", Meaning.HANDLE),
    NativeRow("torch::comms::", Meaning.HANDLE),  # TorchComms
    NativeRow("gloo::rendezvous::", Meaning.GLOO_CONNECTS, "init_process_group"),
    NativeRow("gloo::", Meaning.HANDLE),
    NativeRow("c10d::TCPStore::waitForWorkers", Meaning.RENDEZVOUS, "init_process_group"),
    *(NativeRow(f"c10d::{store}::", Meaning.STORE)
      for store in ("TCPStore", "FileStore", "HashStore", "PrefixStore", "detail::TCPClient")),
    NativeRow("ncclLocalOpAppend", Meaning.NCCL_PROXY),
    # NCCL: what it was asked for, then what it does on the host
    *(NativeRow(f"nccl{name}", Meaning.COLLECTIVE, op) for name, op in _NCCL_CALLS.items()),
    NativeRow("ncclSend", Meaning.SEND, "send"),
    NativeRow("ncclRecv", Meaning.RECV, "recv"),
    NativeRow("ncclGroupEnd", Meaning.COLLECTIVE, "coalesced"),
    NativeRow("waitWorkFifoAvailable", Meaning.NCCL_QUEUE_FULL, "enqueue"),  # nccl#1251
    NativeRow("ncclCommInit", Meaning.INIT, "ncclCommInitRank"),
    NativeRow("ncclCommSplit", Meaning.INIT, "ncclCommSplit"),
    *(NativeRow(f"ncclComm{name}", Meaning.LEFT_IN, "destroy_process_group")
      for name in ("Finalize", "Destroy", "Abort")),
    NativeRow("bootstrap", Meaning.NCCL_BOOTSTRAP, "ncclCommInitRank"),
    # its own GPU
    NativeRow("at::native::_local_scalar_dense_cuda", Meaning.GPU),
    NativeRow("at::_ops::_local_scalar_dense", Meaning.GPU),
    NativeRow("THPVariable_item", Meaning.GPU),
    *(NativeRow(f"{api}{call}", Meaning.GPU) for api in ("cuda", "cu", "hip") for call in (
        "StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize", "Memcpy", "Free")),
    # a full queue of launches blocks whatever is launched next, in any line of the forward or backward pass
    *(NativeRow(f"{api}{call}", Meaning.GPU_QUEUE_FULL) for api in ("cuda", "cu", "hip") for call in (
        "LaunchKernel", "LaunchCooperativeKernel", "GraphLaunch", "ModuleLaunchKernel", "ExtModuleLaunchKernel")),
    NativeRow("xla::PjRtStreamExecutor", Meaning.GPU),
)  # fmt: skip
"""The same for native frames, which only ``--native`` dumps have; the first that fits a name is taken."""

PROGRAM: tuple[PythonRow, ...] = (
    PythonRow("/pdb.py", "interaction _cmdloop cmdloop", Meaning.PROMPT),
    PythonRow("/code.py", "interact raw_input", Meaning.PROMPT),
    PythonRow("/threading.py", "join _wait_for_tstate_lock _shutdown", Meaning.THREAD),
    PythonRow("/threading.py", "wait wait_for acquire __enter__", Meaning.EVENT),
    PythonRow("/queue.py", "get put", Meaning.QUEUE),
    PythonRow("/queue.py", "join", Meaning.QUEUE_TAKEN),
    PythonRow("/multiprocessing/queues.py", "get put join_thread", Meaning.PROCESS_QUEUE),
    PythonRow("/multiprocessing/queues.py", "_finalize_join", Meaning.QUEUE_TAKEN),
    PythonRow("/multiprocessing/synchronize.py", "acquire wait __enter__", Meaning.PROCESS_LOCK),
    PythonRow("/multiprocessing/connection.py",
              "recv recv_bytes poll _recv _recv_bytes _poll wait accept", Meaning.MESSAGE),
    PythonRow("/multiprocessing/pool.py", "get wait next join map apply starmap", Meaning.PROCESS_POOL),
    PythonRow("/multiprocessing/popen_fork.py", "wait poll", Meaning.CHILD),
    PythonRow("/concurrent/futures/_base.py", "result exception wait as_completed result_iterator", Meaning.FUTURE),
    PythonRow("/concurrent/futures/thread.py", "shutdown _python_exit", Meaning.THREAD_POOL),
    PythonRow("/concurrent/futures/process.py", "shutdown _python_exit", Meaning.PROCESS_POOL),
    PythonRow("/filelock/", ANY, Meaning.LOCK_FILE),
    PythonRow("torch/utils/file_baton.py", "wait", Meaning.LOCK_FILE),
    PythonRow("/subprocess.py", "wait _wait _try_wait communicate _communicate run call check_call check_output",
              Meaning.CHILD),
    PythonRow("/asyncio/", ANY, Meaning.EVENT_LOOP),
    PythonRow("/ssl.py", "read recv recv_into do_handshake send sendall write", Meaning.NETWORK),
    PythonRow("/socket.py", "readinto recv accept create_connection getaddrinfo", Meaning.NETWORK),
    PythonRow("/socketserver.py", "serve_forever", Meaning.SERVES),
    PythonRow("/http/client.py", ANY, Meaning.NETWORK),
)  # fmt: skip
"""Frames in which any Python program waits. They count only where no row above does, and no phase says more."""

NATIVE_PROGRAM: tuple[NativeRow, ...] = (
    *(NativeRow(symbol, Meaning.GIL)
      for symbol in ("take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread", "PyGILState_Ensure")),
    *(NativeRow(symbol, Meaning.LOCK)
      for symbol in ("lock_PyThread_acquire_lock", "rlock_acquire", "PyThread_acquire_lock", "_PyMutex_Lock")),
    NativeRow("simplequeue_get", Meaning.QUEUE),
    NativeRow("_queue_SimpleQueue_get", Meaning.QUEUE),
    NativeRow("_multiprocessing_SemLock_acquire", Meaning.PROCESS_LOCK),
    NativeRow("time_sleep", Meaning.SLEEPS),
    NativeRow("pysleep", Meaning.SLEEPS),
    *(NativeRow(symbol, Meaning.NETWORK) for symbol in ("sock_call_ex", "sock_sendall", "sock_recv", "internal_connect",
      "_ssl__SSLSocket")),
    # no waits: arithmetic, the garbage collector, compression
    *(NativeRow(symbol, Meaning.COMPUTES) for symbol in ("mkl_blas", "at::native::", "sgemm_kernel", "dgemm_kernel",
      "gc_collect_main", "deflate", "inflate", "BZ2_bz", "lzma_code", "ZSTD_", "LZ4_")),
)  # fmt: skip
