"""Rules for messages of NCCL and RCCL (except collectives: see :mod:`collective_counts`), CUDA and HIP."""

from __future__ import annotations

from typing import Match, Optional

from collectors.node.logs.rule import Data, Example, Rule

_WORDS = "CCL WARN|Last error:"
_BEGIN = r"(?:^\S+:\d+:\d+ \[(?P<gpu>\d{1,3})\] [^\n]{0,120}?)?"
"""Begin of a line of NCCL, if it is there: host, process, thread and device."""


def _completion(match: "Match[str]", data: Data) -> Optional[Data]:
    status = int(match.group("status"))
    signature = {12: "ib_retry_exceeded", 5: "ib_flush"}.get(status, "ib_completion")
    return dict(data, signature=signature, error=f"status {status}, peer {data.get('peer', 'unknown')}")


def _warn(signature: str, pattern: str, example: Example) -> Rule:
    """Rule for an NCCL warning or last error with the meaning ``signature``."""
    whole = _BEGIN + r"(?:CCL WARN|Last error:)\s{0,8}[^\n]{0,120}?(?:" + pattern + ")"
    return Rule("nccl.warn", _WORDS, whole, example, {"signature": signature})


_COMM = (
    r"comm (?P<comm>0x[0-9a-f]+) rank (?P<group_rank>\d+) nranks (?P<size>\d+)(?: cudaDev (?P<gpu>\d+))?(?: nvmlDev "
    r"\d+)?(?: busId \w+)?(?: parent (?P<parent>0x[0-9a-f]+))?(?: (?:splitCount|childCount) \d+)?(?: color -?\d+)?(?: "
    r"key -?\d+)?(?: commId (?P<comm_id>0x[0-9a-f]+))?[^\n]{0,80}?"
)


