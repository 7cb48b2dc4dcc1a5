"""The kernel's words about GPUs, memory, tasks, links, PCIe and storage, and Fabric Manager's about NVLinks."""

from __future__ import annotations

from typing import Match, Optional

from collectors.node import late_re as re
from collectors.node.logs.rule import Data, Rule, bus_id

_BUS = r"(?P<bus_id>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"


def _gpu(match: "Match[str]", data: Data) -> Optional[Data]:
    """With the GPU that the line names, by its address or its number."""
    bus = re.search(r"\b([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?\b", match.string)
    index = re.search(r"\bGPU ?(\d{1,2})\b(?!:)", match.string)
    if bus is not None:
        data["bus_id"] = bus_id(bus.group(1))
    if index is not None:
        data["gpu"] = int(index.group(1))
    return data


def _fatal(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, fatal=not str(data.get("detail", "")).lower().startswith("non-fatal"))


def _severity(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, fatal=str(data.get("fatal", "")).lower() == "fatal")


def _kilobytes(match: "Match[str]", data: Data) -> Optional[Data]:
    rss = data.pop("rss_kb", None)
    return data if rss is None else dict(data, rss=int(str(rss)) * 1024)


def _full(match: "Match[str]", data: Data) -> Optional[Data]:
    return {"constraint": "CONSTRAINT_MEMCG"} if match.group("usage") == match.group("limit") else None


def _lockup(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, hard=data.pop("soft", None) is None)


def _link(match: "Match[str]", data: Data) -> Optional[Data]:
    down = data.pop("down", None) is not None
    data["up"] = not down
    since = re.search(r"(?:^|\s)\[ {0,6}(\d{1,9})\.\d{6}\] ", match.string[:200])
    return dict(data, uptime=int(since.group(1))) if since is not None and down else data


def _words(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, what=match.group().strip()[:200])


def _nfs(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, ok=data.pop("ok", None) is not None)


def _driver(problem: str, pattern: str, sample: str, **more: object) -> Rule:
    return Rule("gpu_" + problem, "kernel.gpu", pattern, sample, {"problem": problem, **more},
                "amdgpu amdgpu_device.c" if problem.startswith("amd") else "NVIDIA open-gpu-kernel-modules",
                {"problem": problem}, read=_gpu)  # fmt: skip


def _machine(problem: str, pattern: str, sample: str, source: str) -> Rule:
    return Rule("%s_%s" % (problem, source.rpartition("/")[2].partition(".")[0]), "kernel.machine", pattern, sample,
                {"problem": problem}, source, {"problem": problem}, read=_words)  # fmt: skip


def _storage(system: str, pattern: str, sample: str, server: str, *, ok: bool = False) -> Rule:
    found = {"server": server} if server else {}
    return Rule("storage_%s%s" % (system.lower(), "_back" if ok else ""), "kernel.storage", pattern, sample,
                {"system": system, "ok": ok, **found}, "Linux %s" % system, {"system": system, "ok": ok})  # fmt: skip


