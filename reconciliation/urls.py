"""The paths of the calls about cases, looks and webhooks, below /api/v1/."""

from django.urls import path

from reconciliation import api
from runs.calls import view

urlpatterns = [
    path("cases", view(get=api.list_cases)),
    path("cases/<str:case>", view(get=api.get_case)),
    path("cases/<str:case>/claim", view(post=api.claim_case)),
    path("cases/<str:case>/settlement", view(post=api.settle_case)),
    path("cases/<str:case>/confirmation", view(post=api.confirm_case)),
    path("cases/<str:case>/pass", view(post=api.pass_case)),
    path("cases/<str:case>/files", api.FileView.as_view()),
    path("effects/<str:effect>/look", view(post=api.look_now)),
    path("effects/<str:effect>/case", view(post=api.open_case)),
    path("webhooks/<str:provider>", api.WebhookView.as_view()),
]
