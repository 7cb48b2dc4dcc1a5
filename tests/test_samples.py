"""The registry of samples fits the samples."""

from collectors.samples.registry import IDENTITY


def test_identities_name_fields_that_exist() -> None:
    assert all(max(places, default=0) < len(kind._fields) for kind, places in IDENTITY.items())
