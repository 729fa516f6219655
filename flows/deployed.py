"""The flows that a Prefect worker runs, by the names that `prefect.yaml` has for them."""

from __future__ import annotations

from flows import transfer

transfer_site = transfer.transfer_site.flow
