"""An agent that places purchase orders at the supplier, as a customer of Countermand would write one.

It uses the SDK and the supplier's public API only. Nothing here may know how Countermand works inside.
"""
