"""What can be compared among replicas: parameters, buffers, states of optimizers, random generators, by name.

Each thing has a cell: ranks with the same cell hold the same part of it. A plain tensor has the empty cell, so that all
ranks of the group must agree; a DTensor's cell is its place on the mesh's dimensions over which it is sharded.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

from hangtop.inside.checks.dense import parts_of
from hangtop.inside.own_rank import distributed_now

SCALARS = (int, float, complex, bool, str, type(None))
"""What is no tensor and is compared all the same: settings of a parameter group (learning rate, betas), counters."""

LONG = 300
"""Characters of such a thing that are shown to people."""


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
    taken: Set[str] = set()
    for place, thing in enumerate(wanted):
        if isinstance(thing, str) and thing == "rng":
            items = list(_generators(torch))
        elif isinstance(thing, torch.nn.Module) and alone:
            items = [item for name, buffer in thing.named_buffers() for item in of_tensor(name, buffer)]
        elif isinstance(thing, SCALARS):
            raise TypeError("cannot compare a %s: %r" % (type(thing).__name__, thing))
        else:
            items = list(_parts(thing, torch, ""))
        # two models have parameters of the same names
        same = taken & {item.name for item in items}
        if same:
            items = [item._replace(name="%s of argument %d" % (item.name, place + 1)) for item in items]
        taken |= {item.name for item in items}
        found += items
    if not found:
        raise TypeError('nothing to compare: give a module, an optimizer, tensors, or "rng"')
    return found


_PARTIAL = "partial"
"""Cell of a DTensor that is a sum still to be made: its parts differ by nature."""


SHARDED = ("_fsdp_flattened", "ds_id")
"""Marks of a plain tensor of which each rank has a part of its own: FSDP before DTensors, and ZeRO 3."""


def of_tensor(name: str, tensor: Any, of: Any = None) -> Iterator[Item]:
    """One tensor, or the local part of a DTensor; ``of`` is the parameter that a state belongs to."""
    cell, local = cell_of(tensor, of)
    if cell == _PARTIAL:
        return
    for suffix, part in parts_of(local):
        if isinstance(part, str):
            yield Item(name + suffix, cell, None, part)
        else:
            yield Item(name + suffix, cell, part)


def cell_of(tensor: Any, of: Any = None) -> Tuple[str, Any]:
    """The cell of a tensor, and what this rank holds of it."""
    local = getattr(tensor, "to_local", None)
    if local is None:
        return _own_part() if any(hasattr(tensor if of is None else of, mark) for mark in SHARDED) else "", tensor
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return _PARTIAL, tensor
    names = mesh.mesh_dim_names or ["dim%d" % number for number in range(mesh.ndim)]
    cell = []
    for place, placement in enumerate(tensor.placements):
        if placement.is_partial():
            return _PARTIAL, tensor
        if not placement.is_replicate():
            cell.append("%s=%d" % (names[place], coordinate[place]))
    return " ".join(cell), local().detach()


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
            if name != "params":
                yield from _known(value, torch, "optimizer group %d %s" % (place, name))
        for parameter in group["params"]:
            state: Dict[str, Any] = optimizer.state.get(parameter, {})
            for name, value in sorted(state.items()):
                yield from _known(value, torch, "optimizer state %d %s" % (number, name), parameter)
            number += 1


def _known(value: Any, torch: Any, name: str, of: Any = None) -> Iterator[Item]:
    """What can be compared of an optimizer's own: it may keep functions and objects there, too."""
    try:
        yield from _parts(value, torch, name, of)
    except TypeError:
        return


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


def _parts(thing: Any, torch: Any, name: str, of: Any = None) -> Iterator[Item]:
    """All that ``thing`` holds, each by the way that leads to it."""
    if torch.is_tensor(thing):
        yield from of_tensor(name or "tensor", thing, of)
    elif isinstance(thing, torch.nn.Module):
        for own, tensor in [*thing.named_parameters(), *thing.named_buffers()]:
            yield from of_tensor(_within(name, own), tensor)
    elif isinstance(thing, torch.optim.Optimizer):
        yield from (item._replace(name=_within(name, item.name)) for item in _states(thing, torch))
    elif isinstance(thing, SCALARS) or (isinstance(thing, (tuple, list)) and thing and _numbers(thing)):
        text = repr(thing)
        short = len(text) <= LONG
        yield Item(name or "value", "", None, text if short else _fingerprint(text.encode()), shown=short)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _parts(value, torch, _within(name, str(key)), of)
    elif isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], str):
        yield from _parts(thing[1], torch, _within(name, thing[0]), of)
    elif hasattr(thing, "__array__"):
        yield from of_tensor(name or "array", torch.as_tensor(thing), of)
    elif hasattr(thing, "__iter__") and not isinstance(thing, bytes):
        for number, value in enumerate(thing):
            pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
            yield from _parts(value, torch, name if pair else "%s %d" % (name or "tensor", number), of)
    else:
        raise TypeError("cannot compare a %s" % type(thing).__name__)


def _numbers(things: Sequence[Any]) -> bool:
    """Whether these are numbers alone, as a pair of betas is."""
    return all(isinstance(thing, SCALARS) and not isinstance(thing, str) for thing in things)


def _within(name: str, own: str) -> str:
    return "%s.%s" % (name, own) if name else own


def _fingerprint(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
