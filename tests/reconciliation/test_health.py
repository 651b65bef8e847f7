"""One row and one alert for each provider, raised and cleared by looks."""

from __future__ import annotations

import pytest

from reconciliation import health
from reconciliation.models import ProviderHealth
from runs.models import Event

pytestmark = pytest.mark.usefixtures("database")


def alerts():
    return list(Event.objects.filter(run=None).order_by("id").values_list("kind", "subject"))


def test_the_third_failure_in_a_row_alerts_once():
    for failures in range(1, 6):
        health.not_reached("p", "refused", denied=False)
        assert len(alerts()) == (failures >= 3)
    row = ProviderHealth.objects.get(pk="p")
    assert (row.failures, row.detail) == (5, "refused")
    assert health.unreachable_since("p") == row.unreachable_since


def test_an_answer_in_between_starts_the_count_anew():
    for _ in range(3):
        health.not_reached("p", "", denied=False)
        health.not_reached("p", "", denied=False)
        health.reached("p")
    assert alerts() == []
    assert health.unreachable_since("p") is None


def test_denied_alerts_at_once_and_an_answer_clears_it():
    health.not_reached("p", "401", denied=True)
    health.not_reached("q", "timeout", denied=False)
    assert alerts() == [("provider.down", "p")]
    health.reached("p")
    health.reached("p")
    assert alerts() == [("provider.down", "p"), ("provider.up", "p")]
    assert health.unreachable_since("q") is not None


def test_of_a_provider_never_asked_nothing_is_known():
    assert health.unreachable_since("never") is None
