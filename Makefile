# Two commands do all the set-up: `make quickstart` and `make test`. Both make .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart test test-all pytest test-parity test-beam test-backends lint docs format clean

quickstart: .venv/installed
	$(BIN)/python -m examples.quickstart.run

test: select = not slow
# The documentation is built while the tests run.
test test-all: lint
	$(MAKE) --no-print-directory --jobs=2 docs pytest select="$(select)"

pytest: .venv/installed-test
	$(BIN)/python -m pytest -n logical --maxprocesses=4 --dist=loadscope -m "$(select)"

# Tests with libraries that `make test` does not install.
test-parity: .venv-all/installed
	.venv-all/bin/python -m pytest tests/benchmarks $$(grep -rlE "group parity|test-parity" tests --include="test_*.py")

# The models and optimizers under each other backend of Keras.
test-backends: .venv-all/installed
	for backend in jax torch; do \
		KERAS_BACKEND=$$backend .venv-all/bin/python -m pytest tests/test_backends.py \
			tests/models/test_keras_protocol.py tests/parity/test_original.py -m "not slow" || exit 1; \
	done

test-beam: .venv-beam/installed
	.venv-beam/bin/python -m pytest tests/data/pretraining/test_beam.py

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# The pages are in build/site. Nothing is downloaded but the packages of the environment.
docs: .venv/installed-test
	$(BIN)/python docs/site/commands.py build/commands
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: .venv/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All extras of pyproject.toml but some.
extras_but = $(shell $(PYTHON) -c 'import sys, tomllib; \
	extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(",".join(sorted(set(extras) - set(sys.argv[1:]))))' $(1))

# The package, editable, with extras and dependency groups of pyproject.toml, in the versions of requirements.txt.
.venv/installed: install = '.[$(call extras_but,beam onnx openvino serving)]'
.venv/installed-test: install = '.[$(call extras_but,beam onnx openvino)]' --group=test --group=lint --group=docs
.venv-all/installed: install = '.[$(call extras_but,beam)]' --group=test --group=backends --group=benchmarks
# Apache Beam needs an older protobuf.
.venv-beam/installed: install = '.[beam]' --group=test

.venv/installed .venv/installed-test .venv-all/installed .venv-beam/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --constraint=requirements.txt --upgrade pip
	$(@D)/bin/pip install --quiet --constraint=requirements.txt --editable $(install)
	touch $@

clean:
	rm -rf .venv .venv-all .venv-beam build quickstart_output
