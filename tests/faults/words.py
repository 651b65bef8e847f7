"""The names of boundaries and faults, as the design (proof.md §3) numbers them."""

BOUNDARIES = {
    "B1": "before declare",
    "B2": "declared, before begin-send",
    "B3": "durably sending, no bytes yet",
    "B4": "bytes out, supplier paused before accepting",
    "B5": "supplier accepted, response not returned",
    "B6": "response returned, not recorded",
    "B7": "recorded, before the step's checkpoint",
    "B8": "during cleanup",
    "B9": "an undo in sending",
    "B10": "a look in flight",
    "B11": "a webhook arriving",
    "B12": "in the fence: read, and not yet written",
}
FAULTS = {
    "–": "no fault",
    "F1": "cancel",
    "F2": "terminate",
    "F3": "SIGKILL of the worker, another takes over",
    "F4": "SIGSTOP longer than the lease, then SIGCONT",
    "F5": "database connections dropped",
    "F6": "Celery messages delivered twice",
    "F7": "webhook doubled and out of order",
    "F8": "clock of the worker 10 minutes off",
}
