"""The queue of cases and each case's page. Doors: they parse what a person found and hand it on; the domain judges it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header

from console.pages.guard import go, page
from console.pages.runs import actor_of
from console.recent import kept
from ledger.providers.money import BadAmount, minor_units
from reconciliation import cases, files, findings, queue, standing, states
from reconciliation import pages as case_pages
from reconciliation.evidence import Finding
from reconciliation.form import form as finders_form
from reconciliation.models import Case
from runs import actors, transition
from runs.errors import Invalid, Problem
from runs.parsing import check_text
from runs.wording import duration

Context = dict[str, Any]
LIST, DETAIL = "reconciliation/cases/list.html", "reconciliation/cases/detail.html"
TEXT_MAX = 2000
FORM_FIELDS = {"seen_at": "provider_time"}  # where the form calls a field otherwise than the domain


@page("GET")
def case_list(request: HttpRequest) -> HttpResponse:
    """`/cases/`: what needs a person, most urgent first."""
    actor = actor_of(request)
    actor.require(actors.CASE_READ, None, "see cases")
    tab, text = request.GET.get("tab", "unclaimed"), request.GET.get("q", "").strip()[:200]
    tab = tab if tab in dict(queue.TABS) else "unclaimed"
    check_text(text, "q")
    rows, tabs = queue.rows(actor, tab, text), queue.tabs(actor, tab, text)
    current = next(one for one in tabs if one["current"])
    more = f"The {len(rows)} most urgent of {current['words']} are shown." if current["count"] > len(rows) else ""
    context = {
        "rows": rows,
        "tabs": tabs,
        "tab": tab,
        "q": text,
        "watch": f"cases?tab={tab}",
        "pager": {"count_text": more},
        "empty": {"text": f"No case here is called {text}." if text else _empty(tab)},
    }
    return render(request, LIST, context)


def _empty(tab: str) -> str:
    if tab == "mine":
        return "You have claimed nothing."
    if tab == "settled":
        return "Nothing was settled in the last 24 hours."
    waiting = queue.oldest_unknown_s()
    rest = f" Oldest unknown right now: {duration(waiting)}, being checked automatically." if waiting is not None else ""
    return ("Nothing needs a person." if tab == "all" else "Nothing waits unclaimed.") + rest


@page("GET")
def provider_list(request: HttpRequest) -> HttpResponse:
    """`/cases/providers`: whether each provider answers, and how many of its webhooks were believed, used and refused."""
    actor_of(request).require(actors.CASE_READ, None, "see how providers stand")
    return render(request, "reconciliation/providers.html", {"providers": standing.providers(), "as_of": transition.clock()})


def case_of(request: HttpRequest, ref: str) -> Case:
    """The case that an address names. Raises `NotAllowed` and `NotFound`."""
    actor_of(request).require(actors.CASE_READ, None, "see cases")
    return case_pages.read(ref)


@page("GET")
def case_detail(request: HttpRequest, ref: str) -> HttpResponse:
    """`/cases/Q-…/`: what is known, what is not, and the finder's form."""
    case = case_of(request, ref)
    if ref != case.ref:
        return redirect(_url(case))
    typed = kept(request)
    return _page(request, case, given=typed | {"surplus": typed.get("lists", {}).get("surplus", [])})


def _page(request: HttpRequest, case: Case, status: int = 200, **form: Any) -> HttpResponse:
    problem = form.pop("problem", None)
    context = case_pages.page(case, actor_of(request)) | finders_form(case, **form) | {"problem": problem}
    part = f"{DETAIL}#form" if request.headers.get("HX-Request") and problem else DETAIL
    return render(request, part, context, status=status)


def _url(case: Case) -> str:
    return f"/cases/{case.ref}/"


@page("POST")
def claim(request: HttpRequest, ref: str) -> HttpResponse:
    """Claim it, or go on holding it for 30 minutes more (the page asks for that while somebody types)."""
    case = case_of(request, ref)
    if request.headers.get("HX-Request"):
        cases.claim(actor_of(request), case.pk)
        return render(request, f"{DETAIL}#head", case_pages.page(case_pages.read(case.ref), actor_of(request)) | {"oob": True})
    return _act(request, case, lambda: cases.claim(actor_of(request), case.pk), "")


@page("GET", "POST")
def take_over(request: HttpRequest, ref: str) -> HttpResponse:
    """Take a case over from whoever holds it."""
    case = case_of(request, ref)
    if request.method == "POST":
        return _act(request, case, lambda: cases.claim(actor_of(request), case.pk, take_over=True), f"You took over {case.ref}.")
    template = "reconciliation/cases/take_over.html"
    part = f"{template}#dialog" if request.headers.get("HX-Request") else template
    return render(request, part, case_pages.page(case, actor_of(request)))


