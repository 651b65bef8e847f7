"""What Schemathesis makes of the published description, thrown at every call as every kind of caller."""
