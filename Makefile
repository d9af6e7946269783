# `make help` lists the targets. Everything happens inside this folder, and every target may be run again at any time.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first of these that runs and is new enough makes the virtual environment; set PYTHON to choose another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
JOBS ?= 2
SLICES := slice-nxp slice-cortex_m slice-ethos_u slice-ethos_u85
BIN := .venv/bin
PY := $(BIN)/python
STAMP := .venv/.deuteron-stamp
# What a test run writes elsewhere than on the terminal.
REPORTS := build/reports
# What `make native` compiles for this machine, tests that build the same library take from ccache (tests/conftest.py).
ifneq ($(shell command -v ccache),)
export CCACHE_DIR ?= $(CURDIR)/build/ccache
export CCACHE_NOHASHDIR := 1
export CMAKE_C_COMPILER_LAUNCHER := ccache
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
endif
# Runs a command with its output in build/$(1).log, which a failure names; with V=1 on the terminal.
, := ,
logged = @mkdir -p build; $(if $(V),$(2),($(2)) >build/$(1).log 2>&1 || { tail -n 20 build/$(1).log >&2; \
  echo "error: this failed; all output is in build/$(1).log (V=1 shows it)" >&2; exit 1; })

help: ## List the targets; V=1 makes them show the output of pip and CMake
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Install Debian packages, make .venv and install everything into it

packages:
	@tools/debian-packages.sh

board-packages:
	@tools/debian-packages.sh boards

$(STAMP): pyproject.toml | packages
	@test -n "$(PYTHON)" || { echo "error: found no Python 3.11, 3.12 or 3.13; set PYTHON to one" >&2; exit 1; }
	@echo "== setup: Python packages into .venv (about 2 GB the first time)"
	@test -x $(PY) || $(PYTHON) -m venv .venv
	$(call logged,setup,$(PY) -m pip install --editable '.[executorch$(,)examples$(,)solver$(,)dev$(,)docs]')
	$(call logged,setup-tosa,$(PY) -m pip install --no-deps tosa-tools==2026.5.0) # of [ethos-u]; it holds NumPy back
	@touch $@

native: $(STAMP) ## Build the driver, the kernels and the ExecuTorch delegate for this machine
	@echo "== native: driver, kernels and delegate"
	$(call logged,native,$(PY) -m deuteron.runtime.build_native)

wheel: $(STAMP) ## Build the wheel for this platform into dist/; released ones come from cibuildwheel (pyproject.toml)
	@echo "== wheel"
	@$(PY) -m pip wheel -q --no-deps --no-build-isolation --wheel-dir dist .

demo: native ## Train, quantize, compile and run the digits model; prints accuracy and sizes
	@echo "== demo"
	@$(PY) examples/digits_demo.py $(if $(V),--verbose)

docs: pictures ## Build the site into build/site, with new pictures; warnings and dead links are errors
	@echo "== docs"
	@$(PY) -m sphinx -q -W --keep-going -b html -c docs . build/site

pictures: native board-packages ## Take the pictures in docs/pictures, which README and guides show
	@echo "== pictures"
	@$(PY) tools/pictures.py

lint: $(STAMP) ## Check style, formatting, types and generated headers
	@echo "== lint: ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== lint: clang-format"
	@git ls-files -z 'firmware/*.c' 'firmware/*.h' 'firmware/*.cpp' 'native/*.c' 'native/*.h' | xargs -0 -r $(BIN)/clang-format --dry-run -Werror
	@echo "== lint: basedpyright"
	@$(BIN)/basedpyright --level error
	@echo "== lint: generated headers and pack"
	@$(PY) tools/gen_headers.py --check
	@$(PY) tools/gen_pack.py --check

# One thread per worker: on small operators, waiting threads cost more than they do. Tests of a file stay together, as some
# build at a place of their own; slow files come first (tests/conftest.py).
test: board-packages ## Run every check: lint, types, C warnings, all tests, a part of ExecuTorch's own
	@$(MAKE) -j2 --output-sync=target lint native
	@mkdir -p $(REPORTS)
	@echo "== test: slow tests first"
	@OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations 30 --junitxml $(REPORTS)/tests.xml
	@echo "== test: a part of ExecuTorch's own NXP, Cortex-M and Ethos-U tests"
	@$(MAKE) -j$(JOBS) --output-sync=target $(SLICES)

test-full: test ## Run `test`, then the tests that repeat its checks on more boards, targets, models and random draws
	@echo "== test: marked full"
	@OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --full -m full

# Each in one process: importing its tests takes longer than running them.
$(SLICES):
	@$(PY) -m conformance --backend $(@:slice-%=%) --jobs 1 --slice

bench-activations bench-boards bench-c-compilers bench-cortex-m bench-cortex-m-elements bench-cortex-m-networks bench-cortex-m-sizes bench-depth-first-cpu bench-dispatch bench-ethosu-boards bench-footprint bench-models bench-networks-on-targets bench-prefetch-overlap bench-profile-cost bench-profile-map bench-serial-line bench-streams bench-text-generation bench-tutorials bench-viewers: board-packages

bench-%: native ## Run one bench, for example `make bench-convert`; JSON goes to build/benches/
	@echo "== bench: $*"
	@mkdir -p build/benches
	@$(PY) benches/$(subst -,_,$*).py --json build/benches/$*.json $(if $(SCHEDULER),--scheduler $(SCHEDULER)) $(ARGS)

clean: ## Remove what was built; .venv stays
	rm -rf build dist src/deuteron/runtime/lib demo-out .pytest_cache .ruff_cache .hypothesis
	find src tests tools examples benches -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help setup packages board-packages native wheel demo docs pictures lint test test-full clean $(SLICES)

include conformance/conformance.mk
