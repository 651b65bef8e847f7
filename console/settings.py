"""The one settings file. Everything that differs between places comes from the environment through console.env."""

import os
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from console import env
from console.embedded import postgres
from console.logs import logging_config

BASE_DIR = Path(__file__).resolve().parent.parent
COUNTERMAND_HOME = Path(os.environ.get("COUNTERMAND_HOME") or BASE_DIR / ".countermand")

DEMO = env.flag("COUNTERMAND_DEMO")
TESTING = env.flag("COUNTERMAND_TEST")
PRACTICE = DEMO or TESTING  # never a real deployment: embedded defaults are allowed
DEBUG = False

SECRET_KEY = env.text("SECRET_KEY", "only-for-practice-on-127.0.0.1" if PRACTICE else None)
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", ("127.0.0.1", "localhost", "testserver") if PRACTICE else ())
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "console",
    "console.notifications",
    "reconciliation",
    "ledger",
    "runs",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",  # the list of security keys says when each was used
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "channels",
    "django_filters",
    "django_htmx",
    "template_partials.apps.SimpleAppConfig",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "console.static.StaticFiles",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
USE_I18N = False
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024  # bytes; docs/operations.md and the API's 413 name the same limit

# The template engine is spelled out because the partials loader must wrap the cached one.
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "builtins": ["template_partials.templatetags.partials"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.nav.shell",
            ],
            "loaders": [
                (
                    "template_partials.loader.Loader",
                    [
                        (
                            "django.template.loaders.cached.Loader",
                            [
                                "django.template.loaders.filesystem.Loader",
                                "django.template.loaders.app_directories.Loader",
                            ],
                        )
                    ],
                )
            ],
        },
    }
]

# Database -----------------------------------------------------------------------------------------------------------

AS_OWNER = env.flag("COUNTERMAND_AS_OWNER")  # migrations and grants; everything else runs as the app role
DATABASE_POOL_MAX = env.number("DATABASE_POOL_MAX", 0)  # console.asgi sets it: only the web process keeps a pool


def default_database() -> dict[str, Any]:
    """The app role's database or, for migrations, the owner's. Practice falls back to the embedded PostgreSQL."""
    if DEMO and os.environ.get("DATABASE_URL"):
        raise ImproperlyConfigured("COUNTERMAND_DEMO is set beside a real DATABASE_URL. Unset one of them.")
    name = "DATABASE_OWNER_URL" if AS_OWNER else "DATABASE_URL"
    embedded = postgres.server("demo" if DEMO else "test", COUNTERMAND_HOME) if PRACTICE else None
    fallback = (embedded.owner_url() if AS_OWNER else embedded.app_url()) if embedded else None
    database = env.database(name, fallback)
    options = database["OPTIONS"]
    # Both together bring Django's cursor level with bare psycopg: parameters bound by the server, hot SQL prepared.
    options |= {"server_side_binding": True, "prepare_threshold": 5, "application_name": "countermand"}
    if not AS_OWNER:
        # An open writing transaction anywhere holds back the tail of the event table, so a forgotten one is cut.
        idle_ms = env.number("DATABASE_IDLE_IN_TRANSACTION_MS", 2000)
        options["options"] = f"{options.get('options', '')} -c idle_in_transaction_session_timeout={idle_ms}".strip()
    if DATABASE_POOL_MAX and not AS_OWNER:
        options["pool"] = {"min_size": 2, "max_size": DATABASE_POOL_MAX, "timeout": 10}
    return database | {"ATOMIC_REQUESTS": False, "CONN_MAX_AGE": 0 if "pool" in options else 600, "CONN_HEALTH_CHECKS": True}


DATABASES = {"default": default_database()}

# Shared by all web processes, so that the log-in's rate limits count across them.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "console_cache"}}

