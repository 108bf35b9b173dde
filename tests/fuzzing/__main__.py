"""`make fuzz`: random cases until the time is over; each that fails is printed small, with its seed."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter

from .cases import Case, Outcome, random_case, run
from .shrink import shrink


def _run(case: Case, spark: bool) -> Outcome:
    if not spark:
        return run(case)
    with tempfile.TemporaryDirectory(prefix="fuzzing-") as folder:
        return run(case, f"spark:///{folder}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; the time of day if not given")
    parser.add_argument("--only", action="store_true", help="this seed and no other")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    parser.add_argument("--shrink", type=float, default=90, help="seconds to make a failing case small")
    parser.add_argument("--spark", action="store_true", help="on Spark, in a folder for each case")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    until = time.monotonic() + options.minutes * 60
    strategies, reasons, features = Counter[str](), Counter[str](), Counter[str]()
    cases = views = left_out = failures = 0
    while time.monotonic() < until and failures < options.failures:
        case = random_case(seed)
        outcome = _run(case, options.spark)
        cases, views, left_out = cases + 1, views + len(case.views), left_out + outcome.left_out
        strategies += outcome.strategies
        reasons += outcome.reasons
        features.update(case.features)
        if outcome.failure:
            failures += 1
            print(f"\n-- seed {seed} failed: {outcome.failure}", flush=True)
            small = shrink(case, outcome.failure, options.shrink, lambda c: _run(c, options.spark))
            print(small.script, flush=True)
            print(f"-- {_run(small, options.spark).failure}", flush=True)
        if options.only:
            break
        seed += 1
    print(f"\n{cases} cases, {views - left_out} views ({left_out} left out), {failures} failed")
    print("refreshes:", ", ".join(f"{n} {s}" for s, n in strategies.most_common()))
    print("features:", ", ".join(f"{s} {n}" for s, n in features.most_common()))
    for reason, times in reasons.most_common(15):
        print(f"  recomputed {times} times: {reason}")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
