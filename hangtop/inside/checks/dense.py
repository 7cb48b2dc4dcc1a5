"""Of any tensor, what it consists of: dense tensors whose bytes can be read, and words for what is no tensor.

Sparse and quantised tensors, views that are yet to be conjugated and subclasses of tensors (torch's own way to take
them apart) keep their bytes elsewhere, or in several places; tensors on ``meta`` have none.
"""

from __future__ import annotations

from typing import Any, Iterator, Tuple, Union

COMPRESSED = {
    "torch.sparse_csr": ("crow_indices", "col_indices"),
    "torch.sparse_bsr": ("crow_indices", "col_indices"),
    "torch.sparse_csc": ("ccol_indices", "row_indices"),
    "torch.sparse_bsc": ("ccol_indices", "row_indices"),
}
"""Methods that give the indices of a compressed sparse tensor."""

Part = Tuple[str, Union[str, Any]]
"""What it is of its tensor (empty for the tensor itself), and a dense tensor or words."""


def parts_of(tensor: Any) -> Iterator[Part]:
    """All parts of a tensor, in an order that is the same on all ranks."""
    shape = "%s %s" % (str(tensor.dtype), list(tensor.shape)) if _initialised(tensor) else ""
    if not shape:
        yield "", "a tensor that is not initialised yet"
    elif tensor.is_meta:
        yield "", "a tensor on meta, without data: %s" % shape
    elif hasattr(tensor, "__tensor_flatten__"):
        yield " as a whole", "a %s of %s" % (type(tensor).__name__, shape)
        for name in sorted(tensor.__tensor_flatten__()[0]):
            for suffix, part in parts_of(getattr(tensor, name)):
                yield " %s%s" % (name, suffix), part
    elif tensor.is_quantized:
        yield " scale", _quantiser(tensor)
        yield "", tensor.detach().int_repr()
    elif str(tensor.layout) == "torch.sparse_coo":
        joined = tensor.detach().coalesce()
        yield " as a whole", "a sparse tensor, %s" % shape
        yield " indices", joined.indices()
        yield " values", joined.values()
    elif str(tensor.layout) in COMPRESSED:
        yield " as a whole", "%s, %s" % (str(tensor.layout), shape)
        for name in COMPRESSED[str(tensor.layout)]:
            yield " " + name, getattr(tensor.detach(), name)()
        yield " values", tensor.detach().values()
    elif str(tensor.layout) != "torch.strided":
        yield "", tensor.detach().to_dense()
    elif tensor.is_nested:
        yield "", tensor.detach().values()
    else:
        yield "", _resolved(tensor.detach())


def _initialised(tensor: Any) -> bool:
    """Whether it has a shape yet: a lazy module's has none before its first forward."""
    return not type(tensor).__name__.startswith("Uninitialized")


def _quantiser(tensor: Any) -> str:
    kind = str(tensor.qscheme())
    if "channel" in kind:
        return "%s %s %s" % (kind, tensor.q_per_channel_scales().tolist(), tensor.q_per_channel_zero_points().tolist())
    return "%s %r %d" % (kind, tensor.q_scale(), tensor.q_zero_point())


def _resolved(tensor: Any) -> Any:
    """With its conjugation and sign made real, where they are only noted beside it."""
    for noted, make in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")):
        if hasattr(tensor, noted) and getattr(tensor, noted)():
            tensor = getattr(tensor, make)()
    return tensor
