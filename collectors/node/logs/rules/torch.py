"""Rules for torch.distributed: watchdog, DETAIL reports, DDP, data loaders, TCP store, gloo; start and end."""

from __future__ import annotations

import re
from typing import List, Match, Optional

from collectors.node.logs.rule import Data, Example, Rule, number
from collectors.samples import Scalar

_GROUP = (
    r"\[PG (?:(?:ID )?(?P<group>\d+) ?)?(?:(?:PG )?GUID(?: (?P<guid>(?!Rank )[^\s(\]]+))?)?"
    r"(?: ?\((?P<group_name>[^)\]]*)\))? {0,2}Rank (?P<group_rank>\d+)\]|\[Rank (?P<old>\d+)\]"
)
"""``[PG ID a PG GUID b(desc) Rank c]``: ``a`` numbers the groups of one process, ``b`` is the group's name, which its
ranks share, ``c`` is the rank within the group. The bare ``[Rank c]`` of older releases refers to the first group."""


def _of_group(match: "Match[str]", data: Data) -> Data:
    """Add the process group from the line's prefix."""
    group = re.search(_GROUP, match.string)
    if group is not None:
        for name in ("group", "guid", "group_name"):
            if group.group(name):
                data[name] = group.group(name)
        data["group_rank"] = number(group.group("group_rank") or group.group("old"))
    return data


def _error(match: "Match[str]", data: Data) -> Optional[Data]:
    return _of_group(match, dict(data, consequence=str(data["error"]).startswith("remote process")))


def _side(letter: str) -> str:
    """Pattern of one rank's collective; a collective without tensors has no shape."""
    pattern = (
        r"Rank (?P<rank_?>\d{1,9}) is running (?:inconsistent )?collective:\s{0,8}CollectiveFingerPrint\("
        r"(?:SequenceNumber=(?P<seq_?>\d{1,18}),? ?)?OpType=(?P<op_?>\w+)(?:, TensorShape=\[(?P<shape_?>[^\]]*)\])?"
        r"(?:, TensorDtypes=(?P<dtype_?>[^,)]+))?"
    )
    return pattern.replace("_?", "_" + letter)


def _fingerprint(_: "Match[str]", data: Data) -> Optional[Data]:
    """Add the fields in which the two sides differ."""
    differs: List[Scalar] = [
        name for name in ("op", "shape", "dtype", "seq") if data.get(name + "_a") != data.get(name + "_b")
    ]
    return dict(data, differs=differs or ["other"])


