"""Which columns are asked for, by what the driver knows."""

from pathlib import Path

import pytest

from collectors.node.gpus.nvidia_smi_fields import FIELDS, choose, known_fields, rejected_field

HELP_590 = (Path(__file__).parents[2] / "fixtures/devices/help-query-gpu-590.txt").read_text()


def test_a_recent_driver_is_asked_by_the_newest_names() -> None:
    known = known_fields(HELP_590)
    columns = choose(known)
    assert set(columns.fields) <= known
    assert len(columns.keys) == len(FIELDS)
    assert {"clocks_event_reasons.active", "power.draw.instant", "pcie.link.gen.gpucurrent"} <= set(columns.fields)


def test_an_alias_in_the_list_of_fields_is_known_too() -> None:
    assert {"name", "gpu_name", "pci.bus_id", "gpu_bus_id"} <= known_fields(HELP_590)


def test_a_driver_before_535_is_asked_by_the_old_names() -> None:
    listed = HELP_590.replace("clocks_event_reasons.", "clocks_throttle_reasons.")
    without = [line for line in listed.splitlines() if "power.draw.instant" not in line and "gpucurrent" not in line]
    columns = choose(known_fields("\n".join(without)))
    by_key = dict(zip(columns.keys, columns.fields, strict=True))
    assert by_key["event_reasons"] == "clocks_throttle_reasons.active"
    assert by_key["power"] == "power.draw"
    assert by_key["pcie_gen"] == "pcie.link.gen.current"


def test_what_a_driver_does_not_know_at_all_is_not_asked() -> None:
    columns = choose(known_fields(HELP_590) - {"gpu_recovery_action"})
    assert "recovery_action" not in columns.keys


def test_a_refused_field_gives_way_to_its_older_name_and_then_to_none() -> None:
    known = known_fields(HELP_590)
    assert "power.draw" in choose(known, ["power.draw.instant"]).fields
    assert "power" not in choose(known, ["power.draw.instant", "power.draw"]).keys


def test_without_a_list_the_newest_names_are_tried() -> None:
    assert choose(frozenset()) == choose(known_fields(HELP_590))


@pytest.mark.parametrize("text", ["", "Usage: nvidia-smi [OPTION]", '"foo"\nbar'])
def test_another_text_is_no_list_of_fields(text: str) -> None:
    assert known_fields(text) == frozenset()


def test_the_name_of_a_gpu_is_the_last_column_because_it_may_hold_a_comma() -> None:
    assert choose(frozenset()).keys[-1] == "name"


def test_a_refusal_names_its_field() -> None:
    assert rejected_field('Field "gpu_recovery_action" is not a valid field to query.\n\n') == "gpu_recovery_action"
    assert rejected_field("No devices were found") is None
