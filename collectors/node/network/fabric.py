"""Source ``fabric``: InfiniBand and RoCE ports from sysfs; ``perfquery`` for ports without counters there.

Every read of ``counters/`` queries the adapter's firmware. On restricted functions (the internal ones of DGX and GB200
machines) each read writes a line into the kernel log, so a counter that fails once is not read again.
"""

from __future__ import annotations

import os
import re
import time
from typing import Dict, Iterator, List, NamedTuple, Optional

from collectors.node.child import output
from collectors.node.files import list_folder, read, read_text
from collectors.node.source import Absent, Shared, Source, Unavailable
from collectors.samples.host import Counters, PortFacts
from collectors.samples.stream import Fault

SYS = "HANGTOP_SYS"
"""Variable in the node side's environment: a folder to use as ``/sys``, when one machine plays several nodes."""
RESCAN = 30.0
"""Seconds after which adapters and their stable properties are read again."""
PATIENCE = 20.0
"""Seconds that one tool may take."""
SATURATED = (1 << 32) - 1
"""Value of an old kernel's 32-bit data counter at its limit: it no longer changes while data flows."""
NOTHING = "no InfiniBand or RoCE adapter on this node"
FOLDER = "class/infiniband"
COUNTERS = (
    "port_xmit_data", "port_rcv_data", "port_xmit_wait",
    "link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_discards", "port_xmit_constraint_errors", "port_rcv_constraint_errors",
    "excessive_buffer_overrun_errors", "local_link_integrity_errors", "VL15_dropped",
)  # fmt: skip
HARDWARE_COUNTERS = (
    "packet_seq_err", "out_of_sequence", "local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err",
    "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "req_cqe_error", "resp_cqe_error",
    "rx_icrc_encapsulated", "resp_local_length_error", "out_of_buffer",
)  # fmt: skip
"""Counters of traffic, congestion and errors: in ``counters`` (the kernel's sysfs-class-infiniband) and in mlx5's
``hw_counters``."""
WORDS = frozenset({"port_xmit_data", "port_rcv_data"})
"""Counters in units of four bytes."""
LARGEST = (1 << 63) - 1
"""Larger values (64-bit counters stuck at all ones) are reported as this: receivers decode signed numbers."""
_RATE = re.compile(r"\d{1,9}(?:\.\d{1,3})?")
_COUNTER = re.compile(r"(\w{2,64}):\.*(0x[0-9a-fA-F]{1,16}|\d{1,20})")
_NEXT_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Fabric(Source):
    """Ports of every host channel adapter."""

    name = "fabric"
    period = 2.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, os.environ.get(SYS, sys))
        self._ports: Dict[str, HcaPort] = {}
        self._scanned = float("-inf")

    def read(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (the agent stamps what it sends)
        """State and counters of every port. Raises :class:`Absent` without a port."""
        moment = time.monotonic()
        if moment - self._scanned > RESCAN:
            self._scanned = moment
            self._ports = {home: self._ports.get(home) or HcaPort(home) for home in ports(self.sys)}
            for port in self._ports.values():
                port.known = None
        if not self._ports:
            raise Absent(NOTHING)
        by_tool: List[PortFacts] = []
        for port in self._ports.values():
            facts = port.facts()
            if facts is None:
                continue
            yield facts
            values = port.counters()
            if port.error:
                why = (facts.device, facts.port, port.error)
                yield Fault(self.name, "%s/%d %s; it is not read again" % why, 1)
            if values:
                yield Counters("%s/%d" % (facts.device, facts.port), "sysfs", values)
            else:
                by_tool.append(facts)
        for facts in by_tool:
            if facts.link_layer != "Ethernet" and facts.state == "ACTIVE":  # perfquery needs a working link
                yield from self._by_perfquery(facts)

    def _by_perfquery(self, port: PortFacts) -> Iterator[NamedTuple]:
        """Extended counters of a port."""
        try:
            printed, why = output("perfquery", "-x", "-C", port.device, "-P", str(port.port), seconds=PATIENCE)
        except Unavailable as reason:
            printed, why = "", str(reason)
        values = parse_perfquery(printed)
        if values:
            yield Counters("%s/%d" % (port.device, port.port), "perfquery-x", values)
        else:
            yield Fault(self.name, "%s/%d: perfquery gave no counters: %s" % (port.device, port.port, why), 1)


# --- sysfs -----------------------------------------------------------------------------------------------------------


def ports(sys: str) -> List[str]:
    """Folder of every port, sorted by device and port number."""
    root = os.path.join(sys, FOLDER)
    found = [(device, number) for device in list_folder(root) for number in list_folder("%s/%s/ports" % (root, device))]
    numbered = sorted((device, int(number)) for device, number in found if number.isdigit())
    return ["%s/%s/ports/%d" % (root, *name) for name in numbered]


class HcaPort:
    """One port; ``home`` is its folder, which contains ``counters`` and ``hw_counters``."""

    def __init__(self, home: str) -> None:
        self._home = home
        groups = (("counters", COUNTERS), ("hw_counters", HARDWARE_COUNTERS))
        paths = [(name, "%s/%s/%s" % (home, group, name)) for group, names in groups for name in names]
        self._paths = {name: path for name, path in paths if os.path.exists(path)}
        self.error = ""
        """Error of the counter that failed last; empty if none has failed."""
        self.known: Optional[PortFacts] = None
        """Stable properties, valid while the port's state is unchanged."""

    def facts(self) -> Optional[PortFacts]:
        """State and properties; None if the port is gone."""
        state = self._word("state")
        if not state or (self.known is not None and self.known.state == state):
            return self.known if state else None
        rate = _RATE.match(self._text("rate"))
        *_, device, _, port = self._home.split("/")
        self.known = PortFacts(
            device=device,
            port=int(port),
            link_layer=self._text("link_layer"),
            state=state,
            phys_state=self._word("phys_state"),
            rate=float(rate.group()) if rate else None,
        )
        return self.known

    def counters(self) -> Dict[str, int]:
        """All readable counters, data in bytes. If none is readable up to the first error, none is tried again."""
        values: Dict[str, int] = {}
        for name, path in list(self._paths.items()):
            try:
                value = min(int(read(path)[:24]), LARGEST)
            except (OSError, ValueError) as error:
                self.error = "%s: %s" % (name, getattr(error, "strerror", None) or error)
                del self._paths[name]
                if not values:
                    self._paths.clear()
                    break
                continue
            if name not in WORDS:
                values[name] = value
            elif value != SATURATED:
                values[name] = value * 4
        return values

    def _text(self, name: str) -> str:
        return read_text(self._home + "/" + name)

    def _word(self, name: str) -> str:
        """``4: ACTIVE`` → ``ACTIVE``."""
        return self._text(name).rpartition(":")[2].strip()


# --- perfquery -------------------------------------------------------------------------------------------------------


def parse_perfquery(text: str) -> Dict[str, int]:
    """Extended counters (``perfquery -x``) of the first port in the output, by the kernel's names; data in bytes."""
    values: Dict[str, int] = {}
    shown = 0
    for line in text.splitlines():
        counter = _COUNTER.match(line)
        shown += line.startswith("# Port extended counters: ")
        if counter and shown == 1 and "Select" not in line:
            name, digits = kernel_name(counter.group(1)), counter.group(2)
            value = int(digits, 16 if digits.startswith("0x") else 10)
            values[name] = min(value * 4 if name in WORDS else value, LARGEST)
    return values


def kernel_name(name: str) -> str:
    """Convert perfquery's name of a counter to the kernel's: ``SymbolErrorCounter`` → ``symbol_error``."""
    words = _NEXT_WORD.sub("_", name).lower().split("_")
    return "_".join("packets" if word == "pkts" else word for word in words if word != "counter")
