"""What the model is asked, and what the answer must be: in the variant with every rule, and in those with one rule removed."""

from __future__ import annotations

from dataclasses import dataclass

SAFE = "SAFE"
REACHED = "REACHED"


@dataclass(frozen=True)
class Claim:
    """One question to Spin. `variant` is the macro that `send.pml` is compiled with, `name` one of its `ltl` formulas."""

    variant: str
    name: str
    holds: bool
    says: str

    def __str__(self) -> str:
        return f"{self.variant}-{self.name}"


CLAIMS = (
    Claim(
        SAFE,
        "p1_p2_p4_p5",
        True,
        "no sending is committed after the cancel; at most one execution; bytes after the cancel only if its receipt lists them; "
        "what is absent, or was not sent, is never executed",
    ),
    Claim(SAFE, "p3", False, "no bytes after the cancel: cannot be promised, a worker may sleep between its durable sending and the write"),
    Claim("NO_ROW_LOCK", "p1", False, "a fence without the run's row lock lets a cancel commit between its reading and its writing"),
    Claim("NO_ROW_LOCK", "p4", False, "and then bytes leave that no receipt lists"),
    Claim("BLIND_RESEND", "p2", False, "what may have been sent and is sent again may happen twice"),
    Claim("ABSENT_BY_TIMEOUT", "p5", False, "lease gone and past send_by do not stop a sender that sleeps: it may wake and write"),
    Claim(REACHED, "never_listed", False, "a cancel that finds an attempt in flight is in the model"),
    Claim(REACHED, "never_refused", False, "a worker that the cancel refuses is in the model"),
    Claim(REACHED, "never_found", False, "a look that finds what its worker could not tell is in the model"),
    Claim(REACHED, "never_resent", False, "a second attempt after a proved absence, carried out once, is in the model"),
)