@page("POST", back="/cases/{ref}/")
def confirm(request: HttpRequest, ref: str) -> HttpResponse:
    """The second person's word."""
    case, agree = case_of(request, ref), request.POST.get("agree") == "yes"
    said = f"{case.ref} is settled." if agree else f"{case.ref} is back in the queue."
    return _act(request, case, lambda: findings.confirm(actor_of(request), case.pk, agree), said)


@page("POST")
def check(request: HttpRequest, ref: str) -> HttpResponse:
    """Ask the provider now."""
    case = case_of(request, ref)
    if case.effect_id is None:
        raise Invalid("There is nothing to check: this case is about no action.")
    operation = case.effect_id
    return _act(request, case, lambda: findings.check_now(actor_of(request), operation), "Asked for a check now. Its answer appears below.")


def _act(request: HttpRequest, case: Case, verb: Any, said: str) -> HttpResponse:
    """Do it and show the case again; a refusal is shown there in its own words."""
    try:
        done = verb()
        if said and done is not False:
            messages.info(request, said)
        elif done is False:
            messages.warning(request, "There is nothing to look for at this moment: its outcome is known, or a check is under way.")
    except Problem as refused:
        if refused.status == 403:
            raise
        messages.warning(request, refused.detail)
    return redirect(_url(case))


@page("GET")
def file(request: HttpRequest, ref: str, pk: str) -> HttpResponse:
    """A file that is kept with a case: a download, of a type that no browser runs."""
    one, raw = files.read(case_of(request, ref), pk)
    response = HttpResponse(raw, content_type=one.content_type)
    response.headers["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=one.name) or "attachment"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


@page("POST", back="/cases/{ref}/")
def record_finding(request: HttpRequest, ref: str) -> HttpResponse:
    """What a person found. Says field by field what is missing; what was typed is kept."""
    case = case_of(request, ref)
    given = {name: value[:TEXT_MAX] for name, value in request.POST.items() if isinstance(value, str)}
    given["surplus"] = request.POST.getlist("surplus")  # type: ignore[assignment]
    try:
        check_text(given)
        if (upload := request.FILES.get("file")) is not None:
            files.keep(actor_of(request), case.pk, upload.name or "", upload.chunks())
        if given.get("verdict") == "pass_on":
            findings.pass_on(actor_of(request), case.pk, given.get("notes", ""))
            messages.info(request, f"{case.ref} is back in the queue, with your notes.")
            return go(request, "/cases/")
        done = findings.settle(actor_of(request), case.pk, _finding(case, given, files.kept_by(actor_of(request), case)))
    except Problem as refused:
        if refused.status == 403:
            raise
        return _refused(request, case, given, refused)
    if done.outcome == "kept":
        problem = {"title": "The case stays open.", "detail": done.why}
        return _page(request, case_pages.read(case.ref), 200, given=given, problem=problem)
    messages.info(request, done.why or f"{case.ref} is settled.")
    return go(request, _url(case))


def _finding(case: Case, given: Context, files: tuple[str, ...]) -> Finding:
    return Finding(
        verdict=given.get("verdict", ""),
        files=files,
        external_id=given.get("external_id", "").strip(),
        surplus=tuple(given.get("surplus", ())),
        belongs_to=given.get("belongs_to", "").strip(),
        amount=_amount(case, given),
        currency=case.currency if given.get("verdict") == states.HAPPENED_DIFFERENTLY else "",
        seen_where=given.get("seen_where", ""),
        seen_at=_moment(given.get("provider_time", "")),
        notes=given.get("notes", "").strip(),
        sender_gone=given.get("sender_gone", "").strip(),
    )


def _amount(case: Case, given: Context) -> int | None:
    text = given.get("amount", "").strip().replace(",", "")
    if given.get("verdict") != states.HAPPENED_DIFFERENTLY or not text:
        return None
    try:
        return minor_units(text, case.currency)
    except BadAmount as wrong:
        raise Invalid(f"{wrong}: write it like 125.00, in {case.currency}.", field="amount") from None


def _moment(text: str) -> datetime | None:
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid("Use a day and time such as 2026-03-02T14:02:07 (UTC).", field="seen_at") from None


def _refused(request: HttpRequest, case: Case, given: Context, refused: Problem) -> HttpResponse:
    field = str(refused.facts.get("field", ""))
    field = FORM_FIELDS.get(field, field)
    problem = {"title": f"{refused.title}.", "detail": refused.detail}
    return _page(
        request, case_pages.read(case.ref), refused.status, given=given, errors={field: refused.detail} if field else {}, problem=problem
    )
