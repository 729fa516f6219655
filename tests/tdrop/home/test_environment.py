"""What is set before other packages are imported."""

from __future__ import annotations

import os

import pytest

from tdrop.home import prepare_environment


@pytest.mark.parametrize("address", [None, ""])
def test_an_address_set_to_nothing_is_no_address(address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's files then lie below the home; without that every command ended in a KeyError."""
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    if address is not None:
        monkeypatch.setenv("PREFECT_API_URL", address)
    prepare_environment()
    assert os.environ["PREFECT_HOME"].endswith("prefect")
