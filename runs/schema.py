"""What the calls about runs take (strictly) and answer, as the OpenAPI schema shows it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from runs import states
from runs.fields import INT8_MAX, Day, Json, JsonObject, Many, Moment, Name, Number, Shape, Text, Uid, Whole, Word, Words

LEASE = "The token of the lease that was given with the run."
LIMIT, LIMIT_MAX = 50, 200
WAIT_S_MAX = 25.0
PAIRS_MAX = 200
PLAN_MAX = 500
STEPS_MAX = 100


def lease() -> Name:
    return Name(max_length=64, help_text=LEASE)


def step_key(**options: Any) -> Name:
    return Name(**{"max_length": 200, "slash": False, "help_text": "The step's key, the same on every worker.", **options})


# Worker side: what is taken


class ParentRun(Shape):
    run = Name(max_length=60, help_text="The parent's id or reference.")
    lease = lease()


class ClaimAtOnce(Shape):
    holder = Name(max_length=200, help_text="Names this process, for ever.")
    ttl_s = Number(default=30.0, min_value=0.1, max_value=600, help_text="Seconds until the lease ends unless it is renewed.")


class NewRunBody(Shape):
    agent = Name(max_length=100)
    title = Text(max_length=300)
    business_ref = Name(max_length=200, required=False, allow_null=True, help_text="Meaningful to people and providers, such as PO-1042.")
    client_key = Name(max_length=200, required=False, allow_null=True, help_text="Creating again with the same key gives the same run.")
    input = Json(required=False)
    labels = JsonObject(required=False, allow_null=True)
    plan = Many(child=step_key(), required=False, allow_null=True, max_length=PLAN_MAX, help_text="Step keys that are known beforehand.")
    deadline_at = Moment(required=False, allow_null=True, help_text="An open run is cancelled then.")
    parent = ParentRun(required=False, allow_null=True)
    runtime = Name(max_length=40, required=False, allow_null=True)
    runtime_ref = Name(max_length=200, required=False, allow_null=True)
    claim = ClaimAtOnce(required=False, allow_null=True)


class ClaimBody(Shape):
    holder = Name(max_length=200, help_text="Names this process, for ever.")
    agents = Many(child=Name(max_length=100), min_length=1, max_length=50)
    ttl_s = Number(default=30.0, min_value=0.1, max_value=600)
    wait_s = Number(default=0.0, min_value=0, max_value=WAIT_S_MAX, help_text="How many seconds to wait for a run.")
    runtime = Name(max_length=40, required=False, allow_null=True, help_text="Only runs that execute there.")


class LeaseBody(Shape):
    lease = lease()


class StepBeat(Shape):
    key = step_key()
    progress = Number(min_value=0, max_value=1, required=False, allow_null=True)
    message = Text(max_length=500, allow_blank=True, required=False, allow_null=True)


class HeartbeatBody(Shape):
    lease = lease()
    steps = Many(child=StepBeat(), required=False, max_length=STEPS_MAX)


class DirectivesQuery(Shape):
    runs = serializers.CharField(help_text=f"run:epoch,… for at most {PAIRS_MAX} runs.", max_length=20_000)
    heard = serializers.CharField(required=False, allow_blank=True, max_length=20_000, help_text="Runs known to be cancelled: run,…")
    wait_s = serializers.FloatField(default=0.0, min_value=0, max_value=WAIT_S_MAX)


class StepBody(Shape):
    lease = lease()
    key = step_key()
    kind = Word(choices=states.STEP_KINDS)
    title = Text(max_length=300, allow_blank=True, required=False, allow_null=True)
    hears_cancel_every_s = Number(min_value=0.01, max_value=86_400, required=False, allow_null=True, help_text="Null: it does not hear.")
    deadline_s = Number(min_value=0.01, max_value=31_536_000, required=False, allow_null=True)
    input_digest = Name(max_length=64, required=False, allow_null=True)


class StepFinishBody(Shape):
    lease = lease()
    outcome = Word(choices=("done", "failed"))
    result = Json(required=False)
    error = Text(max_length=20_000, allow_blank=True, required=False, allow_null=True)
    cost = JsonObject(required=False, allow_null=True)


class SuspendBody(Shape):
    lease = lease()
    until = Word(choices=("evidence", "operation", "child", "time"))
    operation_id = Uid(required=False, allow_null=True)
    child = Name(max_length=60, required=False, allow_null=True, help_text="The child's id or reference.")
    wake_at = Moment(required=False, allow_null=True)


class GoneBody(Shape):
    how = Text(max_length=200, help_text="How the process ended, such as: killed by SIGKILL.")


class FinishBody(Shape):
    lease = lease()
    outcome = Word(choices=("completed", "failed"))
    result = Json(required=False)
    error = Text(max_length=20_000, allow_blank=True, required=False, allow_null=True)


# Reading and stopping: what is taken


class PageQuery(Shape):
    cursor = serializers.CharField(required=False, max_length=500, help_text="`next` or `previous` of another page.")
    limit = serializers.IntegerField(default=LIMIT, min_value=1, max_value=LIMIT_MAX)


def search() -> serializers.CharField:
    wanted = "A reference, the start of a business reference, or a provider's id."
    return serializers.CharField(required=False, max_length=200, help_text=wanted)


class RunsQuery(PageQuery):
    status = Words(required=False, choices=states.STATUSES, help_text=f"Any of: {', '.join(states.STATUSES)}.")
    agent = Words(required=False)
    q = serializers.CharField(
        required=False, max_length=200, help_text="A reference, the start of a business reference, or a provider's id."
    )
    business_ref = serializers.CharField(required=False, max_length=200)
    started_from = Day(required=False)
    started_to = Day(required=False, help_text="Not included.")
    cancelled_by = serializers.CharField(required=False, max_length=200, help_text="A name or an id; `me` for oneself.")


class EventsQuery(Shape):
    after = serializers.IntegerField(default=0, min_value=0, max_value=INT8_MAX, help_text="The seq after which to go on.")
    limit = serializers.IntegerField(default=LIMIT_MAX, min_value=1, max_value=LIMIT_MAX)


class CancellationBody(Shape):
    mode = Word(choices=("cancel", "terminate"))
    reason = Text(max_length=2000, allow_blank=True, required=False, allow_null=True)
    seen = Whole(min_value=0, max_value=INT8_MAX, required=False, allow_null=True, help_text="The version that was on the screen.")
    plan_digest = Name(max_length=64, required=False, allow_null=True, help_text="Of the preview; needed to terminate.")


class CancelByKeyBody(Shape):
    agent = Name(max_length=100)
    client_key = Name(max_length=200)
    reason = Text(max_length=2000, allow_blank=True)


# What is answered


class Who(serializers.Serializer[Any]):
    type = serializers.CharField(help_text="person, machine or system")
    id = serializers.CharField()
    name = serializers.CharField(help_text="As it was then.")


class RunCancel(serializers.Serializer[Any]):
    mode = serializers.CharField(help_text="cancel or terminate")
    by = Who()
    channel = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    at = serializers.DateTimeField()
    position = serializers.IntegerField(help_text="Its place in the run's order of events.")


def when(**options: Any) -> serializers.DateTimeField:
    return serializers.DateTimeField(allow_null=True, **options)


class RunLine(serializers.Serializer[Any]):
    """A run in a list."""

    id = serializers.UUIDField()
    ref = serializers.CharField()
    agent = serializers.CharField()
    title = serializers.CharField()
    business_ref = serializers.CharField(allow_null=True)
    state = serializers.CharField()
    settlement = serializers.CharField(help_text="clear, pending, unresolved or reconciled")
    status = serializers.CharField(help_text="What screens and filters use.")
    version = serializers.IntegerField()
    parent = serializers.UUIDField(allow_null=True)  # type: ignore[assignment]
    root = serializers.UUIDField(allow_null=True)  # type: ignore[assignment]
    labels = JsonObject()
    created_at = serializers.DateTimeField()
    started_at = when()
    asked_at = when(help_text="A cancel was committed.")
    heard_at = when(help_text="The worker acknowledged it.")
    quiet_at = when(help_text="Nothing of the run is acting any more.")
    settled_at = when(help_text="Every effect is known.")
    closed_at = when()
    deadline_at = when()
    cancel = RunCancel(allow_null=True)
    in_flight = serializers.IntegerField()
    in_doubt = serializers.IntegerField()
    needs_person = serializers.IntegerField()
    unknowable = serializers.IntegerField()
    quiet_basis = serializers.CharField(allow_null=True, help_text="stopped, reaped or presumed")
    waits_for = Json()
    landed = serializers.IntegerField()
    effects_total = serializers.IntegerField()
    result = Json()
    error = serializers.CharField(allow_null=True)


class LeaseHeld(serializers.Serializer[Any]):
    holder = serializers.CharField()
    epoch = serializers.IntegerField()
    expires_at = serializers.DateTimeField()


class RunDetail(RunLine):
    """A run."""

    client_key = serializers.CharField(allow_null=True)
    input = Json()
    plan = serializers.ListField(child=serializers.CharField())
    owner = serializers.CharField(allow_blank=True)
    runtime = serializers.CharField(allow_null=True)
    runtime_ref = serializers.CharField(allow_null=True)
    refused_after_cancel = serializers.IntegerField(help_text="Acts that were refused after the cancel.")
    lease = LeaseHeld(allow_null=True)


class PageOf(serializers.Serializer[Any]):
    next = serializers.CharField(allow_null=True, help_text="Send as `cursor` for the next page.")
    previous = serializers.CharField(allow_null=True)


class RunPage(PageOf):
    results = RunLine(many=True)


class StepLine(serializers.Serializer[Any]):
    key = serializers.CharField()
    kind = serializers.CharField()
    title = serializers.CharField(allow_null=True)
    state = serializers.CharField()
    epoch = serializers.IntegerField()
    hears_cancel = serializers.BooleanField()
    deadline_at = when()
    progress = serializers.FloatField(allow_null=True)
    message = serializers.CharField(allow_null=True)
    result = Json()
    error = serializers.CharField(allow_null=True)
    cost = Json()
    started_at = serializers.DateTimeField()
    finished_at = when()


class LeaseGiven(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="The secret that acts carry as `lease`.")
    epoch = serializers.IntegerField()
    expires_at = serializers.DateTimeField()
    expires_in_s = serializers.FloatField()


class Takeover(serializers.Serializer[Any]):
    """A run with the right to act for it."""

    run = RunDetail()
    lease = LeaseGiven()
    steps = StepLine(many=True, help_text="The finished ones, with their results.")
    effects = serializers.ListField(child=JsonObject(), help_text="With their outcomes.")


class Directive(serializers.Serializer[Any]):
    directive = serializers.CharField(help_text="continue, cancel or stop")
    lease_expires_at = serializers.DateTimeField()
    lease_expires_in_s = serializers.FloatField(help_text="Count it from when you asked.")
    cancel = RunCancel(required=False)


class DirectiveLine(serializers.Serializer[Any]):
    run = serializers.CharField()
    ref = serializers.CharField(required=False)
    epoch = serializers.IntegerField()
    directive = serializers.CharField(help_text="cancel (finish what is in flight, start nothing) or stop (the lease is over)")
    why = serializers.CharField(help_text="cancelled, lease_lost or not_found")
    state = serializers.CharField(required=False)
    position = serializers.IntegerField(required=False)
    cancel = RunCancel(required=False)


class Directives(serializers.Serializer[Any]):
    directives = DirectiveLine(many=True)


class RunState(serializers.Serializer[Any]):
    run = serializers.CharField()
    state = serializers.CharField()
    status = serializers.CharField()
    waits_for = Json()


class StepRecorded(serializers.Serializer[Any]):
    recorded = serializers.CharField(help_text="done, failed, late or discarded")
    directive = serializers.CharField()
    cancel = RunCancel(required=False)


class Gone(serializers.Serializer[Any]):
    runs = serializers.ListField(child=serializers.CharField(), help_text="The runs for which this was news.")


class EventLine(serializers.Serializer[Any]):
    seq = serializers.IntegerField()
    kind = serializers.CharField()
    subject = serializers.CharField(allow_null=True)
    actor = Who()
    channel = serializers.CharField(allow_null=True)
    data = JsonObject()  # type: ignore[assignment]
    at = serializers.DateTimeField()


class EventPage(serializers.Serializer[Any]):
    results = EventLine(many=True)
    next = serializers.IntegerField(allow_null=True, help_text="Send as `after`; null at the end.")


Lines = extend_schema_field({"type": "array", "items": {"type": "object", "additionalProperties": {}}})(
    type("Lines", (serializers.ListField,), {})
)


class CancelPreview(serializers.Serializer[Any]):
    """What a cancel would meet now."""

    run = serializers.CharField()
    id = serializers.UUIDField()
    state = serializers.CharField()
    version = serializers.IntegerField()
    in_flight = Lines(help_text="Attempts whose sender is not known to be stopped: they can't be called back.")
    running = Lines()
    unresolved = Lines(help_text="Effects in doubt whose senders have stopped.")
    withheld = Lines(help_text="Declared effects that would not be sent.")
    not_started = Lines()
    landed = Lines(help_text="Stays as it is.")
    cleanups = Lines()
    children = Lines(help_text="The same for each child run.")
    plan_digest = serializers.CharField()


class Receipt(serializers.Serializer[Any]):
    """What a cancel met: written once, never reworded."""

    run = serializers.CharField()
    id = serializers.UUIDField()
    mode = serializers.CharField()
    position = serializers.IntegerField(allow_null=True, help_text="Nothing of the run starts after it.")
    state = serializers.CharField()
    asked_at = when()
    in_flight = Lines(help_text="The exact list of attempts that may still act.")
    running = Lines()
    unresolved = Lines()
    withheld = Lines()
    not_started = Lines()
    landed = Lines()
    children = Lines(help_text="The receipt of each child run.")
    cleanups = Lines()
    changed_since_seen = Lines()


class StoredCancel(serializers.Serializer[Any]):
    """A cancel that came before its run: it applies before the run's first step."""

    stored = serializers.BooleanField()
    agent = serializers.CharField()
    client_key = serializers.CharField()
    asked_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


def either(name: str, *shapes: type[serializers.Serializer[Any]]) -> PolymorphicProxySerializer:
    """One of several shapes."""
    return PolymorphicProxySerializer(component_name=name, serializers=list(shapes), resource_type_field_name=None)


RunCreated = either("RunCreated", RunDetail, Takeover)
CancelTaken = either("CancelTaken", StoredCancel, Receipt)
