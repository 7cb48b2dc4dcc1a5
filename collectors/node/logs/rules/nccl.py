"""NCCL's and RCCL's own lines, 2.10 to 2.31 (not the collectives: see :mod:`collective_counts`), and nccl-tests'."""

from __future__ import annotations

from typing import Match, Optional

from collectors.node import late_re as re
from collectors.node.logs.rule import Data, Rule, number

WARN = r"(?:CCL WARN|CCOM WARN|Last error:)\s{0,8}[^\n]{0,120}?"
_HEAD = re.compile(
    r"(?:(?P<at_file>[\w/.-]{1,255}:\d{1,9})(?: \(\w{1,80}\))? )?(?:(?:[NR]CCL|CCOM) WARN|Last error:)"
    r"\s*(?P<message>\S[^\n]*)"
)
_PEER = r"(?P<peer>[^\s,]+?)"
_COMPLETION = (
    r"[Gg]ot completion (?:from peer (?P<peer>[^\s,]+) )?with (?:status=|error )\s?(?:(?P<status_name>IBV_WC_\w+)\()?"
    r"(?P<status>%s)\b(?:[^\n]*\bhca (?P<device>\S+))?"
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


def _w(signature: str, pattern: str, said: str, expect: Data, source: str, *, bare: bool = False) -> Rule:
    """A warning by what it means; ``bare``: its words are known without NCCL's label."""
    whole = pattern if bare else WARN + "(?:" + pattern + ")"
    return Rule(
        "warn_%s_%s" % (signature, source.rpartition("/")[2].partition(".")[0]),
        "nccl.warn",
        whole,
        "gpu1:71:99 [0] transport/net.cc:12 NCCL WARN " + said,
        {"signature": signature, "by_host": "gpu1", "by_pid": 71, **expect},
        "NCCL src/" + source,
        {"signature": signature},
        read=_warning,
    )


def _timings(match: "Match[str]", data: Data) -> Optional[Data]:
    rest = str(data.pop("rest", ""))
    for name in ("total", "bootstrap", "connections"):
        part = re.search(name + r" (\d{1,12}(?:\.\d{1,12})?)", match.group() if name == "total" else rest)
        if part is not None:
            data[name] = float(part.group(1))
    return data


def _devices(match: "Match[str]", data: Data) -> Optional[Data]:
    listed = data.pop("listed", None)
    if not isinstance(listed, str):
        return dict(data, none=True)
    data["devices"] = list(re.findall(r"\[\d+\](\S+?)(?=[\s;]|$)", listed.split("; OOB")[0]))
    out_of_band = re.search(r"OOB ([^:\s]+):", listed)
    if out_of_band is not None:
        data["interface"] = out_of_band.group(1)
    return data


def _end(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, phase=str(data["phase"]).lower())


def _version_of(match: "Match[str]", data: Data) -> Optional[Data]:
    """The value of a setting: the sentence's full stop is none of it."""
    value = str(data.get("value", ""))
    return dict(data, value=value[:-1] if value.endswith(".") else value)


def _failed(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, consequence="remote" in str(data["error"]))


def _gpus(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, group_ranks=[number(match.group("a")), number(match.group("b"))]) if _drop(data) else None


def _drop(data: Data) -> bool:
    data.pop("a", None)
    data.pop("b", None)
    return True


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
    _w("ib_retry_exceeded", _COMPLETION % "12", "NET/IB : Got completion from peer 10.0.0.2<40123> with"
       " status=IBV_WC_RETRY_EXC_ERR(12) opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3",
       {"peer": "10.0.0.2<40123>", "status": 12, "status_name": "IBV_WC_RETRY_EXC_ERR", "device": "mlx5_3"},
       "transport/net_ib.cc", bare=True),
    _w("ib_flush", _COMPLETION % "5", "NET/IB : Got completion from peer 10.0.0.2<4> with status=5 opcode=0 len=0",
       {"status": 5}, "transport/net_ib.cc", bare=True),
    _w("ib_completion", _COMPLETION % r"\d{1,4}", "NET/IB : Got completion with error 4, opcode 0, len 1",
       {"status": 4}, "transport/net_ib.cc", bare=True),
    _w("ib_queue_error", _EVENT + r"(?P<error>[^\n]*?(?:work queue|\b(?:CQ|QP|SRQ)\b)[^\n]*)",
       "NET/IB : mlx5_0:1 Got async event : local access violation work queue error", {"device": "mlx5_0", "port": 1},
       "transport/net_ib.cc"),
    _w("other", _EVENT + r"(?P<error>[^\n]*?active[^\n]*)", "NET/IB : mlx5_2:1 Got non-fatal async event: port"
                                                            " active(9)",
       {"device": "mlx5_2"}, "transport/net_ib_active.cc"),
    _w("ib_port_error", _EVENT + r"(?P<error>[^\n]*?(?:err|ERR|fatal|down|fail)[^\n]*)",
       "NET/IB : mlx5_2:1 Got non-fatal async event: port error(10)",
       {"device": "mlx5_2", "port": 1, "error": "port error(10)"}, "transport/net_ib.cc"),
    _w("cuda_ipc", r"open CUDA IPC handle ?: ?(?:\d+ )?(?P<error>[^\r\n]*)",
       "failed to open CUDA IPC handle : 801 operation not supported", {"error": "operation not supported"},
       "transport/p2p.cc"),
    _w("ib_queue_pair", r"ibv_modify_qp failed(?: with)?(?: error)?:? ?(?P<error>[^\r\n]*)",
       "Call to ibv_modify_qp failed with error Invalid argument", {"error": "Invalid argument"}, "misc/ibvwrap.cc"),
    _w("ib_memory", r"ibv_(?:reg_(?:dmabuf_)?mr\w*|create_qp|create_cq) failed(?: with)?(?: error)?:?"
                    r" ?(?P<error>[^\r\n]*)",
       "Call to ibv_reg_mr failed with error Cannot allocate memory", {"error": "Cannot allocate memory"},
       "misc/ibvwrap.cc"),
    Rule("warn_duplicate_gpu", "nccl.warn",
         r"Duplicate GPU detected ?: rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<device>\w+)",
         "gpu1:71:99 [0] init.cc:9 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
         {"signature": "duplicate_gpu", "group_ranks": [1, 0], "device": "1000"}, "NCCL src/init.cc",
         {"signature": "duplicate_gpu"}, read=lambda match, data: _gpus(match, _warning(match, data) or {})),
    _w("collective_mismatch", r"[Mm]ismatched collective(?: detected)?(?:[^\n]*?at and around rank"
                              r" (?P<group_ranks>\d+))?",
       "Mismatched collective detected, please check your collective calls at and around rank 11. You can use",
       {"group_ranks": [11]}, "proxy.cc"),
    _w("size_mismatch", r"(?:peer (?P<peer>[^\s,]+) )?collective mismatch error,? local size (?P<expected>\d+)"
       r" remote size (?P<bytes>\d+)|peer (?P<peer_2>[^\s,]+) posted incorrect receive info: size (?P<bytes_2>\d+)",
       "NET/IB : req 0/1 tag 0 peer 10.0.0.6<5> collective mismatch error, local size 496640 remote size 65536",
       {"peer": "10.0.0.6<5>", "bytes": 65536, "expected": 496640}, "transport/net_ib.cc"),
    _w("duplicate_rank", r"Bootstrap Root ?: (?:rank (?P<group_ranks>\d+) of (?P<size>\d+) ranks? has already"
                         r" checked in"
       r"|mismatch in rank count)|Invalid rank requested ?: (?P<group_ranks_2>\d+)/(?P<size_2>\d+)",
       "Bootstrap Root : rank 1 of 8 ranks has already checked in", {"group_ranks": [1], "size": 8}, "bootstrap.cc"),
    _w("proxy", r"\[(?:Proxy (?:Service|Progress)|Service thread|Proxy Thread)|Socket (?:recv|send) failed while"
       r"|proxyProgress|[Pp]roxy (?:[Cc]all|connection|thread|recv|send)[^\r\n]{0,200}?(?:fail|error|closed|timed)",
       "[Proxy Service 1] Failed to execute operation Init from rank 2, retcode 3", {}, "proxy.cc"),
    _w("version_mismatch", r"Mismatched NCCL version|NCCL version mismatch",
       "Mismatched NCCL version detected : rank 0 has version 22105 rank 3 has version 22005", {}, "init.cc"),
    _w("truncated", r"[Mm]essage truncated ?: receiv(?:ed|ing) (?P<bytes>\d+) bytes instead of (?P<expected>\d+)",
       "NET/Socket : peer 10.0.0.1<4> message truncated : receiving 8 bytes instead of 4", {"bytes": 8, "expected": 4},
       "transport/net_socket.cc"),
    _w("no_interface", r"[Nn]o (?:usable )?(?:socket )?interface found|Bootstrap ?: no socket",
       "Bootstrap : no socket interface found", {}, "bootstrap.cc"),
    _w("open_files", r"Too many open files", "Call to socket failed : Too many open files", {}, "misc/socket.cc"),
    _w("connection_closed", r"[Cc]onnection closed by (?:remote )?peer(?: (?P<peer>[^\s,]+))?"
       r"|(?:(?:recv|send)\w* (?:from|to) (?P<peer_2>[^\s,]+) failed[^\n]{0,80}?)?"
       r"(?P<error>Connection reset by peer|Broken pipe)",
       "socketProgress: Connection closed by remote peer node7.cluster<34567>", {"peer": "node7.cluster<34567>"},
       "misc/socket.cc"),
    _w("connect_failed", r"[Cc]onnect(?:ion)? to (?P<peer>[^\s,]+)(?: \([^)]*\))? (?:failed|returned|timed out"
                         r"|refused|exceeded)"
       r"(?: with)?(?: :)? ?(?P<error>[^\r\n]*)|[Cc]onnect (?:returned|failed)(?: with)?(?: error)?:?"
       r" ?(?P<error_2>[^\r\n]*)"
       r"|exceeded error retry count|Socket creation failed ?: ?(?P<error_3>[^\r\n]*)"
       r"|connecting to address .{0,120}?with family \d+ is neither|(?:accept|socketAccept)[^\n]{0,80}?(?:timed out"
       r"|timeout)"
       r"|(?P<error_4>Connection (?:refused|timed out)|No route to host)",
       "socketStartConnect: Connect to 10.0.0.3<43211> failed : Software caused connection abort",
       {"peer": "10.0.0.3<43211>", "error": "Software caused connection abort"}, "misc/socket.cc"),
    _w("shared_memory", r"/dev/shm|shared memory segment|shm_?open|shmOpen|ncclShm",
       "Error: failed to extend /dev/shm/nccl-a1b2c3 to 33030532 bytes", {}, "misc/shmutils.cc"),
    _w("nvls", r"NVLink SHARP|NVLS|[Mm]ulticast",
       "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401", {}, "transport/nvls.cc"),
    _w("invalid_device", r"invalid device ordinal|[Ii]nvalid (?:CUDA )?device", "Cuda failure 'invalid device ordinal'",
       {}, "init.cc"),
    _w("cuda", r"(?:Cuda|HIP) failure(?: \d+)?:? '(?P<error>[^'\r\n]*)'|hip[A-Z]\w+ failed ?: ?(?P<error_2>[^\r\n]*)"
       r"|CUDA (?:driver )?(?:failure|error)[: ]+(?P<error_3>[^\r\n]*)",
       "Cuda failure 700 'an illegal memory access was encountered'",
       {"error": "an illegal memory access was encountered"}, "include/checks.h"),
    _w("init_timeout", r"[Bb]ootstrap[^\n]{0,120}[Tt]im(?:ed|e) ?out|[Tt]imeout waiting for|[Ww]aiting for (?:rank"
                       r"|peer)s?\b"
       r"[^\n]{0,80}connect", "Timeout waiting for incoming connection", {}, "bootstrap.cc"),
    _w("env", r"(?:[Ii]nvalid|[Uu]nknown|[Uu]nsupported|[Cc]ould not (?:parse|find)"
              r"|[Ii]gnoring)[^\n]{0,200}\bNCCL_[A-Z_]{1,80}"
       r"|\bNCCL_[A-Z_]{1,80}[^\n]{0,200}(?:invalid|not supported|ignored|deprecated)",
       "Invalid value abc for NCCL_IB_TIMEOUT, using default", {}, "misc/param.cc"),
    _w("net_failed", r"NET/OFI [^\r\n]{0,200}?"
       r"(?P<error>completed with error[^\r\n]*|[Cc]ouldn't [^\r\n]*|Creating [^\r\n]{0,200}?failed[^\r\n]*)",
       "NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
       {"error": "Couldn't open AV. RC: -22, ERROR: Invalid argument"}, "aws-ofi-nccl src/nccl_ofi_net.c"),
    _w("net_plugin", r"NET/(?:Plugin|OFI)|[Pp]lugin|OFI ", "NET/OFI Failed to initialize rdma protocol", {},
       "plugin/net.cc"),
    Rule("warn_other", "nccl.warn", r"(?:[NR]CCL|CCOM) WARN\s{0,8}(?P<message>\S[^\n]*)",
         'gpu1:71:99 [0] graph/topo.cc:9 NCCL WARN Missing "iommu=pt" from kernel command line',
         {"signature": "other", "at_file": "graph/topo.cc:9"}, "NCCL src/debug.cc", {"signature": "other"},
         read=_warning, begins=r"(?:NCCL WARN|Last error:)\s*$"),
    Rule("init", "nccl.init", r"(?:\b(?P<function>ncclComm\w+) (?:\S+ )?)?" + _COMM + _MORE +
         r"[^\n]{0,80}?Init (?P<phase>START|COMPLETE)",
         "gpu1:71:99 [1] NCCL INFO ncclCommSplit comm 0xb0 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 parent 0xa0"
         " splitCount 2 color -1 key 1 commId 0x77 - Init START",
         {"function": "ncclCommSplit", "parent": "0xa0", "color": -1, "key": 1, "phase": "start", "comm_id": "0x77",
          "group_rank": 1, "size": 2, "device": 1, "bus_id": "2000", "by_host": "gpu1"},
         "NCCL src/init.cc", integers=("device",), read=_init),
    Rule("end", "nccl.end", _COMM + _MORE + r"[^\n]{0,80}?(?P<phase>Abort|Destroy|Finalize) (?:START|COMPLETE)",
         "gpu1:71:99 [0] NCCL INFO comm 0xa0 rank 0 nranks 8 cudaDev 0 busId 1000 - Abort COMPLETE",
         {"phase": "abort", "size": 8}, "NCCL src/init.cc", integers=("device",), read=_init),
    Rule("init_timings", "nccl.init_timings", r"Init timings - (?P<function>\w+): rank (?P<group_rank>\d+) nranks"
         r" (?P<size>\d+) total [\d.]{1,20} \((?P<rest>[^)]*)",
         "gpu1:71:99 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 8 total 1.23 (kernels 0.20, alloc"
         " 0.1,"
         " bootstrap 0.55, connections 0.3, rest 0.0)",
         {"total": 1.23, "bootstrap": 0.55, "connections": 0.3, "size": 8}, "NCCL src/init.cc", read=_timings),
    Rule("version", "nccl.version", r"\b[NR]CCL version (?:: )?(?P<version>\d+\.\d+(?:\.\d+)*)(?:[-+\w.]*?\+cuda(?P<c"
                                    r"uda>[\d.]+))?",
         "NCCL version 2.21.5+cuda12.4", {"version": "2.21.5", "cuda": "12.4"}, "NCCL src/init.cc"),
    Rule("bootstrap", "nccl.bootstrap", r"Bootstrap ?:? ?Using (?P<interface>[^:\s]+):(?P<address>\S+?)(?:<\d+>)?$",
         "gpu1:71:99 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>", {"interface": "eth0", "address": "10.0.0.1"},
         "NCCL src/bootstrap.cc"),
    Rule("network", "nccl.network", r"Using network (?P<network>\S+(?: \S+){0,9})\s*$",
         "gpu1:71:99 [0] NCCL INFO Using network AWS Libfabric", {"network": "AWS Libfabric"},
         "NCCL src/plugin/net.cc"),
    Rule("devices", "nccl.devices", r"NET/(?P<network>IB|Socket|OFI) ?: (?:Using (?P<listed>\[\d+\].*)|No device"
                                    r" found)",
         "gpu1:71:99 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
         {"network": "IB", "devices": ["mlx5_0:1/IB", "mlx5_1:1/RoCE"], "interface": "eth0"},
         "NCCL src/transport/net_ib.cc", read=_devices),
    Rule("connect_retry", "nccl.connect_retry",
         r"[Cc]onnect(?: to (?P<peer>\S+))? returned (?P<error>[^,\r\n]+), retrying(?:"
         r" \((?P<tried>\d+)/(?P<of>\d+)\))?",
         "gpu1:71:99 [0] NCCL INFO socketPollConnect: connect to 10.0.0.3<5> returned Connection refused, retrying"
         " (7/34)",
         {"peer": "10.0.0.3<5>", "error": "Connection refused", "tried": 7, "of": 34}, "NCCL src/misc/socket.cc"),
    Rule("failed", "nccl.failed",
         r"NCCL operation (?P<function>\w{1,60})(?:\([^)]{0,300}\))? failed: (?P<error>[^;\r\n(]{1,120})",
         "NCCL operation ncclGroupEnd() failed: unhandled system error. Last NCCL warning(error) log entry",
         {"function": "ncclGroupEnd", "error": "unhandled system error. Last NCCL warning"},
         "XLA xla/backends/gpu/collectives/nccl_errors.h"),
    Rule("trail", "nccl.trail",
         r"NCCL INFO (?P<at_file>[a-z_/]{2,40}\.(?:cc|cpp|cu)):\d{1,5} -> (?P<code>[1-6])\b(?:"
         r" \((?P<error>[^)]{1,80})\))?",
         "g105:26:27 [6] NCCL INFO bootstrap.cc:275 -> 2", {"at_file": "bootstrap.cc", "code": 2},
         "NCCL src/include/checks.h"),
    Rule("env", "nccl.env", r"NCCL INFO (?P<name>NCCL_\w+) set by environment to (?P<value>.*)$",
         "gpu1:71:99 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.", {"name": "NCCL_IB_DISABLE", "value": "1"},
         "NCCL src/misc/param.cc", read=_version_of),
    Rule("tests_failed", "nccl_tests.failed",
         r"(?:(?P<by_host>[\w.-]{1,80}): )?Test (?P<what>NCCL|CUDA) failure (?P<at_file>[\w./-]{1,80}:\d+)"
         r" ['\"](?P<error>[^'\r\n]{1,300}?)[ /]*(?:'|$)",
         "node4: Test NCCL failure common.cu:1005 'unhandled system error / '",
         {"what": "NCCL", "error": "unhandled system error", "consequence": False, "by_host": "node4"},
         "nccl-tests src/common.h", read=_failed),
    Rule("tests_timeout", "nccl_tests.failed",
         r"(?:(?P<by_host>[\w.-]{1,80}): )?Test (?:timeout|failure: timeout|timed out)",
         "node4: Test timeout", {"what": "time", "error": "timeout"}, "nccl-tests src/common.cu",
         {"what": "time", "error": "timeout"}),
)  # fmt: skip
