"""Where the same words mean something else in another dialect: one table, asked by whoever reads a query."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    shared_first: bool
    """Whether * begins with the columns of USING and NATURAL, as the standard says, or leaves them in their place."""
    enforces_foreign_keys: bool
    """Whether a foreign key of a table definition is kept by the engine, or only written down."""
    grouping_type: str
    grouping_id_type: str
    empty_set_has_row: bool
    """Whether the grouping set () has a row where there are no rows at all."""
    spelling_tells_keys: bool
    """Whether `t.a` and `a` are two keys in grouping sets, each NULL where the other is grouped by."""
    pivots_texts: bool
    """Whether PIVOT compares values by how they are written."""
    pivot_names_lone_call: bool
    """Whether the name of a PIVOT's only aggregate is part of its columns' names."""
    pivot_counts_nothing: bool
    """Whether a count in a PIVOT is 0, not NULL, where there are no rows."""
    count_if_counts_nothing: bool
    """Whether COUNT_IF is 0, not NULL, where there are no rows."""
    has_with_ties: bool
    has_distinct_on: bool
    orders_aggregates: bool
    """Whether aggregates have an ORDER BY inside."""
    groups_several: bool
    """Whether GROUPING takes more than one key."""
    has_quantifiers: bool
    """Whether there are ANY and ALL over a query."""
    has_qualify: bool
    """Whether there is QUALIFY, over groups as well. (Of PostgreSQL nobody asks.)"""
    keeps_hidden_order: bool
    """Whether a correlated query has its first rows also by what it does not show."""


_MEANINGS = {
    "duckdb": Meaning(
        shared_first=False,
        enforces_foreign_keys=True,
        grouping_type="BIGINT",
        grouping_id_type="BIGINT",
        empty_set_has_row=True,
        spelling_tells_keys=True,
        pivots_texts=True,
        pivot_names_lone_call=True,
        pivot_counts_nothing=True,
        count_if_counts_nothing=False,
        has_with_ties=False,
        has_distinct_on=True,
        orders_aggregates=True,
        groups_several=True,
        has_quantifiers=True,
        has_qualify=True,
        keeps_hidden_order=True,
    ),
    "postgres": Meaning(
        shared_first=True,
        enforces_foreign_keys=True,
        grouping_type="INT",
        grouping_id_type="INT",
        empty_set_has_row=True,
        spelling_tells_keys=False,
        pivots_texts=False,
        pivot_names_lone_call=True,
        pivot_counts_nothing=True,
        count_if_counts_nothing=True,
        has_with_ties=True,
        has_distinct_on=True,
        orders_aggregates=True,
        groups_several=True,
        has_quantifiers=True,
        has_qualify=True,
        keeps_hidden_order=True,
    ),
    "spark": Meaning(
        shared_first=True,
        enforces_foreign_keys=False,
        grouping_type="TINYINT",
        grouping_id_type="BIGINT",
        empty_set_has_row=False,
        spelling_tells_keys=False,
        pivots_texts=False,
        pivot_names_lone_call=False,
        pivot_counts_nothing=False,
        count_if_counts_nothing=True,
        has_with_ties=False,
        has_distinct_on=False,
        orders_aggregates=False,
        groups_several=False,
        has_quantifiers=False,
        has_qualify=False,
        keeps_hidden_order=False,
    ),
}


def meaning(dialect: str) -> Meaning:
    return _MEANINGS[dialect]
