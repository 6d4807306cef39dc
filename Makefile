# gnnqlab. Each target sets up what it needs first and installs nothing twice:
#   make demo       three training runs on two emulated hosts, compared; writes runs/<id>/report.html
#   make test       every test, the notebooks included
#   make mutants    plants every small wrong edit of tests/mutants and says which no test notices; some minutes
#   make lab        JupyterLab in notebooks/
#   make notebooks  runs every notebook and keeps its outputs, to be committed
#   make docs       the documentation as a site that needs no network, in build/docs/html
#   make gpu        where there is a GPU: builds, tests, measures and trains with the Python and PyTorch at hand; call it
#                   again until it says so; ARGS="--help" tells how to run a part
#   make wheel      builds sdist and wheel into dist/ and checks that they are whole; CUDA=ON for a wheel with CUDA kernels
#   make try-wheel  installs it for Python 3.11, 3.12 and 3.13 where they are, and runs the how-to pages as they stand
#   make clean      removes the environment, builds and caches (runs/ stays)
# Another interpreter: make demo PYTHON=/path/to/python3.11; more for JupyterLab: make lab LAB="--no-browser --port 9999"

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --progress-bar off

# A stamp carries the checksum of what was installed, the compilers found included; the folder is part of it, because an
# environment cannot be moved.
DEPENDENCIES_SUM := $(shell { pwd; cat pyproject.toml constraints.txt; } | cksum | tr ' ' '-')
PACKAGE_SUM := $(shell { cat pyproject.toml; find cuda_ext -type f 2>/dev/null | LC_ALL=C sort | xargs -r cat; command -v c++ g++ clang++ nvcc; } | cksum | tr ' ' '-')
DEPENDENCIES := $(VENV)/.dependencies-$(DEPENDENCIES_SUM)
PACKAGE := $(VENV)/.package-$(DEPENDENCIES_SUM)-$(PACKAGE_SUM)
DOCS := $(VENV)/.docs-$(DEPENDENCIES_SUM)-$(shell cat docs/constraints.txt 2>/dev/null | cksum | tr ' ' '-')

.PHONY: help setup demo test mutants lab notebooks docs gpu wheel try-wheel clean
.DELETE_ON_ERROR:

help:
	@sed -n '1,13s/^# \{0,1\}//p' Makefile

setup: $(PACKAGE)

demo: $(PACKAGE)
	@$(BIN)/gnnqlab compare --graph digits --model gcn --hidden 64 --systems vanilla,fixed-bits,adaqp --bits 2 --workers 2 \
	  --epochs 60 --evaluate-every 5 --hosts 2 --link 20mbit

# Without the packages of the site, where they cannot be had, its tests are skipped.
test: $(PACKAGE)
	@$(MAKE) --no-print-directory $(DOCS) || echo "gnnqlab: the tests of the documentation as a site are skipped" >&2
	@$(BIN)/python tests/run_all.py

mutants: $(PACKAGE)
	@$(BIN)/python -m tests.mutants $(ARGS)

lab: $(PACKAGE)
	@cd notebooks && GNNQLAB_RUNS="$${GNNQLAB_RUNS:-$(CURDIR)/runs}" \
	  ../$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB)

notebooks: $(PACKAGE)
	@$(BIN)/python tests/notebooks/execute.py

docs: $(PACKAGE) $(DOCS)
	@$(BIN)/python -m docs.site $(ARGS)

# Not in .venv: its PyTorch is the one pip is configured for, which need not have CUDA.
gpu:
	@$(or $(PYTHON),python3) tests/run_gpu.py $(ARGS)

wheel: $(PACKAGE)
	@$(BIN)/python -m tests.release.make_wheel $(if $(filter ON,$(CUDA)),--cuda) $(ARGS)

# ARGS="python3.12 --pages own_graph" for less.
try-wheel: $(PACKAGE)
	@$(BIN)/python -m tests.release.try_wheel $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf gnnqlab/kernels/_lib

# The pinned versions are those of Python 3.11, so the interpreter is checked before anything is downloaded.
$(DEPENDENCIES):
	@is_311='import sys; sys.exit(sys.version_info[:2] != (3, 11))'; \
	if [ ! -e "$(VENV)/.folder" ] || [ "$$(cat $(VENV)/.folder)" != "$$(pwd)" ] || ! $(BIN)/python -c "$$is_311" 2>/dev/null; then \
	  found=; \
	  for python in $(or $(PYTHON),python3.11 python3 python); do \
	    if "$$python" -c "$$is_311" 2>/dev/null; then found="$$python"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "gnnqlab: the pinned versions need Python 3.11, found $$($(or $(PYTHON),python3) --version 2>/dev/null || echo none);" \
	      "install it (Debian: apt-get install python3.11 python3.11-venv) or name one: make PYTHON=/path/to/python3.11" >&2; \
	    exit 2; \
	  fi; \
	  "$$found" -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "gnnqlab: $$found cannot make an environment of its own; install its venv module (Debian: apt-get install python3.11-venv)" >&2; \
	    exit 2; }; \
	  echo "gnnqlab: making $(VENV) with $$("$$found" --version)" >&2; \
	  "$$found" -m venv --clear $(VENV); \
	  pwd > $(VENV)/.folder; \
	fi
	@echo "gnnqlab: installing torch (the build that pip is configured for), then the other pinned packages" >&2
	@$(PIP) -c constraints.txt $$(grep "^torch==" constraints.txt)
	@$(PIP) -c constraints.txt $$($(BIN)/python -c "$$PRINT_REQUIREMENTS")
	@rm -f $(VENV)/.dependencies-*; touch $@

# Without a compiler the package installs too; `gnnqlab doctor` says which kernels are in use. The libraries go
# beside the sources, where they are found whichever way the package is imported.
$(PACKAGE): $(DEPENDENCIES)
	@echo "gnnqlab: building the kernels and installing the package" >&2
	@PATH="$$(pwd)/$(BIN):$$PATH" $(PIP) --no-build-isolation --no-deps --editable . \
	  --config-settings=cmake.define.GNNQLAB_CUDA=AUTO \
	  --config-settings=cmake.define.GNNQLAB_DESTINATION="$$(pwd)/gnnqlab/kernels/_lib"
	@rm -f $(VENV)/.package-*; touch $@

# What the site alone needs: an environment without it passes every test but those of the site, which are skipped.
$(DOCS): $(DEPENDENCIES)
	@echo "gnnqlab: installing what the documentation is built with" >&2
	@$(PIP) -c constraints.txt -c docs/constraints.txt $$($(BIN)/python -c "$$PRINT_REQUIREMENTS" docs)
	@rm -f $(VENV)/.docs-*; touch $@

define PRINT_REQUIREMENTS
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
groups = [extras[name] for name in sys.argv[1:]] or [project["dependencies"], *(extras[name] for name in extras if name != "docs")]
print(*(line.replace(" ", "") for group in groups for line in group))
endef
export PRINT_REQUIREMENTS
