"""The addresses of the practice ground; they exist only where there is nothing real to order."""

from django.urls import path

from console.demo import views

urlpatterns = [
    path("", views.index),
    path("start", views.start),
    path("orders", views.orders),
    path("release", views.release),
    path("components/", views.components),
    path("components/<str:name>", views.component_dialog),
]
