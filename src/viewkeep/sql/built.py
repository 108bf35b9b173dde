"""A query in FROM, or one side of a set operation, as rows: a plan and the names of its columns.

Where it uses columns of a query around, its rows are those for all their values at once. Hidden columns
at the end say for which, and links compare them with the columns of the query around:

    (SELECT s.v FROM s WHERE s.k = l.k)   →   π_{v, k}(s)   with the link   l.k = k
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.plan.nodes import Field, Filter, Fresh, Join, JoinKind, Named, Node, Project, Values
from viewkeep.plan.scalars import Scalar, column, columns_of, conjoin, substitute
from viewkeep.sql.subquery import Domain, Nested, by_link, named_outputs


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    node: Node
    names: tuple[str, ...]
    """Of the columns that the user sees; those of the links come after them."""
    links: tuple[Scalar, ...] = ()
    """Each compares a value of the query around with the hidden column at its place."""
    domains: tuple[Domain, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.node.fields[: len(self.names)]

    @property
    def keys(self) -> tuple[Field, ...]:
        return self.node.fields[len(self.names) :]

    @property
    def outside(self) -> frozenset[str]:
        """Columns of the query around."""
        return _outside(self.links, self.node)

    @property
    def nested(self) -> Nested:
        return Nested(self.node, tuple(column(f.id) for f in self.fields), self.names, self.links, self.domains)

    def linked_to(self, node: Node, *others: Built) -> Built:
        """Other rows with the same columns in the same places, keys too."""
        keys = node.fields[len(self.names) :]
        links = (
            type(link)(this=link.this.copy(), expression=column(k.id)) for link, k in zip(self.links, keys, strict=True)
        )
        domains = (d for built in (self, *others) for d in built.domains)
        return Built(node, self.names, tuple(links), tuple(domains))


def as_rows(nested: Nested, fresh: Fresh) -> Built:
    """A subquery as what can stand in FROM; an aggregate without GROUP BY has a row for every value."""
    outputs = named_outputs(nested, fresh)
    if not nested.one_row:
        keys, links = by_link(nested, fresh)
        return Built(Project(nested.node, (*outputs, *keys)), nested.names, links, nested.domains)
    columns = sorted(_outside(nested.links, nested.node))
    domain, joined = _beside_domain(nested.node, nested.links, columns, JoinKind.LEFT, fresh)
    rows = joined if nested.present is None else Filter(joined, nested.present)
    return _by_domain(rows, outputs, nested.names, columns, (*nested.domains, domain))


def for_each(built: Built, columns: list[str], fresh: Fresh) -> Built:
    """The same rows, linked by the given columns of the query around and no others."""
    domain, joined = _beside_domain(built.node, built.links, columns, JoinKind.INNER, fresh)
    passed = tuple(Named(f, column(f.id)) for f in built.fields)
    return _by_domain(joined, passed, built.names, columns, (*built.domains, domain))


def _outside(links: tuple[Scalar, ...], node: Node) -> frozenset[str]:
    return frozenset().union(*map(columns_of, links)) - {f.id for f in node.fields}


def _beside_domain(
    node: Node, links: tuple[Scalar, ...], columns: list[str], kind: JoinKind, fresh: Fresh
) -> tuple[Domain, Join]:
    fields = tuple(Field(fresh("outer")) for _ in columns)
    domain = Domain(Values((), fields), tuple(map(column, columns)))
    values: dict[str, Scalar] = {i: column(f.id) for i, f in zip(columns, fields, strict=True)}
    return domain, Join(domain.stand_in, node, conjoin([substitute(link, values) for link in links]), kind)


def _by_domain(
    node: Node, outputs: tuple[Named, ...], names: tuple[str, ...], columns: list[str], domains: tuple[Domain, ...]
) -> Built:
    keys = domains[-1].stand_in.fields
    links = (exp.NullSafeEQ(this=column(i), expression=column(k.id)) for i, k in zip(columns, keys, strict=True))
    return Built(Project(node, (*outputs, *(Named(k, column(k.id)) for k in keys))), names, tuple(links), domains)
