# Everything a newcomer needs: make demo · make test · make check. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
# One thread per process: two torch threads on a busy two-core machine are many times slower than one.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
WORKERS ?= 2
# How another processor would round: no vector instructions in torch, older ones in oneDNN and OpenBLAS, plain code from Numba.
ROUNDED := $(CURDIR)/.roundings
OTHER := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=generic \
	NUMBA_CACHE_DIR=$(ROUNDED)/numba
# Sockets have no room for it in their names, so that it is the folder of the tests, not of all programs (TMPDIR).
LONG := $(ROUNDED)/$(shell printf 'a-folder-with-a-long-name/%.0s' 1 2 3 4 5)
# worksteal: neighbours stay in one worker, so that what they share is made once.
PYTEST = $(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: trust demo dist test test-all test-rounding test-roundings check format bench peers browser docs picture clean help

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## the whole chain on embedded data; ends with files in demo/
	$(ONE_THREAD) $(BIN)/weightsmith demo --out demo

test: $(VENV)/.dev ## the tests of every part and the examples in README, docs and docstrings; minutes
	$(PYTEST) -m "not slow" $(ARGS)

test-all: $(VENV)/.dev ## those and the slow ones: kills, whole studies, pages in a browser; what CI runs
	$(PYTEST) $(ARGS)

test-rounding: $(VENV)/.dev ## the tests as another processor rounds, in random order, in a folder with a long name
	mkdir -p $(LONG)
	$(OTHER) $(PYTEST) --random-order --basetemp=$(LONG)tests $(ARGS)

test-roundings: test-rounding ## that, and as a third one rounds, without real data and browser
	ATEN_CPU_CAPABILITY=avx2 WEIGHTSMITH_DATA= WEIGHTSMITH_BROWSER=none $(PYTEST) --random-order $(ARGS)

check: $(VENV)/.dev ## formatting, lint, strict types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev ## put the code into the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.dev ## the documentation as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/.dev ## wheel and source archive, each tried: the wheel alone in an environment that has only its dependencies
	rm -rf dist build/try
	$(BIN)/python -m hatchling build -d dist
	$(PYTHON) -m venv build/try
	build/try/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --no-index dist/*.whl
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
		$$(build/try/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dependencies.pth
	cd build/try && export PYTHONPATH= $(ONE_THREAD) && bin/python -c 'import sys, weightsmith; sys.exit("build/try" not in weightsmith.__file__)' && \
		bin/weightsmith train digits --network mlp:8 --epochs 1 --out run --quiet > /dev/null && bin/weightsmith grade run > /dev/null
	tar -tzf dist/*.tar.gz | grep -q /src/weightsmith/cli/app.py

peers: $(PEERS)/.installed ## a second environment with the peers, and the reference vectors they write
	$(ONE_THREAD) $(PEERS)/bin/python -m benchmarks.peers.write

bench: $(PEERS)/.installed ## speed against the peers, in one run; writes docs/results/
	$(ONE_THREAD) $(PEERS)/bin/python -m benchmarks.run $(ARGS)

trust: $(VENV)/.dev ## what is promised about files, kills and interrupts, tried in bulk; writes docs/results/trust.md
	$(ONE_THREAD) $(BIN)/python -m benchmarks.trust $(ARGS)

browser: ## Chromium and axe-core, for the tests that open the report in a browser (apt-get and npm)
	command -v chromium || command -v chromium-browser || command -v google-chrome || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }
	command -v npm || { apt-get update -qq && apt-get install -y -qq --no-install-recommends npm; }
	test -f .browser/node_modules/axe-core/axe.min.js || \
		npm install --prefix .browser --no-save --no-audit --no-fund --loglevel=error axe-core@4

picture: $(VENV)/.dev ## the picture in the README, from a run of the demo, and the drawing of the architecture
	$(ONE_THREAD) $(BIN)/python docs/picture.py
	$(BIN)/python docs/drawing.py

clean: ## remove what make made
	rm -rf $(VENV) $(PEERS) $(ROUNDED) .coverage .browser site demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.core: pyproject.toml constraints.txt requirements/core.txt requirements/install.sh
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "weightsmith needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	sh requirements/install.sh $(VENV) core
	touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.txt
	sh requirements/install.sh $(VENV) dev
	touch $@

$(PEERS)/.installed: benchmarks/peers/install.sh benchmarks/peers/*.txt constraints.txt
	bash benchmarks/peers/install.sh $(PEERS)
	touch $@
