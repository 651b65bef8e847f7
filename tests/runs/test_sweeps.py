import pytest

from ledger.runbook import RunBook
from runs import leases, sweeps
from tests.makers import WORKER, fresh, let_time_pass, new_run, send


def test_one_that_fails_keeps_none_waiting(caplog):
    seen = []

    def act(one):
        seen.append(one)
        if one == 2:
            raise ValueError("broken")
        return one != 3

    assert sweeps.each([1, 2, 3, 4], act) == 2
    assert seen == [1, 2, 3, 4]
    assert "failed for 2" in caplog.text and "broken" in caplog.text
    caplog.clear()


@pytest.mark.usefixtures("database")
def test_a_run_that_cannot_be_expired_leaves_the_others_to_expire(monkeypatch, caplog):
    """Nor does it keep anybody from claiming: the claim expires what it finds on the way."""
    broken, token = new_run("w-1")
    send(broken, token)
    fine, _ = new_run("w-2")
    let_time_pass(31)
    give_up = RunBook.give_up

    def fail_once(self, run, *args):
        if run.pk == broken.pk:
            raise RuntimeError("a bug of ours")
        return give_up(self, run, *args)

    monkeypatch.setattr(RunBook, "give_up", fail_once)
    assert leases.expire_due() == 1
    assert (fresh(broken).state, fresh(fine).state) == ("running", "scheduled")
    taken = leases.claim(WORKER, "w-3", ["purchase-order"])
    assert taken is not None and taken[0].pk == fine.pk
    caplog.clear()
