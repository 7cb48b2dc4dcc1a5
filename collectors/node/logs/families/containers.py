"""Containers that were not started, and GPUs that a container or a driver does not show.

``launcher.refused`` as in :mod:`refusals`; ``gpu.unseen`` has NVML's ``error``. Formats: Docker's daemon, runc, podman,
nvidia-container-cli, pyxis (``pyxis: couldn't start container``) and enroot, Apptainer and Singularity, NVML through
nvidia-smi.
"""

from __future__ import annotations

from typing import Iterator, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said

_WAYS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("docker", r"nvidia-container-(?:cli|runtime): (?P<why>(?:\w{3,20} )?error: [^\r\n]{1,200})"),
        ("docker", r"(?P<why>could not select device driver [^\r\n]{1,160})"),
        ("docker", r"Error response from daemon: (?P<why>(?!Conflict|No such container)[^\r\n]{1,240})"),
        ("docker", r"(?P<why>OCI runtime (?:create|exec|start)? ?(?:failed|error)[^\r\n]{0,240})"),
        ("docker", r"(?P<why>unresolvable CDI devices [^\r\n]{1,120})"),
        (
            "pyxis",
            (
                r"pyxis: (?P<why>(?:couldn't (?:start container|mkdir|chdir|mount|get container"
                r"|read|set)|container start failed"
                r"|(?:mkdir|mount|chmod|cp|ln|tar): \S"
                r"|failed to (?:import|create|start|get)|could not (?:start|import|create))[^\r\n]{0,200})"
            ),
        ),
        ("enroot", r"(?P<why>enroot-\w{2,20}: (?:failed|invalid|could not)[^\r\n]{0,200})"),
        (
            "apptainer",
            (
                r"^\s{0,4}(?:\x1b?\[\d+m)?FATAL: {1,8}(?P<why>(?:container creation|while "
                r"|could not|Unable|image|no such|stat |[Ff]ailed"
                r"|failure|\"[^\"\r\n]{1,120}\": (?:executable file not found|permission denied))[^\r\n]{0,240})"
            ),
        ),
    )
)
_PYXIS_LOG = re.compile(r"pyxis: {2,8}(?P<why>[^\r\n]{8,240})")
"""The log of enroot that pyxis prints behind its own words."""
_TELLING = re.compile(r"\[ERROR\]|error|failed|denied|No such|cannot|Unauthorized")
_NVML = re.compile(
    r"Failed to initialize NVML: (?P<error>Unknown Error|could not load NVML library|Driver/library version mismatch"
    r"|GPU access blocked[^\r\n]{0,60})"
    r"|NVIDIA-SMI has failed because it (?P<smi>couldn't communicate with the NVIDIA driver)"
    r"|^\s{0,4}(?P<none>No devices were found)\s{0,4}$"
    r"|Unable to determine the device handle for [Gg][Pp][Uu]\S{0,4}"
    r" ?(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^\r\n:]{0,6}: "
    r"(?P<handle>[^\r\n]{1,80})"
    r"|\b(?:NVML|nvml)\b[^\r\n]{0,80}: (?P<lost>GPU is lost)\b"
)


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    nvml = _NVML.search(text)
    if nvml is not None:
        words = (nvml.group(name) for name in ("error", "smi", "none", "handle", "lost"))
        seen: Data = {"error": next(word for word in words if word).strip()}
        if nvml.group("bus"):
            seen["bus_id"] = nvml.group("bus").lower()
        yield Said("gpu.unseen", seen)
        return
    for launcher, pattern in _WAYS:
        match = pattern.search(text)
        if match is not None:
            yield Said("launcher.refused", {"launcher": launcher, "why": match.group("why").strip()})
            return
    detail = _PYXIS_LOG.search(text)
    if detail is not None and _TELLING.search(detail.group("why")):
        yield Said("launcher.refused", {"launcher": "pyxis", "why": detail.group("why").strip(), "detail": True})


FAMILY = Family(
    "containers",
    (
        b"nvidia-container-", b"select device driver", b"Error response from daemon", b"OCI runtime", b"CDI devices",
        b"pyxis: ", b"enroot-", b"FATAL: ", b"initialize NVML", b"NVIDIA-SMI has failed",
        b"determine the device handle", b"No devices were found", b"GPU is lost",
    ),
    read,
)  # fmt: skip
