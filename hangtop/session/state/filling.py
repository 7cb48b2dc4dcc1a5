"""Mappings that stay empty on most of thousands of nodes: one and the same, until there is something in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_NOTHING: dict[Any, Any] = {}


def nothing() -> Mapping[Any, Any]:
    """What all hold that have nothing; for ``default_factory``."""
    return _NOTHING


def with_one(held: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """The same with one more: in place, but for the first, which begins a dictionary of its own."""
    if not held or not isinstance(held, dict):
        return {**held, key: value}
    held[key] = value
    return held


def without(held: Mapping[K, V], key: K) -> Mapping[K, V]:
    """The same without one."""
    return {other: value for other, value in held.items() if other != key} if key in held else held
