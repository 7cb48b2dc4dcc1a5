"""PyTorch's distributed package: watchdog, desync and DETAIL reports, DDP, data loaders."""

from __future__ import annotations

import re
from typing import List, Match, Optional

from collectors.node.logs.rule import Data, Example, Rule, number, numbers
from collectors.samples.values import Scalar

_GROUP = re.compile(
    r"\[PG (?:(?:ID )?(?P<group>\d+) ?)?(?:(?:PG )?GUID(?: (?P<guid>(?!Rank )[^\s(\]]+))?)?"
    r"(?: ?\((?P<group_name>[^)\]]*)\))? {0,2}Rank (?P<group_rank>\d+)\]|\[Rank (?P<old>\d+)\]"
)
"""``[PG ID a PG GUID b(desc) Rank c]``: ``a`` counts the groups of one process, ``b`` is the group's name, which its
ranks share, ``c`` is the rank within the group. The bare ``[Rank c]`` of older releases is that of the first group."""


_FIELD = re.compile(r"(SeqNum|OpType|NumelIn|NumelOut|Timeout\s*\(ms\))\s*=\s*(\w+)(?=\s*[,)]|$)")


_NAMES = {"SeqNum": "seq", "NumelIn": "numel_in", "NumelOut": "numel_out"}


def _of_group(match: "Match[str]", data: Data) -> Data:
    """With the process group that the line names in front."""
    group = _GROUP.search(match.string)
    if group is not None:
        for name in ("group", "guid", "group_name"):
            if group.group(name):
                data[name] = group.group(name)
        data["group_rank"] = number(group.group("group_rank") or group.group("old"))
    return data


def _timeout(match: "Match[str]", data: Data) -> Optional[Data]:
    for name, value in _FIELD.findall(str(data.pop("fields", ""))):
        if name == "OpType":
            data["op"] = value
        else:
            data[_NAMES.get(name, "timeout_ms")] = number(value)
    return _of_group(match, data)


def _status(match: "Match[str]", data: Data) -> Optional[Data]:
    """The sequence numbers; torch 2.3 prints garbage for those that do not exist yet."""
    enqueued = data.get("enqueued")
    for name in ("started", "completed"):
        value = data.get(name)
        if isinstance(value, int) and not (isinstance(enqueued, int) and -1 <= value <= max(enqueued, -1)):
            del data[name]
    return _of_group(match, data)


def _error(match: "Match[str]", data: Data) -> Optional[Data]:
    return _of_group(match, dict(data, consequence=str(data["error"]).startswith("remote process")))


def _dump(match: "Match[str]", data: Data) -> Optional[Data]:
    if "Observed" in match.group():
        return dict(data, origin="store")
    return dict(data, origin="local" if "this local rank" in match.group() else "rank")


_SIDE = {
    "seq": r"SequenceNumber=(\d+)",
    "op": r"OpType=(\w+)",
    "shape": r"TensorShape=\[([^\]]*)\]",
    "dtype": r"TensorDtypes=([^,)]+)",
}


_ASPECTS = (
    ("op", "Op type"),
    ("shape", "[Ss]hapes?"),
    ("dtype", "[Dd]types?"),
    ("sequence", "[Ss]equence"),
    ("device", "[Dd]evice"),
)


def _fingerprint(match: "Match[str]", data: Data) -> Optional[Data]:
    """Both sides' operations, and in what they differ: by torch's own words, else by comparison."""
    for suffix in ("_a", "_b"):
        side = str(data.pop("side" + suffix, ""))
        for name, pattern in _SIDE.items():
            part = re.search(pattern, side)
            if part is not None:
                data[name + suffix] = number(part.group(1)) if name == "seq" else part.group(1).strip()
    differs: List[Scalar] = [name for name, word in _ASPECTS if re.search(word, match.string[match.end() :])]
    if not differs:
        differs = [name for name in ("op", "shape", "dtype") if data.get(name + "_a") != data.get(name + "_b")]
        differs += ["sequence"] if data.get("seq_a") != data.get("seq_b") else []
    return dict(data, differs=differs or ["other"])


def _not_joined(match: "Match[str]", data: Data) -> Optional[Data]:
    missing = data.get("missing")
    return dict(data, finished=missing - 1) if isinstance(missing, int) else data


def _without_grad(match: "Match[str]", data: Data) -> Optional[Data]:
    """Which parameters had no gradient, by index and, with TORCH_DISTRIBUTED_DEBUG=DETAIL, by name."""
    indices = re.search(r"indices which did not receive grad for rank \d{1,9}:\s*(\d[\d ]*)", match.string)
    names = re.search(
        r"Parameters which did not receive grad for rank \d{1,9}:\s*([^\r\n]+?)(?:\s{2}|Parameter indices|\s*$)",
        match.string, re.MULTILINE,
    )  # fmt: skip
    if indices is not None:
        data["indices"] = numbers(indices.group(1))
    if names is not None:
        listed: List[Scalar] = [name.strip() for name in names.group(1).split(",")[:200] if name.strip()]
        data["names"] = listed
    return data