RULES = (
    Rule("torch.watchdog_timeout", "Watchdog caught collective|Timeout at collective",
         r"(?:Watchdog caught collective operation timeout|Timeout at collective)\s*:\s*Work(?:NCCL)?\("
         r"(?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+),(?: NumelIn=(?P<numel_in>\d+),)?(?:[^\n]*?Timeout\s*\(ms\)\s*="
         r"\s*(?P<timeout_ms>\d+)\)(?:\s*ran\s+for\s+(?P<ran_ms>\d+)\s+milliseconds)?)?",
         Example("[rank31]:[E1121 01:35:13.9 ProcessGroupNCCL.cpp:607] [PG ID 2 PG GUID 3(dp_cp) Rank 7] Watchdog "
                 "caught collective operation timeout: WorkNCCL(SeqNum=2603, OpType=_ALLGATHER_BASE, NumelIn=1024, "
                 "NumelOut=8192, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.",
                 {"seq": 2603, "op": "_ALLGATHER_BASE", "numel_in": 1024, "timeout_ms": 600000, "ran_ms": 600010,
                  "group": "2", "guid": "3", "group_name": "dp_cp", "group_rank": 7, "by_rank": 31},
                 "torch c10d/ProcessGroupNCCL.cpp"), read=_of_group),
    Rule("torch.watchdog_status", "ast enqueued",
         r"[Ll]ast enqueued (?:NCCL )?work:\s*(?P<enqueued>-?\d+)"
         r"(?:[^\n]{0,80}?[Ll]ast completed (?:NCCL )?work:\s*(?P<completed>-?\d+))?",
         Example("[PG GUID 7(tp) Rank 2] failure detected by watchdog at work sequence id: 9 PG status: last enqueued"
                 " work: 9, last started work: 8 (ALLREDUCE), last completed work: 7",
                 {"enqueued": 9, "completed": 7, "guid": "7", "group_name": "tp", "group_rank": 2},
                 "torch c10d/ProcessGroupNCCL.cpp"), read=_of_group),
    Rule("torch.watchdog_stuck", "watchdog got stuck|Heartbeat monitor timed out",
         r"watchdog got stuck for (?P<seconds>\d+) seconds|Heartbeat monitor timed out",
         Example("watchdog got stuck for 600 seconds", {"seconds": 600}, "torch c10d/ProcessGroupNCCL.cpp")),
    Rule("torch.taken_down", "taking the entire process|tearing down the|Some NCCL operations have|attempting to dump",
         "taking the entire process down|tearing down the (?:entire )?process"
         "|Some NCCL operations have failed or timed out|Terminating the process after attempting to dump",
         Example("To avoid data inconsistency, we are taking the entire process down.", {},
                 "torch c10d/ProcessGroupNCCL.cpp")),
    Rule("torch.program_exit", "before program exit|process group has NOT",
         r"destroy_process_group\(\) was not called before program exit"
         "|process group has NOT been destroyed before (?:we destruct|it is being destructed)",
         Example("process group has NOT been destroyed before we destruct", {}, "torch c10d/ProcessGroupNCCL.cpp")),
    Rule("torch.watchdog_error", "async exception|caught exception|terminated with exception|NCCL error|NCCL"
         " communication|DistBackendError:",
         "(?:raised the following async exception|(?:watchdog thread terminated with|Found async|caught) exception"
         "(?: when checking for NCCL errors)?:?|NCCL error(?: in)?:|NCCL communication aborted:|DistBackendError:)"
         "[^\n]{0,400}?(?P<error>unhandled cuda error|unhandled system error|internal error|invalid argument|invalid"
         r" usage|remote process exited or there was a network error|NCCL timeout|ncclTimeout|CUDA error: [^\r\n.]*)",
         Example("[Rank 1] Found async exception when checking for NCCL errors: NCCL error: remote process exited or"
                 " there was a network error", {"consequence": True, "group_rank": 1},
                 "torch c10d/ProcessGroupNCCL.cpp"), read=_error),
    Rule("torch.desync", "didn't join collective|are the lagging ranks|Not all ranks joining collective",
         r"\[(?P<lagging>[\d, ]+)\]\s*(?:finished collective #\d+, but )?didn't join collective #(?P<seq>\d+)"
         r"|ranks \[(?P<lagging_2>[\d, ]+)\] are the lagging ranks that caused this timeout"
         r"|Not all ranks joining collective(?:, sequence number: (?P<seq_2>\d+))?[\s\S]{0,1200}?"
         r"missing ranks: \{(?P<lagging_3>[\d, ]{1,400})\}",
         Example("Not all ranks joining collective, sequence number: 288686\ninternal record id: 1999\n"
                 "group info: 3:tp:0\ncollective: nccl:_all_gather_base\nmissing ranks: {0}",
                 {"lagging": [0], "seq": 288686},
                 "torch c10d/TraceUtils.h; distributed/flight_recorder/components/types.py"),
         begins="Not all ranks joining collective"),
    Rule("torch.fingerprint", "is running collective:|is running inconsistent",
         _side("a") + r".{0,2000}?\)[\s,]{0,8}but\s{1,8}" + _side("b") + r".{0,2000}?\)\s{0,8}(?:\.|$)",
         Example("Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, "
                 "TensorShape=[4, 2], TensorDtypes=Float, Device=x(y)), but Rank 0 is running collective: "
                 "CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[8, 2], TensorDtypes=Float, "
                 "Device=x(y)).Collectives differ in the following aspects: Tensor Tensor shapes: 4vs 8",
                 {"rank_a": 2, "rank_b": 0, "differs": ["shape"], "shape_a": "4, 2", "shape_b": "8, 2", "seq_a": 1,
                  "op_b": "ALLREDUCE"}, "torch c10d/ProcessGroupWrapper.cpp"), read=_fingerprint,
         begins="is running collective: CollectiveFingerPrint(?!.*differ in the following aspects:)"),
    Rule("torch.barrier_failed", "failed to pass monitoredBarrier",
         r"Ranks? (?P<missing>\d+(?:,\s*\d+)*)\s+failed to pass monitoredBarrier in"
         r" (?P<timeout_ms>\d+)\s*ms",
         Example("RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 2000 ms",
                 {"missing": [1, 3], "timeout_ms": 2000}, "torch c10d/ProcessGroupGloo.cpp")),
    Rule("torch.unused_parameters", "finished reduction in the prior|producing the loss|did not receive grad for rank",
         r"Parameter(?:s| indices) which did not receive grad for rank \d{1,9}: (?P<names>\S[^\r\n]{0,2000}?)(?:\s{2}"
         r"|\s*$)|(?:Expected to have finished reduction in the prior iteration|parameters that were not used in "
         r"producing the loss|did not receive grad for rank \d)(?:[\s\S]{0,3000}?Parameter(?:s| indices) which did not "
         r"receive grad for rank \d{1,9}: (?P<names_2>\S[^\r\n]{0,2000}?)(?:\s{2}|\s*$))?",
         Example("Parameters which did not receive grad for rank 1: net.b.weight, net.b.bias  Parameter indices which "
                 "did not receive grad for rank 1: 2 3",
                 {"names": "net.b.weight, net.b.bias"}, "torch c10d/reducer.cpp")),
    Rule("torch.worker_died", "DataLoader worker (pid",
         r"DataLoader worker \(pid\(?s?\)? ?(?P<worker_pid>\d+)[^)]*\) is killed by signal: (?P<signal>[^.\r\n(]+)",
         Example("RuntimeError: DataLoader worker (pid 40372) is killed by signal: Bus error. It is possible that",
                 {"worker_pid": 40372, "signal": "BUS"}, "torch csrc/DataLoader.cpp")),
    Rule("job.size", "WORLD_SIZE|world_size|world size|MEMBER: |Starting with |store-based barrier for",
         r"(?:\bGLOBAL_RANK: (?P<by_rank>\d{1,6}), )?MEMBER: \d{1,6}/(?P<size>(?![01]\b)\d{1,6})\b|(?<![\w.-])"
         r"(?:WORLD_SIZE|world[_ ]size)['\"]?\s{0,3}[:=]\s{0,3}(?P<size_2>(?![01]\b)\d{1,6})\b|(?:Starting with "
         r"|Completed store-based barrier for key:\S{1,80} with )(?P<size_3>(?![01]\b)\d{1,6}) (?:processes|nodes)",
         Example("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8", {"size": 8, "by_rank": 0},
                 "lightning fabric/utilities/distributed.py")),
    Rule("job.started", "Setting OMP_NUM_THREADS|WORLD INFO DICT|values were not passed to|vLLM API server version"
         "|server_args=ServerArgs|Started a local Ray|run with wandb version|NVIDIA-SMI ",
         r"Setting OMP_NUM_THREADS environment variable for each process to be|WORLD INFO DICT: |The following values "
         r"were not passed to `accelerate launch`|vLLM API server version|server_args=ServerArgs\(|Started a local Ray "
         r"instance|Tracking run with wandb version|\| NVIDIA-SMI \d",
         Example("Setting OMP_NUM_THREADS environment variable for each process to be", {},
                 "torch distributed/run.py; deepspeed, accelerate, vllm, sglang, ray")),
    Rule("job.finished", "complete|inished|ompleted training|'train_runtime'|Trainer.fit",
         r"^(?:[\[(].{0,80}?[\])]\s{0,8})?(?:.{0,60}?(?:INFO|info|logs?|rank ?\d{1,9})\W{1,8}"
         r"(?:[\w.]{1,40}\W{1,4}){0,2})?(?:(?:[Tt]raining|[Tt]he training|[Jj]ob|[Rr]un|[Ff]ine-?tuning) (?:has |is "
         r"|was )?(?:successfully )?(?:completed?|finished)\b(?! (?:epoch|step|batch|iteration))|(?:[Ff]inished"
         r"|[Cc]ompleted) training\b(?! (?:epoch|step|batch|iteration|loop))|\{'train_runtime': '?\d|`?Trainer\.fit`? "
         r"stopped: `?max_(?:epochs|steps)=)",
         Example("`Trainer.fit` stopped: `max_epochs=3` reached.", {}, "lightning pytorch/loops/fit_loop.py")),
    Rule("torch.store_timeout", "failed to connect/validate|The client socket has",
         r"failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - timed out"
         r"|The client socket has (?:timed out after \d+\s*(?:ms|s)? ?while trying to connect to"
         r"|failed to connect to(?: any network address of)?) \[?\(?(?P<address_2>[^\s,\])]+?)\]?(?:, ?|:)"
         r"(?:(?P<port_2>\d+)|[A-Za-z_]+)(?! \(errno: (?:97|22) )",
         Example("The client socket has timed out after 60000ms while trying to connect to (10.0.0.9, 29500).",
                 {"address": "10.0.0.9", "port": 29500, "phase": "connect"}, "torch c10d/socket.cpp, TCPStore.cpp"),
         {"phase": "connect"}),
    Rule("torch.store_retry", "failed to connect/validate",
         r"failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - retrying",
         Example("[c10d] TCP client failed to connect/validate to host n1:29500 - retrying (try=0, timeout=600000ms)",
                 {"address": "n1", "port": 29500}, "torch c10d/TCPStore.cpp")),
    Rule("torch.unresolved", "cannot be retrieved",
         r"network addresses of \((?P<address>[^,]+), (?P<port>\d+)\) cannot be retrieved",
         Example("The IPv4 network addresses of (nosuch, 29500) cannot be retrieved (gai error: -3 - Temporary"
                 " failure in name resolution).", {"address": "nosuch", "port": 29500}, "torch c10d/socket.cpp")),
    Rule("torch.address_in_use", "EADDRINUSE|ddress already in use|Errno ",
         r"(?:(?:port[:= ]{1,4}|\]:|\d:|, )(?P<port>\d{1,5})\b[^\n]{0,200}?)?(?:EADDRINUSE|[Aa]ddress already in use"
         r"|Errno 98\b)(?:[^\n]{0,100}?(?:port[:= ]{1,4}|[\d\]]:|, )(?P<port_2>\d{1,5})\b)?",
         Example("The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
                 {"port": 29500}, "torch c10d/socket.cpp")),
    Rule("torch.store_timeout", "waiting for clients|wait timeout after|Socket Timeout|waitForInput: socket",
         r"Timed out after \d+ seconds waiting for clients\.\s*(?P<joined>\d+)/(?P<expected>\d+) clients"
         r"|(?:\[(?P<by_rank>\d{1,6})\] is setting up NCCL communicator .{0,120}? from \[(?P<from_rank>\d{1,6})\]"
         r"[^\n]{0,200}?)?(?:wait timeout after \d+ms|Socket Timeout\b)"
         r"|waitForInput: socket SocketImpl\([^\r\n]{0,200}?\) timed out after \d{5,12}ms",
         Example("Timed out after 31 seconds waiting for clients. 1/2 clients joined", {"joined": 1, "expected": 2},
                 "torch c10d/TCPStore.cpp")),
    Rule("gloo.timeout", "Timed out waiting|Application timeout caused",
         r"Timed out waiting (?P<ms>\d+)ms for (?P<direction>recv|send)|Application timeout caused pair closure",
         Example("Timed out waiting 1800000ms for recv", {"ms": 1800000, "direction": "recv"},
                 "gloo/transport/tcp/unbound_buffer.cc")),
    Rule("gloo.size_mismatch", "[enforce fail at",
         r"\[enforce fail at [^\]\s]*gloo/[^\]]*\]\s*[^\r\n]*(?:preamble\.length|data size doesn't match|nbytes)",
         Example("[enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes."
                 " 16 vs 8", {}, "gloo/transport/tcp/pair.cc")),
    Rule("gloo.closed", "reached monitoredBarrier, but received errors",
         r"reached monitoredBarrier, but received errors while waiting for send/recv from (?P<peer>rank \d+)",
         Example("Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
                 "rank 0. Please check rank 0 logs for faulty rank.", {"peer": "rank 0"},
                 "torch c10d/ProcessGroupGloo.cpp")),
    Rule("torch.store_lost", "TCPStore server has shut down too early", "TCPStore server has shut down too early",
         Example('[PG ID 0 PG GUID 0 Rank 2] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore '
                 "server has shut down too early), with error: Broken pipe", {}, "torch c10d/ProcessGroupNCCL.cpp")),
    Rule("gloo.closed", "gloo/|losed by peer",
         r"(?:gloo/[^\n]{0,200}?(?:Connection closed by peer|Connection reset by peer|Broken pipe|[Rr]ead error)"
         r"|Connection closed by peer) ?(?P<peer>\[[^\]]+\](?::\d+)?)",
         Example("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:5012",
                 {"peer": "[10.0.0.2]:5012"}, "gloo/transport/tcp/pair.cc")),
)  # fmt: skip
