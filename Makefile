# Everything a newcomer needs. Only python3 >= 3.11 has to be there; the rest is made under .countermand/.
SHELL := /bin/bash
HOME_DIR := $(or $(COUNTERMAND_HOME),.countermand)
PYTHON := $(HOME_DIR)/venv/bin/python
BIN := $(HOME_DIR)/venv/bin
BOOTSTRAP := python3 console/embedded/bootstrap.py
ARGS ?=
# Tests wait for real processes most of their time, so two at once cost little more than one. TEST_WORKERS=0 runs them one by one.
TEST_WORKERS ?= 2

# make test-services: a PostgreSQL >= 15 whose owner role may create databases and roles, and a broker.
SERVICES_OWNER_URL ?= $(or $(DATABASE_OWNER_URL),postgresql://postgres@127.0.0.1:5432/postgres)
SERVICES_APP_URL ?= $(or $(DATABASE_URL),postgresql://countermand_app@127.0.0.1:5432/postgres)
SERVICES_BROKERS ?= $(or $(CELERY_BROKER_URL),redis://127.0.0.1:6379/9 amqp://guest:guest@127.0.0.1:5672//)

.PHONY: help demo test test-services lint format bench model faults races nemesis fuzz mutation screenshots doctor

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

demo: ## the whole product on this machine: prints its address and the log-ins; Ctrl-C stops it
	@$(BOOTSTRAP) base
	@exec $(PYTHON) -m console.embedded.demo $(ARGS)

test: ## every test, the browser included, on an embedded PostgreSQL (ARGS="tests/runs -k cancel")
	@$(BOOTSTRAP) dev --browser --spin
	@env -u DATABASE_URL -u DATABASE_OWNER_URL -u CELERY_BROKER_URL $(PYTHON) -m pytest -q -n $(TEST_WORKERS) $(ARGS)

test-services: ## the tests that a real PostgreSQL and real brokers could fail, on those
	@$(BOOTSTRAP) dev
	@set -e; tests="services or broker"; for broker in $(SERVICES_BROKERS); do \
		echo "== $${tests} on PostgreSQL and $${broker%%:*}"; \
		DATABASE_OWNER_URL="$(SERVICES_OWNER_URL)" DATABASE_URL="$(SERVICES_APP_URL)" CELERY_BROKER_URL="$$broker" \
			$(PYTHON) -m pytest -q -m "$${tests}" $(ARGS); \
		tests=broker; \
	done

lint: ## ruff, mypy, import-linter, missing migrations
	@$(BOOTSTRAP) dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@COUNTERMAND_TEST=1 $(BIN)/mypy
	@$(BIN)/lint-imports
	@COUNTERMAND_TEST=1 $(PYTHON) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

format: ## let ruff lay out the code
	@$(BOOTSTRAP) dev
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: ## speed, as ratios measured side by side
	@$(BOOTSTRAP) dev
	@$(PYTHON) -m tests.bench $(ARGS)

model: ## the model of stopping and sending, every state of it: what holds, and what fails without each rule
	@$(BOOTSTRAP) dev --spin
	@$(PYTHON) -m tests.model

faults: ## the fault matrix, real processes killed and cut at every boundary, and longer random histories
	@$(BOOTSTRAP) dev
	@rm -f $(HOME_DIR)/faults/*.cell.json
	@env -u DATABASE_URL -u DATABASE_OWNER_URL -u CELERY_BROKER_URL COUNTERMAND_FAULTS=all COUNTERMAND_TWIN=long \
		$(PYTHON) -m pytest -q tests/twin tests/faults tests/console/test_agreement.py tests/browser/test_lists.py $(ARGS); ended=$$?; $(PYTHON) -m tests.faults.report; exit $$ended

races: ## a thousand cancel races of two real processes at each boundary of the send path (TIMES=1000 SEED=1)
	@$(BOOTSTRAP) dev
	@rm -rf $(HOME_DIR)/races
	@env -u DATABASE_URL -u DATABASE_OWNER_URL -u CELERY_BROKER_URL COUNTERMAND_RACES=$(or $(TIMES),1000) SEED=$(or $(SEED),1) \
		$(PYTHON) -m pytest -q tests/races/test_released.py $(ARGS); ended=$$?; cat $(HOME_DIR)/races/report.txt; exit $$ended

nemesis: ## the demo under random kills, freezes, cuts and lies, then healing, then the checker (SECONDS=300 SEED=1)
	@$(BOOTSTRAP) dev
	@env -u DATABASE_URL -u DATABASE_OWNER_URL -u CELERY_BROKER_URL COUNTERMAND_NEMESIS_S=$(or $(SECONDS),300) SEED=$(or $(SEED),1) \
		$(PYTHON) -m pytest -q -s tests/nemesis/long.py $(ARGS)

fuzz: ## many random calls of the API, as everybody, with the answers counted (COUNTERMAND_FUZZ_SEED=7 repeats)
	@$(BOOTSTRAP) dev
	@env -u DATABASE_URL -u DATABASE_OWNER_URL -u CELERY_BROKER_URL COUNTERMAND_FUZZ=long LOG_LEVEL=CRITICAL \
		$(PYTHON) -m pytest -q -s --timeout 1800 tests/fuzz $(ARGS)

mutation: ## small faults in the code that the laws live in: which do the tests notice (ARGS="--files runs/leases.py --number 20")
	@$(BOOTSTRAP) dev
	@env -u DATABASE_URL -u DATABASE_OWNER_URL -u CELERY_BROKER_URL COUNTERMAND_TEST=1 LOG_LEVEL=CRITICAL \
		$(PYTHON) -m tests.mutation $(ARGS)

screenshots: ## pictures of every page from a demo of its own; ARGS=--guide renews those of docs/guide
	@$(BOOTSTRAP) dev --browser
	@$(PYTHON) -m tests.screenshots $(ARGS)

doctor: ## what is missing on this machine
	@$(BOOTSTRAP) base
	@COUNTERMAND_DEMO=$${COUNTERMAND_DEMO-1} $(PYTHON) manage.py doctor
