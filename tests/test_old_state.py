"""old + delta = new, executed: once where the engine can read old states, once where they are derived.

The delta of the whole view is asked for, with an aggregate at its top like one below another operator.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import viewkeep
from operator_cases import CASES, Case
from support import TABLES, assert_same_bag, awkward_changes, empty, heavy_mix, open_keeper, refill, rows_of
from viewkeep.catalog import TableName
from viewkeep.emit.select import by_name, select
from viewkeep.errors import UnsupportedError
from viewkeep.incremental.delta import delta
from viewkeep.incremental.reproducible import reproducible
from viewkeep.incremental.weighted import Context, keep, to_units
from viewkeep.plan.nodes import Filter, Fresh, Node, Project, Scan, State, TopK, inputs_of, sources, with_inputs
from viewkeep.sql.build import build_query
from viewkeep.strategy import names


@pytest.mark.slow
@pytest.mark.parametrize("time_travel", [True, False], ids=["read", "derived"])
@pytest.mark.parametrize("case", [c for c in CASES if not c.setup], ids=lambda c: c.name.replace(" ", "-"))
def test_old_plus_delta_is_new(case: Case, time_travel: bool) -> None:
    keeper, world = open_keeper(*case.tables, seed=5)
    with keeper:
        plan = _below_order(build_query(case.query, keeper._db.catalog(), "duckdb").root)
        try:
            plan = reproducible(plan)
        except UnsupportedError:
            pytest.skip("has no delta below another operator")
        changed = frozenset(s.folded for s in sources(plan))
        context = Context(Fresh(1001), changed, time_travel)
        change = delta(plan, context)
        assert change is not None
        units = to_units(change, context.fresh)
        delta_sql = _sql(_from_copies(Project(units.node, keep((*plan.fields, units.node.fields[-1])))))
        for batch in (heavy_mix, awkward_changes, empty, refill):
            before = rows_of(keeper.query(_sql(plan)))
            for table in case.tables:
                keeper.sql(f"CREATE OR REPLACE TABLE {_copy(TABLES[table].sql)} AS FROM {TABLES[table].sql}")
                batch(world, table)
            world.play(keeper, "sql")
            for table in case.tables:
                _record_changes(keeper, TABLES[table].sql)
            changes = rows_of(keeper.query(delta_sql))
            came = [r[:-1] for r in changes if r[-1] > 0]
            left = [r[:-1] for r in changes if r[-1] < 0]
            assert_same_bag(rows_of(keeper.query(_sql(plan))) + left, before + came, batch.__name__)


def _below_order(root: Node) -> Node:
    """A LIMIT at the top is not maintained but applied to what is."""
    node, below = root, root
    while isinstance(node, Project | Filter | TopK):
        if isinstance(node, TopK):
            below = node.input
        node = node.input
    return below


def _copy(sql: str) -> str:
    return '"old_' + sql.replace('"', "").replace(".", "_") + '"'


def _from_copies(root: Node) -> Node:
    """Old states are read from the copies; shared subplans stay shared."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            if isinstance(node, Scan) and node.state is State.OLD:
                copied = TableName(_copy(str(node.table)).strip('"'))
                done[id(node)] = replace(node, table=copied, state=State.NEW)
            else:
                done[id(node)] = with_inputs(node, tuple(visit(child) for child in inputs_of(node)))
        return done[id(node)]

    return visit(root)


def _record_changes(keeper: viewkeep.Keeper, sql: str) -> None:
    schema, _, name = sql.replace('"', "").rpartition(".")
    recorded = names.delta(TableName(name, schema or None))
    keeper.sql(
        f'CREATE OR REPLACE TEMPORARY TABLE "{recorded.name}" AS '
        f"SELECT *, 1 AS _vk_weight FROM (FROM {sql} EXCEPT ALL FROM {_copy(sql)}) "
        f"UNION ALL SELECT *, -1 FROM (FROM {_copy(sql)} EXCEPT ALL FROM {sql})"
    )


def _sql(plan: Node) -> str:
    return select(plan, by_name(plan, [f"c{i}" for i, _ in enumerate(plan.fields)]), "duckdb").sql(dialect="duckdb")
