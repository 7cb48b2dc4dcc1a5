"""What the kernel says about GPUs, memory, tasks, links and file systems."""

from __future__ import annotations

import re
from typing import Iterator, Match, Optional

from collectors.node.logs.said import Data, Family, Said, fields, number
from collectors.samples.logs import LogEvent

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)[^)]*\)(?:\s*\([^)]*\))?\s*:\s*(?P<code>\d+)"
    r"(?:,\s*pid=(?P<pid>\d+|'?<unknown>'?))?(?:,\s*name=(?P<process>[^,]*))?,?\s*(?P<detail>[^\r\n]*)"
)
_FALLEN = re.compile(
    r"NVRM: (?:.*?GPU(?: at PCI:| )(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F.]+).*?)?(?:has )?(?:NVRM: )?"
    r"fallen off the bus"
)
"""The driver says so without an Xid, too, as a rule over three lines."""
_SXID = re.compile(r"SXid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\)\s*:\s*(?P<code>\d+),\s*(?P<detail>[^\r\n]*)")
_OOM = re.compile(
    r"(?:[Oo]ut of memory: |oom_reaper: |Memory cgroup out of memory: )?[Kk]illed process"
    r" (?P<pid>\d+),? \((?P<process>[^)]*)\)[^\r\n]*?(?:anon-rss:(?P<rss>\d+)kB|$)"
)
_OOM_WHY = re.compile(
    r"oom-kill:constraint=(?P<constraint>\w+).*?(?:task_memcg=(?P<cgroup>[^,\s]+))?"
    r"(?:,task=(?P<process>[^,]+),pid=(?P<pid>\d+))",
    re.S,
)
_HUNG = re.compile(
    r"task (?P<process>[^\s:]+(?::[^\s:]+)*?):(?P<pid>\d+) (?:\w+ )*blocked for more than (?P<seconds>\d+) seconds"
)
_LOCKUP = re.compile(
    r"(?P<soft>soft|hard) lockup - CPU#(?P<cpu>\d+) stuck for (?P<seconds>\d+)s!(?:"
    r" \[(?P<process>[^:\]]+))?|(?P<hard>[Hh]ard LOCKUP)(?: on cpu (?P<hard_cpu>\d+))?"
)
_NFS = re.compile(r"nfs: server (?P<server>\S+) (?P<what>not responding|OK|timed out)")
_SEGFAULT = re.compile(
    r"(?P<process>[^\s\[\]]+)\[(?P<pid>\d+)\]:? (?:segfault at|general protection fault"
    r"|trap invalid opcode)[^\r\n]*?(?: in (?P<library>[^\s\[]+))?(?:\[|$)"
)
_LINK = re.compile(
    r"(?P<device>(?:mlx\d_core|bnxt_en|i40e|ice|ixgbe|igb|tg3|irdma) [^\s:]+(?::[\w.]+)*(?: \w+)?"
    r"|\b(?:ib|en|eth|bond|hsn)\w*\d\w*): "
    r"(?:.*?: )?(?:(?P<down>(?:NIC )?[Ll]ink (?:is )?[Dd]own|lost carrier)|(?P<up>(?:NIC )?[Ll]ink (?:is )?[Uu]p))\b"
)
_DEVICE_TROUBLE = re.compile(
    r"(?P<device>mlx\d_core \S+?|NETDEV WATCHDOG: \S+"
    r"|ib\w*\d+):? .*?(?P<problem>[Dd]etected insufficient power on the PCIe slot"
    r"|High Temperature|Cable unplugged|"
    r"transmit queue \d+ timed out|health (?:compromised|poll failed)"
    r"|device's health compromised|assert_var|command timeout|Cmd timeout)"
)
_PCIE = re.compile(
    r"(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]).*?(?P<detail>available PCIe"
    r" bandwidth, limited by[^\r\n]*|PCIe Bus Error[^\r\n]*|AER: (?:Uncorrect"
    r"|Fatal)[^\r\n]*)"
)
_FABRIC = re.compile(r"detected NVSwitch (?P<fatal>fatal|non-fatal) error (?P<code>\d+)")
_PEERMEM = re.compile(r"nv(?:idia-)?_?peer_?mem\S*.*ERROR detected invalid context")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    xid = _XID.search(text)
    if xid is not None:
        yield Said("kernel.xid", _addressed(xid, ("code", "pid")))
        return
    fallen = _FALLEN.search(text)
    if fallen is not None:
        data = _addressed(fallen, ())
        yield Said("kernel.xid", dict({name: data[name] for name in data if data[name]}, code=79))
        return
    sxid = _SXID.search(text)
    if sxid is not None:
        data = _addressed(sxid, ("code",))
        data["fatal"] = not str(data.get("detail", "")).lower().startswith("non-fatal")
        yield Said("kernel.sxid", data)
        return
    for said in (_memory(text), _tasks(text), _links(text), _files(text)):
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


