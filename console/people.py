"""How people get in: accounts are made by an administrator or arrive from single sign-on, never by signing up."""

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.http import HttpRequest


class ClosedSignup(DefaultAccountAdapter):
    """Log-in works; the sign-up page says that it is closed."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False


class DirectorySignup(DefaultSocialAccountAdapter):
    """Single sign-on lets in people whom the organisation's own directory lets in; they belong to no group at first."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: object) -> bool:
        return True
