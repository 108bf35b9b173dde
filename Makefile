PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test fast check golden bench bench-spark fuzz mutate clean long

help: ## show what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(STAMP) ## make the environment in .venv (demo and test call it themselves)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing viewkeep and what its tests need into .venv …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP) ## a small shop on Spark: tables changed, views refreshed, timed against recompute, proven equal (two minutes)
	@$(BIN)/viewkeep demo

test: $(STAMP) ## style, types, layers, and the tests on both engines but the long property runs
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest -n auto -q -m "not slow"

long: $(STAMP) ## the long property runs, on both engines (more than an hour)
	@$(BIN)/python -m pytest -n auto -q -m slow

fast: $(STAMP) ## the tests without the long property runs and without Spark (about a minute)
	@$(BIN)/python -m pytest -n auto -q -m "not slow and not spark"

check: $(STAMP) ## ruff, mypy --strict, the import contract
	@$(BIN)/ruff check src tests bench
	@$(BIN)/ruff format --check src tests bench
	@$(BIN)/mypy
	@$(BIN)/lint-imports

golden: $(STAMP) ## rewrite the golden files from what the compiler says now; read the diff before you commit it
	@VIEWKEEP_REWRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/test_golden.py tests/test_readme.py tests/test_tpc.py::test_the_tables_in_the_docs_are_current

bench: $(STAMP) ## refresh against recompute on DuckDB, in one run (an hour); see bench/README.md
	@$(BIN)/python -m bench

bench-spark: $(STAMP) ## refresh against recompute on Spark and Delta tables, in one run (about two hours)
	@$(BIN)/python -m bench spark

MINUTES ?= 120
fuzz: $(STAMP) ## random views under random changes for hours (MINUTES=…); each that fails is printed small
	@PYTHONPATH=tests $(BIN)/python -m fuzzing --minutes $(MINUTES)

mutate: $(STAMP) ## wrong delta rules on purpose, one at a time: which of them does no test notice?
	@PYTHONPATH=tests $(BIN)/python -m fuzzing.mutate

clean: ## remove the environment and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
