"""ACS on bridges above GPUs and IOMMU translation, from a sysfs made for it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from collectors.node.machine.preflight import pcie

BRIDGE, GPU = "0000:00:01.0", "0000:01:00.0"


def sysfs(folder: Path, config: bytes, domain: str, vendor: str = "0x10de") -> str:
    gpu = folder / "devices/pci0000:00" / BRIDGE / GPU
    gpu.mkdir(parents=True)
    (gpu.parent / "config").write_bytes(config)
    (gpu / "class").write_text("0x030200\n")
    (gpu / "vendor").write_text(f"{vendor}\n")
    (gpu / "iommu_group").mkdir()
    (gpu / "iommu_group/type").write_text(f"{domain}\n")
    devices = folder / "bus/pci/devices"
    devices.mkdir(parents=True)
    for device in (gpu, gpu.parent):
        (devices / device.name).symlink_to(device)
    return str(folder)


def configuration(control: int) -> bytes:
    """AER at 0x100, then ACS at 0x148 with this control register."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x148 << 20 | 1 << 16 | 0x0001)
    struct.pack_into("<IHH", space, 0x148, 1 << 16 | 0x000D, 0x7F, control)
    return bytes(space)


@pytest.mark.parametrize(
    ("config", "domain", "wrong", "why"),
    [
        (configuration(0x1D), "identity", [f"ACS redirects at bridge {BRIDGE}"], ""),
        (configuration(0), "DMA-FQ", [f"IOMMU translates for {GPU} (DMA-FQ)"], ""),
        (configuration(0x01), "identity", [], ""),
        (b"\0" * 64, "identity", [], "bridges are read by root alone"),
        (struct.pack("<I", 0x100 << 20).rjust(0x104, b"\0") + b"\0" * 8, "identity", [], ""),
    ],
)
def test_what_redirects_traffic_between_gpus_is_named(
    tmp_path: Path, config: bytes, domain: str, wrong: list[str], why: str
) -> None:
    (found,) = pcie(sysfs(tmp_path, config, domain))
    assert (found.value, found.error) == (wrong, why)


def test_a_node_without_gpus_says_nothing(tmp_path: Path) -> None:
    assert pcie(sysfs(tmp_path, configuration(0x1D), "DMA", vendor="0x8086")) == []
    assert pcie(str(tmp_path / "nowhere")) == []
