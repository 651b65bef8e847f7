import pytest
from django.db import transaction

from runs.client_keys import lock_client_key
from runs.errors import Invalid
from runs.models import ClientKey

pytestmark = pytest.mark.usefixtures("database")


def test_one_row_for_each_agent_and_key():
    with transaction.atomic():
        first = lock_client_key("a", "k")
        assert lock_client_key("a", "k").pk == first.pk
        assert lock_client_key("b", "k").pk != first.pk
    assert ClientKey.objects.count() == 2


def test_a_key_has_a_length():
    with pytest.raises(Invalid):
        lock_client_key("a", "k" * 201)
    with transaction.atomic():
        assert lock_client_key("a", "ü" * 200).key == "ü" * 200


def test_a_lock_that_is_rolled_back_leaves_no_row():
    with pytest.raises(RuntimeError), transaction.atomic():
        lock_client_key("a", "k")
        raise RuntimeError
    assert not ClientKey.objects.exists()
