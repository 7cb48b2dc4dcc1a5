"""What the kernel says about GPUs, memory, tasks, links and file systems."""

from __future__ import annotations

from typing import Iterator, Match, Optional

from collectors.node import late_re as re
from collectors.node.logs.families import filesystems, gpu_drivers, machine, tasks
from collectors.node.logs.families.gpu_drivers import bus_id
from collectors.node.logs.said import Data, Family, Said, fields, number
from collectors.samples.logs import LogEvent

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)[^)]*\)(?:\s*\([^)]*\))?\s*:\s*(?P<code>\d+)"
    r"(?:,\s*pid=(?P<pid>\d+|'?<unknown>'?))?(?:,\s*name=(?P<process>[^,]*))?,?\s*(?P<detail>[^\r\n]*)"
)
_OF_PROGRAMS = ("13", "31", "43", "45")
"""Xids of what a program did: a desktop's or a tool's are no fault of a job's."""
_XID_TOLD = re.compile(
    r"\bX[Ii][Dd][ :=#]{1,3}(?P<code>\d{1,3})\b(?P<detail>[^\r\n]{0,160}?)"
    r"(?<![0-9a-fA-F])(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\b"
)
"""The same in the words of an agent that watches over the driver's."""
_FALLEN = re.compile(
    r"NVRM: (?:.{0,60}?GPU(?: at PCI:| )(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F.]{1,8}).{0,60}?)?(?:has )?"
    r"(?:NVRM: )?fallen off the bus"
)
"""The driver says so without an Xid, too, as a rule over three lines."""
_LSPCI = re.compile(
    r"^\s{0,4}(?P<bus>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2})\.0 (?:VGA compatible|3D) controller[^\r\n]{0,12}:"
    r" NVIDIA [^\r\n]{0,160}\(rev ff\)"
)
"""What ``lspci`` shows of a GPU that no longer answers: every byte of its configuration reads ff."""
_SYSLOG = re.compile(
    r"(?:^|(?<=\d\d:\d\d:\d\d )|(?<=[\dZ] ))(?P<host>(?!\d+ )[A-Za-z0-9][\w.-]{0,80})"
    r"(?: (?:EMERG|ALERT|CRIT|ERR(?:OR)?|WARN(?:ING)?|NOTICE|INFO|DEBUG))? kernel: "
)
"""The host, where a syslog's line names it in front of the kernel's text."""
_SXID = re.compile(r"SXid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\)\s*:\s*(?P<code>\d+),\s*(?P<detail>[^\r\n]*)")
_OOM = re.compile(
    r"(?:(?:[Oo]ut of memory: |oom_reaper: |Memory cgroup out of memory: )?[Kk]illed|[Oo]ut of memory: Kill) process"
    r" (?P<pid>\d+),? \((?P<process>[^)]*)\)[^\r\n]*?(?:anon-rss:(?P<rss>\d+)kB|$)"
)
_OOM_ASKED = re.compile(r"(?P<process>[^\s:\[\]]{1,64}) invoked oom-killer: ")
"""The head of the kernel's report: who asked for memory when there was none, not who was killed for it."""
_OOM_WHY = re.compile(r"oom-kill:constraint=(?P<constraint>\w{1,40})")
_OOM_GROUP = re.compile(r"task_memcg=(?P<cgroup>[^,\s]{1,400})")
_OOM_TASK = re.compile(r",task=(?P<process>[^,]{1,64}),pid=(?P<pid>\d{1,10})")
_FULL = re.compile(r"\bmemory: usage (?P<usage>\d{1,15})kB, limit (?P<limit>\d{1,15})kB, failcnt [1-9]")
"""A control group that the report of a kill tells of, at its limit."""
_NFS = re.compile(r"nfs: server (?P<server>\S+) (?P<what>not responding|OK|timed out)")
_LINK = re.compile(
    r"(?P<device>(?:mlx\d_core|bnxt_en|i40e|ice|ixgbe|igb|tg3|irdma) [^\s:]{1,40}(?::[\w.]{1,40}){0,4}(?: \w{1,40})?"
    r"|\b(?:ib|en|eth|bond|hsn)\w{0,16}\d\w{0,16}): "
    r"(?:.{0,120}?: )?(?:(?P<down>(?:NIC )?[Ll]ink (?:is )?[Dd]own|lost carrier)"
    r"|(?P<up>(?:NIC )?[Ll]ink (?:is )?[Uu]p))\b"
)
_UPTIME = re.compile(r"(?:kernel: |^)\[ {0,6}(?P<seconds>\d{1,9})\.\d{6}\] ")
_PORT = re.compile(
    r"\b[Pp]ort (?P<device>[A-Za-z][\w/.-]{0,40}) oper(?:ational)? stat(?:e|us) (?:is )?(?:set|changed) from"
    r" (?:up to (?P<to>down)|down to (?P<up>up))\b"
)
"""A switch's own word about a port (SONiC's ``orchagent``)."""
_DEVICE_TROUBLE = re.compile(
    r"(?P<device>(?:mlx\d_core|bnxt_en|e1000e?|ig[bc]|ixgbe|i40e|tg3) \S{1,64}?|NETDEV WATCHDOG: \S{1,64}"
    r"|ib\w{0,16}\d):? .{0,200}?(?P<problem>[Dd]etected insufficient power on the PCIe slot"
    r"|High Temperature|Cable unplugged|"
    r"Detected (?:Hardware|Tx) Unit Hang|Reset adapter unexpectedly|"
    r"transmit queue \d+ timed out|health (?:compromised|poll failed)"
    r"|device's health compromised|mlx\d_load_one failed with error code -?\d{1,5}"
    r"|assert_var|command timeout|Cmd timeout|timeout\. Will cause a leak|TX timeout detected)"
)
_PCIE = re.compile(
    r"(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]).{0,200}?(?P<detail>available PCIe"
    r" bandwidth, limited by[^\r\n]*|PCIe Bus Error[^\r\n]*|AER: (?:Uncorrect"
    r"|Fatal)[^\r\n]*)"
)
_FABRIC = re.compile(r"detected NVSwitch (?P<fatal>fatal|non-fatal) error (?P<code>\d+)")
_PEERMEM = re.compile(r"nv(?:idia-)?_?peer_?mem.{0,200}ERROR detected invalid context")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    syslog = _SYSLOG.search(text[:160])
    for said in _read(text):
        yield said if syslog is None else said._replace(host=syslog.group("host"))


