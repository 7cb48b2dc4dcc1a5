"""What daemons of user space say that end programs before the kernel must: systemd-oomd, earlyoom; and systemd's word.

``slurm.out_of_memory`` with the ``launcher`` that did it, ``pid`` and ``process`` or the control ``group``. Formats:
``oomd-manager.c``, ``oomd-util.c``, ``kill.c`` of earlyoom, ``unit.c`` (``Failed with result 'oom-kill'``).
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.families import tasks
from collectors.node.logs.said import Data, Family, Said, number

_OOMD = re.compile(
    r"\bKilled (?P<group>/[^\s\r\n]{1,300}) due to (?:memory (?:pressure|used)|swap used)"
    r"|\boomd attempting to kill (?P<pid>\d{1,9}) with KILL\b"
)
_EARLYOOM = re.compile(
    r"\bsending SIG(?:TERM|KILL) to process (?P<pid>\d{1,9}) (?:uid \d{1,9} )?\"(?P<process>[^\"\r\n]{1,64})\""
)
_UNIT = re.compile(r"(?P<group>[^\s\r\n]{1,300}): Failed with result 'oom-kill'")
_OF_DESKTOPS = re.compile(
    r"(?:^|/)(?:app-[^/]{0,80}?)?(?:firefox|chrom|google|thunderbird|slack|discord|spotify|steam|code|teams|zoom|gnome-shell"
    r"|plasma|pipewire|snap\.|flatpak|jetbrains|idea|telegram|evolution|nautilus|tracker|gvfs|xdg-|dbus|libvirt|docker)"
    r"[^/]*\Z"
)
"""The last part of the control group of what somebody runs on a desktop, or of the machine's own services."""


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    for launcher, pattern in (("systemd-oomd", _OOMD), ("earlyoom", _EARLYOOM), ("systemd", _UNIT)):
        match = pattern.search(text)
        if match is None:
            continue
        found = match.groupdict()
        group, process = found.get("group") or "", found.get("process") or ""
        if _OF_DESKTOPS.search(group) or (process and tasks.is_of_no_job(process)):
            return
        data: Data = {"launcher": launcher}
        data.update({name: word for name, word in (("group", group), ("process", process)) if word})
        if found.get("pid"):
            data["pid"] = number(found["pid"])
        yield Said("slurm.out_of_memory", data)
        return


FAMILY = Family(
    "oom_daemons",
    (b" due to memory ", b" due to swap used", b"oomd attempting", b"sending SIG", b"result 'oom-kill'"),
    read,
)
