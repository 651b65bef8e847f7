"""Which door answers which path."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from console import health, problems
from console.live import polling
from console.metrics import exposition

# Pages of allauth that this product does not have: addresses are not managed, passwords are reset through an administrator's link, and
# other accounts come from the directory alone. They keep their names, because allauth's other pages look them up.
CLOSED = (
    "email/",
    "confirm-email/",
    "password/set/",
    "password/reset/$",
    "password/reset/done/",
    "reauthenticate/code/",
    "login/code/",
    "3rdparty/$",
    "3rdparty/login/error/",
    "social/",
)


def closed(request: HttpRequest, *args: str) -> HttpResponse:
    """There is no such page here."""
    raise Http404


urlpatterns = [
    path("healthz", health.alive),
    path("readyz", health.can_serve),
    path("health/live/", health.alive),
    path("health/ready/", health.ready),
    path("internal/metrics", exposition.metrics),
    path("accounts/", RedirectView.as_view(url="/profile/")),
    re_path(rf"^accounts/(?:{'|'.join(CLOSED)})", closed),
    path("accounts/", include("allauth.urls")),
    path("api/", include("console.api_urls")),
    path("", include("console.page_urls")),
    path("live/poll", polling.poll),
]

handler400 = problems.bad_request
handler403 = problems.permission_denied
handler404 = problems.page_not_found
handler500 = problems.server_error
