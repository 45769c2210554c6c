# make lab     set everything up and open JupyterLab on the page that says which notebook is for whom
# make test    set everything up, a Chromium included, and run every test (CI runs this, and make check-wheel)
# make check   linters, type checkers, import contracts, generated files, plain words and spelling
# make check-wheel  build the wheel, install it into an empty environment without Node, train there
# make docs    build the site into build/site, from the pages, the notebooks as they are stored, and the docstrings
# make bench   benchmarks: ratios measured in one run
# make test-trainers  the callbacks against Lightning and Hugging Face's Trainer, in an environment of their own
# make test-processors  the tests that train, with each of PyTorch's kernels for a processor and one and two threads
# make test-oldest    the Python tests on the oldest versions that pyproject.toml allows
#
# Needed beforehand: Python >= 3.11, git, make. See README.md.

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help

VENV := .venv
OLDEST := .venv-oldest
TRAINERS := .venv-trainers
CONSTRAINTS := constraints.txt
PY := $(VENV)/bin/python
STAMPS := $(VENV)/stamps
# Not compiled: most of what is installed is never imported, and what is gets compiled then, once. Where bytecode is not
# to be written, each kernel and each process that the tests start would compile PyTorch anew, for four seconds.
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := $(PY) -m pip --disable-pip-version-check install --quiet --no-compile -c $(CONSTRAINTS)
FRONT_END := $(PY) hatch_build.py
TESTS := tests
# Two processes take the files of tests in turn, and each file's tests and each notebook's cells in their order. Files
# are taken in the order of tests/conftest.py: a process that has started a browser takes nothing but browser tests.
PYTEST := $(PY) -m pytest $(TESTS) notebooks -p nbval --nbval --nbval-sanitize-with tests/nbval.cfg --nbval-cell-timeout=120
IN_PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
# A test that fails is run once more, with nothing beside it, and must pass then: hundreds of them start browsers, kernels
# and processes, and share two cores with each other. Both runs are printed: a test named in the first is to be looked at.
AGAIN_ALONE := --last-failed --exitfirst
FRONT_END_SOURCES := $(shell find js -name node_modules -prune -o -type f -print)

.PHONY: help lab test check-site test-python test-processors test-trainers test-oldest test-front-end check check-wheel check-python check-front-end bench docs front-end format \
    types notebooks screenshots chromium clean with-trainers

help:
	@sed -n '1,12p' Makefile

$(STAMPS)/venv: scripts/create_venv.sh
	@scripts/create_venv.sh $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# Installing builds the browser bundle if it is stale.
$(STAMPS)/lab: $(STAMPS)/venv pyproject.toml $(CONSTRAINTS) hatch_build.py $(FRONT_END_SOURCES)
	@echo "== installing (PyTorch is large: the first time takes minutes)"
	$(PIP_INSTALL) -e '.[lab]'
	@touch $@

$(STAMPS)/dev: $(STAMPS)/venv pyproject.toml $(CONSTRAINTS) hatch_build.py
	@echo "== installing (PyTorch is large: the first time takes minutes)"
	$(PIP_INSTALL) -e '.[dev]'
	requirements="$$($(FRONT_END) requirements)" && \
	    if [ -n "$$requirements" ]; then $(PIP_INSTALL) "$$requirements"; fi
	@touch $@ $(STAMPS)/lab

front-end: $(STAMPS)/dev
	$(FRONT_END) build

# A file as the argument would make its folder the root, and links from notebooks to docs/ would lead nowhere.
lab: $(STAMPS)/lab
	$(VENV)/bin/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) --LabApp.default_url=/lab/tree/notebooks/start.ipynb

# After the virtual environment, for which apt-get may be needed too.
chromium: $(STAMPS)/venv
	@scripts/need_chromium.sh

check: check-python check-front-end

check-python: front-end
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy
	$(PY) scripts/plain_language.py
	$(PY) scripts/spelling.py

check-front-end: front-end
	$(PY) -m pnne_nb.protocol.typescript --check
	$(FRONT_END) npm run check
	$(FRONT_END) npm run lint

format: front-end
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(FRONT_END) npm run format

types: $(STAMPS)/dev
	$(PY) -m pnne_nb.protocol.typescript

test-front-end: check-front-end
	@echo "== TypeScript tests"
	$(FRONT_END) npm test

test:
	@$(MAKE) --no-print-directory -j 2 check test-front-end chromium
	@$(MAKE) --no-print-directory test-python

test-python: front-end chromium
	@echo "== Python, notebook and browser tests"
	$(PYTEST) $(IN_PARALLEL) --durations=10 $(PYTEST_ARGS) || { [ $$? = 1 ] && \
	    echo "== Once more, alone: what failed beside other tests" && $(PYTEST) $(AGAIN_ALONE) $(PYTEST_ARGS); }

# In an environment of their own, where everything that pyproject.toml names is as old as it allows.
test-oldest:
	@$(MAKE) --no-print-directory test-python VENV=$(OLDEST) CONSTRAINTS=$(OLDEST)/oldest.txt

test-processors: front-end
	PYTHON=$(PY) scripts/processor_settings.sh

test-trainers:
	@$(MAKE) --no-print-directory with-trainers VENV=$(TRAINERS)

with-trainers: $(STAMPS)/dev
	$(PIP_INSTALL) -e '.[lightning,transformers]'
	$(PY) -m pytest tests/debugging/with_trainers.py $(PYTEST_ARGS)

$(OLDEST)/oldest.txt: pyproject.toml
	@mkdir -p $(OLDEST)
	grep -oE '"[a-z-]+>=[0-9.]+"' $< | tr -d '"' | sed 's/>=/==/' >$@

check-wheel: front-end
	$(PY) scripts/check_wheel.py -c $(abspath $(CONSTRAINTS))

bench: front-end
	$(PY) -m benchmarks

$(STAMPS)/docs: $(STAMPS)/lab
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@

# Nothing runs, and nothing is fetched: `make test` has run every notebook and every block of a page.
docs: $(STAMPS)/docs
	$(PY) scripts/build_site.py

# Pages of the site, read by axe-core in a browser: the tests skip them, as they do not install Sphinx.
check-site: $(STAMPS)/docs chromium front-end
	$(PY) -m pytest tests/browser/test_site_pages.py -n 0 -q

# The README's picture and the pictures in the stored notebooks, as the widgets look now.
screenshots: front-end chromium
	$(PY) -m pytest tests/browser/test_quickstart.py -q -k shipped
	$(PY) scripts/make_screenshot.py
	$(PY) scripts/run_notebooks.py

notebooks: front-end
	$(PY) scripts/run_notebooks.py

clean:
	rm -rf $(VENV) $(OLDEST) $(TRAINERS) dist js/node_modules pnne_nb/widgets/static tests/artifacts
