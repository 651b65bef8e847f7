from tests.fakes import fake  # noqa: F401 - a provider in memory, whose webhooks can be signed
