"""The console app. Importing Celery's app here lets every `shared_task` find it."""

from django.apps import AppConfig

from console.celery import app as celery_app

__all__ = ["ConsoleConfig", "celery_app"]


class ConsoleConfig(AppConfig):
    name = "console"
    verbose_name = "Console"

    def ready(self) -> None:
        from console.hints import deliver
        from console.people import Directory
        from runs import people
        from runs.hints import deliver_with

        deliver_with(deliver)
        people.provide(Directory())