def _ended(match: "Match[str]", data: Data) -> Optional[Data]:
    words = str(data.pop("words", "")).strip()
    if not words:
        return dict(data, reason="exited")
    reasons = {"bus ": "bus", "bus": "bus", "segm": "segfault", "abor": "aborted"}
    return dict(data, reason=reasons.get(words.lower()[:4], "killed"), signal=words)


def _size(match: "Match[str]", data: Data) -> Optional[Data]:
    peers = data.pop("peers", None)
    if isinstance(peers, str):
        data["size"] = (number(peers) or 0) + 1
    size = data.get("size")
    return data if isinstance(size, int) and size > 1 else None


_WORK = r"(?P<fields>[^\n]*?Timeout\s*\(ms\)\s*=\s*\d+)\)"


WATCHDOG = (
    Rule("watchdog_timeout", "torch.watchdog_timeout",
         r"(?:Watchdog caught collective operation timeout|Timeout at collective)\s*:\s*Work(?:NCCL)?\(" + _WORK
         + r"(?:\s*ran\s+for\s+(?P<ran_ms>\d+)\s+milliseconds)?",
         Example("[rank31]:[E1121 01:35:13.9 ProcessGroupNCCL.cpp:607] [PG ID 2 PG GUID 3(dp_cp) Rank 7] "
         "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2603, "
         "OpType=_ALLGATHER_BASE, NumelIn=1024, NumelOut=8192, Timeout(ms)=600000) ran for 600010 "
         "milliseconds before timing out.",
         {"seq": 2603, "op": "_ALLGATHER_BASE", "numel_in": 1024, "numel_out": 8192, "timeout_ms": 600000,
         "ran_ms": 600010, "group": "2", "guid": "3", "group_name": "dp_cp", "group_rank": 7, "by_rank": 31},
         "torch c10d/ProcessGroupNCCL.cpp"), read=_timeout),
    Rule("watchdog_status", "torch.watchdog_status",
         "(?:(?:Timeout at NCCL work:|detected by watchdog at work:"
         r"|at work sequence id:)\s*(?P<work>-?\d+)[^\n]{0,80}?)?[Ll]ast enqueued (?:NCCL "
         r")?work:\s*(?P<enqueued>-?\d+)(?: \([^)]*\))?(?:,\s*last started (?:NCCL "
         r")?work:\s*(?P<started>-?\d+)(?: \((?P<started_op>[^)]*)\))?)?,\s*last completed (?:NCCL "
         r")?work:\s*(?P<completed>-?\d+)",
         Example("[PG GUID 7(tp) Rank 2] failure detected by watchdog at work sequence id: 9 PG status: last "
         "enqueued work: 9, last started work: 8 (ALLREDUCE), last completed work: 7",
         {"work": 9, "enqueued": 9, "started": 8, "started_op": "ALLREDUCE", "completed": 7, "guid": "7",
         "group_name": "tp", "group_rank": 2}, "torch c10d/ProcessGroupNCCL.cpp"), read=_status,
         also=True),
    Rule("watchdog_stuck", "torch.watchdog_stuck",
         r"watchdog got stuck for (?P<seconds>\d+) seconds|Heartbeat monitor timed out",
         Example("[rank1]:[F425 ProcessGroupNCCL.cpp:1224] [PG 0 Rank 1] ProcessGroupNCCL's watchdog got "
         "stuck for 600 seconds without making progress in monitoring enqueued collectives.", {"seconds": 600},
         "torch c10d/ProcessGroupNCCL.cpp"), also=True),
    Rule("dump_signal", "torch.dump_signal",
         r"(?:Received a (?:dump signal|(?:global )?timeout)[^\r\n]{0,200}?|Observed (?:flight recorder )?dump signal) "
         r"from\s+(?:this local rank|rank (?P<from_rank>\d+)|another rank)",
         Example("Received a dump signal due to a collective timeout from rank 3 and we will try our best to "
         "dump the debug info.", {"origin": "rank", "from_rank": 3},
         "torch c10d/ProcessGroupNCCL.cpp"), read=_dump, also=True),
    Rule("taken_down", "torch.taken_down",
         "taking the entire process down|tearing down the (?:entire )?process"
         "|Some NCCL operations have failed or timed out|Terminating the process after attempting to dump",
         Example("To avoid data inconsistency, we are taking the entire process down.", {},
         "torch c10d/ProcessGroupNCCL.cpp"), also=True),
    Rule("program_exit", "torch.program_exit",
         r"destroy_process_group\(\) was not called before program exit"
         "|process group has NOT been destroyed before (?:we destruct|it is being destructed)",
         Example("[rank0]:[W ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been "
         "destroyed before we destruct ProcessGroupNCCL.", {}, "torch c10d/ProcessGroupNCCL.cpp"),
         also=True),
    Rule("watchdog_error", "torch.watchdog_error",
         "(?:raised the following async exception|(?:watchdog thread terminated with|Found async"
         "|caught) exception(?: when checking for NCCL errors)?:?|NCCL error in:|NCCL error:"
         r"|NCCL communication aborted:|DistBackendError:)[^\n]{0,400}?(?P<error>unhandled cuda error"
         "|unhandled system error|internal error|invalid argument|invalid usage"
         r"|remote process exited or there was a network error|NCCL timeout|ncclTimeout|CUDA error: [^\r\n.]*)",
         Example("[Rank 1] Found async exception when checking for NCCL errors: NCCL error: remote process "
         "exited or there was a network error, NCCL remote version", {"consequence": True, "group_rank": 1},
         "torch c10d/ProcessGroupNCCL.cpp"), read=_error),
)  # fmt: skip


