"""Where every page of the product is visited, and by whom. A page that is in no list here fails `test_every_page_has_a_visit`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve

from console.urls import closed

# Who looks: "" is nobody, "second" has a second factor, "half" has not given theirs yet. What is in braces is what `house.furnish` names.
# The same page in another state is worth another visit.
VISITS: tuple[tuple[str, str], ...] = (
    ("", "/accounts/login/"),
    ("", "/accounts/login/?next=/runs/"),
    ("", "/accounts/signup/"),
    ("", "/accounts/inactive/"),
    ("", "/accounts/password/reset/key/done/"),
    ("", "/accounts/password/reset/key/1-used/"),
    ("", "/accounts/3rdparty/login/cancelled/"),
    ("support", "/runs/"),
    ("support", "/runs/?agent=purchase-order"),
    ("support", "/runs/?q=nothing+of+that+name"),
    ("support", "/runs/{running}/"),
    ("support", "/runs/{cancelling}/"),
    ("support", "/runs/{stopped}/"),
    ("support", "/runs/{failed}/"),
    ("support", "/runs/{bare}/"),
    ("support", "/runs/{waiting}/"),
    ("support", "/runs/{doubtful}/"),
    ("support", "/runs/{running}/cancel"),
    ("support", "/runs/{running}/terminate"),
    ("support", "/runs/{stopped}/cancel"),
    ("support", "/bulk/cancel?run={bare}&run={waiting}"),
    ("support", "/bulk/cancel?run=R-NOTHING"),
    ("support", "/bulk/{bulk}/"),
    ("support", "/effects/{landed}/again"),
    ("support", "/effects/{landed}/undo"),
    ("support", "/effects/{doubt}/case"),
    ("support", "/undo/{undo}/"),
    ("support", "/undo/{undo}/withdraw"),
    ("support", "/cases/"),
    ("support", "/cases/?tab=mine"),
    ("support", "/cases/?tab=settled"),
    ("support", "/cases/providers"),
    ("support", "/cases/{free}/"),
    ("support", "/cases/{mine}/"),
    ("support", "/cases/{theirs}/"),
    ("support", "/cases/{settled}/"),
    ("support", "/cases/{theirs}/take-over"),
    ("support", "/approvals/"),
    ("support", "/approvals/?tab=asked"),
    ("support", "/search/"),
    ("support", "/search/?q=PO-"),
    ("support", "/metrics/"),
    ("support", "/help/"),
    ("support", "/profile/"),
    ("support", "/demo/"),
    ("support", "/demo/components/"),
    ("support", "/demo/components/cancel"),
    ("support", "/accounts/logout/"),
    ("support", "/accounts/reauthenticate/"),
    ("support", "/accounts/password/change/"),
    ("support", "/accounts/sessions/"),
    ("support", "/accounts/2fa/"),
    ("support", "/accounts/2fa/totp/activate/"),
    ("half", "/accounts/2fa/authenticate/"),
    ("second", "/accounts/2fa/"),
    ("second", "/accounts/2fa/reauthenticate/"),
    ("second", "/accounts/2fa/totp/deactivate/"),
    ("second", "/accounts/2fa/recovery-codes/"),
    ("second", "/accounts/2fa/recovery-codes/generate/"),
    ("support", "/audit/"),
    ("support", "/runs/R-NOTHING/"),
    ("approver", "/approvals/"),
    ("approver", "/approvals/?tab=decided"),
    ("approver", "/approvals/{approval}/approve"),
    ("approver", "/approvals/{approval}/reject"),
    ("approver", "/undo/{undo}/"),
    ("approver", "/undo/{undo}/approve"),
    ("approver", "/undo/{undo}/reject"),
    ("auditor", "/audit/"),
    ("auditor", "/audit/?run={stopped}"),
    ("auditor", "/audit/?provider=nobody"),
    ("auditor", "/audit/export"),
    ("auditor", "/audit/runs/{stopped}/"),
    ("admin", "/settings/"),
    ("admin", "/settings/undo-rules/"),
    ("admin", "/settings/notifications/"),
    ("admin", "/settings/notifications/new"),
    ("admin", "/settings/notifications/{endpoint}/"),
    ("admin", "/settings/people/"),
    ("admin", "/settings/people/new"),
    ("admin", "/settings/people/{person}/"),
    ("admin", "/settings/machines/"),
    ("admin", "/settings/machines/new"),
)

# What answers a GET and is no page of ours, with the reason. The sweep asks for none of these.
NO_PAGE = {
    "": "leads to the list of runs",
    "accounts/": "leads to the profile",
    "healthz": "plain text for a supervisor",
    "readyz": "plain text for a supervisor",
    "health/live/": "JSON for a supervisor",
    "health/ready/": "JSON for a supervisor",
    "internal/metrics": "text for Prometheus",
    "live/poll": "frames for our own script",
    "live/actions": "fragments for our own script",
    "runs/<str:ref>/account.json": "a download",
    "runs/<str:ref>/account.csv": "a download",
    "runs/<str:ref>/cancel/plan": "a part of the cancel dialog",
    "runs/<str:ref>/doing": "a part of the run's page",
    "effects/<str:ref>": "leads to the effect on its run's page",
    "cases/<str:ref>/files/<str:pk>": "a download",
    "accounts/2fa/recovery-codes/download/": "a download",
    "accounts/3rdparty/signup/": "leads to signing in: nobody signs up",
    "accounts/oidc/(?P<provider_id>[^/]+)/login/": "leads to the directory",
    "accounts/oidc/(?P<provider_id>[^/]+)/login/callback/": "where the directory leads back to",
}


def pages() -> Iterator[str]:
    """The route of everything that answers a GET and is no API: each is a page, or says in `NO_PAGE` why not."""
    for route, pattern in _walk(get_resolver()):
        methods = getattr(pattern.callback, "methods", ("GET",))
        if "GET" in methods and not route.startswith("api/") and pattern.callback is not closed and not _is_closed(route):
            yield route


def _is_closed(route: str) -> bool:
    """A page of allauth that this product does not have."""
    example = re.sub(r"\(\?P<\w+>[^)]*\)", "x", route).removesuffix("$")
    try:
        return resolve(f"/{example}").func is closed
    except Resolver404:
        return False


def _walk(resolver: URLResolver, before: str = "") -> Iterator[tuple[str, URLPattern]]:
    for one in resolver.url_patterns:
        route = before + str(one.pattern).removeprefix("^")  # as `resolve` names it
        if isinstance(one, URLResolver):
            yield from _walk(one, route)
        else:
            yield route, one
