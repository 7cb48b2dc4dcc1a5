"""Ports of InfiniBand and RoCE adapters as the kernel's sysfs shows them: states and counters, without any tool.

Every read of ``counters/`` asks the adapter's firmware, and on restricted functions (the internal ones of DGX and GB200
machines) each such read writes a line into the kernel log: what fails once is left alone for some minutes.
"""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Tuple

from collectors.node.files import list_folder, read, read_int, read_text
from collectors.node.network.ib_tools import LARGEST, SATURATED, WORDS
from collectors.samples.fabric import PortFacts

FOLDER = "class/infiniband"
FAST = ("port_xmit_data", "port_rcv_data", "port_xmit_wait")
"""Read at every look; the others take turns."""
ERRORS = (
    "link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_xmit_discards", "excessive_buffer_overrun_errors", "local_link_integrity_errors",
    "packet_seq_err", "out_of_sequence", "local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err",
    "roce_adp_retrans",
)  # fmt: skip
"""Those whose growth is a fault. Read at every look while a stream is young: a watch of 4 s shows what grew."""
TURNS = 5
"""Looks in which every counter has had its turn."""
PAUSE = 300.0
"""Seconds for which a counter that gave an error is left alone."""
GROUPS = ("counters", "hw_counters")
NO_COUNTERS = frozenset({"lifespan"})
_RATE = re.compile(r"\d{1,9}(?:\.\d{1,3})?")
_LID = re.compile(r"0x[0-9a-fA-F]{1,8}\Z")


def ports(sys: str) -> List[Tuple[str, int]]:
    """Every (device, port), sorted."""
    root = os.path.join(sys, FOLDER)
    found: List[Tuple[str, int]] = []
    for device in list_folder(root):
        numbers = [name for name in list_folder(os.path.join(root, device, "ports")) if name.isdigit()]
        found += [(device, int(number)) for number in numbers]
    return sorted(found)


def folder(sys: str, device: str, port: int) -> str:
    """Folder of one port."""
    return os.path.join(sys, FOLDER, device, "ports", str(port))


def facts(sys: str, device: str, port: int) -> Optional[PortFacts]:
    """State and properties of a port; None when it is not there (any more)."""
    home = folder(sys, device, port)
    state, phys_state, rate, lid, layer = (
        read_text("%s/%s" % (home, name)) for name in ("state", "phys_state", "rate", "lid", "link_layer")
    )
    if not state:
        return None
    known = _RATE.match(rate)
    return PortFacts(
        device=device,
        port=port,
        link_layer=layer,
        state=_after_colon(state),
        phys_state=_after_colon(phys_state),
        rate=float(known.group()) if known else None,
        lid=int(lid, 16) if _LID.match(lid) else None,
        netdev=_netdev(sys, device, port),
    )


def state(sys: str, known: PortFacts) -> Optional[PortFacts]:
    """The facts of a port that are known, with the state of now; None when it is not there any more."""
    now = _after_colon(read_text(folder(sys, known.device, known.port) + "/state"))
    return known if now == known.state else facts(sys, known.device, known.port)


def _netdev(sys: str, device: str, port: int) -> str:
    """Network interface of a port: Ethernet's own for RoCE, IPoIB's for InfiniBand; empty when there is none."""
    named = read_text(os.path.join(folder(sys, device, port), "gid_attrs/ndevs/0"))
    if named:
        return named
    nets = os.path.join(sys, FOLDER, device, "device/net")
    for name in list_folder(nets):
        number = read_int(os.path.join(nets, name, "dev_port"))
        if number is None or number == port - 1:
            return name
    return ""


def _after_colon(text: str) -> str:
    """``4: ACTIVE`` → ``ACTIVE``."""
    return text.rpartition(":")[2].strip()


class HcaCounters:
    """Counters of one port: few at each look, all in turn. All times are of one monotonic clock."""

    def __init__(self, folder: str) -> None:
        """``folder`` is the port's, with ``counters`` and ``hw_counters`` in it."""
        self._paths: Dict[str, str] = {}
        for group in GROUPS:
            for name in list_folder(os.path.join(folder, group)):
                if name not in NO_COUNTERS:
                    self._paths.setdefault(name.lower(), os.path.join(folder, group, name))
        self._often = [name for name in FAST if name in self._paths]
        self._errors = [name for name in ERRORS if name in self._paths]
        self._rest = [name for name in self._paths if name not in FAST]
        self._last: Dict[str, int] = {}
        self._turn = -1
        self._refused: Dict[str, float] = {}
        """Name → until when it is left alone; ``""`` stands for the whole port."""
        self.error = ""
        """What a counter that failed said last; empty when all can be read."""

    @property
    def usable(self) -> bool:
        """True when there are counters here and they are not refused as a whole."""
        return bool(self._paths) and "" not in self._refused

    def changed(self, moment: float, *, errors: bool = False) -> Dict[str, int]:
        """Counters that moved since they were last read; all of them at the first call. Data are in bytes.

        With ``errors`` none of :data:`ERRORS` waits for its turn.
        """
        if moment < self._refused.get("", 0.0):
            return {}
        turn = self._rest if self._turn < 0 else self._rest[self._turn :: TURNS]
        self._turn = (self._turn + 1) % TURNS
        if errors:
            turn = list(dict.fromkeys([*self._errors, *turn]))
        news: Dict[str, int] = {}
        for name in [*self._often, *turn]:
            if moment < self._refused.get(name, 0.0):
                continue
            try:
                value = min(int(read(self._paths[name])[:24]), LARGEST)
            except ValueError:  # no number: a driver's own file, nothing to watch
                self._refused[name] = moment + PAUSE
                continue
            except OSError as error:
                self._refused[name] = moment + PAUSE
                self.error = "%s: %s" % (name, error.strerror)
                if not self._last:  # not one of this port could be read: do not try them all
                    self._refused[""] = moment + PAUSE
                    break
                continue
            self._refused.pop("", None)
            if name in WORDS:
                if value == SATURATED:  # an old kernel's 32-bit counter at its end says nothing
                    continue
                value *= 4
            if self._last.get(name) != value:
                self._last[name] = news[name] = value
        return news
