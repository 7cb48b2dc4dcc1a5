"""A /sys with AMD's GPUs of a test's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

MI300X = {
    "vendor": "0x1002", "device": "0x74a1", "product_name": "AMD Instinct MI300X OAM", "unique_id": "a1b2c3d4e5f60718",
    "mem_info_vram_total": 206141652992, "mem_info_vram_used": 1 << 30, "gpu_busy_percent": 7, "mem_busy_percent": 3,
    "ras/umc_err_count": "ue: 0\nce: 3",
    "ras/gfx_err_count": "ue: 0\nce: 0", "ras/features": "feature mask: 0x1",
    "hwmon/hwmon4/name": "amdgpu", "hwmon/hwmon4/power1_input": 142000000, "hwmon/hwmon4/power1_cap": 750000000,
    "hwmon/hwmon4/temp2_input": 61000, "hwmon/hwmon4/temp2_label": "junction", "hwmon/hwmon4/temp3_input": 48500,
    "hwmon/hwmon4/temp3_label": "mem", "hwmon/hwmon4/freq1_input": 2090000000, "hwmon/hwmon4/freq1_label": "sclk",
}  # fmt: skip


def write_card(sys: Path, number: int, bus_id: str, **changes: Any) -> Path:
    """Write one GPU and return its device's folder; a changed file of None is left out, ``__`` stands for ``/``."""
    device = sys / "devices/pci0000:00" / bus_id
    files = {**MI300X, **{name.replace("__", "/"): value for name, value in changes.items()}}
    for name, value in files.items():
        path = device / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if value is not None:
            path.write_text(f"{value}\n")
    card = sys / f"class/drm/card{number}"
    if not card.exists():
        card.mkdir(parents=True)
        (card / "device").symlink_to(device)
        (sys / f"class/drm/card{number}-DP-1").mkdir()  # a connector, as the kernel lists them beside
    return device


def write_process(sys: Path, pid: int, gpu_ids: Mapping[str, int]) -> None:
    """A process of the compute driver with memory on these GPUs."""
    for gpu_id, size in gpu_ids.items():
        path = sys / f"class/kfd/kfd/proc/{pid}/vram_{gpu_id}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{size}\n")


def write_node(sys: Path, node: int, gpu_id: int, location: int, domain: int = 0) -> None:
    """A node of the compute driver's topology; the CPU's has the number 0."""
    folder = sys / f"class/kfd/kfd/topology/nodes/{node}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu_id").write_text(f"{gpu_id}\n")
    (folder / "properties").write_text(f"cpu_cores_count 0\nsimd_count 1216\nlocation_id {location}\ndomain {domain}\n")
