"""Strategy `foreign-key-materialized`: sub-trees of foreign keys as views of their own, which nobody has to know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeep
from support import Engine, assert_view_equals_query
from test_foreign_keys import BATCHES, ON_VIEWS, VIEWS, Shop, bag
from viewkeep.errors import CatalogError, SqlError

CHAIN = """SELECT r.back, s.amount, c.name, l.continent FROM returns r JOIN sales s ON r.sale = s.sale
    JOIN customers c ON s.customer = c.customer JOIN countries l ON c.country = l.country
    WHERE l.continent = 'a' AND s.amount > 0"""
SUMS = """SELECT l.continent, d.quarter, SUM(s.amount) AS total, MAX(s.amount) AS most FROM sales s
    JOIN customers c ON s.customer = c.customer JOIN countries l ON c.country = l.country JOIN days d ON s.sold = d.day
    GROUP BY l.continent, d.quarter"""
WITH_PARTS = {"chain": CHAIN, "sums": SUMS, "snowflake": VIEWS["snowflake"], "two_facts": VIEWS["two_facts"]}


def create(keeper: viewkeep.Keeper, name: str, query: str, replaced: bool = False, **options: str) -> None:
    listed = "".join(f", {k} = '{v}'" for k, v in options.items())
    keeper.sql(
        f"CREATE {'OR REPLACE ' if replaced else ''}MATERIALIZED VIEW {name} "
        f"WITH (strategy = 'foreign-key-materialized'{listed}) AS {query}"
    )


def parts(keeper: viewkeep.Keeper) -> list[str]:
    return [str(v.name) for v in keeper._db.read_views().values() if v.owner is not None]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_views_are_right_whatever_the_keys_are_worth(seed: int) -> None:
    follow(viewkeep.connect("duckdb://"), seed, WITH_PARTS)


@pytest.mark.slow
def test_views_on_views_are_right_too() -> None:
    top = """SELECT r.back, l.amount, p.name, p.continent FROM returns r JOIN lines l ON r.sale = l.sale
        JOIN places p ON l.customer = p.customer"""
    follow(viewkeep.connect("duckdb://"), 1, {**ON_VIEWS, "top": top})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_views_on_a_lake_are_right_too(spark: Engine) -> None:
    follow(viewkeep.connect(spark.url()), 1, WITH_PARTS, batches=8)


def follow(keeper: viewkeep.Keeper, seed: int, views: dict[str, str], batches: int = 12) -> None:
    with keeper:
        shop, used = Shop(keeper, seed), set()
        for name, query in views.items():
            create(keeper, name, query, policy="incremental")
        for kind in shop.rng.sample(BATCHES * 2, batches):
            shop.batch(kind)
            used |= {r.strategy for r in keeper.refresh()}
            for name, query in views.items():
                assert bag(keeper.query(f"SELECT * FROM {name}")) == bag(keeper.query(query)), f"{name} after {kind}"
        assert "foreign-key-materialized" in used
        for name in views:
            report = keeper.verify(name)
            assert report.equal, report
        for name in reversed(views):
            keeper.sql(f"DROP MATERIALIZED VIEW {name}")
        assert parts(keeper) == []


@pytest.fixture
def keeper(engine: Engine) -> Iterator[viewkeep.Keeper]:
    with viewkeep.connect(engine.url()) as keeper:
        Shop(keeper, 1)
        yield keeper


def test_nobody_has_to_know_of_parts(keeper: viewkeep.Keeper) -> None:
    create(keeper, "v", CHAIN)
    assert len(parts(keeper)) == 2
    (status,) = keeper.status()
    assert (status.view, set(status.sources)) == ("v", {"returns", "sales", "customers", "countries"})
    keeper.sql("INSERT INTO countries VALUES (77, 'a'); INSERT INTO customers VALUES (77, 77, 'new', '')")
    keeper.sql("INSERT INTO sales VALUES (77, 77, 1, 1, 1, 1, 5); INSERT INTO returns VALUES (77, 77, 77, 1, 1)")
    assert keeper.status()[0].pending == 4
    (report,) = keeper.refresh()
    assert (report.view, report.strategy, report.rows_inserted) == ("v", "foreign-key-materialized", 1)
    assert set(report.versions) == {"returns", "sales", "customers", "countries"}
    assert keeper.status()[0].pending == 0
    assert_view_equals_query(keeper, "v", CHAIN)
    assert keeper.verify("v").equal
    text = keeper.explain("v")
    assert all(f"{part} = " in text for part in parts(keeper))
    assert "customers ⋈ countries" in text


def test_parts_come_and_go_with_their_view(keeper: viewkeep.Keeper) -> None:
    create(keeper, "v", CHAIN)
    first = parts(keeper)
    with pytest.raises(CatalogError, match="for the sake of 'v'"):
        keeper.sql(f"DROP MATERIALIZED VIEW {first[0]}")
    with pytest.raises(CatalogError, match="view 'v'"):
        keeper.sql("DROP TABLE countries")  # read by a part alone
    create(keeper, "v", VIEWS["snowflake"], replaced=True)
    assert len(parts(keeper)) == 1
    assert not set(parts(keeper)) & set(first)
    keeper.sql("INSERT INTO sales VALUES (78, 1, 1, 1, 1, 1, 5)")
    keeper.refresh("v", full=True)
    assert_view_equals_query(keeper, "v", VIEWS["snowflake"])
    keeper.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {CHAIN}")  # without parts
    assert parts(keeper) == []
    keeper.sql("DROP MATERIALIZED VIEW v; DROP TABLE countries")


def test_a_star_has_no_parts(keeper: viewkeep.Keeper) -> None:
    create(keeper, "v", VIEWS["star"])
    assert parts(keeper) == []
    keeper.sql("INSERT INTO days VALUES (50, 1, 1); INSERT INTO sales VALUES (79, 1, 1, 1, 50, 50, 5)")
    assert keeper.refresh("v").strategy == "foreign-key"


def test_a_view_that_cannot_be_made_leaves_no_parts(keeper: viewkeep.Keeper) -> None:
    with pytest.raises(SqlError, match="reserved"):
        create(keeper, "v", CHAIN.replace("r.back,", "r.back AS _vk_back,"))
    assert parts(keeper) == []
    create(keeper, "v", CHAIN)
    with pytest.raises(CatalogError, match="exists already"):
        create(keeper, "v", CHAIN)
    assert len(parts(keeper)) == 2


def test_a_failure_half_way_leaves_no_parts(keeper: viewkeep.Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    made = type(keeper._db).create

    def fails(db: object, record: viewkeep.Keeper, *rest: object) -> None:
        if record.owner is None:  # type: ignore[attr-defined]
            raise RuntimeError("the disk is full")
        made(db, record, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(type(keeper._db), "create", fails)
    with pytest.raises(RuntimeError, match="disk is full"):
        create(keeper, "v", CHAIN)
    monkeypatch.undo()
    assert parts(keeper) == []
    create(keeper, "v", CHAIN)
    assert_view_equals_query(keeper, "v", CHAIN)


def test_a_view_with_parts_outlives_the_process(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'parts.duckdb'}"
    with viewkeep.connect(url) as keeper:
        Shop(keeper, 2)
        create(keeper, "v", CHAIN, refresh="on_change")
    with viewkeep.connect(url) as keeper:
        keeper.sql("INSERT INTO returns SELECT 90 + sale, sale, customer, 1, 1 FROM sales")
        assert keeper.history("v")[-1].strategy == "foreign-key-materialized"
        assert_view_equals_query(keeper, "v", CHAIN)
        tables = keeper.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'")
        assert not [t for t in tables.column(0).to_pylist() if "sub" in t]
        keeper.sql("DROP MATERIALIZED VIEW v")
        left = keeper.query("SELECT table_name FROM information_schema.tables WHERE table_name LIKE '%sub%'")
        assert left.num_rows == 0
