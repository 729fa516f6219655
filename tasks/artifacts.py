"""Prefect artifacts that a person can read; everything on them has passed disclosure."""

from __future__ import annotations

import logging
import re

from tasks.step import in_a_flow_run

logger = logging.getLogger(__name__)


def leave(site: str, stage: str, markdown: str) -> None:
    """Leaves a page for one stage of one site; without a run around it, does nothing.

    A page is a courtesy: when the server does not take it, the work goes on.
    """
    if not in_a_flow_run():
        return
    from prefect.artifacts import create_markdown_artifact

    key = re.sub(r"[^a-z0-9]+", "-", f"{site} {stage}".lower()).strip("-")
    try:
        create_markdown_artifact(markdown, key=key, description=f"{stage}, site {site}")
    except Exception as error:  # the server's trouble must not cost the run
        logger.warning("site %s, %s: no artifact was left (%s)", site, stage, type(error).__name__)
