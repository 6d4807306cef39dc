# gnnqlab. Each target sets up what it needs first and installs nothing twice:
#   make demo       three training runs on two emulated hosts, compared; writes runs/<id>/report.html
#   make check      lint, import rules and the core tests, in a minute
#   make test       every test, the notebooks included
#   make mutants    plants every small wrong edit of tests/mutants and says which no test notices; some minutes
#   make lab        JupyterLab with the index of the notebooks
#   make slides     the notebooks as slides, in build/slides; ARGS="04 08" for some of them
#   make notebooks  runs every notebook and keeps its outputs, to be committed
#   make docs       the documentation as a site that needs no network, in build/docs/html
#   make gpu        where there is a GPU: builds, tests, measures and trains with the Python and PyTorch at hand; call it
#                   again until it says so; ARGS="--help" tells how to run a part
#   make wheel      builds sdist and wheel into dist/ and checks that they are whole; CUDA=ON for a wheel with CUDA kernels
#   make try-wheel  installs it for Python 3.11, 3.12 and 3.13 where they are, and runs the how-to pages as they stand
#   make clean      removes the environment, builds and caches (runs/ stays)
# Another interpreter: make demo PYTHON=/path/to/python3.11; more for JupyterLab: make lab LAB="--no-browser --port 9999"

PYTHON ?=
CUDA ?= AUTO
VENV := .venv
BIN := $(VENV)/bin
# Bytecode is kept in .venv and beside the sources: without, each of many processes compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

# The pinned versions are those of Python 3.11, so the interpreter is checked before anything is downloaded. What is set
# up already costs a checksum. The set-up replaces its shell, so that a signal to make ends it.
define SET_UP
is_311='import sys; sys.exit(sys.version_info[:2] != (3, 11))'; found=; \
for python in $(or $(PYTHON),$(BIN)/python python3.11 python3 python); do \
  if "$$python" -c "$$is_311" 2>/dev/null; then found="$$python"; break; fi; \
done; \
if [ -z "$$found" ]; then \
  echo "gnnqlab: the pinned versions need Python 3.11, found $$($(or $(PYTHON),python3) --version 2>/dev/null || echo none);" \
    "install it (Debian: apt-get install python3.11 python3.11-venv) or name one: make PYTHON=/path/to/python3.11" >&2; \
  exit 2; \
fi; \
exec "$$found" tests/set_up.py --cuda $(CUDA)
endef

.PHONY: help setup demo check test mutants lab slides notebooks docs gpu wheel try-wheel clean

help:
	@sed -n '1,15s/^# \{0,1\}//p' Makefile

setup:
	@$(SET_UP) test

demo:
	@$(SET_UP) demo
	@$(BIN)/gnnqlab compare --graph digits --model gcn --hidden 64 --systems vanilla,fixed-bits,adaqp --bits 2 --workers 2 \
	  --epochs 60 --evaluate-every 5 --hosts 2 --link 20mbit

check: setup
	@$(BIN)/python -m tests.run_all check

# Without the packages of the site, where they cannot be had, its tests are skipped.
test:
	@($(SET_UP) docs) || { echo "gnnqlab: the tests of the documentation as a site are skipped" >&2; $(SET_UP) test; }
	@$(BIN)/python -m tests.run_all

mutants: setup
	@$(BIN)/python -m tests.mutants $(ARGS)

# The root is the checkout, not notebooks: links of the notebooks to docs/ lead outside of it otherwise, and do nothing.
lab:
	@$(SET_UP) lab
	@cd notebooks && GNNQLAB_RUNS="$${GNNQLAB_RUNS:-$(CURDIR)/runs}" \
	  ../$(BIN)/jupyter lab 00_index.ipynb --ServerApp.root_dir=.. $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB)

slides: setup
	@$(BIN)/python -m docs.site.slides $(ARGS)

notebooks: setup
	@$(BIN)/python tests/notebooks/execute.py

docs:
	@$(SET_UP) docs
	@$(BIN)/python -m docs.site $(ARGS)

# Not in .venv: its PyTorch is the one pip is configured for, which need not have CUDA.
gpu:
	@$(or $(PYTHON),python3) tests/run_gpu.py $(ARGS)

wheel: setup
	@$(BIN)/python -m tests.release.make_wheel $(if $(filter ON,$(CUDA)),--cuda) $(ARGS)

# ARGS="python3.12 --pages own_graph" for less.
try-wheel: setup
	@$(BIN)/python -m tests.release.try_wheel $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf gnnqlab/kernels/_lib
