"""Rules for kernel messages about GPUs, memory, tasks, links, PCIe and file servers, and for Fabric Manager's log."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.rule import Data, Example, Rule
from collectors.samples.gpus import bus_key

_BUS = r"(?P<bus_id>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"


def _gpu(match: "Match[str]", data: Data) -> Optional[Data]:
    """Add the GPU that the line names, by PCI address or index."""
    bus, index = re.search(_BUS, match.string), re.search(r"\bGPU ?(\d{1,2})\b(?!:)", match.string)
    if bus is not None:
        data["bus_id"] = bus_key(bus.group("bus_id"))
    return data if index is None else dict(data, gpu=int(index.group(1)))


def _driver(problem: str, words: str, pattern: str, example: Example) -> Rule:
    """Rule for a problem that a GPU driver reports without an Xid."""
    return Rule("kernel.gpu", words, pattern, example, {"problem": problem}, read=_gpu)


RULES = (
    Rule("kernel.xid", "NVRM: Xid (",
         r"NVRM: Xid \((?:PCI:)?(?P<bus_id>[0-9a-fA-F:.]+)[^)]*\)(?:\s*\([^)]*\))?\s*:\s*(?P<code>\d+)"
         r"(?:,\s*pid=(?P<pid>\d+|'?<unknown>'?))?(?:[^\n]{0,200}? caused by previous Xid (?P<code_2>\d{1,4}))?",
         Example("NVRM: Xid (PCI:0000:5F:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
                 {"code": 79, "bus_id": "0000:5f:00", "pid": 1234}, "NVIDIA xid-errors")),
    Rule("kernel.xid", "fallen off the bus",
         r"NVRM: [^\n]{0,60}?GPU(?: at PCI:| )" + _BUS + r".{0,160}?fallen off the bus",
         Example("NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.", {"code": 79, "bus_id": "0000:b3:00"},
                 "NVIDIA open-gpu-kernel-modules"), {"code": 79}),
    _driver("hung", "NVRM: ", r"NVRM: [^\n]{0,200}?(?:GSP.{0,80}?(?:[Tt]ime(?:d )?out|[Hh]eartbeat)"
            r"|sanity check failed.{0,40}?waiting for RPC|GPU is probably locked)",
            Example("[ 8.3] NVRM: GPU6 _kgspLogRpcTimeout: *** GSP Timeout ***", {"gpu": 6}, "NVIDIA driver")),
    _driver("lost", "NVRM: |lost from bus",
            r"NVRM: [^\n]{0,200}?(?:No NVIDIA graphics adapter found|NVIDIA init module failed|RmInitAdapter failed"
            r"|rm_init_adapter failed|[Cc]annot initialize GSP|GPU (?:is |has been )?lost\b|[Ll]ost GPU"
            r"|NV_ERR_GPU_IS_LOST)|amdgpu[^\n]{0,200}?(?:device|gpu|GPU) (?:is )?lost from bus",
            Example("NVRM: GPU 0000:5e:00.0: RmInitAdapter failed! (0x26)", {"bus_id": "0000:5e:00"}, "NVIDIA driver")),
    _driver("ecc", "NVRM: |amdgpu",
            r"NVRM: [^\n]{0,200}?(?:NV_ERR_RESET_REQUIRED|Assertion failed: Reset required)|amdgpu[^\n]{0,200}?(?:GPU "
            r"reset(?:\(\d{1,9}\))?(?: begin| succeeded| failed|!?\s{0,4}$)|ring \S{1,40} timeout|VRAM is lost"
            r"|uncorrectable hardware error|[Pp]oison (?:is )?(?:consumed|created))",
            Example("amdgpu 0000:1c:00.0: {1}uncorrectable hardware error(E) detected!", {"bus_id": "0000:1c:00"},
                    "amdgpu")),
    Rule("kernel.sxid", "SXid (|detected NVSwitch|detected GPU NVL",
         r"SXid \((?:PCI:)?(?P<bus_id>[0-9a-fA-F:.]+)\)\s*:\s*(?P<code>\d+),\s*(?:(?P<fatal>Fatal)\b)?"
         r"|detected NVSwitch (?P<fatal_2>fatal) error (?P<code_2>\d+)|detected GPU NVL (?P<fatal_3>Fatal) error",
         Example("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Fatal, Link 32 egress non-posted PRIV error",
                 {"code": 12028, "fatal": "Fatal", "bus_id": "0000:05:00"}, "NVIDIA nvswitch driver, Fabric Manager")),
    Rule("kernel.oom", "oom-kill:constraint=",
         r"oom-kill:constraint=(?P<constraint>\w{1,40})[^\r\n]{0,400}?task_memcg=(?P<cgroup>[^,\s]{1,400}),"
         r"task=(?P<process>[^,]{1,64}),pid=(?P<pid>\d{1,10})",
         Example("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/s,task_memcg="
                 "/s/job_7/step,task=python,pid=42,uid=1000", {"pid": 42, "constraint": "CONSTRAINT_MEMCG",
                                                                "cgroup": "/s/job_7/step", "process": "python"},
                 "Linux mm/oom_kill.c")),
    Rule("kernel.oom", "illed process|Kill process",
         r"(?:[Kk]illed|[Oo]ut of memory: Kill) process (?P<pid>\d+),? \((?P<process>[^)]*)\)",
         Example("Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:2048kB, file-rss:0kB",
                 {"pid": 4711, "process": "python"}, "Linux mm/oom_kill.c")),
    Rule("kernel.hung_task", "blocked for more than|lockup - CPU#|ard LOCKUP",
         r"task (?P<process>[^\s:]+(?::[^\s:]+)*?):(?P<pid>\d+) (?:\w+ )*blocked for more than (?P<seconds>\d+)"
         r"|lockup - CPU#\d+ stuck for (?P<seconds_2>\d+)s!(?: \[(?P<process_2>[^:\]]+))?|[Hh]ard LOCKUP",
         Example("INFO: task python:4242 blocked for more than 120 seconds.",
                 {"process": "python", "pid": 4242, "seconds": 120}, "Linux kernel/hung_task.c, watchdog.c")),
    Rule("kernel.segfault", " segfault at|general protection fault|trap invalid opcode",
         r"(?P<process>[^\s\[\]]{1,64})\[(?P<pid>\d{1,10})\]:? (?:segfault at|general protection fault"
         r"|trap invalid opcode)[^\r\n]{0,400}?(?: in (?P<library>[^\s\[]{1,255}))?(?:\[|$)",
         Example("python[123]: segfault at 0 ip 00007f5 sp 00007ffc error 4 in libnccl.so.2.21.5[7f5+1000]",
                 {"process": "python", "pid": 123, "library": "libnccl.so.2.21.5"}, "Linux arch/x86/mm/fault.c")),
    Rule("kernel.machine", "Kernel panic|Machine Check|EDAC |Memory failure: |PCIe Bus Error|AER: Uncorrect|pciehp: ",
         r"(?P<problem>Kernel panic - not syncing: [^\r\n]{1,160}"
         r"|CPU \d{1,5}: Machine Check(?: Exception)?: [0-9a-f]{1,3} Bank \d{1,3}: [abef].{1,80}"
         r"|EDAC [\w ]{0,24}MC\d{1,3}: \d{1,9} UE [^\r\n]{1,160}"
         r"|Memory failure: 0x[0-9a-f]{1,16}: (?!recovery action for \w[^\r\n]{0,40}: Recovered)[^\r\n]{1,120}"
         r"|PCIe Bus Error: severity=Uncorrect\w{1,12} \((?:Fatal|Non-Fatal)\)|AER: Uncorrect\w{1,12} \(Fatal\)"
         r"|pciehp: Slot\([^)\r\n]{1,20}\): (?:Link Down|Card not present))",
         Example("Kernel panic - not syncing: Fatal exception",
                 {"problem": "Kernel panic - not syncing: Fatal exception"}, "Linux")),
    Rule("kernel.link", "mlx|bnxt_en|NETDEV WATCHDOG",
         r"(?P<device>(?:mlx\d_core|bnxt_en) \S{1,64}?|NETDEV WATCHDOG: \S{1,64}):? .{0,200}?(?P<problem>[Dd]etected"
         r" insufficient power on the PCIe slot|High Temperature|Cable unplugged|transmit queue \d+ timed out"
         r"|health (?:compromised|poll failed)|mlx\d_load_one failed with error code -?\d{1,5}|assert_var"
         r"|command timeout|timeout\. Will cause a leak|TX timeout detected)",
         Example("mlx5_core 0000:9c:00.0: Detected insufficient power on the PCIe slot (27W).",
                 {"problem": "Detected insufficient power on the PCIe slot"}, "Linux drivers/net/ethernet/mellanox")),
    Rule("kernel.storage", "nfs: server|Lustre",
         r"(?P<system>nfs): server (?P<server>\S+) (?:not responding|(?P<ok>OK)|timed out)|(?P<system_2>Lustre)(?:"
         r"Error)?: [^\r\n]{0,160}?(?:Connection to (?:service )?(?P<server_2>[\w.-]{1,80})[^\r\n]{0,80}? was lost; in "
         r"progress|This client was evicted by (?P<server_3>[\w-]{1,80})|(?P<ok_2>Connection restored to )(?:service )?"
         r"(?P<server_4>[\w.-]{1,80}))",
         Example("Lustre: lfs-OST0001-osc-ff: Connection to lfs-OST0001 (at 10.0.0.9@o2ib) was lost; in progress",
                 {"server": "lfs-OST0001", "system": "Lustre"}, "Linux; Lustre")),
)  # fmt: skip
