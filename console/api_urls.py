"""The API: every call of the apps below /api/v1/, with the two that wait, and its description."""

from typing import Any

from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import View
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from console import longpolls, problems
from runs import api
from runs.calls import view

PREFIX = "/api/v1/"


class Nowhere(View):
    """What answers the API's other paths, whatever the method and without asking for a form's token: a problem document."""

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return problems.page_not_found(request, Exception())


v1 = [
    path("runs/claim", longpolls.claim),
    path("directives", longpolls.directives),
    path("", include("runs.urls")),
    path("", include("ledger.urls")),
    path("", include("reconciliation.urls")),
]
urlpatterns = [
    path("v1/", include(v1)),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api-docs"),
    path("<path:rest>", csrf_exempt(Nowhere.as_view())),
]


def describe_long_polls(endpoints: list[Any], **kwargs: Any) -> list[Any]:
    """The two plain views are described by the calls they make, through views that serve nothing else."""
    waiting = [("runs/claim", "POST", view(post=api.claim)), ("directives", "GET", view(get=api.directives))]
    return [*endpoints, *((PREFIX + where, PREFIX + where, method, twin) for where, method, twin in waiting)]


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the description names a machine's token."""

    target_class = "console.auth.BearerAuthentication"
    name = "machine"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        told = "A machine's credential: cm_<id>_<secret>. It acts only for its own agents, within its scopes."
        return {"type": "http", "scheme": "bearer", "bearerFormat": "cm_<id>_<secret>", "description": told}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the description names a person's session."""

    target_class = "console.auth.PersonAuthentication"
    name = "person"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        told = "A person's session from /accounts/login/; a POST also needs the X-CSRFToken header."
        return {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": told}
