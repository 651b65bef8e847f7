"""A session as it is after signing in, for Django's client: what `force_login` leaves out."""

import time

from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from django.test import Client


def prove(client: Client, ago_s: float = 0) -> None:
    """As if the person had given their password that long ago: allauth's own record in the session."""
    session = client.session
    session[AUTHENTICATION_METHODS_SESSION_KEY] = [{"method": "password", "at": time.time() - ago_s}]
    session["account_authentication_methods_user"] = session["_auth_user_id"]
    session.save()
