"""`make model`: every claim about the model, in both directions, with what was searched and how those that must fail do."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.model import spin
from tests.model.claims import CLAIMS, REACHED, Claim
from tests.model.spin import Found

ATTEMPTS = 3


def main() -> int:
    if missing := spin.missing():
        raise SystemExit(missing)
    began_s, wrong, states = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as work:
        for claim in CLAIMS:
            # What holds is searched further than what fails: a counterexample with two attempts is one with three.
            found = spin.check(claim, ATTEMPTS if claim.holds else ATTEMPTS - 1, Path(work))
            wrong += found.holds != claim.holds
            states += found.states
            print(_line(claim, found), flush=True)
            for step in found.story if claim.variant != REACHED else ():
                print(f"        {step}")
    verdict = "Everything is as it must be" if not wrong else f"{wrong} CLAIMS ARE NOT AS THEY MUST BE"
    print(f"{verdict}: {len(CLAIMS)} claims, {states:,} states in {time.monotonic() - began_s:.0f} s.")
    return 1 if wrong else 0


def _line(claim: Claim, found: Found) -> str:
    word = "holds" if found.holds else "is reached" if claim.variant == REACHED else "fails"
    as_it_must = "as it must" if found.holds == claim.holds else "AND MUST NOT"
    what = f"{claim.variant} {claim.name.replace('_', ' ')} {word}, {as_it_must}"
    return f"{what} ({found.states:,} states, {found.transitions:,} transitions): {claim.says}."


if __name__ == "__main__":
    sys.exit(main())
