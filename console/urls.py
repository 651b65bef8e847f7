"""Which door answers which path."""

from django.urls import include, path

from console import health, problems
from console.live import polling
from console.metrics import exposition

urlpatterns = [
    path("healthz", health.alive),
    path("readyz", health.can_serve),
    path("health/live/", health.alive),
    path("health/ready/", health.ready),
    path("internal/metrics", exposition.metrics),
    path("accounts/", include("allauth.urls")),
    path("api/", include("console.api_urls")),
    path("", include("console.page_urls")),
    path("live/poll", polling.poll),
]

handler400 = problems.bad_request
handler403 = problems.permission_denied
handler404 = problems.page_not_found
handler500 = problems.server_error
