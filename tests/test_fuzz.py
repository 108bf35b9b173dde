"""Random views under random changes: scripts that are kept, and as many random cases as fit into some minutes.

`make fuzz` goes on for hours, from another seed each time. A seed that fails there is fixed, and its
minimised case goes into fuzzing/regressions/ as a script; seeds change their meaning with the generator.
fuzzing/rules/ has a view for each delta rule, so that `make mutate` soon notices a wrong one.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from fuzzing.cases import Case, View, parse_script, random_case, run
from fuzzing.mutate import MUTATIONS, ROOT, RULES, Mutation
from viewkeep.incremental import delta as driver

SCRIPTS = sorted((Path(__file__).parent / "fuzzing").glob("*/*.sql"))
SECONDS = 150
FIRST_SEED = 1
ENOUGH = 8
"""Cases that run however slow the machine is."""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_script(path: Path) -> None:
    outcome = run(parse_script(path.read_text()))
    assert outcome.failure is None
    assert not outcome.left_out


def test_random_views_equal_their_queries() -> None:
    until = time.monotonic() + SECONDS
    strategies, reasons, seed = Counter[str](), Counter[str](), FIRST_SEED
    while time.monotonic() < until or seed < FIRST_SEED + ENOUGH:
        case = random_case(seed)
        outcome = run(case)
        assert outcome.failure is None, f"{outcome.failure}\n{case.script}"
        strategies += outcome.strategies
        reasons += outcome.reasons
        seed += 1
    worked = strategies.total() - strategies["unchanged"]
    assert strategies["recompute"] <= 0.2 * worked, reasons.most_common(5)


def test_a_case_survives_as_text() -> None:
    case = random_case(3)
    again = parse_script(case.script)
    assert (again.seed, again.setup, again.views, again.batches) == (case.seed, case.setup, case.views, case.batches)


def test_a_wrong_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is not asleep: a wrong rule does not pass."""
    monkeypatch.setattr(driver, "delta_filter", lambda node, below: below)
    case = Case(
        0,
        ("CREATE TABLE t (k INTEGER)", "INSERT INTO t VALUES (1)"),
        (View("v0", "SELECT k FROM t WHERE k > 1"),),
        (("INSERT INTO t VALUES (0)",),),
    )
    failure = run(case).failure
    assert failure is not None
    assert failure.kind == "wrong rows"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.what)
def test_mutations_fit_the_sources(mutation: Mutation) -> None:
    text = (ROOT / RULES / mutation.file).read_text()
    assert mutation.apply(text) != text