REPORTS = (
    Rule("desync", "torch.desync",
         r"\[(?P<lagging>[\d, ]+)\]\s*(?:finished collective #(?P<finished>\d+), but )?didn't join collective "
         r"#(?P<missing>\d+)|ranks \[(?P<lagging_2>[\d, ]+)\] are the lagging ranks that caused this timeout",
         Example("  - [0, 2] joined but didn't finish collective #8; [1] finished collective #7, but didn't "
         "join collective #8 (x)", {"lagging": [1], "finished": 7, "missing": 8},
         "torch c10d/TraceUtils.h"), integers=("missing",)),
    Rule("fr_trace", "torch.desync",
         r"Not all ranks joining collective(?:, sequence number: (?P<missing>\d+))?[\s\S]{0,1200}?missing ranks: "
         r"\{(?P<lagging>[\d, ]{1,400})\}",
         Example("Not all ranks joining collective, sequence number: 288686\ninternal record id: 1999\n"
         "group info: 3:tp:0\ncollective: nccl:_all_gather_base\nmissing ranks: {0}\ninput sizes: [[1, 64640]]",
         {"lagging": [0], "missing": 288686}, "torch distributed/flight_recorder/components/types.py"),
         integers=("missing",), read=_not_joined, begins="Not all ranks joining collective",
         item=r"\s{0,8}[a-z][a-z ]{2,40}: "),
    Rule("fingerprint", "torch.fingerprint",
         r"Rank (?P<rank_a>\d{1,9}) is running collective:\s{0,8}CollectiveFingerPrint"
         r"\((?P<side_a>.{0,2000}?)\)[\s,]{0,8}but\s{1,8}Rank (?P<rank_b>\d{1,9}) is running (?:inconsistent "
         r")?collective:\s{0,8}CollectiveFingerPrint\((?P<side_b>.{0,2000}?)\)\s{0,8}(?:\.|$)",
         Example("Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, "
         "TensorShape=[4, 2], TensorDtypes=Float, Device=x(y)), but Rank 0 is running collective: "
         "CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[8, 2], "
         "TensorDtypes=Float, Device=x(y)).Collectives differ in the following aspects: Tensor "
         "Tensor shapes: 4vs 8",
         {"rank_a": 2, "rank_b": 0, "differs": ["shape"], "shape_a": "4, 2", "shape_b": "8, 2", "seq_a": 1,
         "op_b": "ALLREDUCE"}, "torch c10d/ProcessGroupWrapper.cpp"), read=_fingerprint,
         begins=r"is running collective: CollectiveFingerPrint(?!.*differ in the following aspects:\s*\S)"),
    Rule("barrier_failed", "torch.barrier_failed",
         r"(?:\[Rank (?P<reporter>\d+)\]:\s*)?Ranks? (?P<missing>\d+(?:,\s*\d+)*)\s+failed to pass "
         r"monitoredBarrier in (?P<timeout_ms>\d+)\s*ms",
         Example("RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 2000 ms",
         {"reporter": 0, "missing": [1, 3], "timeout_ms": 2000}, "torch c10d/ProcessGroupGloo.cpp")),
    Rule("unused", "torch.unused_parameters",
         "Expected to have finished reduction in the prior iteration"
         r"|parameters that were not used in producing the loss|did not receive grad for rank (?P<reporter>\d+):",
         Example("Parameters which did not receive grad for rank 1: net.b.weight, net.b.bias  Parameter "
         "indices which did not receive grad for rank 1: 2 3",
         {"reporter": 1, "indices": [2, 3], "names": ["net.b.weight", "net.b.bias"]},
         "torch c10d/reducer.cpp"), read=_without_grad),
)  # fmt: skip


