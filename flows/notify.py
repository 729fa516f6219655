"""A Prefect automation that tells people, by a notification block of theirs, of a site that needs a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect.events import emit_event
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from flows.deployments import FLOW
from tdrop.base import UsageError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

    from flows.transfer import Transferred

#: What the automation is called; there is one a server.
NAME = "tdrop: a site needs a look"
#: The event of a run that ended well and whose verdict is not go.
SHIFTED = "tdrop.site.shifted"
#: A site that is stopped fails its run; a person who cancels one knows.
ENDED_BADLY = ("prefect.flow-run.Failed", "prefect.flow-run.Crashed", "prefect.flow-run.TimedOut")
SENTENCE = "tdrop.sentence"
#: Prefect writes this and the exception's class before its sentence, which is all that people want.
EXCEPTION = "Flow run encountered an exception: "
#: Both kinds of event have their words among the labels of what they are about; all of them have passed disclosure.
BODY = (
    f"{{% set said = event.resource['{SENTENCE}'] or event.resource['prefect.state-message'] %}}"
    f"{{{{ said.split(': ', 2)[-1] if said.startswith('{EXCEPTION}') else said }}}}\n\n"
    "{{ event.resource['prefect.resource.name'] }}, {{ event.occurred.strftime('%Y-%m-%d %H:%M UTC') }}"
)


def tell_of_shift(flow: Any, flow_run: Any, state: Any) -> None:
    """Emits an event when a site's run ended with another verdict than go; a hook of the site's flow."""
    came: Transferred = state.result(raise_on_failure=False)
    summary = came.summary
    if summary.verdict == "go" or came.unchanged:
        return
    sentence = f"{summary.title}: the verdict is {summary.verdict}; read its report before anybody uses the model"
    emit_event(
        SHIFTED,
        resource={
            "prefect.resource.id": f"tdrop.site.{summary.site}",
            "prefect.resource.name": flow_run.name,
            SENTENCE: sentence,
        },
        related=[
            {"prefect.resource.id": f"prefect.flow.{flow_run.flow_id}", "prefect.resource.role": "flow"}
            | {"prefect.resource.name": flow.name},
            {"prefect.resource.id": f"prefect.flow-run.{flow_run.id}", "prefect.resource.role": "flow-run"},
        ],
    )


def keep_automation(client: SyncPrefectClient, block: str) -> None:
    """Sets up the automation with a block of the server, or turns the one that is there to it.

    Args:
        client: The server's.
        block: TYPE/NAME of a notification block, such as `custom-webhook/ward` or `sendgrid-email/ward`.
    """
    automation = AutomationCore(
        name=NAME,
        description="Kept by `tdrop deploy --notify`: a site stopped, its run failed or its patients shifted.",
        trigger=EventTrigger(
            expect={*ENDED_BADLY, SHIFTED},
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": FLOW},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[SendNotification(block_document_id=_find_block(client, block), subject=NAME, body=BODY)],
    )
    existing = client.read_automations_by_name(NAME)
    if existing:
        client.update_automation(existing[0].id, automation)
    else:
        client.create_automation(automation)


def _find_block(client: SyncPrefectClient, block: str) -> Any:
    """The block's id; a sentence says how to make one."""
    kind, _, name = block.partition("/")
    how = "make one on Prefect's page under Blocks and give it as TYPE/NAME, such as custom-webhook/ward"
    if not kind or not name:
        raise UsageError(f"'{block}' does not name a notification block; {how}")
    try:
        found = client.read_block_document_by_name(name, kind)
    except ObjectNotFound:
        raise UsageError(f"the Prefect server has no block '{block}'; {how}") from None
    if "notify" not in ((found.block_schema and found.block_schema.capabilities) or ()):
        raise UsageError(f"block '{block}' cannot send notifications; {how}")
    return found.id