# People -------------------------------------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
if TESTING:
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a slow hash protects nobody there
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/runs/"
# Approving, terminating and settling money need a log-in or proof that is younger than this.
REAUTHENTICATE_AFTER_S = ACCOUNT_REAUTHENTICATION_TIMEOUT = env.number("REAUTHENTICATE_AFTER_S", 15 * 60, minimum=30)
ACCOUNT_REAUTHENTICATION_METHODS = ("password", "mfa")
ACCOUNT_ADAPTER = "console.signing_in.ClosedSignup"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_REDIRECT_URL = "/accounts/login/"
SOCIALACCOUNT_ADAPTER = "console.signing_in.DirectorySignup"
USERSESSIONS_ADAPTER = "console.signing_in.OwnSessions"
PASSWORD_RESET_TIMEOUT = 24 * 3600  # seconds that a link for choosing a password is good for
# Behind a proxy the address that limits count by is in X-Forwarded-For; how many proxies of ours wrote into it is said here.
ALLAUTH_TRUSTED_PROXY_COUNT = env.number("TRUSTED_PROXY_COUNT", 0)
# Second factors: `totp` (an authenticator app) and `webauthn` (passkeys and security keys); none when empty.
SECOND_FACTORS = env.words("COUNTERMAND_SECOND_FACTORS", ("totp",))
MFA_SUPPORTED_TYPES = [*SECOND_FACTORS, *(["recovery_codes"] if SECOND_FACTORS else [])]
MFA_PASSKEY_LOGIN_ENABLED = "webauthn" in SECOND_FACTORS
MFA_TOTP_ISSUER = "Countermand"
SOCIALACCOUNT_ONLY = False
# OIDC: {"server_url": …, "client_id": …, "secret": …, "name": …, "provider_id": …}; empty means passwords only.
OIDC = env.json_object("COUNTERMAND_OIDC")
OIDC_NAME, OIDC_PROVIDER_ID = OIDC.get("name", "Single sign-on"), OIDC.get("provider_id", "sso")
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": OIDC_PROVIDER_ID,
                "name": OIDC_NAME,
                "client_id": OIDC["client_id"],
                "secret": OIDC["secret"],
                "settings": {"server_url": OIDC["server_url"]},
            }
        ]
        if OIDC
        else [],
    }
}

# Browser ------------------------------------------------------------------------------------------------------------

# The stripe above every page, so that nobody stops the wrong thing: {"text": …, "tone": grey, red or green}; empty for none.
ENVIRONMENT = env.json_object("COUNTERMAND_ENVIRONMENT") or (
    {"text": "Practice: orders go to a supplier of our own", "tone": "green"} if PRACTICE else None
)

SECURE_COOKIES = env.flag("SECURE_COOKIES", default=not PRACTICE)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600  # seconds: a working day
SECURE_HSTS_SECONDS = env.number("SECURE_HSTS_SECONDS", 0)
SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT")
if env.flag("BEHIND_TLS_PROXY"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "console.pages.guard.csrf_refused"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "font-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF, *env.origins(OIDC.get("server_url", "")), *env.words("FORM_ACTION_ORIGINS")],
        "frame-ancestors": [NONE],
    }
}

STATIC_URL = "/static/"
# A demo needs no collectstatic; files that were collected are served compressed, and under names that may be kept for ever.
COLLECTED = not PRACTICE or bool(os.environ.get("STATIC_ROOT"))
STATIC_ROOT = Path(os.environ.get("STATIC_ROOT") or BASE_DIR / "staticfiles") if COLLECTED else None
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = not COLLECTED
# Evidence that people keep with cases: outside everything that is served, and backed up with the database.
EVIDENCE_FOLDER = Path(env.text("EVIDENCE_FOLDER", str(COUNTERMAND_HOME / "evidence")))
EVIDENCE_BYTES_MAX = env.number("EVIDENCE_BYTES_MAX", 5 * 1024 * 1024, minimum=1)
EVIDENCE_TYPES = frozenset(env.words("EVIDENCE_TYPES", ("png", "jpg", "jpeg", "pdf", "txt", "csv", "eml", "json")))
FILE_UPLOAD_HANDLERS = [
    "console.uploads.Limit",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
STORAGES = {
    "evidence": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": EVIDENCE_FOLDER, "base_url": None, "file_permissions_mode": 0o600, "directory_permissions_mode": 0o700},
    },
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if COLLECTED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# API ----------------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["console.parsing.StrictJSONParser"],
    "EXCEPTION_HANDLER": "console.problems.handle",
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "console.auth.BearerAuthentication",
        "console.auth.PersonAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Countermand",
    "DESCRIPTION": "Stop an agent run, and know what it did.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "PREPROCESSING_HOOKS": ["console.api_urls.describe_long_polls"],
    "WEBHOOKS": ["console.notifications.schema.message"],
    "POSTPROCESSING_HOOKS": [],  # choices stay where they are said, instead of becoming components with made-up names
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# What leaves the building: {"supplier": {"kind": "supplier", "url": …, "webhook_secrets": […]}, …}
PROVIDERS: dict[str, dict[str, Any]] = env.json_object("COUNTERMAND_PROVIDERS")

# Telling people and other systems --------------------------------------------------------------------------------------

PUBLIC_URL = env.text("PUBLIC_URL", "http://127.0.0.1:8000" if PRACTICE else "").rstrip("/")  # what links in messages begin with
# Where outgoing webhooks may go besides public https: {"schemes": […], "ports": […], "private_networks": […]}
NOTIFICATIONS_GUARD: dict[str, Any] = env.json_object("COUNTERMAND_NOTIFICATIONS_GUARD")
EMAIL_HOST = env.text("EMAIL_HOST", "")
EMAIL_PORT = env.number("EMAIL_PORT", 25)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_USER", ""), env.text("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS, EMAIL_USE_SSL = env.flag("EMAIL_USE_TLS"), env.flag("EMAIL_USE_SSL")
EMAIL_TIMEOUT = 10  # seconds
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "countermand@localhost")
MAIL_DOMAIN = DEFAULT_FROM_EMAIL.rpartition("@")[2].strip(" >") or "localhost"
if PRACTICE and not EMAIL_HOST:
    EMAIL_BACKEND, EMAIL_FILE_PATH = "django.core.mail.backends.filebased.EmailBackend", str(COUNTERMAND_HOME / "mail")
