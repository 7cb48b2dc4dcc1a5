"""What can be compared among replicas: parameters, buffers, states of optimizers, random generators, by name.

Each thing has a cell: ranks with the same cell hold the same part of it. A plain tensor has the empty cell, so that all
ranks of the group must agree; a DTensor's cell is its place on the mesh's dimensions over which it is sharded.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Tuple

from hangtop.inside.own_rank import distributed_now

SCALARS = (int, float, bool, str, type(None), tuple)
"""Settings of a parameter group that are compared (learning rate, betas)."""


class Item(NamedTuple):
    """One thing."""

    name: str
    cell: str
    tensor: Any
    """The local part; None for what is no tensor."""
    text: str = ""
    """Of what is no tensor, what is compared."""
    shown: bool = True
    """The text says something to people: a generator's state does not."""


def items_of(things: Tuple[Any, ...]) -> List[Item]:
    """All items of what a script gives to ``check_same``.

    Modules, optimizers, tensors, mappings and sequences of them, ``named_parameters()`` and the like, and the words
    ``"rng"`` and, after a module, ``"buffers"`` (its buffers alone). Raises :class:`TypeError` for anything else.
    """
    import torch

    wanted = [thing for thing in things if not (isinstance(thing, str) and thing == "buffers")]
    alone = len(wanted) != len(things)
    found: List[Item] = []
    for thing in wanted:
        if isinstance(thing, str) and thing == "rng":
            found += _generators(torch)
        elif isinstance(thing, torch.nn.Module):
            named = [] if alone else list(thing.named_parameters())
            found += [item_of(name, tensor) for name, tensor in [*named, *thing.named_buffers()]]
        elif isinstance(thing, torch.optim.Optimizer):
            found += _states(thing, torch)
        else:
            found += [item_of(name, tensor) for name, tensor in _tensors(thing, torch, "tensor")]
    if not found:
        raise TypeError('nothing to compare: give a module, an optimizer, tensors, or "rng"')
    return [item for item in found if item.cell != _PARTIAL]


_PARTIAL = "partial"
"""Cell of a DTensor that is a sum still to be made: its parts differ by nature."""


SHARDED = ("_fsdp_flattened", "ds_id")
"""Marks of a plain tensor of which each rank has a part of its own: FSDP before DTensors, and ZeRO 3."""


def item_of(name: str, tensor: Any, of: Any = None) -> Item:
    """One tensor, or the local part of a DTensor; ``of`` is the parameter that a state belongs to."""
    local = getattr(tensor, "to_local", None)
    if local is None:
        return Item(name, _own_part() if any(hasattr(tensor if of is None else of, m) for m in SHARDED) else "", tensor)
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return Item(name, _PARTIAL, tensor)
    names = mesh.mesh_dim_names or ["dim%d" % number for number in range(mesh.ndim)]
    cell = []
    for place, placement in enumerate(tensor.placements):
        if placement.is_partial():
            return Item(name, _PARTIAL, tensor)
        if placement.is_shard():
            cell.append("%s=%d" % (names[place], coordinate[place]))
    return Item(name, " ".join(cell), local().detach())


def _own_part() -> str:
    """A cell that no other rank has."""
    distributed = distributed_now()
    return "rank=%d" % (-1 if distributed is None else distributed.get_rank())


def whole(optimizers: Iterable[Any], model: Any) -> List[Any]:
    """Of these optimizers those whose states can be compared among replicas of a model, unasked.

    None where they do not have all parameters of the model that are trained: then each rank has the states of a part
    (ZeRO, ``ZeroRedundancyOptimizer``), and what differs among ranks may well be right.
    """
    trained = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    known = {id(parameter) for parameter in model.parameters()}
    kept, covered = [], set()
    for optimizer in optimizers:
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if own <= known and not hasattr(optimizer, "consolidate_state_dict"):
            kept.append(optimizer)
            covered |= own
    return kept if trained <= covered else []


def _states(optimizer: Any, torch: Any) -> Iterator[Item]:
    number = 0
    for place, group in enumerate(optimizer.param_groups):
        for name, value in sorted(group.items()):
            if name != "params" and isinstance(value, SCALARS):
                yield Item("optimizer group %d %s" % (place, name), "", None, repr(value))
        for parameter in group["params"]:
            state: Dict[str, Any] = optimizer.state.get(parameter, {})
            for name, value in sorted(state.items()):
                label = "optimizer state %d %s" % (number, name)
                if torch.is_tensor(value):
                    yield item_of(label, value, parameter)
                elif isinstance(value, SCALARS):
                    yield Item(label, "", None, repr(value))
            number += 1


def _generators(torch: Any) -> Iterator[Item]:
    import random

    yield Item("generator of random", "", None, _fingerprint(repr(random.getstate()).encode()), shown=False)
    yield Item("generator of torch", "", torch.get_rng_state())
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        state = numpy.get_state()
        data = repr(state[2:]).encode() + state[1].tobytes()
        yield Item("generator of numpy", "", None, _fingerprint(data), shown=False)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        yield Item("generator of torch.cuda", "", torch.cuda.get_rng_state())


def _tensors(thing: Any, torch: Any, name: str) -> Iterator[Tuple[str, Any]]:
    if torch.is_tensor(thing):
        yield name, thing
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from _tensors(value, torch, str(key))
    elif isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], str):
        yield from _tensors(thing[1], torch, thing[0])
    elif hasattr(thing, "__iter__") and not isinstance(thing, (str, bytes)):
        for number, value in enumerate(thing):
            yield from _tensors(value, torch, "%s %d" % (name, number))
    else:
        raise TypeError("cannot compare a %s" % type(thing).__name__)


def _fingerprint(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
