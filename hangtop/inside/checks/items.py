"""Items to compare among replicas, by name: parameters, buffers, states of optimizers, random generators.

Each item has a shard: ranks with the same shard hold the same part. A plain tensor has the empty shard, so all ranks of
the group must agree; the shard of a DTensor is its place along the mesh dimensions over which it is sharded.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from hangtop.inside.checks.comparing import fingerprint
from hangtop.inside.distributed import distributed_now

SCALARS = (int, float, complex, bool, str, type(None))
"""Types of values that are compared as text: settings of parameter groups (learning rate, betas) and counters."""
PARTIAL = "partial"
"""Shard of a DTensor with a pending sum, whose parts differ on purpose."""
SHARDED = ("_fsdp_flattened", "ds_id")
"""Attributes of a plain tensor of which each rank has its own part: FSDP without DTensors, and ZeRO-3."""


class StateItem(NamedTuple):
    """One item of a replica."""

    name: str
    shard: str
    tensor: Any
    """The local part; None for an item that is no tensor."""
    text: str = ""
    """Text to compare for an item that is no tensor."""


def items_of(things: Tuple[Any, ...]) -> List[StateItem]:
    """All items of the arguments of ``check_same``.

    Modules, optimizers, tensors, mappings and sequences of them, and the word ``"rng"``. Raises :class:`TypeError` for
    anything else.
    """
    import torch

    found: Dict[str, StateItem] = {}
    for place, thing in enumerate(things):
        if isinstance(thing, str) and thing == "rng":
            items = list(_generators(torch))
        elif isinstance(thing, SCALARS):
            raise TypeError("cannot compare a %s: %r" % (type(thing).__name__, thing))
        else:
            items = list(_parts(thing, torch, ""))
        for item in items:
            name = item.name if item.name not in found else "%s of argument %d" % (item.name, place + 1)
            found[name] = item._replace(name=name)
    if not found:
        raise TypeError('nothing to compare: give a module, an optimizer, tensors, or "rng"')
    return [item for item in found.values() if item.shard != PARTIAL]


def _parts(thing: Any, torch: Any, name: str, of: Any = None) -> Iterator[StateItem]:
    """All items of ``thing``, each named by its path; ``of``: the parameter to which a state belongs."""
    if torch.is_tensor(thing):
        yield _tensor(name or "tensor", thing, of)
    elif isinstance(thing, torch.nn.Module):
        for own, tensor in [*thing.named_parameters(), *thing.named_buffers()]:
            yield _tensor(_within(name, own), tensor)
    elif isinstance(thing, torch.optim.Optimizer):
        yield from _states(thing, torch)
    elif isinstance(thing, SCALARS):
        yield StateItem(name or "value", "", None, repr(thing)[:300])
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _parts(value, torch, _within(name, str(key)), of)
    elif hasattr(thing, "__iter__") and not isinstance(thing, bytes):
        for number, value in enumerate(thing):
            yield from _parts(value, torch, "%s %d" % (name or "tensor", number), of)
    else:
        raise TypeError("cannot compare a %s" % type(thing).__name__)


def _states(optimizer: Any, torch: Any) -> Iterator[StateItem]:
    number = 0
    for place, group in enumerate(optimizer.param_groups):
        for name, value in sorted(group.items()):
            if name != "params":
                yield from _comparable(value, torch, "optimizer group %d %s" % (place, name))
        for parameter in group["params"]:
            for name, value in sorted(optimizer.state.get(parameter, {}).items()):
                yield from _comparable(value, torch, "optimizer state %d %s" % (number, name), parameter)
            number += 1


def _comparable(value: Any, torch: Any, name: str, of: Any = None) -> Iterator[StateItem]:
    """The comparable items of an optimizer's value, which may also be a function or another object."""
    try:
        yield from _parts(value, torch, name, of)
    except TypeError:
        return


def _tensor(name: str, tensor: Any, of: Any = None) -> StateItem:
    """Item of a tensor, or of the local part of a DTensor; a tensor without data has a fixed text."""
    shard, local = shard_of(tensor, of)
    if type(local).__name__.startswith("Uninitialized") or local.is_meta:
        return StateItem(name, shard, None, "a tensor without data")
    if local.is_quantized:
        local = local.int_repr()
    return StateItem(name, shard, local if str(local.layout) == "torch.strided" else local.detach().to_dense())


def shard_of(tensor: Any, of: Any = None) -> Tuple[str, Any]:
    """The shard of a tensor, and this rank's part."""
    local = getattr(tensor, "to_local", None)
    if local is None:
        own_part = any(hasattr(tensor if of is None else of, mark) for mark in SHARDED)
        return (_own_part() if own_part else ""), tensor
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None or any(placement.is_partial() for placement in tensor.placements):
        return PARTIAL, tensor
    names = mesh.mesh_dim_names or ["dim%d" % number for number in range(mesh.ndim)]
    places = enumerate(tensor.placements)
    shard = ["%s=%d" % (names[place], coordinate[place]) for place, one in places if not one.is_replicate()]
    return " ".join(shard), local().detach()


def _own_part() -> str:
    """A shard that no other rank has."""
    distributed = distributed_now()
    return "rank=%d" % (-1 if distributed is None else distributed.get_rank())


def _generators(torch: Any) -> Iterator[StateItem]:
    import random

    yield StateItem("generator of random", "", None, fingerprint(repr(random.getstate()).encode()))
    yield StateItem("generator of torch", "", torch.get_rng_state())
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        state = numpy.get_state()
        yield StateItem("generator of numpy", "", None, fingerprint(repr(state[2:]).encode() + state[1].tobytes()))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        yield StateItem("generator of torch.cuda", "", torch.cuda.get_rng_state())


def _within(name: str, own: str) -> str:
    return "%s.%s" % (name, own) if name else own
