"""`python -m bench [spark] [name …] [--quick] [--write]`: run benchmarks, print them, keep the numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from bench.capturing import capturing
from bench.compiling import compiling
from bench.crossover import crossover
from bench.foreign_keys import foreign_keys
from bench.growth import growth
from bench.machine import Neighbours, machine
from bench.measure import BenchmarkError
from bench.operators import operators
from bench.plots import plot
from bench.profiling import profiling
from bench.report import RESULTS, print_machine, print_result, save_json, save_markdown
from bench.tables import Result
from bench.thesis import thesis
from bench.w1 import w1
from bench.w2 import w2

BENCHMARKS: dict[str, Callable[[bool], Result]] = {
    "w1": w1,
    "w2": w2,
    "operators": operators,
    "compile": compiling,
    "thesis": thesis,
    "crossover": crossover,
    "growth": growth,
    "capture": capturing,
    "foreign-keys": foreign_keys,
    "profile": profiling,
}
IMAGES = Path(__file__).parent.parent / "docs" / "images"
SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Suite:
    """The benchmarks of one engine, and the file of its last run."""

    benchmarks: dict[str, Callable[[bool], Result]]
    latest: str


def suite(engine: str) -> Suite:
    if engine != SPARK:
        return Suite(BENCHMARKS, "latest.json")
    from bench.spark import benchmarks  # only here: Spark need not be installed for the others

    return Suite(benchmarks(), "latest-spark.json")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"{', '.join(BENCHMARKS)}; none: all of them; after 'spark': w2, tpch, growth, foreign-keys, profile",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run, not how fast")
    parser.add_argument(
        "--write", action="store_true", help="keep each as bench/results/ENGINE-NAME.md, and its figures in docs/images"
    )
    parser.add_argument("--into", type=Path, default=RESULTS, help="folder of latest.json and unpublished figures")
    asked = parser.parse_args(arguments)
    engine = SPARK if asked.names[:1] == [SPARK] else "duckdb"
    chosen, names = suite(engine), asked.names[1:] if engine == SPARK else asked.names
    if unknown := [n for n in names if n not in chosen.benchmarks]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(chosen.benchmarks)}")
    if asked.write and asked.quick:
        parser.error("--write keeps runs of full size: leave out --quick")

    given = sys.argv[1:] if arguments is None else arguments
    facts, command = machine(engine), " ".join(["python -m bench", *given])
    console = Console(width=None if sys.stdout.isatty() else 140)  # a log file has no width of its own
    print_machine(console, facts, command)
    results = []
    for name in names or chosen.benchmarks:
        neighbours = Neighbours()
        try:
            with console.status(f"{name} …"):
                result = chosen.benchmarks[name](asked.quick)
        except BenchmarkError as error:
            console.print(f"[red]{name} failed:[/] {error}")
            return 1
        result = replace(result, warning=neighbours.warning())
        print_result(console, result)
        for path in plot(result, IMAGES if asked.write else asked.into):
            console.print(f"  figure: {path.name} in {path.parent.name}/", style="dim", highlight=False)
        if asked.write:
            save_markdown(result, facts, command, RESULTS / f"{engine}-{name}.md")
        results.append(result)
    save_json(results, facts, command, asked.into / chosen.latest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
