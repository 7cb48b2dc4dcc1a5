"""How far apart the elements of two ranks are, in words: how many, the first of them, and what is no number."""

from __future__ import annotations

import base64
from typing import Any, List, Sequence

from hangtop.inside.checks.words import Said


def compared(mine: Said, other: Said, like: int, rank: int) -> List[str]:
    """How far apart two ranks are, in words."""
    if "text" in mine or "text" in other:
        told = [one.get("text", "a tensor") for one in (mine, other)]
        return ["rank %d has %s, rank %d has %s" % (like, told[0], rank, told[1])] if all(told) else []
    if mine["shape"] != other["shape"]:
        return ["shapes: %s on rank %d, %s on rank %d" % (mine["shape"], like, other["shape"], rank)]
    if mine.get("dtype") != other.get("dtype"):
        return ["types: %s on rank %d, %s on rank %d" % (mine.get("dtype"), like, other.get("dtype"), rank)]
    return ["ranks %d and %d: %s" % (like, rank, _elements(mine, other))]


def _elements(mine: Said, other: Said) -> str:
    import torch

    one, two = _bytes(mine), _bytes(other)
    width = max(1, one.numel() // max(1, mine["end"] - mine["begin"]))
    differ = (one != two).reshape(-1, width).any(dim=1)
    places = differ.nonzero().reshape(-1).tolist()
    if not places:
        return "these %d elements are equal" % differ.numel()
    one, two = _numbers(one, mine), _numbers(two, other)
    at = _place(mine["begin"] + places[0], mine["shape"])
    told = "%d of %d elements, the first at %s: %s" % (
        len(places), differ.numel(), at, _both(one[places[0]].item(), two[places[0]].item()),
    )  # fmt: skip
    if one.dtype.is_floating_point or one.dtype.is_complex:
        finite = torch.isfinite(one) & torch.isfinite(two) & differ
        apart = (one - two).abs()[finite]
        if bool(apart.any()):
            told += "; at most %.3g apart" % apart.max().item()
        for word, test in (("NaN", torch.isnan), ("infinity", torch.isinf)):
            counts = int(test(one).sum()), int(test(two).sum())
            if any(counts):
                told += "; %s: %d and %d" % (word, counts[0], counts[1])
    alike = (one == two) | ((one != one) & (two != two))  # a zero's sign, a NaN's payload
    return told + ("; equal numbers in other bits" if bool(alike[differ].all()) else "")


def _place(number: int, shape: Sequence[int]) -> str:
    place: List[int] = []
    for size in reversed(shape):
        place.append(number % size if size else 0)
        number //= size or 1
    return "[%s]" % ", ".join(map(str, reversed(place)))


def _both(one: Any, two: Any) -> str:
    """``0.21 and 0.22``, with as many digits as tell them apart."""
    if not isinstance(one, float):
        return "%s and %s" % (one, two)
    short = "%.9g" % one, "%.9g" % two
    return "%s and %s" % (short if short[0] != short[1] else ("%.17g" % one, "%.17g" % two))


def packed(flat: Any) -> str:
    """The bytes of a flat tensor, as JSON may hold them."""
    import torch

    raw = flat.cpu().contiguous().view(torch.uint8) if flat.dtype is not torch.uint8 else flat.cpu()
    return base64.b64encode(bytes(raw.tolist())).decode("ascii")


def _bytes(said: Said) -> Any:
    import torch

    return torch.frombuffer(bytearray(base64.b64decode(said["values"])), dtype=torch.uint8)


def _numbers(raw: Any, said: Said) -> Any:
    """The elements of these bytes, wide enough to reckon with; as bytes where torch cannot reckon with their type."""
    import torch

    own = raw.view(getattr(torch, said["dtype"].partition(".")[2]))
    try:
        if own.dtype.is_complex:
            return own.to(torch.complex128)
        return own.to(torch.float64) if own.dtype.is_floating_point else own
    except (RuntimeError, NotImplementedError):
        return raw.view(-1, own.element_size())[:, 0]