MAIL_WORKS = bool(EMAIL_HOST) or PRACTICE

METRICS_TOKEN = env.text("METRICS_TOKEN", "")  # the bearer that Prometheus brings to /internal/metrics; empty: there is no such page

# Over these amounts (major units, by currency, `*` for any other) two people settle a case: {"EUR": "5000.00", "JPY": "500000"}
SECOND_PERSON_OVER: dict[str, str] = env.json_object("COUNTERMAND_SECOND_PERSON_OVER")

# History ------------------------------------------------------------------------------------------------------------

# Where the heads of the hash chains are kept, outside this database: a file that is only appended to, an address that takes POSTs, or both.
ANCHOR_FILE = os.environ.get("COUNTERMAND_ANCHOR_FILE") or (str(COUNTERMAND_HOME / "demo-anchors.jsonl") if DEMO else "")
ANCHOR_URL = os.environ.get("COUNTERMAND_ANCHOR_URL", "")
ANCHOR_EVERY_S = float(env.number("COUNTERMAND_ANCHOR_EVERY_S", 60, minimum=1))

# Hints: Celery and Channels carry nothing that is not also in the database ---------------------------------------------

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

CELERY_BROKER_URL = env.text("CELERY_BROKER_URL", "filesystem://" if PRACTICE else None)
CELERY_TASK_DEFAULT_QUEUE = env.text("CELERY_QUEUE", "countermand")  # so that two installations may share a broker
# A web request that sends a hint gives up at once on a dead broker; workers keep trying by settings of their own.
CELERY_BROKER_CONNECTION_TIMEOUT = 2  # seconds
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
if CELERY_BROKER_URL.startswith("redis"):
    CELERY_BROKER_TRANSPORT_OPTIONS["socket_connect_timeout"] = CELERY_BROKER_CONNECTION_TIMEOUT
if CELERY_BROKER_URL.startswith("filesystem:"):
    # Made by whoever starts the processes (console.embedded.processes); only its files matter, never their absence.
    BROKER_FOLDER = Path(os.environ.get("COUNTERMAND_BROKER_FOLDER") or COUNTERMAND_HOME / "broker")
    CELERY_BROKER_TRANSPORT_OPTIONS |= {
        "data_folder_in": str(BROKER_FOLDER / "queue"),
        "data_folder_out": str(BROKER_FOLDER / "queue"),
        "control_folder": str(BROKER_FOLDER / "control"),
        "polling_interval": 0.05,  # seconds
    }
# Agents that run inside Celery: name → "module:function". They have a queue and a worker of their own, so that no sweep waits for a plan.
CELERY_AGENTS: dict[str, str] = env.json_object("COUNTERMAND_CELERY_AGENTS")
CELERY_AGENTS_QUEUE = f"{CELERY_TASK_DEFAULT_QUEUE}-agents"
CELERY_TASK_ROUTES = {"console.run_agents": {"queue": CELERY_AGENTS_QUEUE}}
CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_TASK_PUBLISH_RETRY = False  # a hint that cannot be sent is dropped: the sweepers find the work
CELERY_TIMEZONE = "UTC"

LOGGING = logging_config(env.text("LOG_LEVEL", "INFO"), readable=env.flag("LOG_READABLE", default=PRACTICE))
