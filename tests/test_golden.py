"""What the compiler makes of a view, kept as text and executed. Rewritten by `make golden`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import viewkeep
from viewkeep.catalog import TableName
from viewkeep.emit.files import Programs
from viewkeep.emit.lake import PREFIX, refresh_texts
from viewkeep.emit.setup import setup_sql
from viewkeep.emit.statements import program_sql
from viewkeep.plan.printer import show
from viewkeep.runtime.compiled import CompiledView, compile_view
from viewkeep.sql.schema import read_schema
from viewkeep.strategy.methods import method_of
from viewkeep.strategy.program import Append, Stage
from viewkeep.strategy.shape import Shape

FOLDER = Path(__file__).parent / "golden"
DOCS = Path(__file__).parent.parent / "docs"
CASES = sorted(p.stem for p in FOLDER.glob("*.txt"))
REWRITE = bool(os.environ.get("VIEWKEEP_REWRITE_GOLDEN"))


@dataclass(frozen=True)
class Case:
    name: str
    head: str
    expected: str

    @staticmethod
    def read(name: str) -> Case:
        head, _, expected = (FOLDER / f"{name}.txt").read_text().partition("----")
        return Case(name, head, "----" + expected if expected else "")

    def value(self, key: str) -> str:
        found = re.search(rf"^{key}: (.*)$", self.head, re.MULTILINE)
        assert found, f"{self.name} has no line '{key}:'"
        return found.group(1).strip()

    @property
    def append_only(self) -> bool:
        return self.value("changes").endswith("(insert only)")

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(c.strip() for c in self.value("changes").removesuffix("(insert only)").split(","))

    def compiled(self) -> CompiledView:
        return compile_view(TableName("v"), self.value("view"), read_schema(self.value("schema"), "duckdb"), "duckdb")

    def shape(self) -> Shape:
        lost_rows = frozenset() if self.append_only else self.changed
        return Shape.of(self.changed, lost_rows, time_moved=self.compiled().timed)

    def sql(self, dialect: str) -> str:
        program = self.compiled().program(self.shape())
        return "\n".join(f"-- {s.why}\n{s.sql};" for s in program_sql(program, dialect))

    def output(self) -> str:
        compiled = self.compiled()
        program = compiled.program(self.shape())
        plans = [s.source for s in program.steps if isinstance(s, Append | Stage) and not isinstance(s.source, str)]
        assert compiled.query is not None
        on_files = Programs(self.compiled(), PREFIX, pretty=True).refresh(self.shape())
        sections = {
            "plan": show(compiled.query.root, lambda n: method_of(n, compiled.layout)),
            "delta plan": show(plans[0]),
            "what the user reads (duckdb)": setup_sql(compiled.layout, "duckdb")[2] + ";",
            "refresh (duckdb)": self.sql("duckdb"),
            "refresh (spark)": "\n".join(f"{s};" for s in refresh_texts(compiled, on_files)),
        }
        return "\n".join(f"---- {title}\n{text}" for title, text in sections.items()) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_compiles_to_the_golden_text(name: str) -> None:
    case = Case.read(name)
    output = case.output()
    if REWRITE:
        (FOLDER / f"{name}.txt").write_text(case.head + output)
        return
    assert output == case.expected, "run `make golden` and read the diff"


@pytest.mark.parametrize("name", CASES)
def test_golden_view_equals_its_query(name: str) -> None:
    case = Case.read(name)
    with viewkeep.connect("duckdb://") as keeper:
        keeper.sql(case.value("schema"))
        tables = list(keeper._db.catalog().tables.values())
        for table in tables:
            cells = [", ".join(_cell(c.type, i, j) for j, c in enumerate(table.columns)) for i in range(1, 9)]
            keeper.sql(f"INSERT INTO {table.name} VALUES {', '.join(f'({c})' for c in cells)}")
        keeper.sql(f"CREATE MATERIALIZED VIEW v WITH (policy = 'incremental') AS {case.value('view')}")
        for table in tables:
            if str(table.name) not in case.changed:
                continue
            first = table.columns[0].name
            if not case.append_only:
                keeper.sql(f"DELETE FROM {table.name} WHERE {first} IN (SELECT MIN({first}) FROM {table.name})")
            cells = [", ".join(_cell(c.type, i, j) for j, c in enumerate(table.columns)) for i in (21, 22)]
            keeper.sql(f"INSERT INTO {table.name} VALUES {', '.join(f'({c})' for c in cells)}")
        assert keeper.refresh("v").strategy == "classical"
        report = keeper.verify("v")
        assert report.equal, report
        assert keeper.query("SELECT COUNT(*) AS n FROM v").to_pylist()[0]["n"] > 0


def _cell(type_: str, row: int, column: int) -> str:
    """A first column that differs in every row, later ones that repeat and join."""
    number = row if column == 0 else row % 4 * 7 + 4
    if type_ == "TIMESTAMP":
        return f"now()::TIMESTAMP - INTERVAL {number} HOUR"
    return f"'{number}'" if type_ == "VARCHAR" else str(number)


def _documented() -> list[tuple[Path, str]]:
    pages = sorted(DOCS.rglob("*.md"))
    return [(page, name) for page in pages for name in re.findall(r"<!-- golden: (\w+) -->", page.read_text())]


@pytest.mark.parametrize(("page", "name"), _documented(), ids=lambda x: str(getattr(x, "stem", x)))
def test_documented_sql_is_what_really_runs(page: Path, name: str) -> None:
    block = f"<!-- golden: {name} -->\n```sql\n{Case.read(name).sql('duckdb')}\n```\n<!-- end -->"
    text = page.read_text()
    pattern = re.compile(rf"<!-- golden: {name} -->.*?<!-- end -->", re.DOTALL)
    if REWRITE:
        page.write_text(pattern.sub(lambda _: block, text))
        return
    assert pattern.search(text).group(0) == block, "run `make golden` and read the diff"  # type: ignore[union-attr]
