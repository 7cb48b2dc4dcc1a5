"""Runs a payload from memory: serves its modules to ``import`` and calls the entry's ``main``.

The bootstrap (see ``collectors.fleet.payload``) executes this file first, under its own module name, so that other
modules can import :func:`blob` to access the payload's data.
"""

from __future__ import annotations

import json
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Dict, Optional

_blobs: Dict[str, bytes] = {}


def blob(name: str) -> Optional[bytes]:
    """Data (not a module) of the payload under this name; None if there is none."""
    return _blobs.get(name)


def keep(name: str, content: bytes) -> None:
    """Add data that arrived after the payload, for :func:`blob` to find."""
    _blobs[name] = content


class Finder:
    """Finds and loads the modules of a payload, ``{dotted name: (source, is a package)}``, without a file."""

    def __init__(self, sources: Dict[str, "tuple[bytes, bool]"]) -> None:
        self._sources = sources

    def find_spec(self, name: str, *_: object) -> Optional[ModuleSpec]:
        """Spec of a module of the payload; None for any other module."""
        found = self._sources.get(name)
        return None if found is None else ModuleSpec(name, self, origin="hangtop", is_package=found[1])  # type: ignore[arg-type]

    def create_module(self, _spec: ModuleSpec) -> Optional[ModuleType]:
        """Let Python make an ordinary module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's source. To save memory on the node, the source and its docstrings are dropped."""
        source, is_package = self._sources[module.__name__]
        code = compile(source, "hangtop:" + module.__name__, "exec", dont_inherit=True, optimize=2)
        exec(code, module.__dict__)  # noqa: S102 (our own source, sent by ourselves)
        self._sources[module.__name__] = (b"", is_package)


def run(body: bytes, arguments: bytes) -> None:
    """Unpack what ``collectors.fleet.payload`` packed, install the finder and call ``main(arguments)`` of the entry."""
    end = body.index(b"\n") + 1
    entry, files = json.loads(body[:end])
    sources = {}
    position = end
    for name, kind, size in files:
        content = body[position : position + size]
        position += size
        if kind == "blob":
            _blobs[name] = content
        else:
            sources[name] = (content, kind == "package")
    del body  # megabytes if it contains a program
    sys.meta_path.insert(0, Finder(sources))
    module = __import__(entry, fromlist=["main"])
    module.main(json.loads(arguments))