def _read(text: str) -> Iterator[Said]:
    xid = _XID.search(text)
    if xid is not None:
        if xid.group("code") not in _OF_PROGRAMS or not tasks.is_of_no_job((xid.group("process") or "").strip()):
            yield Said("kernel.xid", _addressed(xid, ("code", "pid")))
        return
    told = _XID_TOLD.search(text)
    if told is not None:
        yield Said("kernel.xid", _addressed(told, ("code",)))
        return
    fallen = _FALLEN.search(text)
    if fallen is not None:
        data = _addressed(fallen, ())
        yield Said("kernel.xid", dict({name: data[name] for name in data if data[name]}, code=79))
        return
    absent = _LSPCI.match(text) if "(rev ff)" in text else None
    if absent is not None:
        yield Said("kernel.gpu", dict(_addressed(absent, ()), problem="bad_register"))
        return
    mine, driver = gpu_drivers.said(text)
    if mine:
        if driver is not None:
            yield driver
        return
    sxid = _SXID.search(text)
    if sxid is not None:
        data = _addressed(sxid, ("code",))
        data["fatal"] = not str(data.get("detail", "")).lower().startswith("non-fatal")
        yield Said("kernel.sxid", data)
        return
    for reads in (_memory, tasks.said, machine.said, _links, _files, filesystems.said):
        said = reads(text)
        if said is not None:
            yield said
            return


def event(text: str, at: Optional[float], source: str, line: int = 0) -> Optional[LogEvent]:
    """The event of one line of the kernel log; None when it says nothing that matters here.

    ``at`` is the line's time, as the journal or dmesg gives it.
    """
    clipped = text[:4000]
    if not any(stem.decode() in clipped for stem in FAMILY.stems):
        return None
    for said in read(clipped):
        return LogEvent(said.kind, at, None, "", None, source, line, clipped, said.data)
    return None


