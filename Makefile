# Needs only make and Python 3.11 or newer (another than the first in PATH: `make setup PYTHON=python3.12`).

PORT ?= 8000
VENV := .venv/bin/python
export PORT
.DEFAULT_GOAL := help
.PHONY: help setup setup-dev run stop test test-pythons lint format faults clean

help:
	@echo "make setup    .venv and dependencies, nothing started"
	@echo "make run      everything on this machine: http://127.0.0.1:$(PORT)/ (PORT=8001 for another port)"
	@echo "make stop     stop what runs in this folder"
	@echo "make test     the whole test suite"
	@echo "make lint     ruff, mypy, import-linter, djlint, migrations check (make format: tidy up)"
	@echo "make faults   11 minutes of frozen and killed leaders, workers, database and broker: nothing lost or doubled"
	@echo "make clean    remove .venv and the tools' caches; the data in .dlqadmin stays"

setup:
	@PYTHON="$(PYTHON)" /bin/sh bin/setup requirements.txt

setup-dev:
	@PYTHON="$(PYTHON)" /bin/sh bin/setup requirements-dev.txt

run: setup
	@DLQADMIN_DEMO="$${DLQADMIN_DEMO:-1}" $(VENV) manage.py run

stop: setup
	@$(VENV) -m dlqadmin.runner stop
	@$(VENV) -m dlqadmin.embedded stop

test: setup-dev
	$(VENV) -m pytest -n auto $(ARGS)

# The fast tests under every supported Python of this machine, each in an environment of its own.
test-pythons:
	@/bin/sh bin/test-pythons $(ARGS)

lint: setup-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports --no-logo
	.venv/bin/mypy
	.venv/bin/djlint --lint --quiet templates
	$(VENV) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

format: setup-dev
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

faults: setup-dev
	$(VENV) -m pytest -s tests/faults $(ARGS)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
