"""The paths of the calls about effects and accounts, below /api/v1/."""

from django.urls import path

from ledger import api, undo_api
from runs.calls import view

urlpatterns = [
    path("runs/<str:run>/effects", view(get=api.list_run_effects, post=api.begin_effect)),
    path("runs/<str:run>/account", view(get=api.get_account, base=api.AccountView)),
    path("compensations", view(get=undo_api.list_compensations, post=undo_api.ask_compensation)),
    path("compensations/<str:compensation>", view(get=undo_api.get_compensation, patch=undo_api.edit_compensation)),
    path("compensations/<str:compensation>/decision", view(post=undo_api.decide_compensation)),
    path("compensations/<str:compensation>/withdrawal", view(post=undo_api.withdraw_compensation)),
    path("effects", view(get=api.list_effects)),
    path("effects/<str:effect>", view(get=api.get_effect)),
    path("effects/<str:operation_id>/begin", view(post=api.begin_declared)),
    path("effects/<str:operation_id>/outcome", view(post=api.outcome)),
    path("effects/<str:effect>/left-in-place", view(post=api.leave_in_place)),
    path("occurrences", view(post=api.open_occurrence)),
]
