"""A /sys/class/infiniband of a test's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_port(
    sys: Path,
    device: str,
    port: int = 1,
    *,
    state: str = "4: ACTIVE",
    phys_state: str = "5: LinkUp",
    counters: Mapping[str, int | str] | None = None,
    hw_counters: Mapping[str, int | str] | None = None,
    adapters: Path | None = None,
) -> Path:
    """Write one port as the kernel shows it and return its folder; files that are there already are replaced.

    ``adapters`` is the folder of adapters where that is not ``class/infiniband`` of ``sys``.
    """
    adapter = (adapters or sys / "class/infiniband") / device
    home = adapter / "ports" / str(port)
    home.mkdir(parents=True, exist_ok=True)
    files = {"state": state, "phys_state": phys_state, "link_layer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"}
    for name, text in {**files, "lid": "0x6b7", "sm_lid": "0x1"}.items():
        (home / name).write_text(f"{text}\n")
    (adapter / "fw_ver").write_text("28.39.1002\n")
    (adapter / "hca_type").write_text("MT4129\n")
    for group, values in (("counters", counters), ("hw_counters", hw_counters)):
        for name, value in (values or {}).items():
            (home / group).mkdir(exist_ok=True)
            (home / group / name).write_text(f"{value}\n")
    return home
