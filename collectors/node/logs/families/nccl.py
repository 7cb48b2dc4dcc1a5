"""NCCL's own lines, 2.10 to 2.30: version, initialisation, networks, settings, ends (not collectives)."""

from __future__ import annotations

from typing import Iterator, Match, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.families import nccl_warn
from collectors.node.logs.said import Data, Family, Said, fields, number

PREFIX = re.compile(
    r"(?!\d\d:\d\d:\d\d\b)(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10})"
    r"(?: \[(?P<device>\d+)\])?(?![.:\d])"
)
"""``host:pid:tid [cudaDev]`` in front of every record; a time of day looks like it."""

COMM = re.compile(r"comm (?P<comm>0x[0-9a-f]+) rank (?P<group_rank>\d+) nranks (?P<size>\d+)")
_PHASE = re.compile(r"(?P<what>Init|Abort|Destroy|Finalize) (?P<phase>START|COMPLETE)")
_MORE = re.compile(
    r"comm 0x[0-9a-f]+ rank \d+ nranks \d+(?: cudaDev (?P<device>\d+))?"
    r"(?: nvmlDev \d+)?(?: busId (?P<bus_id>\w+))?(?: parent (?P<parent>0x[0-9a-f]+))?(?:"
    r" (?:splitCount|childCount) \d+)?"
    r"(?: color (?P<color>-?\d+))?(?: key (?P<key>-?\d+))?(?: commId (?P<comm_id>0x[0-9a-f]+))?"
)
_FUNCTION = re.compile(r"\b(ncclComm\w+) (?:\S+ )?comm 0x")
_VERSION = re.compile(
    r"\b(?:NCCL|RCCL) version (?:: )?(?P<version>\d+\.\d+(?:\.\d+)*)(?:[-+\w.]*?\+cuda(?P<cuda>[\d.]+))?"
)
_TIMINGS = re.compile(
    r"Init timings - (?P<function>\w+): rank (?P<group_rank>\d+) nranks (?P<size>\d+) total"
    r" (?P<total>[\d.]{1,20}) \((?P<rest>[^)]*)"
)
_BOOTSTRAP = re.compile(r"Bootstrap ?:? ?Using (?P<interface>[^:\s]+):(?P<address>\S+?)(?:<\d+>)?$")
_NETWORK = re.compile(r"Using network (?P<network>\S+(?: \S+){0,9})\s*$")
_DEVICES = re.compile(r"NET/(?P<network>IB|Socket|OFI|\w+) ?: (?:Using (?P<devices>\[\d+\].*)|No device found)")
_DEVICE = re.compile(r"\[\d+\](\S+?)(?=[\s;]|$)")
_OUT_OF_BAND = re.compile(r"OOB (?P<interface>[^:\s]+):")
_RETRY = re.compile(
    r"[Cc]onnect(?: to (?P<peer>\S+))? returned (?P<error>[^,\r\n]+), retrying(?: \((?P<tried>\d+)/(?P<of>\d+)\))?"
)
_BARE = re.compile(r"(?:^|\s)[a-z_/]{2,40}\.(?:cc|cpp|cu|h):\d{1,5} WARN (?P<message>\S.*)")
"""A warning that was quoted without NCCL's name."""
_TRAIL = re.compile(
    r"NCCL INFO (?P<at_file>[a-z_/]{2,40}\.(?:cc|cpp|cu)):\d{1,5} -> (?P<code>[1-6])\b(?: \((?P<error>[^)]{1,80})\))?"
)
"""A function that gave an error back to its caller; ``ncclResult_t`` from 1 to 6."""
_OPERATION = re.compile(
    r"NCCL operation (?P<function>\w{1,60})(?:\([^)]{0,300}\))? failed: (?P<error>[^;\r\n(]{1,120})"
)
"""XLA's word about a call into NCCL."""
_FAILURE = re.compile(r"NCCL failure ?: ?(?P<error>[^;\r\n(/\\]{1,120})")
"""XGBoost's."""
_QUOTED = ("Got completion", "Duplicate GPU detected")
"""Causes that are quoted without NCCL's own label."""
_ENV = re.compile(r"(?P<name>NCCL_\w+) set by environment to (?P<value>.*)$")


def read(text: str) -> Iterator[Said]:
    """Events of one NCCL record."""
    prefix = PREFIX.search(text)
    host = prefix.group("host") if prefix is not None else ""
    pid = number(prefix.group("pid")) if prefix is not None else None
    for said in _record(text):
        yield said._replace(host=host, pid=pid)


