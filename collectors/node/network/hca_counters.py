"""Counters of one HCA port from sysfs: few at each look, all in turn, and none again soon that gave an error.

Every read of ``counters/`` asks the adapter's firmware, and on restricted functions (the internal ones of DGX and GB200
machines) each such read writes a line into the kernel log: what fails once is left alone.
"""

from __future__ import annotations

import os
from typing import Dict, Tuple

from collectors.node.files import list_folder, read
from collectors.node.network.perfquery import LARGEST, WORDS

FAST = ("port_xmit_data", "port_rcv_data", "port_xmit_wait")
"""Read at every look; the others take turns."""
ERRORS = (
    "link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_xmit_discards", "excessive_buffer_overrun_errors", "local_link_integrity_errors",
    "packet_seq_err", "out_of_sequence", "local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err",
    "roce_adp_retrans",
)  # fmt: skip
"""Those whose growth is a fault. Read at every look while a stream is young: who watches for four seconds wants to know
what grew in them."""
TURNS = 5
"""Looks in which every counter has had its turn."""
PAUSE = 300.0
"""Seconds for which a counter that gave an error is left alone; twice as long after each further one."""
GROUPS = ("counters", "hw_counters")
NO_COUNTERS = frozenset({"lifespan"})
_SATURATED = (1 << 32) - 1


class HcaCounters:
    """Counters of one port. All times are of one monotonic clock."""

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
        self._refused: Dict[str, Tuple[float, float]] = {}
        """Name → until when it is left alone, and for how long the next time; ``""`` stands for the whole port."""
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
        if self._is_refused("", moment):
            return {}
        turn = self._rest if self._turn < 0 else self._rest[self._turn :: TURNS]
        self._turn = (self._turn + 1) % TURNS
        if errors:
            turn = list(dict.fromkeys([*self._errors, *turn]))
        news: Dict[str, int] = {}
        for name in [*self._often, *turn]:
            if self._is_refused(name, moment):
                continue
            try:
                value = min(int(read(self._paths[name])[:24]), LARGEST)
            except ValueError:  # no number: a driver's own file, nothing to watch
                self._refuse(name, moment)
                continue
            except OSError as error:
                self._refuse(name, moment)
                self.error = "%s: %s" % (name, error.strerror)
                if not self._last:  # not one of this port could be read: do not try them all
                    self._refuse("", moment)
                    break
                continue
            self._refused.pop("", None)
            if name in WORDS:
                if value == _SATURATED:  # an old kernel's 32-bit counter at its end says nothing
                    continue
                value *= 4
            if self._last.get(name) != value:
                self._last[name] = news[name] = value
        return news

    def _is_refused(self, name: str, moment: float) -> bool:
        return moment < self._refused.get(name, (0.0, 0.0))[0]

    def _refuse(self, name: str, moment: float) -> None:
        pause = self._refused.get(name, (0.0, PAUSE))[1]
        self._refused[name] = (moment + pause, 2 * pause)
