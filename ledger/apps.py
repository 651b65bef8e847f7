from django.apps import AppConfig


class LedgerConfig(AppConfig):
    name = "ledger"

    def ready(self) -> None:
        from ledger.runbook import RunBook
        from runs.book import provide

        provide(RunBook())
