"""Storage that does not answer or answers with errors: parallel and network file systems, local disks.

``kernel.storage`` has ``system``, ``server`` (or the device) and ``ok``: true once it is back. Formats: Lustre's
``ptlrpc/import.c`` and ``ldlm``, the kernel's Ceph client (``fs/ceph/mds_client.c``), ``fs/smb/client/connect.c``,
BeeGFS's ``MessagingTk.c``, GPFS's ``mmfs.log`` (messages 6027-…, IBM's guide on problem determination),
``drivers/nvme/host/pci.c``, ``block/blk-core.c``, ext4's and XFS's own words.
"""

from __future__ import annotations

from typing import Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Said

_AWAY: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "Lustre",
            (
                r"Lustre: [^\r\n]{0,160}?Connection to (?:service"
                r" )?(?P<server>[\w.-]{1,80})[^\r\n]{0,80}? was lost; in progress"
            ),
        ),
        (
            "Lustre",
            (
                r"Lustre: [^\r\n]{0,120}?Request sent has (?:failed due to network error|timed out for s\w{3} \w{5})"
                r"[^\r\n]{0,160}? o\d{1,4}->(?P<server>[\w.]{1,80}(?:-(?:MDT|OST)\w{1,8})?)"
            ),
        ),
        ("Lustre", r"LustreError: [^\r\n]{0,160}?This client was evicted by (?P<server>[\w.-]{1,80})"),
        (
            "Lustre",
            (
                r"LustreError: [^\r\n]{0,120}?(?:operation|communication error with|the) \w{3,30}(?: operation)?"
                r"(?: to node| failed with| with) (?P<server>[\w.@:-]{1,80})[^\r\n]{0,60}"
                r"\b(?:failed|rc = -1(?:07|10|08))"
            ),
        ),
        ("CephFS", r"\bceph: (?:\[[^\]\r\n]{1,80}\]: ?)?(?P<server>mds\d{1,4}) (?:hung|caps stale|reconnect denied)"),
        ("CephFS", r"\bceph: (?:\[[^\]\r\n]{1,80}\]: ?)?(?P<server>mds\d{1,4}) (?:rejected|closed our) session"),
        ("SMB", (r"CIFS: ?(?:VFS: )?(?:\\{2,4})?(?P<server>[\w.-]{0,80}) ?(?:Server (?P<named>[\w.-]{1,80})"
         r" )?has not responded in")),
        ("BeeGFS", (r"(?:Retrying communication with|Unable to communicate with"
         r"|Connect failed to) node: (?P<server>[\w.-]{1,80})")),
        ("GPFS", r"Lost membership in cluster (?P<server>[\w.-]{1,80}?)\.? Unmounting file systems?"),
        ("GPFS", r"\[X\] The mmfs daemon is shutting down abnormally|Node [\w. ()-]{1,80}lease renewal is overdue"),
        ("NVMe", (r"\bnvme (?P<server>nvme\d{1,3}): (?:controller is down|Device not ready; aborting"
         r"|Removing after probe)")),
        ("NVMe", (r"\bnvme (?P<server>nvme\d{1,3}): I/O (?:tag )?\d{1,6}[^\r\n]{0,40}timeout, (?:reset"
         r" controller|disable)")),
        (
            "disk",
            (
                r"(?:blk_update_request: |\b)(?:critical \w{3,8}|I/O) error, dev (?P<server>[\w-]{1,32}), sector"
                r"|Buffer I/O error on dev(?:ice)? (?P<named>[\w-]{1,32}), logical block"
            ),
        ),
        ("ext4", (r"EXT4-fs error \(device (?P<server>[\w-]{1,32})\)"
         r"|EXT4-fs \((?P<named>[\w-]{1,32})\): Remounting filesystem read-only")),
        (
            "XFS",
            (
                r"XFS \((?P<server>[\w-]{1,32})\): (?:metadata I/O error|log I/O error"
                r"|[Cc]orruption |I/O [Ee]rror [Dd]etected"
                r"|Filesystem has been shut down|Please unmount the filesystem)"
            ),
        ),
    )
)  # fmt: skip
_BACK: Tuple[Tuple[str, "re.Pattern[str]"], ...] = (
    ("Lustre", re.compile(r"Lustre: [^\r\n]{0,160}?Connection restored to (?:service )?(?P<server>[\w.-]{1,80})")),
    ("CephFS", re.compile(
        r"\bceph: (?:\[[^\]\r\n]{1,80}\]: ?)?(?P<server>mds\d{1,4}) "
        r"(?:recovery completed|caps renewed|came back|reconnect success)"
    )),
    ("disk", re.compile(r"\bsd \S{3,16}: \[(?P<server>sd[a-z]{1,4})\] Attached SCSI (?:removable )?disk")),
    ("BeeGFS", re.compile(r"Communication succeeded after \d{1,6} retr[^\r\n(]{0,20}\(Node: (?P<server>[\w.-]{1,80})")),
)  # fmt: skip
_TARGET = re.compile(
    r"Lustre(?:Error)?: (?:\d{1,3}-\w{1,3}: )?(?P<target>[\w.]{1,80}-(?:MDT|OST)[0-9a-f]{4})-(?:osc|mdc)-"
)
"""The client's own name for a target, in front of what it says: the server behind it may be told by its address."""
STEMS = (
    b"Lustre: ", b"LustreError: ", b"ceph: ", b"CIFS: ", b"communication with node: ", b"communicate with node: ",
    b"Connect failed to node: ", b"Communication succeeded after", b"Lost membership in cluster", b"mmfs daemon",
    b"lease renewal", b" nvme", b"error, dev ", b"I/O error on dev", b"Attached SCSI ", b"EXT4-fs ", b"XFS (",
)  # fmt: skip


def said(text: str) -> Optional[Said]:
    """The event of a line, None where it says nothing of storage."""
    for table, ok in ((_BACK, True), (_AWAY, False)):
        for system, pattern in table:
            match = pattern.search(text)
            if match is None:
                continue
            groups = match.groupdict()
            data: Data = {"system": system, "ok": ok}
            target = _TARGET.search(text) if system == "Lustre" else None
            server = groups.get("server") or groups.get("named") if target is None else target.group("target")
            if server:
                data["server"] = server.rstrip(".")
            return Said("kernel.storage", data)
    return None
