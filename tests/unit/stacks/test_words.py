"""The part of the samples that goes along with the dumper."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from collectors import samples
from collectors.probes.stacks.dumper import MODULES
from collectors.probes.stacks.words import spoken


def test_what_is_cut_out_is_what_it_was() -> None:
    cut = ModuleType("cut")
    sys.modules["cut"] = cut
    exec(spoken(MODULES), cut.__dict__)
    assert cut.StackDump._fields == samples.StackDump._fields
    assert cut.StackDump._field_defaults == samples.StackDump._field_defaults
    assert cut.Frame("f", "x.py", 1, False) == samples.Frame("f", "x.py", 1, False)
    assert not hasattr(cut, "GpuSample")


def test_a_module_without_samples_needs_none() -> None:
    assert b"class " not in spoken(("collectors.node.files",))


def test_a_name_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.probes.stacks.words._names", lambda _modules: ["Nothing"])
    with pytest.raises(ValueError, match="has no Nothing"):
        spoken(("collectors.node.look",))
