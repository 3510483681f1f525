# Two commands do all the set-up: `make quickstart` and `make test`. Both make .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart test test-all lint format clean

quickstart: .venv/installed
	$(BIN)/python -m examples.quickstart.run

test: lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: lint
	$(BIN)/python -m pytest -n 2

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/installed: requirements.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -r requirements.txt
	touch $@

.venv/installed-dev: requirements.txt requirements-dev.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -r requirements-dev.txt
	touch $@ .venv/installed

clean:
	rm -rf .venv quickstart_output
