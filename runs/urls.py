"""The paths of the calls about runs, below /api/v1/. The two that wait are added by the composition root."""

from django.urls import path

from runs import api, life, reading
from runs.calls import view

urlpatterns = [
    path("runs", view(get=reading.list_runs, post=api.create_run)),
    path("runs/<str:run>", view(get=reading.get_run)),
    path("runs/<str:run>/events", view(get=reading.list_events)),
    path("runs/<str:run>/cancellation", view(get=reading.preview_cancellation, post=reading.request_cancellation)),
    path("runs/<str:run>/heartbeat", view(post=api.heartbeat)),
    path("runs/<str:run>/heard", view(post=api.heard)),
    path("runs/<str:run>/steps", view(post=api.start_step)),
    path("runs/<str:run>/steps/<str:key>/finish", view(post=api.finish_step)),
    path("runs/<str:run>/suspend", view(post=api.suspend)),
    path("runs/<str:run>/stopped", view(post=api.stopped)),
    path("runs/<str:run>/release", view(post=api.release)),
    path("runs/<str:run>/finish", view(post=api.finish_run)),
    path("runs/<str:run>/approvals", view(post=life.request_approval)),
    path("approvals", view(get=life.list_approvals)),
    path("approvals/<str:approval>/decision", view(post=life.decide_approval)),
    path("runs/<str:run>/cleanups", view(post=life.register_cleanup)),
    path("cleanups/claim", view(post=life.claim_cleanup)),
    path("cleanups/<str:cleanup>/heartbeat", view(post=life.heartbeat_cleanup)),
    path("cleanups/<str:cleanup>/finish", view(post=life.finish_cleanup)),
    path("cancellations/bulk", view(post=life.request_bulk)),
    path("cancellations/bulk/<str:job>", view(get=life.get_bulk)),
    path("cancellations", view(post=reading.cancel_by_key)),
    path("workers/<str:holder>/gone", view(post=api.gone)),
]
