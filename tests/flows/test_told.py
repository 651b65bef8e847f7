"""What real processes tell a real receiver while an order goes on that was cancelled in flight."""

import json

from console.notifications import endpoints, secrets, states
from console.notifications.endpoints import Wanted
from console.notifications.models import Cursor
from runs import actors
from runs.actors import Actor
from tests.console.receiving import Receiver, receiver  # noqa: F401
from tests.flows.driver import Flow, until

KEEPER = Actor("person", "u-keeper", "Kay Keeper", "web", frozenset({actors.NOTIFICATION_CHANGE}))


def test_an_order_that_lands_after_its_cancel_is_told_once(flow: Flow, receiver: Receiver, settings) -> None:  # noqa: F811
    settings.NOTIFICATIONS_GUARD = receiver.guard
    flow.shaken.add("celery")
    flow.world.stop("celery")
    flow.world.start("celery", COUNTERMAND_NOTIFICATIONS_GUARD=json.dumps(receiver.guard))
    endpoint = endpoints.add(KEEPER, Wanted("Pager", states.WEBHOOK, receiver.url, (states.LANDED_AFTER_CANCEL,)))
    test = endpoints.test(KEEPER, endpoint.pk)
    receiver.wait_for(1)
    until(Cursor.objects.exists, "the log to be followed")
    flow.host()
    flow.hold("after_accept", "PO-9")
    run = flow.start("PO-9")
    flow.wait_log("PO-9", "held")
    flow.accepted(run)
    receiver.answers = [500]
    flow.world.release()
    flow.wait_status(run, "cancelled")
    told = [one for one in receiver.wait_for(3) if one.id != test.webhook_id]
    assert len({one.id for one in told}) == 1 and told[0].raw == told[1].raw
    message = told[1].verified(secrets.of(endpoint)[0])
    effect = flow.effect(run)
    assert message["type"] == "landed_after_cancel"
    assert message["data"]["reference"] == effect["ref"] and message["data"]["run"] == run
    until(lambda: endpoint.deliveries.filter(state=states.DELIVERED).count() == 2, "both messages to be recorded as delivered")