def bus_id(text: str) -> str:
    """A PCI address as ``0000:5f:00``: domain of four digits, lower case, no function."""
    parts = text.strip().lower().split(".")[0].split(":")
    if len(parts) == 2:
        parts.insert(0, "0000")
    if len(parts) >= 3:
        parts[0] = parts[0][-4:].rjust(4, "0")
    return ":".join(parts[:3])


def _addressed(match: "Match[str]", integers: "tuple[str, ...]") -> Data:
    data = fields(match, integers)
    data["bus_id"] = bus_id(str(data.pop("bus", "")))
    return data


def _memory(text: str) -> Optional[Said]:
    why = _OOM_WHY.search(text)
    killed = _OOM.search(text) if why is None else None
    match = why or killed
    if match is None:
        return None
    data = fields(match, ("pid", "rss"))
    rss = data.get("rss")
    if isinstance(rss, int):
        data["rss"] = rss * 1024
    return Said("kernel.oom", data)


def _tasks(text: str) -> Optional[Said]:
    hung = _HUNG.search(text)
    if hung is not None:
        return Said("kernel.hung_task", fields(hung, ("pid", "seconds")))
    lockup = _LOCKUP.search(text)
    if lockup is not None:
        data = fields(lockup, ("cpu", "seconds", "hard_cpu"))
        data["hard"] = lockup.group("soft") != "soft"
        for name in ("soft",):
            data.pop(name, None)
        if "hard_cpu" in data:
            data["cpu"] = data.pop("hard_cpu")
        return Said("kernel.lockup", data)
    segfault = _SEGFAULT.search(text)
    if segfault is not None:
        return Said("kernel.segfault", fields(segfault, ("pid",)))
    return None


def _links(text: str) -> Optional[Said]:
    trouble = _DEVICE_TROUBLE.search(text)
    if trouble is not None:
        return Said("kernel.link", fields(trouble))
    link = _LINK.search(text)
    if link is not None:
        return Said("kernel.link", {"device": link.group("device"), "up": link.group("up") is not None})
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


FAMILY = Family(
    "kernel",
    (
        b"NVRM: Xid",
        b"NVRM: The NVIDIA GPU",
        b"fallen off the bus",
        b"SXid (",
        b"illed process ",
        b"oom-kill:constraint",
        b"blocked for more than",
        b"lockup - CPU",
        b"ard LOCKUP",
        b"nfs: server",
        b"segfault at",
        b"general protection",
        b"trap invalid opcode",
        b"ink down",
        b"ink Down",
        b"ink is Down",
        b"ink is down",
        b"ink up",
        b"ink Up",
        b"ink is Up",
        b"ink is up",
        b"lost carrier",
        b"mlx5_core",
        b"NETDEV WATCHDOG",
        b"PCIe",
        b"NVSwitch",
        b"invalid context",
    ),
    read,
    re.compile(r"NVRM: The NVIDIA GPU (?!.*(?:fallen off|not responding|supported|support for))"),
)
