"""Keys that users declare: checked for sense, kept, never enforced; and whether they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from viewkeep.catalog import ForeignKey, Key, Kind, Table, TableName, Trust
from viewkeep.emit.select import identifier, table
from viewkeep.errors import CatalogError, nearest
from viewkeep.runtime.database import Database
from viewkeep.runtime.parts import read_by
from viewkeep.runtime.records import ViewRecord
from viewkeep.runtime.reports import KeyCheck

_DECLARABLE = (Trust.CHECKED, Trust.ENFORCED)


def declare_key(db: Database, table: str, columns: Sequence[str]) -> None:
    found = db.base_table(table)
    if not columns:
        raise CatalogError(f"a key of {table!r} needs at least one column")
    key = Key(tuple(found.column(c).name for c in columns), enforced=False)
    db.declare(found.name, [key], [])
    db.forget_schema()


def declare_foreign_key(
    db: Database, table: str, columns: Sequence[str], parent: str, parent_columns: Sequence[str], trust: str
) -> KeyCheck:
    """Keep a foreign key, and say what was found where it was looked at; it is kept whatever that is."""
    child, target = db.base_table(table), db.base_table(parent)
    if not parent_columns:
        if not target.keys:
            raise CatalogError(f"table {parent!r} has no key to refer to", hint="name the columns, or declare a key")
        parent_columns = target.keys[0].columns
    if len(parent_columns) != len(columns):
        raise CatalogError(f"{len(columns)} columns cannot refer to {len(parent_columns)}")
    key = ForeignKey(
        tuple(child.column(c).name for c in columns),
        target.name,
        tuple(target.column(c).name for c in parent_columns),
        _trust(trust),
    )
    db.declare(child.name, [], [key])
    db.forget_schema()
    if key.trust is Trust.ENFORCED:
        return KeyCheck(_written(child.name, key), key.trust.value)
    return check_foreign_key(db, child.name, key)


def _trust(text: str) -> Trust:
    known = {t.value: t for t in _DECLARABLE}
    if text.lower() not in known:
        listed = ", ".join(known)
        raise CatalogError(f"trust cannot be {text!r}", hint=nearest(text, known) or f"use one of: {listed}")
    return known[text.lower()]


def _written(child: TableName, key: ForeignKey) -> str:
    return f"{child}({', '.join(key.columns)}) → {key.parent}({', '.join(key.parent_columns)})"


# ---------------------------------------------------------------------- whether they hold
def check_foreign_key(db: Database, child: TableName, key: ForeignKey) -> KeyCheck:
    """Count the rows that point at nothing, and the keys that more than one row has."""
    both = exp.select(
        exp.alias_(exp.Subquery(this=_orphans(child, key)), "orphans"),
        exp.alias_(exp.Subquery(this=_copies(key.parent, key.parent_columns, with_nulls=False)), "duplicates"),
    )
    found = db.query(both.sql(dialect=db.dialect)).to_pylist()[0]
    return KeyCheck(_written(child, key), key.trust.value, found["orphans"], found["duplicates"])


def _orphans(child: TableName, key: ForeignKey) -> exp.Select:
    """A row with a NULL among its columns points at nothing on purpose."""
    points = [exp.column(identifier(c), "pointing") for c in key.columns]
    target = [exp.column(identifier(c), "pointed") for c in key.parent_columns]
    met = exp.and_(*(exp.EQ(this=t, expression=p) for p, t in zip(points, target, strict=True)))
    some = exp.select(exp.Literal.number(1)).from_(exp.alias_(table(key.parent), "pointed", table=True)).where(met)
    meant = [exp.Not(this=exp.Is(this=p.copy(), expression=exp.null())) for p in points]
    lonely = exp.Not(this=exp.Exists(this=some))
    return exp.select(exp.Count(this=exp.Star())).from_(exp.alias_(table(child), "pointing", table=True)).where(
        exp.and_(*meant, lonely)
    )  # fmt: skip


def _copies(name: TableName, columns: Sequence[str], with_nulls: bool) -> exp.Select:
    """How many values of some columns more than one row has."""
    each = [exp.column(identifier(c)) for c in columns]
    found = exp.select(*each).from_(table(name)).group_by(*each)
    if not with_nulls:
        found = found.where(exp.and_(*(exp.Not(this=exp.Is(this=c.copy(), expression=exp.null())) for c in each)))
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    return exp.select(exp.Count(this=exp.Star())).from_(found.having(several).subquery("copies"))


def broken_keys(db: Database, record: ViewRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Declared keys among a view's tables that do not hold: those it trusts, and those it checks anyway."""
    trusted, checked = list(_broken_keys(db, record)), list[str]()
    for check in _foreign_keys(db, record):
        if check.holds:
            continue
        if check.trust == Trust.ENFORCED.value:
            how = f"declare it with trust = 'checked', then REFRESH MATERIALIZED VIEW {record.name} FULL"
            trusted.append(f"{check}, yet it was declared as enforced: {how}")
        else:
            checked.append(f"{check}; it is checked before each refresh, and not relied on where that matters")
    return tuple(trusted), tuple(checked)


def _tables(db: Database, record: ViewRecord) -> Iterator[Table]:
    for source in dict.fromkeys(read_by(db, record)):
        found = db.catalog().get(source)
        if found.kind is Kind.BASE:
            yield found


def _broken_keys(db: Database, record: ViewRecord) -> Iterator[str]:
    for found in _tables(db, record):
        for key in found.keys:
            if key.enforced:
                continue
            copies = _copies(found.name, key.columns, with_nulls=True).sql(dialect=db.dialect)
            if count := db.query(copies).column(0)[0].as_py():
                yield (
                    f"key ({', '.join(key.columns)}) of {found.name} does not hold: "
                    f"{count:,} {'value is' if count == 1 else 'values are'} there more than once"
                )


def _foreign_keys(db: Database, record: ViewRecord) -> Iterator[KeyCheck]:
    read = {source.folded for source in read_by(db, record)}
    for found in _tables(db, record):
        for key in found.foreign_keys:
            if key.trust is not Trust.ENGINE and key.parent.folded in read:
                yield check_foreign_key(db, found.name, key)