RULES = (
    Rule("nccl.warn", "ot completion ",
         _BEGIN + r"[Gg]ot completion (?:from peer (?P<peer>[^\s,]+) )?with "
         r"(?:status=|error )\s?(?:IBV_WC_\w+\()?(?P<status>\d{1,4})\b(?:[^\n]*\bhca (?P<device>\S+))?",
         Example("NCCL WARN NET/IB : Got completion from peer 10.0.0.2<40123> with status=IBV_WC_RETRY_EXC_ERR(12)"
                 " opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3",
                 {"signature": "ib_retry_exceeded", "peer": "10.0.0.2<40123>", "status": 12, "device": "mlx5_3"},
                 "NCCL transport/net_ib.cc"), read=_completion),
    _warn("ib_port_error",
          r"NET/IB ?: ?(?:(?P<device>[a-z]\w{0,32}_\d{1,4}):(?P<port>\d{1,4}) )?(?:[Gg]ot )?(?:non-fatal )?"
          r"async (?:fatal |error )?event ?: ?"
          r"(?P<error>(?![^\n]*\b(?:active|work queue|CQ|QP|SRQ))[^\n]*?(?:err|ERR|fatal|down|fail)[^\n]*)",
          Example("NCCL WARN NET/IB : mlx5_2:1 Got non-fatal async event: port error(10)",
                  {"device": "mlx5_2", "port": 1, "error": "port error(10)"}, "NCCL transport/net_ib.cc")),
    _warn("ib_memory", r"ibv_(?:reg_(?:dmabuf_)?mr\w*|create_[qc][pq]) failed(?: with)?(?: error)?:? ?"
          r"(?P<error>[^\r\n]*)",
          Example("NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
                  {"error": "Cannot allocate memory"}, "NCCL misc/ibvwrap.cc")),
    _warn("duplicate_gpu",
          r"Duplicate GPU detected ?: rank (?P<group_ranks>\d+ and rank \d+) both on CUDA device (?P<device>\w+)",
          Example("NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
                  {"group_ranks": [1, 0], "device": "1000"}, "NCCL init.cc")),
    _warn("version_mismatch", "Mismatched NCCL version|NCCL version mismatch",
          Example("CCL WARN Mismatched NCCL version", {}, "NCCL init.cc")),
    _warn("truncated", r"(?:peer (?P<peer>[^\s,]+) )?(?:collective mismatch error|[Mm]essage truncated)",
          Example("NCCL WARN NET/Socket : peer 10.0.0.1<4> message truncated : receiving 8 bytes instead of 4",
                  {"peer": "10.0.0.1<4>"}, "NCCL transport/net_socket.cc")),
    _warn("no_interface", "[Nn]o (?:usable )?(?:socket )?interface found|Bootstrap ?: no socket",
          Example("NCCL WARN Bootstrap : no socket interface found", {}, "NCCL bootstrap.cc")),
    _warn("open_files", "Too many open files",
          Example("NCCL WARN Call to socket failed : Too many open files", {}, "NCCL misc/socket.cc")),
    _warn("connection_closed",
          r"[Cc]onnection closed by (?:remote )?peer(?: (?P<peer>[^\s,]+))?|(?:(?:recv|send)\w* (?:from|to)"
          r" (?P<peer_2>[^\s,]+) failed[^\n]{0,80}?)?(?P<error>Connection reset by peer|Broken pipe)"
          r"|\[(?:Proxy (?:Service|Progress)|Service thread|Proxy Thread)|Socket (?:recv|send) failed while"
          r"|proxyProgress|[Pp]roxy (?:[Cc]all|connection|thread|recv|send)[^\r\n]{0,200}?(?:fail|error|closed|timed)",
          Example("NCCL WARN socketProgress: Connection closed by remote peer node7.cluster<34567>",
                  {"peer": "node7.cluster<34567>"}, "NCCL misc/socket.cc")),
    _warn("connect_failed",
          r"[Cc]onnect(?:ion)? to (?P<peer>[^\s,]+)(?: \([^)]*\))? (?:failed|returned|timed out|refused|exceeded)"
          r"(?: with)?(?: :)? ?(?P<error>[^\r\n]*)|[Cc]onnect (?:returned|failed)(?: with)?(?: error)?:? "
          r"?(?P<error_2>[^\r\n]*)|exceeded error retry count|[aA]ccept[^\n]{0,80}?(?:timed out|timeout)"
          r"|(?P<error_3>Connection (?:refused|timed out)|No route to host)",
          Example("NCCL WARN socketStartConnect: Connect to 10.0.0.3<43211> failed : Software caused connection abort",
                  {"peer": "10.0.0.3<43211>", "error": "Software caused connection abort"}, "NCCL misc/socket.cc")),
    _warn("shared_memory", "/dev/shm|shared memory segment|shm_?open|shmOpen|ncclShm",
          Example("NCCL WARN Error: failed to extend /dev/shm/nccl-a1b2c3 to 33030532 bytes", {}, "NCCL shmutils.cc")),
    _warn("init_failed", r"(?P<error>(?:open CUDA IPC handle|ibv_modify_qp failed|Invalid rank requested|Bootstrap "
          r"Root ?: (?:mismatch in rank count|rank \d+ of \d+ ranks? has already checked in)|NVLink SHARP|NVLS|"
          r"[Mm]ulticast)[^\n]*)",
          Example("NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
                  {"error": "ibv_modify_qp failed with error Invalid argument"},
                  "NCCL misc/ibvwrap.cc; transport/p2p.cc, nvls.cc, bootstrap.cc")),
    _warn("cuda", r"(?:Cuda|HIP) failure(?: \d+)?:? '(?P<error>[^'\r\n]*)'"
          r"|CUDA (?:driver )?(?:failure|error)[: ]+(?P<error_2>[^\r\n]*)",
          Example("NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
                  {"error": "an illegal memory access was encountered"}, "NCCL include/checks.h")),
    Rule("nccl.warn", _WORDS, r"[NR]CCL WARN\s{0,8}(?P<message>\S[^\n]*)",
         Example('gpu1:71:99 [0] graph/topo.cc:9 NCCL WARN Missing "iommu=pt" from kernel command line',
                 {"signature": "other"}, "NCCL debug.cc"), {"signature": "other"},
         begins=r"(?:NCCL WARN|Last error:)\s*$"),
    Rule("nccl.init", "Init START|Init COMPLETE",
         _COMM + "Init (?P<phase>START|COMPLETE)",
         Example("gpu1:71:99 [1] NCCL INFO ncclCommSplit comm 0xb0 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 "
                 "parent 0xa0 splitCount 2 color -1 key 1 commId 0x77 - Init START",
                 {"parent": "0xa0", "phase": "START", "comm_id": "0x77", "group_rank": 1,
                  "size": 2, "gpu": 1, "by_host": "gpu1"}, "NCCL init.cc")),
    Rule("nccl.end", "Abort COMPLETE|Destroy COMPLETE", _COMM + "(?P<phase>Abort|Destroy) COMPLETE",
         Example("gpu1:71:99 [0] NCCL INFO comm 0xa0 rank 0 nranks 8 cudaDev 0 busId 1000 - Abort COMPLETE",
                 {"phase": "Abort", "size": 8}, "NCCL init.cc")),
    Rule("nccl.version", "NCCL version |RCCL version ",
         r"\b[NR]CCL version (?:: )?(?P<version>\d+\.\d+(?:\.\d+)*)(?:[-+\w.]*?\+cuda(?P<cuda>[\d.]+))?",
         Example("NCCL version 2.21.5+cuda12.4", {"version": "2.21.5", "cuda": "12.4"}, "NCCL init.cc")),
    Rule("nccl.network", "Using network ", r"Using network (?P<network>\S+(?: \S+){0,9})\s*$",
         Example("gpu1:71:99 [0] NCCL INFO Using network AWS Libfabric", {"network": "AWS Libfabric"},
                 "NCCL plugin/net.cc")),
    Rule("nccl.connect_retry", ", retrying",
         r"[Cc]onnect(?: to (?P<peer>\S+))? returned (?P<error>[^,\r\n]+), retrying \((?P<tried>\d+)/\d+\)",
         Example("connect to 10.0.0.3<5> returned Connection refused, retrying (7/34)",
                 {"peer": "10.0.0.3<5>", "error": "Connection refused", "tried": 7}, "NCCL misc/socket.cc")),
    Rule("torch.out_of_memory", "out of memory|OutOfMemoryError|STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED",
         r"(?:(?:CUDA|HIP)(?: error:)? out of memory|torch(?:\.cuda)?\.OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED"
         r"|RESOURCE_EXHAUSTED: [^\r\n]{0,80}(?:\bmemory\b|\ballocat)"
         r"|\b(?:cuda|hip)Error(?:MemoryAllocation|OutOfMemory) ?\)?: out of memory)"
         r"(?:[^\n]{0,80}?[Tt]ried to allocate (?P<asked>[\d.]{1,12} [KMGT]?i?B))?",
         Example("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity",
                 {"asked": "20.00 MiB"}, "torch c10/cuda/CUDACachingAllocator.cpp")),
    Rule("torch.cuda_error", "CUDA error|CUDA Error|Cuda error|CUDA failure|HIP error|HIP failure|CUDA_ERROR_|cudaE"
         "|CUDA driver|CUBLAS_STAT|CUDNN_STAT|system not yet|system has unsupp|forward compat|nvalid dev|CUDA-capable",
         r"(?m)(?:CUDA [Ee]rror|HIP error|(?:CUDA|HIP) failure)(?: \d+)?: (?!out of memory)(?P<error>[^\r\n]+?)(?:\.\s"
         r"|\.?$|, | at /)|(?P<error_2>CUDA_ERROR_(?:ECC|NVLINK|HARDWARE|ILLEGAL|MISALIGNED|LAUNCH_FAILED|SYSTEM)"
         r"\w{0,40}(?:: [^\r\n]{0,200})?)|\b(?P<error_3>cudaError(?!NotReady|Success|MemoryAll)[A-Z]\w{2,60}: "
         r"[^\r\n]{4,200})|CUDA driver error: (?P<error_4>[^\r\n]+)|\b(?P<error_5>(?:CUBLAS|CUDNN)_STATUS_"
         r"(?!ALLOC_FAILED)\w+)|\bError 80[234]: (?P<error_6>(?:system not yet|system has unsupp|forward compat)"
         r"[^\r\n(]{4,160})|(?P<error_7>CUDA driver version is insufficient for CUDA runtime version"
         r"|[Ii]nvalid device ordinal|[Nn]o CUDA-capable device[^\r\n.]{0,60})"
         r"|Failed: Cuda error [^\s:]+:\d+ '(?P<error_8>(?!out of memory)[^'\r\n]+)'",
         Example("Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'misaligned address'",
                 {"error": "misaligned address"}, "torch c10/cuda/CUDAException.cpp; vllm custom_all_reduce.cuh")),
    Rule("torch.cuda_error", "HW Exception by GPU|Memory access fault by GPU|HSA_STATUS_ERROR|], thread: [",
         r"(?P<error>HW Exception by GPU node-\d+ [^\r\n]*reason ?: ?GPU Hang|Memory access fault by GPU "
         r"node-\d{1,3}\b[^\r\n]{0,200})|[Aa]borting with error ?: (?P<error_2>HSA_STATUS_ERROR\w{0,60}[^\r\n]{0,160})"
         r"|block: \[[\d,]{1,40}\], thread: \[[\d,]{1,40}\] (?P<error_3>Assertion [`']?[^\r\n]{1,300}?['`]? failed)",
         Example("block: [0,0,0], thread: [7,0,0] Assertion `index < size` failed",
                 {"error": "Assertion `index < size` failed"},
                 "CUDA assert() in a kernel; ROCR-Runtime core/runtime/runtime.cpp")),
    Rule("gpu.unseen", "NVML|determine the device handle|NVIDIA-SMI has failed|No devices were found",
         r"Failed to initialize NVML: (?P<error>Unknown Error|could not load NVML library|Driver/library version "
         r"mismatch|GPU access blocked[^\r\n]{0,60})|\bNVML\b[^\r\n]{0,80}: (?P<error_2>GPU is lost)\b|Unable to "
         r"determine the device handle for [Gg][Pp][Uu]\S{0,4} ?(?P<bus_id>[0-9a-fA-F:]{8,16})[^\r\n:]{0,6}: "
         r"(?P<error_3>[^\r\n]{1,80})|NVIDIA-SMI has failed because it (?P<error_4>couldn't communicate with the NVIDIA"
         r" driver)|^\s{0,4}(?P<error_5>No devices were found)\s{0,4}$",
         Example("Failed to initialize NVML: Driver/library version mismatch",
                 {"error": "Driver/library version mismatch"}, "nvidia-smi")),
)  # fmt: skip
