"""The same supplier process fixtures that the simulator's own tests use."""

from tests.examples.conftest import supplier, supplier_process

__all__ = ["supplier", "supplier_process"]