WORKERS = (
    Rule("worker_ended", "torch.worker_died",
         r"DataLoader worker \(pid\(?s?\)? ?(?P<worker_pid>\d+)[^)]*\) (?:is killed by signal: (?P<words>[^.\r\n(]+)"
         r"|exited unexpectedly(?: with exit code (?P<exitcode>-?\d+))?)"
         r"|Unexpected (?P<words_2>segmentation fault|floating-point exception) encountered in worker",
         Example("RuntimeError: DataLoader worker (pid 40372) is killed by signal: Bus error. It is possible that",
         {"worker_pid": 40372, "reason": "bus", "signal": "Bus error"}, "torch csrc/DataLoader.cpp"), read=_ended),
    Rule("worker_late", "torch.worker_died",
         r"DataLoader timed out after \d+ seconds|DataLoader worker[^\n]{0,80}?timed out",
         Example("RuntimeError: DataLoader timed out after 5 seconds", {"reason": "timeout"},
         "torch/utils/data/dataloader.py"), {"reason": "timeout"}),
)  # fmt: skip


SIZES = (
    Rule("joining", "job.size",
         r"\bGLOBAL_RANK: (?P<by_rank>\d{1,6}), MEMBER: \d{1,6}/(?P<size>\d{1,6})\b",
         Example("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8", {"size": 8, "by_rank": 0},
         "lightning fabric/utilities/distributed.py"), read=_size, also=True),
    Rule("joined", "job.size",
         r"Starting with (?P<size>\d{1,6}) processes",
         Example("distributed_backend=nccl All distributed processes registered. Starting with 8 processes",
         {"size": 8}, "lightning fabric/utilities/distributed.py"), read=_size, also=True),
    Rule("size", "job.size",
         r"(?<![\w.-])(?:(?:global |using )?(?:WORLD_SIZE|world[_ "
         r"]size)['\"]?\s{0,3}[:=]\s{0,3}(?P<size>\d{1,6})\b|MEMBER: \d{1,6}/(?P<size_2>\d{1,6})\b"
         r"|Starting with (?P<size_3>\d{1,6}) processes|Completed store-based barrier for key:\S{1,80} with "
         r"(?P<size_4>\d{1,6}) nodes)|\[Gloo\] Rank \d{1,6} is connected to \d{1,6} peer ranks\. [^\r\n]{0,60}? "
         r"is : (?P<peers>\d{1,6})",
         Example("[Gloo] Rank 1 is connected to 2 peer ranks. Expected number of connected peer ranks is : 2",
         {"size": 3}, "torch c10d/ProcessGroupGloo.cpp"), read=_size, also=True),
    Rule("started", "job.started",
         r"Setting OMP_NUM_THREADS environment variable for each process to be|WORLD INFO DICT: "
         r"|The following values were not passed to `accelerate launch`|vLLM API server version"
         r"|server_args=ServerArgs\(|Started server process \[\d{1,9}\]|Started a local Ray instance"
         r"|Tracking run with wandb version|\| NVIDIA-SMI \d[\d.]{0,20} ",
         Example("W1121 00:12:00.123000 70 run.py:793] Setting OMP_NUM_THREADS environment variable for each process "
         "to be 1 in default", {}, "torch distributed/run.py; deepspeed, accelerate, vllm, sglang, uvicorn, "
         "ray, wandb, nvidia-smi"), also=True),
    Rule("finished", "job.finished",
         r"^(?:[\[(].{0,80}?[\])]\s{0,8})?(?:.{0,60}?(?:INFO|info|logs?"
         r"|rank ?\d{1,9})\W{1,8}(?:[\w.]{1,40}\W{1,4}){0,2})?(?:(?:[Tt]raining|[Tt]he training|[Jj]ob|[Rr]un"
         "|[Ff]ine-?tuning|[Pp]re-?training) (?:has |is |was )?(?:successfully )?(?:completed?|finished"
         r"|done)(?: successfully)?\b(?! (?:epoch|step|batch|iteration))|(?:[Ff]inished|[Cc]ompleted|[Dd]one"
         r"|[Ee]nd(?:ed)?(?: of)?) training\b(?! (?:epoch|step|batch|iteration|loop))|\{'train_runtime': '?\d"
         r"|`?Trainer\.fit`? stopped: `?max_(?:epochs|steps)=)",
         Example("`Trainer.fit` stopped: `max_epochs=3` reached.", {}, "lightning pytorch/loops/fit_loop.py"),
         also=True),
)  # fmt: skip
