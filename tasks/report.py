"""Publishes a site's report, records it in MLflow, and creates one page in Prefect."""

from __future__ import annotations

from pathlib import Path

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from tasks.errors import RETRY_RECORDING, sanitize_errors
from tasks.publish import Written, write_report
from tasks.recording import record_site
from tasks.run import Run
from tasks.site_record import SiteRecord
from tdrop.home import Workspace


def create_page(site: str, name: str, page: str) -> None:
    """Creates a page of Markdown in the current flow run; everything on it has passed disclosure."""
    key = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in f"{site}-{name}".lower())
    create_markdown_artifact(page, key=key.strip("-"), description=f"{name}, site {site}")


@task(task_run_name="report {run.site}", cache_policy=NO_CACHE)
@sanitize_errors
def publish_report(workspace: Workspace, run: Run, folder: str) -> Written:
    """Writes the site's `latest/` and the files of its record, and a summary page in Prefect."""
    written = write_report(workspace, run, Path(folder))
    create_page(run.site, "summary", written.page)
    return written


@task(task_run_name="record {record.site}", **RETRY_RECORDING)
@sanitize_errors
def record_in_mlflow(workspace: Workspace, record: SiteRecord) -> str:
    """Writes the site's record to MLflow and returns the parent run's id."""
    return record_site(workspace, record)
