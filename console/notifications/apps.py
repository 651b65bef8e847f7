"""The notifications app: tells other systems and people about what cannot wait until somebody looks."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "console.notifications"
    label = "notifications"
    verbose_name = "Notifications"
