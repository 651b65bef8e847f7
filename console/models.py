"""The tables of machine credentials, of what people like, and of the sweeps' beats. A secret is shown once and never stored."""

import hashlib
import hmac
import secrets
from datetime import timedelta
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import F, Q
from django.utils import timezone

from runs.actors import MACHINE_SCOPES
from runs.turns import take_turn

LIFE_DAYS_MAX = 90
LIVE_SECRETS_MAX = 2  # the old one and the new one, while a machine is being moved over
SECRET_BYTES = 32
ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base32: no i, l, o, u


def new_credential_id() -> str:
    return "".join(secrets.choice(ID_ALPHABET) for _ in range(10))


def secret_hash(secret: str) -> str:
    """SHA-256 is enough for 256 random bits: there is nothing to guess, so nothing to slow down."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Credential(models.Model):
    """One secret of one machine. `name` is the machine, and stays the same when its secret is replaced."""

    id = models.CharField(primary_key=True, max_length=12, default=new_credential_id, editable=False)
    name = models.CharField(max_length=80, db_index=True)
    secret_hash = models.CharField(max_length=64, editable=False)
    scopes = ArrayField(models.CharField(max_length=40))
    agents = ArrayField(models.CharField(max_length=80), default=list)  # `*` for any
    created_by = models.CharField(max_length=310, blank=True)  # a name as it was: it stays when the person goes
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                name="credential_lives_90_days_at_most",
                condition=Q(expires_at__gt=F("created_at")) & Q(expires_at__lte=F("created_at") + timedelta(days=LIFE_DAYS_MAX)),
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    @classmethod
    def issue(
        cls, name: str, scopes: list[str], agents: list[str], created_by: str = "", days: int = LIFE_DAYS_MAX
    ) -> tuple["Credential", str]:
        """Makes a credential and returns it with its token, `cm_<id>_<secret>`, which cannot be had again.
        Raises ValidationError for scopes that no machine may have and for a third live secret."""
        if unknown := set(scopes) - MACHINE_SCOPES:
            raise ValidationError(f"No machine may have {', '.join(sorted(unknown))}.")
        secret = secrets.token_urlsafe(SECRET_BYTES)
        now = timezone.now()
        with transaction.atomic():
            take_turn(f"credential {name}")  # rows that do not exist yet cannot be locked
            if cls.objects.filter(name=name, revoked_at=None, expires_at__gt=now).count() >= LIVE_SECRETS_MAX:
                raise ValidationError(f"{name} has {LIVE_SECRETS_MAX} live secrets. Revoke one first.")
            credential = cls.objects.create(
                name=name,
                secret_hash=secret_hash(secret),
                scopes=sorted(scopes),
                agents=sorted(agents),
                created_by=created_by[:310],
                created_at=now,
                expires_at=now + timedelta(days=days),
            )
        return credential, f"cm_{credential.id}_{secret}"

    def matches(self, secret: str) -> bool:
        """Whether this is the secret. Takes the same time wherever it differs."""
        return hmac.compare_digest(self.secret_hash, secret_hash(secret))


class Profile(models.Model):
    """What one person likes. An empty zone is the browser's own, an empty theme the system's."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="profile")
    time_zone = models.CharField(max_length=64, blank=True, default="")
    shortcuts = models.BooleanField(default=True)
    theme = models.CharField(max_length=8, blank=True, default="")

    def __str__(self) -> str:
        return f"what {self.user} likes"


class SweepBeat(models.Model):
    """When a scheduled task last came to its end. Written by `console/beats.py`."""

    task = models.CharField(primary_key=True, max_length=100)
    ran_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.task
