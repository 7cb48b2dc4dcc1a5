"""Where the flight recorder of a rank writes its dump and listens.

torch writes a dump to ``<stem><rank>``. The stem is TORCH_FR_DUMP_TEMP_FILE (since 2.9), TORCHCOMM_FR_DUMP_TEMP_FILE
(TorchComms) or TORCH_NCCL_DEBUG_INFO_TEMP_FILE, else ``${XDG_CACHE_HOME:-~/.cache}/torch/comm_lib_trace_rank_``, in
older releases ``/tmp/nccl_trace_rank_``. A rank that was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE listens on
``<stem><rank>.pipe`` (ProcessGroupNCCL.hpp and FlightRecorder.hpp of torch 2.13).
"""

from __future__ import annotations

import os
from typing import List, Mapping, NamedTuple, Tuple

from collectors.node.files import link
from collectors.node.processes.rooted import seen_by

STEMS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCHCOMM_FR_DUMP_TEMP_FILE")
PIPES = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE",)


class DumpPlaces(NamedTuple):
    """Where one rank's dump may be, most likely first, and its pipe; as the rank names them."""

    files: Tuple[str, ...]
    pipe: str

    def seen_by(self, pid: int) -> "DumpPlaces":
        """The same as this side can open them: a rank in a container, or with a relative path, names others."""
        return DumpPlaces(tuple(here(pid, path) for path in self.files), here(pid, self.pipe) if self.pipe else "")


def here(pid: int, path: str, proc: str = "/proc") -> str:
    """A path of a process as this side can open it."""
    if not path.startswith("/"):
        path = os.path.join(link("%s/%d/cwd" % (proc, pid)), path)
    return seen_by(pid, path, proc)


def stems(env: Mapping[str, str]) -> List[str]:
    """What the name of a dump begins with, by a rank's environment."""
    given = [env[name] for name in STEMS if env.get(name)]
    if given:
        return given
    cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
    return [os.path.join(cache, "torch", "comm_lib_trace_rank_"), "/tmp/nccl_trace_rank_"]


def places(env: Mapping[str, str], rank: int) -> DumpPlaces:
    """Paths that a rank's environment makes its dump and its pipe."""
    pipes = [env[name] for name in PIPES if env.get(name)]
    files = tuple("%s%d" % (stem, rank) for stem in stems(env))
    return DumpPlaces(files, "%s%d.pipe" % (pipes[0], rank) if pipes else "")
