from tests.fakes import fake  # noqa: F401 - a provider in memory, for every test here