RULES = (
    Rule("xid", "kernel.xid",
         r"NVRM: Xid \((?:PCI:)?(?P<bus_id>[0-9a-fA-F:.]+)[^)]*\)(?:\s*\([^)]*\))?\s*:\s*(?P<code>\d+)"
         r"(?:,\s*pid=(?P<pid>\d+|'?<unknown>'?))?(?:,\s*name=(?P<process>[^,]*))?,?\s*(?P<detail>[^\r\n]*)",
         "NVRM: Xid (PCI:0000:5F:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
         {"code": 79, "bus_id": "0000:5f:00", "pid": 1234, "process": "python", "detail": "GPU has fallen off the"
                                                                                          " bus."},
         "NVIDIA open-gpu-kernel-modules; docs.nvidia.com/deploy/xid-errors"),
    Rule("fallen", "kernel.xid",
         r"NVRM: (?:The NVIDIA )?(?:[^\n]{0,60}?GPU(?: at PCI:| )" + _BUS +
         r"(?:\.\d)?)?[\s\S]{0,160}?fallen off the bus",
         "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\nNVRM: fallen"
         " off the bus"
         " and is not responding to commands.", {"code": 79, "bus_id": "0000:b3:00"}, "NVIDIA open-gpu-kernel-modules",
         {"code": 79}, begins=r"NVRM: The NVIDIA GPU (?!.*(?:fallen off|not responding|supported|support for))"),
    _driver("gsp_timeout", r"NVRM: [^\n]{0,200}?(?:GSP.{0,80}?(?:[Tt]ime(?:d )?out|[Hh]eartbeat)|sanity check"
                           r" failed.{0,40}?waiting"
            r" for RPC)", "[ 8.3] NVRM: GPU6 _kgspLogRpcTimeout: *** GSP Timeout ***", gpu=6),
    _driver("init_failed", r"NVRM: [^\n]{0,200}?(?:No NVIDIA graphics adapter found|NVIDIA init module failed"
                           r"|RmInitAdapter failed"
            r"|rm_init_adapter failed|[Cc]annot initialize GSP)", "NVRM: GPU 0000:5e:00.0: RmInitAdapter failed!"
                                                                  " (0x26:0x56)",
            bus_id="0000:5e:00"),
    _driver("needs_reset", r"NVRM: [^\n]{0,200}?(?:NV_ERR_RESET_REQUIRED|Assertion failed: Reset required)",
            "NVRM: nvAssertOkFailed: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED]"),
    _driver("locked", r"NVRM: [^\n]{0,200}?GPU is probably locked", "NVRM: krcWatchdog: RC watchdog: GPU is probably"
                                                                    " locked!"),
    _driver("bad_register", r"NVRM: [^\n]{0,200}?(?:[Pp]ossible bad register read|GPU (?:is |has been )?lost\b"
                            r"|[Ll]ost GPU"
            r"|NV_ERR_GPU_IS_LOST)", "NVRM: nvAssert: returned NV_ERR_GPU_IS_LOST from rmStatus @ ce.c:106"),
    _driver("amd_memory", r"amdgpu[^\n]{0,200}?(?:uncorrectable hardware error|[Pp]oison (?:is )?(?:consumed|created))",
            "amdgpu 0000:1c:00.0: {1}uncorrectable hardware error(E) detected!", bus_id="0000:1c:00"),
    _driver("amd_lost", r"amdgpu[^\n]{0,200}?(?:device|gpu|GPU) (?:is )?lost from bus",
            "amdgpu 0000:1c:00.0: device lost from bus!",
            bus_id="0000:1c:00"),
    _driver("amd_page_fault", r"amdgpu[^\n]{0,200}?(?:VM_L2_PROTECTION_FAULT_STATUS|no-retry page fault)",
            "amdgpu 0000:1c:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00301031", bus_id="0000:1c:00"),
    _driver("amd_reset", r"amdgpu[^\n]{0,200}?(?:GPU reset(?:\(\d{1,9}\))?(?: begin| succeeded| failed|!?\s{0,4}$)"
                         r"|ring \S{1,40}"
            r" timeout|MES(?:\(\d\))? failed to respond to msg=|\bring \S{1,20} test failed|VRAM is lost)",
            "amdgpu 0000:1c:00.0: amdgpu: GPU reset begin!", bus_id="0000:1c:00"),
    Rule("sxid", "kernel.sxid", r"SXid \((?:PCI:)?(?P<bus_id>[0-9a-fA-F:.]+)\)\s*:\s*(?P<code>\d+),\s*(?P<detail>[^\r"
                                r"\n]*)",
         "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
         {"code": 12028, "fatal": False, "bus_id": "0000:05:00"}, "NVIDIA nvswitch driver", read=_fatal),
    Rule("oom_why", "kernel.oom",
         r"oom-kill:constraint=(?P<constraint>\w{1,40})[^\r\n]{0,400}?task_memcg=(?P<cgroup>[^,\s]{1,400}),task="
         r"(?P<process>[^,]{1,64}),pid=(?P<pid>\d{1,10})",
         "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/s,task_memcg=/s/job"
         "_7/step,"
         "task=python,pid=42,uid=1000",
         {"pid": 42, "constraint": "CONSTRAINT_MEMCG", "cgroup": "/s/job_7/step", "process": "python"},
         "Linux mm/oom_kill.c"),
    Rule("oom_killed", "kernel.oom",
         r"(?:[Kk]illed|[Oo]ut of memory: Kill) process (?P<pid>\d+),? \((?P<process>[^)]*)\)[^\r\n]*?(?:anon-rss:(?P"
         r"<rss_kb>\d{1,15})"
         r"kB|$)", "Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:2048kB, file-rss:0kB",
         {"pid": 4711, "process": "python", "rss": 2048 << 10}, "Linux mm/oom_kill.c", read=_kilobytes),
    Rule("oom_asked", "kernel.oom", r"(?P<asked_by>[^\s:\[\]]{1,64}) invoked oom-killer: ",
         "python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
         {"asked_by": "python"}, "Linux mm/oom_kill.c"),
    Rule("oom_limit", "kernel.oom", r"\bmemory: usage (?P<usage>\d{1,15})kB, limit (?P<limit>\d{1,15})kB, failcnt"
                                    r" [1-9]",
         "memory: usage 1048576kB, limit 1048576kB, failcnt 73", {"constraint": "CONSTRAINT_MEMCG"},
         "Linux mm/memcontrol.c",
         read=_full),
    Rule("hung_task", "kernel.hung_task",
         r"task (?P<process>[^\s:]+(?::[^\s:]+)*?):(?P<pid>\d+) (?:\w+ )*blocked for more than (?P<seconds>\d+)"
         r" seconds",
         "INFO: task python:4242 blocked for more than 120 seconds.", {"process": "python", "pid": 4242,
         "seconds": 120},
         "Linux kernel/hung_task.c"),
    Rule("lockup", "kernel.lockup",
         r"(?P<soft>soft )?(?:hard )?lockup - CPU#(?P<cpu>\d+) stuck for (?P<seconds>\d+)s!(?: \[(?P<process>[^:\]]+))?"
         r"|[Hh]ard LOCKUP(?: on cpu (?P<cpu_2>\d+))?", "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:99]",
         {"cpu": 3, "seconds": 22, "hard": False, "process": "python"}, "Linux kernel/watchdog.c", read=_lockup),
    Rule("segfault", "kernel.segfault",
         r"(?P<process>[^\s\[\]]{1,64})\[(?P<pid>\d{1,10})\]:? (?:segfault at|general protection fault|trap invalid"
         r" opcode)"
         r"[^\r\n]{0,400}?(?: in (?P<library>[^\s\[]{1,255}))?(?:\[|$)",
         "python[123]: segfault at 0 ip 00007f5 sp 00007ffc error 4 in libnccl.so.2.21.5[7f5+1000]",
         {"process": "python", "pid": 123, "library": "libnccl.so.2.21.5"}, "Linux arch/x86/mm/fault.c"),
    _machine("panic", r"Kernel panic - not syncing: [^\r\n]{1,160}", "Kernel panic - not syncing: Fatal exception",
             "Linux kernel/panic.c"),
    _machine("machine_check", r"CPU \d{1,5}: Machine Check(?: Exception)?: [0-9a-f]{1,3} Bank \d{1,3}:"
                              r" [abef][^\r\n]{1,80}",
             "CPU 3: Machine Check Exception: 5 Bank 4: be00000000800400", "Linux arch/x86/kernel/cpu/mce/core.c"),
    _machine("memory", r"EDAC [\w ]{0,24}MC\d{1,3}: \d{1,9} UE [^\r\n]{1,160}",
             "EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
             "Linux drivers/edac/edac_mc.c"),
    _machine("memory", r"Memory failure: 0x[0-9a-f]{1,16}: (?!recovery action for \w[^\r\n]{0,40}:"
                       r" Recovered)[^\r\n]{1,120}",
             "Memory failure: 0x12ab: Killing python:4711 due to hardware memory corruption",
             "Linux mm/memory-failure.c"),
    _machine("hardware", r"\[Hardware Error\]: event severity: fatal", "[Hardware Error]: event severity: fatal",
             "Linux drivers/firmware/efi/cper.c"),
    _machine("pcie", r"PCIe Bus Error: severity=Uncorrect\w{1,12} \((?:Fatal|Non-Fatal)\)|AER: Uncorrect\w{1,12}"
                     r" \(Fatal\)",
             "pcieport 0000:16:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
             "Linux drivers/pci/pcie/aer.c"),
    _machine("pcie", r"pciehp: Slot\([^)\r\n]{1,20}\): (?:Link Down|Card not present)",
             "pcieport: pciehp: Slot(4): Link Down",
             "Linux drivers/pci/hotplug/pciehp_ctrl.c"),
    _machine("oops", r"BUG: (?:unable to handle|kernel NULL pointer)[^\r\n]{1,120}|kernel BUG at [^\r\n]{1,120}",
             "BUG: unable to handle page fault for address: ffffc90", "Linux arch/x86/mm/fault.c"),
    _machine("cpu_stall", r"\brcu\w{0,20}: (?:INFO: )?rcu_\w{2,20} (?:self-)?detected (?:expedited )?stalls? on CPU"
             r"(?![^\r\n]{0,160}\} \d{1,3} jiffies)", "rcu: INFO: rcu_sched self-detected stall on CPU",
             "Linux kernel/rcu/tree_stall.h"),
    Rule("device", "kernel.link",
         r"(?P<device>(?:mlx\d_core|bnxt_en|ig[bc]|ixgbe|i40e|tg3) \S{1,64}?|NETDEV WATCHDOG: \S{1,64}"
         r"|ib\w{0,16}\d):? .{0,200}?"
         r"(?P<problem>[Dd]etected insufficient power on the PCIe slot|High Temperature|Cable unplugged|Detected"
         r" (?:Hardware|Tx) Unit"
         r" Hang|transmit queue \d+ timed out|health (?:compromised|poll failed)|mlx\d_load_one failed with error"
         r" code -?\d{1,5}"
         r"|assert_var|command timeout|timeout\. Will cause a leak|TX timeout detected)",
         "mlx5_core 0000:9c:00.0: Detected insufficient power on the PCIe slot (27W).",
         {"problem": "Detected insufficient power on the PCIe slot"}, "Linux drivers/net/ethernet/mellanox/mlx5/core"),
    Rule("link", "kernel.link",
         r"(?P<device>(?:mlx\d_core|bnxt_en|i40e|ice|ixgbe|igb|tg3|irdma) [^\s:]{1,40}(?::[\w.]{1,40}){0,4}(?:"
         r" \w{1,40})?"
         r"|\b(?:ib|en|eth|bond|hsn)\w{0,16}\d\w{0,16}): (?:.{0,120}?: )?(?:(?P<down>(?:NIC )?[Ll]ink (?:is"
         r" )?[Dd]own|lost carrier)"
         r"|(?:NIC )?[Ll]ink (?:is )?[Uu]p)\b", "mlx5_core 0000:9c:00.0 ens1f0: Link down", {"up": False},
         "Linux drivers/net/ethernet", read=_link),
    Rule("pcie_slow", "kernel.pcie",
         r"(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]).{0,200}?(?P<detail>available PCIe bandwidth,"
         r" limited by[^\r\n]*"
         r"|PCIe Bus Error[^\r\n]*)",
         "mlx5_core 0000:9c:00.0: 252.056 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link",
         {"device": "0000:9c:00.0"}, "Linux drivers/pci/pci.c"),
    Rule("peermem", "kernel.peermem", r"nv(?:idia-)?_?peer_?mem.{0,200}ERROR detected invalid context",
         "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing", {},
         "NVIDIA nvidia-peermem.c"),
    Rule("nvswitch", "kernel.fabric_manager", r"detected NVSwitch (?P<fatal>fatal|non-fatal) error (?P<code>\d+)",
         "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0", {"fatal": True,
         "code": 20034},
         "NVIDIA Fabric Manager", read=_severity),
    Rule("gpu_nvl", "kernel.fabric_manager", r"Fabric Manager detected GPU NVL (?P<fatal>Non[ -]?Fatal|Fatal) error",
         "[Oct 13 2025 18:14:38] [ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :",
         {"fatal": True, "what": "gpu"}, "NVIDIA Fabric Manager", {"what": "gpu"}, read=_severity),
    Rule("trunk", "kernel.fabric_manager",
         r"Trunk port failure detected for switch GUID (?P<switch>0x[0-9a-f]{1,32}).{0,300}?port number"
         r" (?P<port>\d{1,6})",
         "Trunk port failure detected for switch GUID 0xb0cf and switch chassis sn 18, slot 7 port number 61 port"
         " GUID 0xb0",
         {"fatal": False, "what": "trunk", "switch": "0xb0cf", "port": 61}, "NVIDIA Fabric Manager",
         {"fatal": False, "what": "trunk"}),
    Rule("fm_failed", "kernel.fabric_manager",
         r"(?P<why>Job for nvidia-fabricmanager\.service failed[^\r\n]{0,80}|nvidia-fabricmanager\.service:"
         r" (?:(?:Control|Main) process"
         r" exited, code=\w{1,12}, status=[1-9]\d{0,2}[^\r\n]{0,20}|Failed with result [^\r\n]{1,20}))",
         "nvidia-fabricmanager.service: Main process exited, code=exited, status=1/FAILURE", {"what": "service"},
         "systemd",
         {"fatal": False, "what": "service"}),
    Rule("fm_started", "kernel.fabric_manager", r"Started (?:NVIDIA )?[Ff]abric ?[Mm]anager ",
         "systemd[1]: Started NVIDIA fabric manager service.", {"what": "started"}, "systemd",
         {"fatal": False, "what": "started"}),
    Rule("nfs", "kernel.nfs", r"nfs: server (?P<server>\S+) (?:not responding|(?P<ok>OK)|timed out)",
         "nfs: server fs1 not responding, still trying", {"server": "fs1", "ok": False}, "Linux net/sunrpc/clnt.c",
         read=_nfs),
    _storage("Lustre", r"Lustre(?:Error)?: [^\r\n]{0,160}?(?:Connection to (?:service"
                       r" )?(?P<server>[\w.-]{1,80})[^\r\n]{0,80}? was lost;"
             r" in progress|This client was evicted by (?P<server_2>[\w-]{1,80})|Request sent has (?:failed due to"
             r" network error"
             r"|timed out for s\w{3} \w{5})[^\r\n]{0,160}? o\d{1,4}->(?P<server_3>[\w]{1,80}-(?:MDT|OST)[0-9a-f]{4}))",
             "Lustre: lfs-OST0001-osc-ff: Connection to lfs-OST0001 (at 10.0.0.9@o2ib) was lost; in progress"
             " operations",
             "lfs-OST0001"),
    _storage("Lustre", r"Lustre: [^\r\n]{0,160}?Connection restored to (?:service )?(?P<server>[\w.-]{1,80})",
             "Lustre: lfs-OST0001-osc-ff: Connection restored to lfs-OST0001 (at 10.0.0.9@o2ib)", "lfs-OST0001",
             ok=True),
    _storage("CephFS", r"\bceph: (?:\[[^\]\r\n]{1,80}\]: ?)?(?P<server>mds\d{1,4}) (?:hung|caps stale|reconnect denied"
             r"|rejected session|closed our session)", "ceph: mds0 hung", "mds0"),
    _storage("CephFS", r"\bceph: (?:\[[^\]\r\n]{1,80}\]: ?)?(?P<server>mds\d{1,4}) (?:recovery completed|caps"
                       r" renewed|came back"
             r"|reconnect success)", "ceph: mds0 came back", "mds0", ok=True),
    _storage("NVMe", r"\bnvme (?P<server>nvme\d{1,3}): (?:controller is down|Device not ready; aborting|Removing"
                     r" after probe|I/O (?:tag )?"
             r"\d{1,6}[^\r\n]{0,40}timeout, (?:reset controller|disable))",
             "nvme nvme0: I/O 12 QID 3 timeout, reset controller",
             "nvme0"),
    _storage("disk", r"(?:critical \w{3,8}|I/O) error, dev (?P<server>[\w-]{1,32}), sector|Buffer I/O error on"
                     r" dev(?:ice)? "
             r"(?P<server_2>[\w-]{1,32}), logical block", "blk_update_request: I/O error, dev sdb, sector 2048", "sdb"),
    _storage("ext4", r"EXT4-fs (?:error \(device (?P<server>[\w-]{1,32})\)|\((?P<server_2>[\w-]{1,32})\): Remounting"
                     r" filesystem"
             r" read-only)", "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2", "sda1"),
    _storage("XFS", r"XFS \((?P<server>[\w-]{1,32})\): (?:metadata I/O error|log I/O error|[Cc]orruption |Filesystem"
                    r" has been shut"
             r" down)", "XFS (nvme0n1p1): metadata I/O error in xfs_da_read_buf", "nvme0n1p1"),
)  # fmt: skip
