"""The addresses of the pages."""

from django.conf import settings
from django.urls import include, path
from django.views.generic import RedirectView

from console.metrics import pages as metrics
from console.pages import actions, again, approvals, audit, bulk, cases, help, machines, people, profile, runs, search, stops
from console.pages import settings as settings_pages

urlpatterns = [
    path("", RedirectView.as_view(url="/runs/")),
    path("help/", help.keys_and_words),
    path("search/", search.find),
    path("runs/", runs.run_list),
    path("runs/<str:ref>/", runs.run_detail),
    path("runs/<str:ref>/account.json", runs.account_file, {"form": "json"}),
    path("runs/<str:ref>/account.csv", runs.account_file, {"form": "csv"}),
    path("runs/<str:ref>/cancel", stops.cancel),
    path("runs/<str:ref>/cancel/plan", stops.cancel_plan),
    path("runs/<str:ref>/terminate", stops.terminate),
    path("runs/<str:ref>/doing", runs.doing),
    path("bulk/cancel", bulk.ask),
    path("bulk/<str:pk>/", bulk.progress),
    path("effects/<str:ref>", runs.effect),
    path("effects/<str:ref>/again", again.do_again),
    path("cases/", cases.case_list),
    path("cases/providers", cases.provider_list),
    path("cases/<str:ref>/", cases.case_detail),
    path("cases/<str:ref>/claim", cases.claim),
    path("cases/<str:ref>/take-over", cases.take_over),
    path("cases/<str:ref>/confirm", cases.confirm),
    path("cases/<str:ref>/check", cases.check),
    path("cases/<str:ref>/finding", cases.record_finding),
    path("cases/<str:ref>/files/<str:pk>", cases.file),
    path("approvals/", approvals.approval_list),
    path("approvals/<str:pk>/approve", approvals.decide, {"verb": "approve"}),
    path("approvals/<str:pk>/reject", approvals.decide, {"verb": "reject"}),
    path("metrics/", metrics.metrics),
    path("profile/", profile.profile),
    path("settings/", settings_pages.index),
    path("settings/notifications/", include("console.notifications.urls")),
    path("settings/people/", people.person_list),
    path("settings/people/new", people.new_person),
    path("settings/people/<str:pk>/", people.person),
    path("settings/people/<str:pk>/groups", people.set_groups),
    path("settings/people/<str:pk>/deactivate", people.deactivate),
    path("settings/people/<str:pk>/activate", people.activate),
    path("settings/people/<str:pk>/sign-out", people.sign_out),
    path("settings/people/<str:pk>/password-link", people.password_link),
    path("settings/machines/", machines.machine_list),
    path("settings/machines/new", machines.new_machine),
    path("settings/machines/<str:pk>/rotate", machines.rotate),
    path("settings/machines/<str:pk>/revoke", machines.revoke),
    path("audit/", audit.event_list),
    path("audit/export", audit.export),
    path("audit/runs/<str:ref>/", audit.run_story),
    path("live/actions", actions.live_actions),
]
if settings.PRACTICE:
    urlpatterns.append(path("demo/", include("console.demo.urls")))
