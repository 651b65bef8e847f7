"""Whether this web process lives, can serve, and whether due work is being claimed. Open to anybody, and tells no more."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from console import beats


@never_cache
@require_safe
def alive(request: HttpRequest) -> JsonResponse:
    """`/healthz`, `/health/live/`: the process answers."""
    return JsonResponse({"alive": True})


@never_cache
@require_safe
def can_serve(request: HttpRequest) -> JsonResponse:
    """`/readyz`, for load balancers: pages and the API work here. Without workers they still do, and so does cancelling."""
    return _answer(_serves())


@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """`/health/ready/`, for alarms: all of that, and due work is being claimed by the sweeps."""
    return _answer(_serves() or _claims())


def _answer(lacks: str) -> JsonResponse:
    return JsonResponse({"ready": False, "detail": lacks}, status=503) if lacks else JsonResponse({"ready": True})


def _serves() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return "" if _migrated() else "The database lacks migrations of this version."
    except DatabaseError:
        return "The database does not answer."


def _claims() -> str:
    try:
        late = beats.late()
    except DatabaseError:
        return "The database does not answer."
    return f"Due work is not being claimed: {len(late)} of {len(beats.sweeps())} sweeps are late." if late else ""


def _migrated() -> bool:
    """Looked up until it is true: what is applied stays applied while this process runs."""
    global _seen_migrated
    if not _seen_migrated:
        executor = MigrationExecutor(connection)
        _seen_migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _seen_migrated


_seen_migrated = False
