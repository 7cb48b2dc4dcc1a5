"""When a process may be asked for a CUDA core dump: what its environment must say, on both sides."""

from __future__ import annotations

from typing import Mapping

ENABLED = "CUDA_ENABLE_USER_TRIGGERED_COREDUMP"
FLAGS = "CUDA_COREDUMP_GENERATION_FLAGS"
PIPE = "CUDA_COREDUMP_PIPE"
FILE = "CUDA_COREDUMP_FILE"
LIGHT = ("skip_global_memory", "skip_shared_memory", "skip_local_memory")
"""Without these a dump is as large as what the GPU's memory holds."""


def is_light(env: Mapping[str, str]) -> bool:
    """Whether a dump leaves the GPU's memory out."""
    if env.get("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "").strip() == "1":
        return True
    said = {flag.strip().lower() for flag in env.get(FLAGS, "").split(",")}
    return said >= set(LIGHT)


def refusal(env: Mapping[str, str]) -> str:
    """Why a process with this environment is not asked; empty where it can be."""
    if env.get(ENABLED, "").strip() != "1":
        return "it was started without %s=1" % ENABLED
    if not is_light(env):
        return "it would write all of its GPU's memory: %s lacks %s" % (FLAGS, ", ".join(LIGHT))
    return ""
