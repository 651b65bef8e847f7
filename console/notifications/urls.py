"""The addresses of the pages about notifications, below `/settings/notifications/`."""

from django.urls import path

from console.notifications import pages

urlpatterns = [
    path("", pages.endpoint_list),
    path("new", pages.new),
    path("<uuid:pk>/", pages.detail),
    path("<uuid:pk>/secret", pages.secret),
    path("<uuid:pk>/<str:verb>", pages.act),
]