def _record(text: str) -> Iterator[Said]:
    last = text.find("Last error:")
    if last >= 0:
        said = nccl_warn.cause(text[last + len("Last error:") :].strip())
        if said is not None:
            yield said
    if any(words in text and "NCCL " not in text[: text.index(words)] for words in _QUOTED):
        said = nccl_warn.cause(text)  # quoted without NCCL's own label
        if said is not None:
            yield said
        return
    if "NCCL WARN" in text or "CCOM WARN" in text:  # the latter is AWS Neuron's
        yield nccl_warn.read(text)
        return
    bare = _BARE.search(text)
    if bare is not None:
        yield nccl_warn.read(bare.group("message"))
        return
    comm = COMM.search(text)
    phase = _PHASE.search(text) if comm is not None else None
    if comm is not None and phase is not None:
        yield _initialised(text, comm, phase)
        return
    for kind, data in (
        ("nccl.init_timings", _timings(text)),
        ("nccl.version", _simple(_VERSION.search(text))),
        ("nccl.bootstrap", _simple(_BOOTSTRAP.search(text))),
        ("nccl.network", _simple(_NETWORK.search(text))),
        ("nccl.devices", _devices(text)),
        ("nccl.connect_retry", _simple(_RETRY.search(text), ("tried", "of"))),
        ("nccl.failed", _simple(_OPERATION.search(text) or _FAILURE.search(text))),
        ("nccl.trail", _simple(_TRAIL.search(text), ("code",))),
        ("nccl.env", _setting(text) if "NCCL INFO" in text else None),
    ):
        if data is not None:
            yield Said(kind, data)
            return


def _initialised(text: str, comm: "Match[str]", phase: "Match[str]") -> Said:
    data = fields(comm, ("group_rank", "size"))
    more = _MORE.search(text)
    if more is not None:
        data.update(fields(more, ("device", "color", "key")))
    function = _FUNCTION.search(text)
    if function is not None:
        data["function"] = function.group(1)
    if phase.group("what") == "Init":
        data["phase"] = phase.group("phase").lower()
        return Said("nccl.init", data)
    data["phase"] = phase.group("what").lower()
    return Said("nccl.end", data)


def _simple(match: "Optional[Match[str]]", integers: Tuple[str, ...] = ()) -> Optional[Data]:
    return None if match is None else fields(match, integers)


def _setting(text: str) -> Optional[Data]:
    """A variable of the environment that NCCL took; the sentence's full stop is none of the value."""
    match = _ENV.search(text)
    if match is None:
        return None
    value = match.group("value").rstrip()
    return {"name": match.group("name"), "value": value[:-1] if value.endswith(".") else value}


def _timings(text: str) -> Optional[Data]:
    match = _TIMINGS.search(text)
    if match is None:
        return None
    data = fields(match, ("group_rank", "size"))
    data.pop("rest", None)
    total = match.group("total")
    data["total"] = float(total) if total.count(".") <= 1 and total != "." else None
    for name in ("bootstrap", "connections"):
        part = re.search(name + r" (\d{1,12}(?:\.\d{1,12})?)", match.group("rest"))
        if part is not None:
            data[name] = float(part.group(1))
    return data


def _devices(text: str) -> Optional[Data]:
    match = _DEVICES.search(text)
    if match is None:
        return None
    data: Data = {"network": match.group("network")}
    listed = match.group("devices")
    if listed is None:
        data["none"] = True
        return data
    data["devices"] = list(_DEVICE.findall(listed.split("; OOB")[0]))
    out_of_band = _OUT_OF_BAND.search(listed)
    if out_of_band is not None:
        data["interface"] = out_of_band.group("interface")
    return data


FAMILY = Family(
    "nccl",
    (
        b"NCCL WARN",
        b"CCOM WARN",
        b" nranks ",
        b"NCCL version",
        b"RCCL version",
        b"Bootstrap",
        b"Using network",
        b"NET/IB",
        b"NET/Socket :",
        b"NET/OFI : ",
        b"set by environment",
        b", retrying",
        b" WARN ",
        b"Last error:",
        b"Duplicate GPU",
        b".cc:",
        b"NCCL operation ",
        b"NCCL failure",
    ),
    read,
    re.compile(r"(?:NCCL WARN|Last error:)\s*$"),
)
