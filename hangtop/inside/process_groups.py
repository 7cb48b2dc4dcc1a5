"""Process groups of the job by the number of their ranks: whoever asks from outside has no object to name one with."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Sequence

from collectors.samples.page import TOLD_GROUPS_LIMIT, group_number
from hangtop.inside.hooks import followed, hooked
from hangtop.inside.own_rank import distributed_now

NAME = 40
"""Characters of what a job calls a group."""


def group_by_number(number: int) -> Any:
    """The process group whose ranks have this :func:`~collectors.samples.page.group_number`; None where there is none.

    Of several with the same ranks one of NCCL, else the one that was made first: all their ranks choose alike.
    """
    distributed = distributed_now()
    if distributed is None:
        return None
    same = [group for group in _groups() if group_number(distributed.get_process_group_ranks(group)) == number]
    return min(same, key=lambda group: "nccl" not in backends_of(group), default=None)


def told_groups() -> str:
    """The process groups in which this rank is, but that of all ranks, as the page tells them; as many as fit."""
    distributed = distributed_now()
    lines: Dict[str, str] = {}
    for group in _groups() if distributed is not None else ():
        ranks = sorted(distributed.get_process_group_ranks(group)) if distributed is not None else []
        if distributed is not None and 1 < len(ranks) < distributed.get_world_size():
            name = str(getattr(group, "group_desc", "") or "").split("\n")[0][:NAME]
            lines.setdefault(runs(ranks), "" if name == "undefined" else name)
    text = ""
    for ranks_text, name in lines.items():
        more = text + ("\n" if text else "") + ("%s %s" % (ranks_text, name)).rstrip()
        text = more if len(more.encode("utf-8", "replace")) <= TOLD_GROUPS_LIMIT else text
    return text


def runs(ranks: Sequence[int]) -> str:
    """``0-6:2`` of ranks that follow one another so, each once; ``0,3,4`` of others."""
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    if list(ranks) == list(range(ranks[0], ranks[-1] + 1, step or 1)):
        return "%d-%d:%d" % (ranks[0], ranks[-1], step)
    return ",".join(map(str, ranks))


def backends_of(group: Any) -> str:
    """``cpu:gloo,cuda:nccl``: what carries the collectives of a group, None for that of all ranks."""
    from torch import distributed

    # the backend of a job that named none is "undefined"
    told = getattr(distributed, "get_backend_config", distributed.get_backend)
    return str(told(group))


def _groups() -> Iterator[Any]:
    """Process groups in which this rank is: all that torch has, in the order in which they were made."""
    from torch.distributed import distributed_c10d as c10d

    world = getattr(c10d, "_world", None)  # torch has no public list of them
    if world is not None:
        yield from list(world.pg_map)
        return
    if hooked.group is not None:
        yield hooked.group
    for parameter in getattr(followed(), "parameters", list)():
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None:
            for place in range(mesh.ndim):
                yield mesh.get_group(place)
