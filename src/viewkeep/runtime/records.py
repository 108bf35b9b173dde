"""What is kept of a view, as text: all that another process needs to go on with it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from viewkeep.catalog import Column, ForeignKey, Key, Kind, Table, TableName, Trust
from viewkeep.strategy.form import PLAIN, Form
from viewkeep.strategy.materialized import Part


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """All that must survive to go on with a view in another process."""

    name: TableName
    query: str
    """In the engine's dialect."""
    sources: tuple[TableName, ...]
    options: dict[str, str]
    output: tuple[str, ...]
    not_incremental: str | None = None
    expanded: dict[str, str] = field(default_factory=dict)
    """Plain views the query was expanded through, with their text then."""
    tables: tuple[Table, ...] = ()
    """Every table and plain view the query names, as it was then: compiling again gives the same plan."""
    created: int = 0
    """The version it was created at: changes before are not known."""
    types: tuple[str, ...] = ()
    """Of the output columns, where the engine's own types do not follow from the stored ones."""
    owner: TableName | None = None
    """The view for whose sake this one is kept; users do not know of it."""
    parts: tuple[Part, ...] = ()
    """Views that it reads in place of some of its tables."""
    zone: str | None = None
    """The time zone of the session it was made in, where its rows depend on the current time."""
    form: Form = PLAIN

    @property
    def timed(self) -> bool:
        return self.zone is not None

    @property
    def policy(self) -> str:
        return self.options.get("policy", "auto")

    @property
    def strategy(self) -> str:
        return self.options.get("strategy", "auto")

    @property
    def refresh(self) -> str:
        return self.options.get("refresh", "manual")

    @property
    def keeps_changes(self) -> bool:
        return self.options.get("changes", "keep") == "keep"


def to_json(record: ViewRecord) -> str:
    data = {**asdict(record), "name": str(record.name), "sources": [str(s) for s in record.sources]}
    data["tables"] = [_table_to_json(t) for t in record.tables]
    data["owner"] = str(record.owner) if record.owner else None
    data["parts"] = [{**asdict(p), "view": str(p.view)} for p in record.parts]
    return json.dumps(data)


def from_json(text: str) -> ViewRecord:
    data = json.loads(text)
    return ViewRecord(
        **{
            **data,
            "name": TableName.parse(data["name"]),
            "sources": tuple(TableName.parse(s) for s in data["sources"]),
            "output": tuple(data["output"]),
            "tables": tuple(_table_from_json(t) for t in data["tables"]),
            "types": tuple(data.get("types", ())),
            "owner": TableName.parse(data["owner"]) if data.get("owner") else None,
            "parts": tuple(map(_part_from_json, data.get("parts", ()))),
            "form": Form(**data.get("form", {})),
        }
    )


def _part_from_json(data: dict[str, Any]) -> Part:
    pairs = tuple((a, b) for a, b in data["pairs"])
    return Part(TableName.parse(data["view"]), tuple(data["members"]), pairs)


def _table_to_json(table: Table) -> dict[str, Any]:
    return {
        "name": str(table.name),
        "columns": [asdict(c) for c in table.columns],
        "kind": table.kind.value,
        "keys": [asdict(k) for k in table.keys],
        "foreign_keys": [foreign_key_to_json(f) for f in table.foreign_keys],
        "definition": table.definition,
    }


def _table_from_json(data: dict[str, Any]) -> Table:
    return Table(
        TableName.parse(data["name"]),
        tuple(Column(**c) for c in data["columns"]),
        Kind(data["kind"]),
        tuple(Key(tuple(k["columns"]), k["enforced"]) for k in data["keys"]),
        tuple(map(foreign_key_from_json, data.get("foreign_keys", ()))),
        data["definition"],
    )


def foreign_key_to_json(key: ForeignKey) -> dict[str, Any]:
    return {**asdict(key), "parent": str(key.parent), "trust": key.trust.value}


def foreign_key_from_json(data: dict[str, Any]) -> ForeignKey:
    return ForeignKey(
        tuple(data["columns"]),
        TableName.parse(data["parent"]),
        tuple(data["parent_columns"]),
        Trust(data.get("trust", Trust.CHECKED.value)),
    )