def _addressed(match: "Match[str]", integers: "tuple[str, ...]") -> Data:
    data = fields(match, integers)
    data["bus_id"] = bus_id(str(data.pop("bus", "")))
    return data


def _memory(text: str) -> Optional[Said]:
    data = _why_killed(text)
    if data is None:
        killed, asked = _OOM.search(text), _OOM_ASKED.search(text)
        named = killed or asked
        if named is not None and tasks.is_of_no_job(named.group("process")):
            return None
        if killed is not None:
            data = fields(killed, ("pid", "rss"))
        elif asked is not None:
            data = {"asked_by": asked.group("process")}
        elif _at_limit(text):
            data = {"constraint": "CONSTRAINT_MEMCG"}
        else:
            return None
    rss = data.get("rss")
    if isinstance(rss, int):
        data["rss"] = rss * 1024
    return Said("kernel.oom", data)


def _at_limit(text: str) -> bool:
    full = _FULL.search(text)
    return full is not None and full.group("usage") == full.group("limit")


def _why_killed(text: str) -> Optional[Data]:
    """Of the line that says which group or node was full, and whom it hit."""
    why = _OOM_WHY.search(text)
    task = _OOM_TASK.search(text, why.end()) if why is not None else None
    if why is None or task is None or tasks.is_of_no_job(task.group("process")):
        return None
    group = _OOM_GROUP.search(text, why.end(), task.start())
    return dict(fields(why), **(fields(group) if group is not None else {}), **fields(task, ("pid",)))


def _links(text: str) -> Optional[Said]:
    trouble = _DEVICE_TROUBLE.search(text)
    if trouble is not None:
        return Said("kernel.link", fields(trouble))
    link = _LINK.search(text)
    if link is not None:
        told: Data = {"device": link.group("device"), "up": link.group("up") is not None}
        since = _UPTIME.search(text[:200]) if link.group("up") is None else None
        if since is not None:
            told["uptime"] = number(since.group("seconds"))
        return Said("kernel.link", told)
    port = _PORT.search(text)
    if port is not None:
        return Said("kernel.link", {"device": port.group("device"), "up": port.group("to") is None})
    pcie = _PCIE.search(text)
    if pcie is not None:
        return Said("kernel.pcie", fields(pcie))
    fabric = _FABRIC.search(text)
    if fabric is not None:
        return Said(
            "kernel.fabric_manager", {"fatal": fabric.group("fatal") == "fatal", "code": number(fabric.group("code"))}
        )
    return Said("kernel.peermem", {}) if _PEERMEM.search(text) else None


def _files(text: str) -> Optional[Said]:
    nfs = _NFS.search(text)
    return None if nfs is None else Said("kernel.nfs", {"server": nfs.group("server"), "ok": nfs.group("what") == "OK"})


_STEMS = (
    *gpu_drivers.STEMS, b"fallen off the bus", b"SXid (", b"illed process ", b"Kill process ", b"oom-kill:constraint",
    b"invoked oom-killer", b"memory: usage ", b"blocked for more than", b" blocked on a", b" D  ", b" D f", b"state:D",
    b"XID ", b"Xid ", b"xid ", b"lockup - CPU", b"ard LOCKUP", b"nfs: server", b"segfault at",
    b" dumped core",
    b"general protection", b"trap invalid opcode", b"ink down", b"ink Down", b"ink is Down", b"ink is down",
    b"ink up", b"ink Up", b"ink is Up", b"ink is up", b"lost carrier", b" oper state ", b" oper status ",
    b" operational stat", b"mlx5_core", b"bnxt_en", b"NETDEV WATCHDOG", b" Unit Hang", b"adapter unexpectedly",
    b"PCIe", b"NVSwitch", b"invalid context", b"(rev ff)",
    *machine.STEMS, *filesystems.STEMS,
)  # fmt: skip
FAMILY = Family(
    "kernel",
    _STEMS,
    read,
    re.compile(r"NVRM: The NVIDIA GPU (?!.*(?:fallen off|not responding|supported|support for))"),
)
