# Two commands do all the set-up: `make quickstart` and `make test`. Both make .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart test test-all test-parity test-beam test-backends lint docs format clean

quickstart: .venv/installed
	$(BIN)/python -m examples.quickstart.run

test: lint docs
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: lint docs
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Tests with libraries that `make test` does not install, each in an environment of its own.
test-parity: .venv-parity/installed
	.venv-parity/bin/python -m pytest tests/conversion/test_transformers.py tests/checkpoints/test_keras_hub.py \
		tests/checkpoints/test_hugging_face_reader.py tests/tokenization/test_hugging_face.py \
		tests/benchmarks/test_pretraining.py tests/benchmarks/test_pretraining_curves.py \
		tests/evaluation/test_masked_lm.py tests/models/test_base_model.py \
		tests/export/test_openvino.py tests/export/test_onnx.py tests/tasks/test_other_runtimes.py tests/tasks/test_embedding.py \
		tests/benchmarks/test_serving.py

test-beam: .venv-beam/installed
	.venv-beam/bin/python -m pytest tests/data/pretraining/test_beam.py

# The models and optimizers under each other backend of Keras, without the tests that use TensorFlow's
# gradients or trainer.
test-backends: .venv-backends/installed
	for backend in jax torch; do \
		KERAS_BACKEND=$$backend .venv-backends/bin/python -m pytest tests/test_backends.py \
			tests/models/test_keras_protocol.py tests/models/test_golden.py \
			tests/optimization/test_golden.py -m "not slow" -k "not logits and not along and not an_export" || exit 1; \
	done

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# The pages are in build/site. Nothing is downloaded but the packages of the environment.
docs: .venv/installed .venv-docs/installed
	$(BIN)/python docs/site/commands.py build/commands
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet

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

.venv-parity/installed: requirements.txt requirements-dev.txt requirements-parity.txt
	$(PYTHON) -m venv .venv-parity
	.venv-parity/bin/pip install --quiet -r requirements-parity.txt
	touch $@

.venv-beam/installed: requirements.txt requirements-dev.txt requirements-beam.txt
	$(PYTHON) -m venv .venv-beam
	.venv-beam/bin/pip install --quiet -r requirements-beam.txt
	touch $@

.venv-docs/installed: requirements-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet -r requirements-docs.txt
	touch $@

.venv-backends/installed: requirements.txt requirements-dev.txt requirements-backends.txt
	$(PYTHON) -m venv .venv-backends
	.venv-backends/bin/pip install --quiet -r requirements-backends.txt
	touch $@

clean:
	rm -rf .venv .venv-parity .venv-beam .venv-docs .venv-backends build quickstart_output
