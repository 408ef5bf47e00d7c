# `make help` lists the targets. Everything is installed into this checkout: .venv, images/context, runs.
PYTHON    ?= python3
PROFILE   ?= quick
ENGINE    ?= auto
DEVICE    ?= auto
WORKLOADS ?=
OUT       ?= runs
ARGS      ?=
FAULTS    ?= 2000
PICTURE   ?= docs/report.png

VENV      := .venv
BIN       := $(VENV)/bin
TFBENCH   := $(BIN)/tfbench
comma     := ,
# Some tests wait for containers or a browser.
WORKERS   := $(shell expr $$(nproc) + 1)
empty     :=
space     := $(empty) $(empty)
split      = $(subst $(comma),$(space),$(1))
# Run `pip $(2)` in the environment $(1). The output goes to a log that is only shown on failure, because pip also
# warns about the machine's own configuration.
pip        = $(1)/bin/pip $(2) --quiet --disable-pip-version-check >$(1)/pip.log 2>&1 || \
  { code=$$?; cat $(1)/pip.log >&2; echo "This output is also in $(1)/pip.log." >&2; exit $$code; }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables of bench: PROFILE=smoke|quick|full ENGINE=auto|docker|local DEVICE=auto|cpu|gpu|..."
	@echo "                    WORKLOADS=name,train.py OUT=folder ARGS='any option of tfbench bench'"

# The stamp is written last, so an interrupted installation starts again.
$(VENV)/installed: requirements.lock pyproject.toml
	@set -e; $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { is=$$($(PYTHON) -V 2>&1 || :); echo "tfbench needs Python 3.11 or newer; $(PYTHON) is $${is:-not a Python}. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is missing. On Debian and Ubuntu: sudo apt-get install python3-venv"; exit 2; }
	@echo "Installing the harness into $(VENV)"
	@$(call pip,$(VENV),install --require-hashes --requirement requirements.lock)
	@$(call pip,$(VENV),install --no-deps --no-build-isolation --editable .)
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed dev.lock
	@echo "Installing development tools into $(VENV)"
	@$(call pip,$(VENV),install --require-hashes --requirement dev.lock)
	@touch $@

.PHONY: install
install: $(VENV)/installed ## install the harness into .venv

.PHONY: bench
bench: $(VENV)/installed ## run the benchmarks and write the report
	@$(TFBENCH) bench --profile '$(PROFILE)' --engine '$(ENGINE)' --device '$(DEVICE)' --out '$(OUT)' \
	  $(call split,$(WORKLOADS)) $(ARGS)

.PHONY: doctor
doctor: $(VENV)/installed ## check what this host can run
	@$(TFBENCH) doctor

.PHONY: wheels
wheels: $(VENV)/installed ## download and verify the images' wheels, for docker-compose build
	@$(TFBENCH) images --fetch-only

.PHONY: images
images: $(VENV)/installed ## build the CPU and CUDA images
	@$(TFBENCH) images

.PHONY: engine
engine: ## install and start Docker if it is not running
	@images/engine.sh

.PHONY: test
test: $(VENV)/installed-dev ## run all tests; installs what they need, including a Docker Engine
	@$(MAKE) --no-print-directory --jobs 2 lint programs
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal

.PHONY: programs
programs:
	@tests/install.sh

.PHONY: quick
quick: $(VENV)/installed-dev ## run the fast tests: no Docker, TensorFlow, browser or slow tests
	@$(BIN)/pytest --numprocesses auto --dist worksteal --quiet \
	  -m "not docker and not tensorflow and not browser and not slow"

.PHONY: faults
faults: $(VENV)/installed-dev ## inject FAULTS=2000 faults: damaged files, hostile input, full disks, lost terminals and engines, kills
	@TFBENCH_FAULTS=$(FAULTS) $(BIN)/pytest --numprocesses auto --dist worksteal --quiet tests/faults

.PHONY: picture
picture: $(VENV)/installed-dev ## draw README's picture from a recorded run; needs Chromium
	@$(BIN)/python -m tests.picture '$(PICTURE)'

.PHONY: lint
lint: $(VENV)/installed-dev ## check formatting, style and types
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy

# Third-party samplers are installed into a separate environment.
build/compare/installed: compare.lock $(VENV)/installed
	@$(PYTHON) -m venv build/compare
	@echo "Installing third-party samplers into build/compare"
	@$(call pip,build/compare,install --require-hashes --requirement compare.lock)
	@touch $@

.PHONY: overhead
overhead: $(VENV)/installed-dev build/compare/installed ## measure the overhead of sampling
	@$(BIN)/python -m benchmarks.sampling $(ARGS)

.PHONY: truth
truth: $(VENV)/installed ## check the step-time breakdown on planted bottlenecks
	@$(BIN)/python -m benchmarks.truth $(ARGS)

.PHONY: power
power: $(VENV)/installed-dev ## measure error rates of compare, with equal runs and planted slowdowns
	@$(BIN)/python -m benchmarks.power $(ARGS)

.PHONY: lock
lock: $(VENV)/installed-dev ## update the lock files
	@BIN=$(BIN) images/lock.sh

.PHONY: clean
clean: ## remove installed and built files; keeps runs/ and the cache
	@if [ -f .env ]; then sed -i --follow-symlinks -E '/^TFBENCH_(BASE|[A-Z_]+_IMAGE)=/d' .env; [ -s .env ] || rm .env; fi
	rm -rf $(VENV) images/context build *.egg-info .mypy_cache .ruff_cache .pytest_cache
