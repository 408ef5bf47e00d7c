# `make help` lists the targets. Everything is installed into this checkout: .venv, images/context, runs.
PYTHON    ?= python3
PROFILE   ?= quick
ENGINE    ?= auto
DEVICE    ?= auto
WORKLOADS ?=
OUT       ?= runs
ARGS      ?=
FAULTS    ?= 2000

VENV      := .venv
BIN       := $(VENV)/bin
TFBENCH   := $(BIN)/tfbench
comma     := ,
empty     :=
space     := $(empty) $(empty)
split      = $(subst $(comma),$(space),$(1))
# pip of the environment $(1) does $(2). What it says is kept there, and shown when it fails only: a warning that
# an index is not asked, or a folder not used, is of the machine's own configuration.
pip        = $(1)/bin/pip $(2) --quiet --disable-pip-version-check >$(1)/pip.log 2>&1 || \
  { code=$$?; cat $(1)/pip.log >&2; echo "This is in $(1)/pip.log too." >&2; exit $$code; }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables of bench: PROFILE=smoke|quick|full ENGINE=auto|docker|local DEVICE=auto|cpu|gpu|..."
	@echo "                    WORKLOADS=name,name OUT=folder ARGS='any option of tfbench bench'"

# The environment is complete only when the stamp is there; an interrupted installation starts again.
$(VENV)/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tfbench needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is missing. On Debian and Ubuntu: sudo apt-get install python3-venv"; exit 2; }
	@echo "Installing what the harness needs into $(VENV)"
	@$(call pip,$(VENV),install --require-hashes --requirement requirements.lock)
	@$(call pip,$(VENV),install --no-deps --no-build-isolation --editable .)
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed dev.lock
	@echo "Installing what the tests need into $(VENV)"
	@$(call pip,$(VENV),install --require-hashes --requirement dev.lock)
	@touch $@

.PHONY: install
install: $(VENV)/installed ## install the harness into .venv

.PHONY: bench
bench: $(VENV)/installed ## run the benchmark and write the report (the main job)
	@$(TFBENCH) bench --profile $(PROFILE) --engine $(ENGINE) --device $(DEVICE) --out $(OUT) \
	  $(foreach name,$(call split,$(WORKLOADS)),--workload $(name)) $(ARGS)

.PHONY: doctor
doctor: $(VENV)/installed ## say what this host can and cannot do
	@$(TFBENCH) doctor

.PHONY: wheels
wheels: $(VENV)/installed ## fetch and check the images' wheels; then docker-compose build works
	@$(TFBENCH) images --fetch-only

.PHONY: images
images: $(VENV)/installed ## build the CPU and the CUDA image
	@$(TFBENCH) images

.PHONY: engine
engine: ## install and start a Docker Engine, unless one answers
	@images/engine.sh

.PHONY: test
test: lint ## run all tests; needs a Docker Engine (make engine)
	@tests/install.sh
	@$(BIN)/pytest --numprocesses auto --dist worksteal

.PHONY: quick
quick: $(VENV)/installed-dev ## run most tests: none with engine, TensorFlow or browser, none marked slow (whole pages, replayed runs, fuzzing)
	@$(BIN)/pytest --numprocesses auto --dist worksteal --quiet \
	  -m "not docker and not tensorflow and not browser and not slow"

.PHONY: faults
faults: $(VENV)/installed-dev ## inject FAULTS=2000 faults: damaged files, hostile options and workloads, kills
	@TFBENCH_FAULTS=$(FAULTS) $(BIN)/pytest --numprocesses auto --dist worksteal --quiet tests/faults

.PHONY: lint
lint: $(VENV)/installed-dev ## check format, style and types
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy

# Other people's samplers run as processes of an environment of their own: ours stays as small as it is.
build/compare/installed: compare.lock $(VENV)/installed
	@$(PYTHON) -m venv build/compare
	@echo "Installing the samplers to compare with into build/compare"
	@$(call pip,build/compare,install --require-hashes --requirement compare.lock)
	@touch $@

.PHONY: overhead
overhead: $(VENV)/installed-dev build/compare/installed ## measure what measuring costs
	@$(BIN)/python -m benchmarks.sampling $(ARGS)

.PHONY: truth
truth: $(VENV)/installed ## plant bottlenecks; are the verdicts right?
	@$(BIN)/python -m benchmarks.truth $(ARGS)

.PHONY: power
power: $(VENV)/installed-dev ## how often compare is wrong: like with like, and a planted slowdown
	@$(BIN)/python -m benchmarks.power $(ARGS)

.PHONY: lock
lock: $(VENV)/installed-dev ## resolve the lock files again
	@BIN=$(BIN) images/lock.sh

.PHONY: clean
clean: ## remove what was installed and built here; keeps runs/ and the cache
	rm -rf $(VENV) images/context build .env *.egg-info .mypy_cache .ruff_cache .pytest_cache
