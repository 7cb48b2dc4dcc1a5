"""The rank of a process by its command line, for processes of torch and JAX whose environment has none.

Scripts of torch that are started once for each rank take it as ``--rank`` (PyTorch's ImageNet example, Megatron's older
scripts); scripts of JAX take ``--process_id`` or ``--process_index`` (T5X, AXLearn). Some processes set a title with
the rank instead (``trainer: rank 3``).
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Mapping, NamedTuple, Optional, Sequence

from collectors.node.ranks.rank_from_files import rank_in

TORCH_RANK = ("rank", "global_rank", "world_rank", "dist_rank", "distributed_rank")
TORCH_SIZE = ("world_size", "dist_world_size", "distributed_world_size", "nranks", "n_ranks", "num_ranks")
JAX_RANK = ("process_id", "process_index", "process_idx", "process_rank", "proc_id", "host_index", "host_idx")
JAX_SIZE = ("num_processes", "process_count", "n_processes", "num_procs", "num_hosts", "host_count")
COORDINATOR = ("coordinator_address", "distributed_coordinator", "server_addr", "coordinator")

_PORT = re.compile(r":(\d{1,5})$")


class ArgvRank(NamedTuple):
    """What a command line says of the rank of its process."""

    rank: int
    world_size: Optional[int]
    port: Optional[int] = None
    """Port of the coordinator, where an option names it."""


def torch_ranks(commands: Mapping[int, Sequence[str]]) -> Dict[int, ArgvRank]:
    """Ranks by pid of processes of torch, given their command lines; none where two would have one rank.

    An option counts beside the world size, or beside the option of another process: a lone ``--rank=16`` may be that
    of a matrix.
    """
    options = _each(commands, lambda words: _by_option(words, TORCH_RANK, TORCH_SIZE))
    found = {**_each(commands, _by_title), **options}
    ranks = {one.rank for one in found.values()}
    sizes = {one.world_size for one in found.values()}
    lone = len(found) == 1 and any(one.world_size is None for one in options.values())
    return {} if lone or len(ranks) < len(found) or len(sizes) > 1 else found


def jax_ranks(commands: Mapping[int, Sequence[str]]) -> Dict[int, ArgvRank]:
    """Ranks by pid of processes of JAX; none where two of one coordinator would have one rank."""
    found = _each(commands, lambda words: _by_option(words, JAX_RANK, JAX_SIZE))
    return found if len({(one.rank, one.port) for one in found.values()}) == len(found) else {}


def _each(
    commands: Mapping[int, Sequence[str]], read: Callable[[Sequence[str]], Optional[ArgvRank]]
) -> Dict[int, ArgvRank]:
    found = {pid: read(words) for pid, words in commands.items()}
    return {pid: one for pid, one in found.items() if one is not None}


def _by_title(words: Sequence[str]) -> Optional[ArgvRank]:
    """By a title that a process gave itself: it is one text, and no path."""
    title = " ".join(words).strip()
    rank = rank_in(title) if len(words) == 1 and not title.startswith(("/", ".")) else None
    return None if rank is None else ArgvRank(rank, None)


def _by_option(words: Sequence[str], rank_names: Sequence[str], size_names: Sequence[str]) -> Optional[ArgvRank]:
    """By ``--process_id=3``, ``--process-index 3``, ``--jax_distributed.process_id=3``."""
    given: Dict[str, int] = {}
    port: Optional[int] = None
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not name.startswith("-"):
            continue
        if not equals:
            value = words[place + 1] if place + 1 < len(words) else ""
        name = name.lstrip("-").rpartition(".")[2].replace("-", "_").lower()
        end = _PORT.search(value)
        if value.isascii() and value.isdigit() and len(value) < 10:
            given.setdefault(name, int(value))
        elif end is not None and name in COORDINATOR:
            port = int(end.group(1))
    rank = next((given[name] for name in rank_names if name in given), None)
    size = next((given[name] for name in size_names if name in given), None)
    if rank is None or (size is not None and rank >= size):
        return None
    return ArgvRank(rank, size, port)
