"""NCCL's and RCCL's own lines, 2.10 to 2.31 (not the collectives: see :mod:`collective_counts`), and nccl-tests'."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.rule import Data, Example, Rule, number

WARN = r"(?:CCL WARN|CCOM WARN|Last error:)\s{0,8}[^\n]{0,120}?"


_HEAD = re.compile(
    r"(?:(?P<at_file>[\w/.-]{1,255}:\d{1,9})(?: \(\w{1,80}\))? )?(?:(?:[NR]CCL|CCOM) WARN|Last error:)"
    r"\s*(?P<message>\S[^\n]*)"
)


_EVENT = (
    r"NET/IB ?: ?(?:(?P<device>[a-z]\w{0,32}_\d{1,4}):(?P<port>\d{1,4}) )?(?:[Gg]ot )?(?:non-fatal )?"
    r"async (?:fatal |error )?event ?: ?"
)


def _warning(match: "Match[str]", data: Data) -> Optional[Data]:
    """With the warning's own words, and the place in NCCL's source that gave it."""
    head = _HEAD.search(match.string)
    data["message"] = (head.group("message") if head is not None else match.string).strip()[:1000]
    if head is not None and head.group("at_file"):
        data["at_file"] = head.group("at_file")
    if isinstance(data.get("peer"), str):
        data["peer"] = str(data["peer"]).rstrip(":.")
    return data


def _completion(match: "Match[str]", data: Data) -> Optional[Data]:
    data["signature"] = {12: "ib_retry_exceeded", 5: "ib_flush"}.get(int(match.group("status")), "ib_completion")
    return _warning(match, data)


def _w(signature: str, pattern: str, example: Optional[Example]) -> Rule:
    """A warning by what it means."""
    whole = WARN + "(?:" + pattern + ")"
    return Rule("warn_" + signature, "nccl.warn", whole, example, {"signature": signature}, read=_warning)


def _gpus(match: "Match[str]", data: Data) -> Optional[Data]:
    del data["a"], data["b"]
    ranks: Data = {"group_ranks": [number(match.group(name)) for name in ("a", "b")]}
    return dict(_warning(match, data) or {}, **ranks)


_COMM = r"comm (?P<comm>0x[0-9a-f]+) rank (?P<group_rank>\d+) nranks (?P<size>\d+)"


_MORE = (
    r"(?: cudaDev (?P<device>\d+))?(?: nvmlDev \d+)?(?: busId (?P<bus_id_raw>\w+))?(?: parent (?P<parent>0x[0-9a-f]+))?"
    r"(?: (?:splitCount|childCount) \d+)?(?: color (?P<color>-?\d+))?(?: key (?P<key>-?\d+))?"
    r"(?: commId (?P<comm_id>0x[0-9a-f]+))?"
)


def _init(match: "Match[str]", data: Data) -> Optional[Data]:
    raw = data.pop("bus_id_raw", None)
    if raw is not None:
        data["bus_id"] = raw
    return dict(data, phase=str(data["phase"]).lower())


RULES = (
    Rule("warn_ib_completion", "nccl.warn",
         r"[Gg]ot completion (?:from peer (?P<peer>[^\s,]+) )?with (?:status=|error )\s?(?:IBV_WC_\w+\()?"
         r"(?P<status>\d{1,4})\b(?:[^\n]*\bhca (?P<device>\S+))?",
         Example("NCCL WARN NET/IB : Got completion from peer 10.0.0.2<40123> with "
         "status=IBV_WC_RETRY_EXC_ERR(12) opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3",
         {"signature": "ib_retry_exceeded", "peer": "10.0.0.2<40123>", "status": 12, "device": "mlx5_3"},
         "NCCL transport/net_ib.cc"), read=_completion),
    _w("ib_port_error", _EVENT
       + r"(?P<error>(?![^\n]*\b(?:active|work queue|CQ|QP|SRQ))[^\n]*?(?:err|ERR|fatal|down|fail)[^\n]*)",
       Example("NCCL WARN NET/IB : mlx5_2:1 Got non-fatal async event: port error(10)",
       {"device": "mlx5_2", "port": 1, "error": "port error(10)"}, "NCCL transport/net_ib.cc")),
    _w("cuda_ipc", r"open CUDA IPC handle ?: ?(?:\d+ )?(?P<error>[^\r\n]*)",
       Example("NCCL WARN failed to open CUDA IPC handle : 801 operation not supported",
       {"error": "operation not supported"}, "NCCL transport/p2p.cc")),
    _w("ib_queue_pair", r"ibv_modify_qp failed(?: with)?(?: error)?:? ?(?P<error>[^\r\n]*)",
       Example("NCCL WARN Call to ibv_modify_qp failed with error Invalid argument", {"error": "Invalid argument"},
       "NCCL misc/ibvwrap.cc")),
    _w("ib_memory",
       r"ibv_(?:reg_(?:dmabuf_)?mr\w*|create_qp|create_cq) failed(?: with)?(?: error)?:? ?(?P<error>[^\r\n]*)",
       Example("NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
       {"error": "Cannot allocate memory"}, "NCCL misc/ibvwrap.cc")),
    Rule("warn_duplicate_gpu", "nccl.warn",
         r"Duplicate GPU detected ?: rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<device>\w+)",
         Example("gpu1:71:99 [0] init.cc:9 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA "
         "device 1000", {"signature": "duplicate_gpu", "group_ranks": [1, 0], "device": "1000"}, "NCCL init.cc"),
         {"signature": "duplicate_gpu"}, read=_gpus),
    _w("collective_mismatch",
       r"[Mm]ismatched collective(?: detected)?(?:[^\n]*?at and around rank (?P<group_ranks>\d+))?",
       Example("NCCL WARN Mismatched collective detected, please check your collective calls at and around "
       "rank 11. You can use", {"group_ranks": [11]}, "NCCL proxy.cc")),
    _w("duplicate_rank",
       r"Bootstrap Root ?: (?:rank (?P<group_ranks>\d+) of (?P<size>\d+) ranks? has already checked in"
       r"|mismatch in rank count)|Invalid rank requested ?: (?P<group_ranks_2>\d+)/(?P<size_2>\d+)",
       Example("NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in",
       {"group_ranks": [1], "size": 8}, "NCCL bootstrap.cc")),
    _w("proxy",
       r"\[(?:Proxy (?:Service|Progress)|Service thread|Proxy Thread)|Socket (?:recv|send) failed while"
       r"|proxyProgress|[Pp]roxy (?:[Cc]all|connection|thread|recv|send)[^\r\n]{0,200}?(?:fail|error|closed|timed)",
       Example("NCCL WARN [Proxy Service 1] Failed to execute operation Init from rank 2, retcode 3", {},
       "NCCL proxy.cc")),
    _w("version_mismatch", "Mismatched NCCL version|NCCL version mismatch",
       Example("NCCL WARN Mismatched NCCL version detected : rank 0 has version 22105 rank 3 has version 22005", {},
       "NCCL init.cc")),
    _w("truncated",
       r"(?:peer (?P<peer>[^\s,]+) )?collective mismatch error,? local size (?P<expected>\d+) remote size "
       r"(?P<bytes>\d+)|[Mm]essage truncated ?: receiv(?:ed|ing) (?P<bytes_2>\d+) bytes instead of "
       r"(?P<expected_2>\d+)|peer (?P<peer_2>[^\s,]+) posted incorrect receive info: size (?P<bytes_3>\d+)",
       Example("NCCL WARN NET/Socket : peer 10.0.0.1<4> message truncated : receiving 8 bytes instead of 4",
       {"bytes": 8, "expected": 4}, "NCCL transport/net_socket.cc")),
    _w("no_interface", "[Nn]o (?:usable )?(?:socket )?interface found|Bootstrap ?: no socket",
       Example("NCCL WARN Bootstrap : no socket interface found", {}, "NCCL bootstrap.cc")),
    _w("open_files", "Too many open files",
       Example("NCCL WARN Call to socket failed : Too many open files", {}, "NCCL misc/socket.cc")),
    _w("connection_closed",
       r"[Cc]onnection closed by (?:remote )?peer(?: (?P<peer>[^\s,]+))?|(?:(?:recv|send)\w* (?:from"
       r"|to) (?P<peer_2>[^\s,]+) failed[^\n]{0,80}?)?(?P<error>Connection reset by peer|Broken pipe)",
       Example("NCCL WARN socketProgress: Connection closed by remote peer node7.cluster<34567>",
       {"peer": "node7.cluster<34567>"}, "NCCL misc/socket.cc")),
    _w("connect_failed",
       r"[Cc]onnect(?:ion)? to (?P<peer>[^\s,]+)(?: \([^)]*\))? (?:failed|returned|timed out|refused"
       r"|exceeded)(?: with)?(?: :)? ?(?P<error>[^\r\n]*)|[Cc]onnect (?:returned"
       r"|failed)(?: with)?(?: error)?:? ?(?P<error_2>[^\r\n]*)|exceeded error retry count"
       r"|Socket creation failed ?: ?(?P<error_3>[^\r\n]*)|connecting to address .{0,120}?with family \d+ is "
       r"neither|(?:accept|socketAccept)[^\n]{0,80}?(?:timed out|timeout)|(?P<error_4>Connection (?:refused"
       "|timed out)|No route to host)",
       Example("NCCL WARN socketStartConnect: Connect to 10.0.0.3<43211> failed : Software caused connection abort",
       {"peer": "10.0.0.3<43211>", "error": "Software caused connection abort"}, "NCCL misc/socket.cc")),
    _w("shared_memory", "/dev/shm|shared memory segment|shm_?open|shmOpen|ncclShm",
       Example("NCCL WARN Error: failed to extend /dev/shm/nccl-a1b2c3 to 33030532 bytes", {},
       "NCCL misc/shmutils.cc")),
    _w("nvls", "NVLink SHARP|NVLS|[Mm]ulticast",
       Example("NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401", {},
       "NCCL transport/nvls.cc")),
    _w("invalid_device", "invalid device ordinal|[Ii]nvalid (?:CUDA )?device",
       Example("NCCL WARN Cuda failure 'invalid device ordinal'", {}, "NCCL init.cc")),
    _w("cuda",
       r"(?:Cuda|HIP) failure(?: \d+)?:? '(?P<error>[^'\r\n]*)'|hip[A-Z]\w+ failed ?: ?(?P<error_2>[^\r\n]*)"
       r"|CUDA (?:driver )?(?:failure|error)[: ]+(?P<error_3>[^\r\n]*)",
       Example("NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
       {"error": "an illegal memory access was encountered"}, "NCCL include/checks.h")),
    _w("net_failed",
       r"NET/OFI [^\r\n]{0,200}?(?P<error>completed with error[^\r\n]*|[Cc]ouldn't [^\r\n]*"
       r"|Creating [^\r\n]{0,200}?failed[^\r\n]*)",
       Example("NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
       {"error": "Couldn't open AV. RC: -22, ERROR: Invalid argument"}, "aws-ofi-nccl nccl_ofi_net.c")),
    Rule("warn_other", "nccl.warn",
         r"(?:[NR]CCL|CCOM) WARN\s{0,8}(?P<message>\S[^\n]*)",
         Example('gpu1:71:99 [0] graph/topo.cc:9 NCCL WARN Missing "iommu=pt" from kernel command line',
         {"signature": "other", "at_file": "graph/topo.cc:9"}, "NCCL debug.cc"), {"signature": "other"},
         read=_warning, begins=r"(?:NCCL WARN|Last error:)\s*$"),
    Rule("init", "nccl.init",
         r"(?:\b(?P<function>ncclComm\w+) (?:\S+ )?)?" + _COMM + _MORE + r"[^\n]{0,80}?Init (?P<phase>START|COMPLETE)",
         Example("gpu1:71:99 [1] NCCL INFO ncclCommSplit comm 0xb0 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId "
         "2000 parent 0xa0 splitCount 2 color -1 key 1 commId 0x77 - Init START",
         {"function": "ncclCommSplit", "parent": "0xa0", "color": -1, "key": 1, "phase": "start", "comm_id": "0x77",
         "group_rank": 1, "size": 2, "device": 1, "bus_id": "2000", "by_host": "gpu1"}, "NCCL init.cc"),
         integers=("device",), read=_init),
    Rule("end", "nccl.end",
         _COMM + _MORE + r"[^\n]{0,80}?(?P<phase>Abort|Destroy|Finalize) (?:START|COMPLETE)",
         Example("gpu1:71:99 [0] NCCL INFO comm 0xa0 rank 0 nranks 8 cudaDev 0 busId 1000 - Abort COMPLETE",
         {"phase": "abort", "size": 8}, "NCCL init.cc"), integers=("device",), read=_init),
    Rule("version", "nccl.version",
         r"\b[NR]CCL version (?:: )?(?P<version>\d+\.\d+(?:\.\d+)*)(?:[-+\w.]*?\+cuda(?P<cuda>[\d.]+))?",
         Example("NCCL version 2.21.5+cuda12.4", {"version": "2.21.5", "cuda": "12.4"}, "NCCL init.cc")),
    Rule("bootstrap", "nccl.bootstrap",
         r"Bootstrap ?:? ?Using (?P<interface>[^:\s]+):(?P<address>\S+?)(?:<\d+>)?$",
         Example("gpu1:71:99 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
         {"interface": "eth0", "address": "10.0.0.1"}, "NCCL bootstrap.cc")),
    Rule("network", "nccl.network",
         r"Using network (?P<network>\S+(?: \S+){0,9})\s*$",
         Example("gpu1:71:99 [0] NCCL INFO Using network AWS Libfabric", {"network": "AWS Libfabric"},
         "NCCL plugin/net.cc")),
    Rule("connect_retry", "nccl.connect_retry",
         r"[Cc]onnect(?: to (?P<peer>\S+))? returned (?P<error>[^,\r\n]+), retrying(?: "
         r"\((?P<tried>\d+)/(?P<of>\d+)\))?",
         Example("gpu1:71:99 [0] NCCL INFO socketPollConnect: connect to 10.0.0.3<5> returned Connection "
         "refused, retrying (7/34)", {"peer": "10.0.0.3<5>", "error": "Connection refused", "tried": 7, "of": 34},
         "NCCL misc/socket.cc")),
    Rule("tests_wrong", "nccl_tests.table", r"#\s*Out of bounds values\s*:\s*(?P<wrong>[1-9]\d{0,11})\s+FAILED",
         Example("# Out of bounds values : 3 FAILED", {"wrong": 3}, "nccl-tests src/common.cu"), integers=("wrong",)),
    Rule("tests_over", "nccl_tests.table", r"#\s*Avg bus bandwidth\s*:\s*\S",
         Example("# Avg bus bandwidth    : 186.3", {"whole": True}, "nccl-tests src/common.cu"), {"whole": True}),
)  # fmt: skip
