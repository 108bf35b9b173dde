"""Random queries that an engine accepts and that have one answer.

Expressions are typed. `apx` is a DOUBLE whose last bits depend on the order of addition: it is shown and
passed on, never compared, grouped or sorted by. `list` is shown and unnested. Positions (ROW_NUMBER,
LIMIT, …) follow an order of all columns in scope, so that ties are between equal rows only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .tables import VALUES, literal

EXACT = ("int", "dec", "dbl", "text", "date", "bool")
NUMBERS = ("int", "dec", "dbl")


@dataclass(frozen=True)
class Out:
    """A column that can be named: as it is written, and its type."""

    sql: str
    type: str

    @property
    def name(self) -> str:
        return self.sql.rpartition(".")[2]


@dataclass(frozen=True)
class Relation:
    """Something that can stand in FROM by its name."""

    name: str
    columns: tuple[Out, ...]


@dataclass
class Source:
    """A FROM clause: its text, and the columns of all that is in it."""

    sql: str
    columns: list[Out]
    unnests: bool = False
    single: bool = False
    """One relation, so that a name alone says which column is meant."""


@dataclass
class Generator:
    rng: random.Random
    relations: list[Relation]
    features: set[str] = field(default_factory=set)
    """What the last query contains: only to be counted."""
    number: int = 0

    # ------------------------------------------------------------------ small helpers
    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def fresh(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def pick(self, columns: Sequence[Out], *types: str) -> Out | None:
        found = [c for c in columns if c.type in types]
        return self.rng.choice(found) if found else None

    # ------------------------------------------------------------------ queries
    def query(self, depth: int = 2) -> tuple[str, list[Out]]:
        """A query and its output columns, by name."""
        roll = self.rng.random()
        if depth and roll < 0.14:
            return self.set_operation(depth)
        if depth and roll < 0.26:
            return self.with_cte(depth)
        return self.select(depth)

    def with_cte(self, depth: int) -> tuple[str, list[Out]]:
        """A CTE that is used once or more."""
        self.features.add("cte")
        text, columns = self.query(depth - 1)
        name = self.fresh("c")
        before = self.relations
        made = Relation(name, tuple(columns))
        self.relations = [made, made, made, *before]
        body, outputs = self.select(depth)
        self.relations = before
        return f"WITH {name} AS ({text}) {body}", outputs

    def set_operation(self, depth: int) -> tuple[str, list[Out]]:
        types = [self.rng.choice(EXACT) for _ in range(self.rng.randint(1, 3))]
        left, outputs = self.select(depth - 1, types)
        for _ in range(self.rng.choice((1, 1, 2))):
            right, _ = self.select(depth - 1, types)
            operator = self.rng.choice(("UNION", "INTERSECT", "EXCEPT")) + self.rng.choice(("", " ALL"))
            self.features.add(operator.lower())
            left = f"({left}) {operator} ({right})"
        return left, outputs

    def select(self, depth: int, types: list[str] | None = None) -> tuple[str, list[Out]]:
        source = self.source(depth)
        conditions = [self.predicate(source.columns, depth)] if self.chance(0.7) else []
        clause = f" FROM {source.sql}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
        roll = self.rng.random()
        if roll < 0.38:
            return self.grouped(source, clause, depth, types)
        if roll < 0.55 and types is None and not source.unnests:
            return self.windowed(source, clause, depth)
        return self.plain(source, clause, depth, types)

    def plain(self, source: Source, clause: str, depth: int, types: list[str] | None) -> tuple[str, list[Out]]:
        outputs, listed = self.outputs(source.columns, depth, types)
        distinct = ""
        if self.chance(0.2) and _exact(outputs):
            self.features.add("distinct")
            distinct = "DISTINCT "
        if not distinct and types is None and _exact(source.columns) and self.chance(0.06):
            self.features.add("distinct on")
            on = self.rng.choice(source.columns).sql
            return (
                f"SELECT DISTINCT ON ({on}) {listed}{clause} ORDER BY {', '.join(c.sql for c in source.columns)}",
                outputs,
            )
        text = f"SELECT {distinct}{listed}{clause}"
        if types is None and _exact(outputs) and self.chance(0.15):
            text += self.limit(outputs)
        return text, outputs

    def limit(self, outputs: list[Out]) -> str:
        self.features.add("limit")
        order = [
            f"{o.sql} {self.rng.choice(('ASC', 'DESC'))} NULLS {self.rng.choice(('FIRST', 'LAST'))}" for o in outputs
        ]
        self.rng.shuffle(order)
        offset = f" OFFSET {self.rng.randint(1, 2)}" if self.chance(0.25) else ""
        return f" ORDER BY {', '.join(order)} LIMIT {self.rng.randint(1, 5)}{offset}"

    def outputs(self, columns: list[Out], depth: int, types: list[str] | None) -> tuple[list[Out], str]:
        """A select list over plain rows."""
        made: list[tuple[str, str]] = []
        if types is not None:
            made = [(self.value(columns, t, depth), t) for t in types]
        else:
            for _ in range(self.rng.randint(1, 4)):
                if self.chance(0.55):
                    column = self.rng.choice(columns)
                    made.append((column.sql, column.type))
                elif depth and self.chance(0.15):
                    made.append((self.predicate(columns, depth), "bool"))
                else:
                    kind = self.rng.choice(EXACT)
                    made.append((self.value(columns, kind, depth), kind))
        return self._named(made)

    def _named(self, made: list[tuple[str, str]]) -> tuple[list[Out], str]:
        outputs = [Out(f"x{i}", t) for i, (_, t) in enumerate(made)]
        return outputs, ", ".join(f"{s} AS x{i}" for i, (s, _) in enumerate(made))

    # ------------------------------------------------------------------ groups
    def grouped(self, source: Source, clause: str, depth: int, types: list[str] | None) -> tuple[str, list[Out]]:
        self.features.add("group")
        usable = [c for c in source.columns if c.type in EXACT]
        keys: list[Out] = []
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 3)) if usable else 0):
            column = self.rng.choice(usable)
            made = column if self.chance(0.8) else Out(self.value(usable, column.type, 0), column.type)
            if made.sql not in [k.sql for k in keys] and any(c.sql in made.sql for c in usable):
                keys.append(made)
        made = [(k.sql, k.type) for k in keys if self.chance(0.9)]
        calls = [self.aggregate(source.columns) for _ in range(self.rng.randint(0 if made else 1, 3))]
        made += calls
        group = f" GROUP BY {', '.join(k.sql for k in keys)}" if keys else ""
        if (len(keys) > 1 and self.chance(0.35)) or (keys and self.chance(0.08)):
            # The parser wants parentheses around a comparison in here.
            listed = ", ".join(k.sql if k in usable else f"({k.sql})" for k in keys)
            kind = self.rng.choice(("ROLLUP", "CUBE", "GROUPING SETS"))
            self.features.add(kind.lower())
            sets = f"(({listed}), ({keys[0].sql}), ())" if kind == "GROUPING SETS" else f"({listed})"
            group = f" GROUP BY {kind} {sets}"
            if self.chance(0.4) and all("(" not in k.sql for k in keys):
                made.append((f"GROUPING({keys[0].sql})", "int"))
        if types is not None:
            scope = [Out(s, t) for s, t in made]
            made = [(self.value(scope, t, 0), t) for t in types]
        elif self.chance(0.3):
            scope = [Out(s, t) for s, t in made if t in EXACT]
            kind = self.rng.choice(EXACT)
            if scope:
                made.append((self.value(scope, kind, 0), kind))
        having = ""
        if self.chance(0.3):
            self.features.add("having")
            scope = [*keys, *(Out(s, t) for s, t in [self.aggregate(source.columns, exact=True)])]
            having = f" HAVING {self.predicate(scope, depth if self.chance(0.3) and 'ROLLUP' not in group else 0)}"
        if types is None and group and self.chance(0.1):
            self.features.add("window over groups")
            call, kind = self.aggregate(source.columns, exact=True)
            by = f"PARTITION BY {keys[0].sql} " if len(keys) > 1 else ""
            if " FILTER " not in call and kind in EXACT:
                made.append((f"RANK() OVER ({by}ORDER BY {call})", "int"))
        outputs, listed = self._named(made)
        text = f"SELECT {listed}{clause}{group}{having}"
        if types is None and _exact(outputs) and self.chance(0.12):
            text += self.limit(outputs)
        return text, outputs

    def aggregate(self, columns: list[Out], exact: bool = False) -> tuple[str, str]:
        """A call and its type."""
        rng = self.rng
        options: list[Callable[[], tuple[str, str] | None]] = [
            lambda: ("COUNT(*)", "int"),
            lambda: self._call("COUNT({})", columns, EXACT, "int"),
            lambda: self._call("SUM({})", columns, NUMBERS),
            lambda: self._call("SUM({})", columns, ("int",)),
            lambda: self._call("MIN({})", columns, EXACT),
            lambda: self._call("MAX({})", columns, EXACT),
            lambda: self._call("COUNT(DISTINCT {})", columns, EXACT, "int"),
            lambda: self._call("SUM(DISTINCT {})", columns, ("int", "dec")),
            lambda: self._call("BOOL_AND({})", columns, ("bool",)),
            lambda: self._call("BOOL_OR({})", columns, ("bool",)),
            lambda: self._call("STRING_AGG({0}, '-' ORDER BY {0})", columns, ("text",)),
            lambda: self._call("MAX_BY({0}, CAST({0} AS VARCHAR))", columns, ("int", "text")),
            lambda: self._call("COUNT_IF({})", columns, ("bool",), "int"),
            lambda: self._call("BIT_XOR(CAST({} AS BIGINT))", columns, ("int",), "int"),
            lambda: self._call("QUANTILE_DISC({}, 0.5)", columns, ("int", "dec", "date")),
        ]
        if not exact:
            options += [
                lambda: self._call("AVG({})", columns, NUMBERS, "apx"),
                lambda: self._call("AVG(DISTINCT {})", columns, ("int",), "apx"),
                lambda: self._call("STDDEV({})", columns, NUMBERS, "apx"),
                lambda: self._call("VAR_POP({})", columns, NUMBERS, "apx"),
                lambda: self._call("MEDIAN({})", columns, NUMBERS, "apx"),
                lambda: self._call("SUM({})", columns, ("apx",)),
                lambda: self._call("ARRAY_AGG({0} ORDER BY {0})", columns, ("int", "text"), "list"),
                lambda: self._covariance(columns),
            ]
        while True:
            found = rng.choice(options)()
            if found is None:
                continue
            text, kind = found
            if self.chance(0.15) and " ORDER BY " not in text:
                self.features.add("filter")
                condition = self.predicate([c for c in columns if c.type in EXACT], 0)
                text = f"{text} FILTER (WHERE {condition})"
            return text, kind

    def _call(self, form: str, columns: list[Out], types: Sequence[str], result: str = "") -> tuple[str, str] | None:
        column = self.pick(columns, *types)
        if column is None:
            return None
        argument = column.sql
        if column.type in EXACT and self.chance(0.25):
            argument = self.value([c for c in columns if c.type in EXACT], column.type, 0)
        return form.format(argument), result or column.type

    def _covariance(self, columns: list[Out]) -> tuple[str, str] | None:
        one, two = self.pick(columns, "int"), self.pick(columns, "int", "dbl")
        return (f"COVAR_POP({one.sql}, {two.sql})", "apx") if one and two else None

    # ------------------------------------------------------------------ windows
    def windowed(self, source: Source, clause: str, depth: int) -> tuple[str, list[Out]]:
        exact = [c for c in source.columns if c.type in EXACT]
        if not exact:
            return self.plain(source, clause, depth, None)
        self.features.add("window")
        whole = len(exact) == len(source.columns)
        partition = [c.sql for c in self.rng.sample(exact, min(len(exact), self.rng.choice((1, 1, 1, 2))))]
        made = [
            (c.sql, c.type) for c in self.rng.sample(source.columns, self.rng.randint(1, min(3, len(source.columns))))
        ]
        calls = []
        for _ in range(self.rng.randint(1, 2)):
            by = partition if self.chance(0.9) else []
            # Copies of a row may be numbered in one order by one call and in another by the next.
            calls.append(self.window(exact, by, whole and not calls))
        made += calls
        outputs, listed = self._named(made)
        qualify = ""
        if self.chance(0.3):
            call, kind = self.rng.choice(calls)
            if kind in EXACT:
                self.features.add("qualify")
                qualify = f" QUALIFY {self.predicate([Out(call, kind)], 0)}"
        return f"SELECT {listed}{clause}{qualify}", outputs

    def window(self, columns: list[Out], partition: list[str], whole: bool) -> tuple[str, str]:
        """`whole`: all columns in scope can be sorted by, so that positions are no matter of luck."""
        rng = self.rng
        by = f"PARTITION BY {', '.join(partition)}" if partition else ""
        if not partition:
            self.features.add("window of all")
        some = rng.sample(columns, rng.randint(1, len(columns)))
        direction = rng.choice(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
        order = f"ORDER BY {', '.join(c.sql + direction for c in some)}"
        column = rng.choice(columns)
        roll = rng.random()
        if whole and roll < 0.35:
            total = f"ORDER BY {', '.join(c.sql + direction for c in rng.sample(columns, len(columns)))}"
            frame = rng.choice(("", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS UNBOUNDED PRECEDING"))
            call, kind = rng.choice(
                (
                    ("ROW_NUMBER()", "int"),
                    (f"LAG({column.sql})", column.type),
                    (f"LEAD({column.sql}, 2)", column.type),
                    (f"FIRST_VALUE({column.sql})", column.type),
                    ("NTILE(3)", "int"),
                    ("COUNT(*)", "int"),
                    (f"MAX({column.sql})", column.type),
                )
            )
            plain = call.startswith(("COUNT", "MAX", "FIRST"))
            return f"{call} OVER ({by} {total} {frame if plain else ''})", kind
        if roll < 0.6:
            call = rng.choice(("RANK()", "DENSE_RANK()"))
            return f"{call} OVER ({by} {order})", "int"
        number = self.pick(columns, "int", "dec", "dbl")
        call, kind = rng.choice(
            (
                ("COUNT(*)", "int"),
                (f"COUNT({column.sql})", "int"),
                (f"MIN({column.sql})", column.type),
                (f"SUM({number.sql})" if number else "COUNT(*)", number.type if number else "int"),
                (f"AVG({number.sql})" if number else "COUNT(*)", "apx" if number else "int"),
            )
        )
        return f"{call} OVER ({by}{' ' + order if self.chance(0.5) else ''})", kind

    # ------------------------------------------------------------------ FROM
    def source(self, depth: int) -> Source:
        found = self.item(depth)
        found.single = True
        for _ in range(self.rng.choice((0, 0, 1, 1, 1, 2) if depth else (0, 0, 0, 1))):
            found = self.join(found, self.item(depth))
            if any("." not in c.sql for c in found.columns):
                break  # one more relation could make the merged name ambiguous
        if depth and self.chance(0.06):
            found = self.lateral(found, depth)
        if self.chance(0.05):
            self.features.add("unnest")
            alias = self.fresh("u")
            lists = [c.sql for c in found.columns if c.type == "list"]
            integer = self.pick(found.columns, "int")
            options = [*lists, "[1, 2, 2, NULL]", f"[{integer.sql}, 3]" if integer else "[4]"]
            text = f"{found.sql}, UNNEST({self.rng.choice(options)}) AS {alias}(e)"
            kind = "list?" if lists and any(f"UNNEST({x})" in text for x in lists) else "int"
            made = [Out(f"{alias}.e", "int")] if kind == "int" else []
            found = Source(text, found.columns + made, unnests=True)
        return found

    def lateral(self, found: Source, depth: int) -> Source:
        self.features.add("lateral")
        inner, where = self.body(found.columns, depth)
        alias = self.fresh("l")
        if aggregated := self.chance(0.6):
            call, kind = self.aggregate(inner.columns)
            made = [(call, kind)]
            if self.chance(0.2):
                self.features.add("having in lateral")
                where += f" HAVING COUNT(*) {self.rng.choice(('<>', '>', '<'))} {self.rng.randint(0, 2)}"
        else:
            made = [(c.sql, c.type) for c in self.rng.sample(inner.columns, min(2, len(inner.columns)))]
            if _exact(inner.columns) and self.chance(0.3):
                self.features.add("window in lateral")
                made.append(self.window(inner.columns, [], True))
            if _exact(inner.columns) and self.chance(0.4):
                where += self.first(inner.columns)
        outputs, listed = self._named(made)
        shown = [replace(o, sql=f"{alias}.{o.sql}") for o in outputs]
        how, on = self.rng.choice((("CROSS JOIN LATERAL", ""), ("LEFT JOIN LATERAL", " ON TRUE")))
        if on and (aggregated or "(" not in listed) and self.chance(0.3):
            on = f" ON {self.predicate([*found.columns, *shown], 0)}"
        text = f"{found.sql} {how} (SELECT {listed} FROM {inner.sql}{where}) AS {alias}{on}"
        return Source(text, [*found.columns, *shown])

    def first(self, columns: list[Out], count: int = 3) -> str:
        """The first rows by an order of all columns."""
        self.features.add("first rows of each")
        order = [c.sql + self.rng.choice(("", " DESC", " DESC NULLS LAST")) for c in columns]
        self.rng.shuffle(order)
        offset = " OFFSET 1" if self.chance(0.2) else ""
        return f" ORDER BY {', '.join(order)} LIMIT {self.rng.randint(1, count)}{offset}"

    def boxed(self, inner: Source, outer: list[Out]) -> Source:
        """A query in FROM that uses columns of the query around."""
        self.features.add("correlated in from")
        alias = self.fresh("b")
        columns = [c for c in inner.columns if c.type in EXACT]
        outputs, listed = self._named([(c.sql, c.type) for c in self.rng.sample(columns, min(3, len(columns)))])

        def one() -> str:
            return f"SELECT {listed} FROM {inner.sql} WHERE {self.link(inner.columns, outer)}"

        text, roll = one(), self.rng.random()
        if roll < 0.35:
            operator = self.rng.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"))
            self.features.add("correlated " + operator.lower())
            text = f"{text} {operator} {one() if self.chance(0.7) else f'SELECT {listed} FROM {inner.sql}'}"
        elif roll < 0.5 and _exact(inner.columns):
            text += self.first(inner.columns)
        elif roll < 0.6:
            text = text.replace("SELECT", "SELECT DISTINCT", 1)
        return Source(f"({text}) AS {alias}", [replace(o, sql=f"{alias}.{o.sql}") for o in outputs])

    def item(self, depth: int) -> Source:
        alias = self.fresh("r")
        if depth and self.chance(0.22):
            self.features.add("subquery in from")
            text, columns = self.query(depth - 1)
            return Source(f"({text}) AS {alias}", [replace(c, sql=f"{alias}.{c.sql}") for c in columns])
        if self.chance(0.04):
            self.features.add("values")
            rows = ", ".join(f"({literal(self.rng, 'int', 0.2)}, {literal(self.rng, 'text')})" for _ in range(3))
            return Source(f"(VALUES {rows}) AS {alias}(k, v)", [Out(f"{alias}.k", "int"), Out(f"{alias}.v", "text")])
        relation = self.rng.choice(self.relations)
        return Source(f"{relation.name} AS {alias}", [replace(c, sql=f"{alias}.{c.name}") for c in relation.columns])

    def join(self, left: Source, right: Source) -> Source:
        kind = self.rng.choice(
            (
                "JOIN",
                "JOIN",
                "JOIN",
                "LEFT JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "SEMI JOIN",
                "ANTI JOIN",
                "CROSS JOIN",
            )
        )
        both = left.columns + right.columns
        if kind == "CROSS JOIN":
            self.features.add("cross join")
            return Source(f"{left.sql} CROSS JOIN {right.sql}", both)
        shared = [
            c
            for c in right.columns
            if c.type in EXACT and [x.type for x in left.columns if x.name == c.name] == [c.type]
        ]
        if shared and self.chance(0.2):
            used = self.rng.sample(shared, self.rng.randint(1, min(2, len(shared))))
            names = [c.name for c in used]
            self.features.add(f"{kind.lower()} using")
            kept = list(left.columns) if kind in ("SEMI JOIN", "ANTI JOIN") else both
            if left.single:
                # The merged column, which after a full join is a third thing beside the two of its name.
                kept = [*kept, *(Out(c.name, c.type) for c in used)]
            return Source(f"{left.sql} {kind} {right.sql} USING ({', '.join(names)})", kept)
        self.features.add(kind.lower())
        condition = self.on(left.columns, right.columns)
        kept = left.columns if kind in ("SEMI JOIN", "ANTI JOIN") else both
        return Source(f"{left.sql} {kind} {right.sql} ON {condition}", kept)

    def on(self, left: list[Out], right: list[Out]) -> str:
        parts = [self.link(left, right) for _ in range(self.rng.choice((1, 1, 1, 2)))]
        if self.chance(0.2):
            parts.append(self.predicate(left + right, 0))
        if self.chance(0.1):
            self.features.add("subquery in on")
            parts.append(self.predicate(self.rng.choice((left, right)), 1))
        return " AND ".join(parts)

    def link(self, left: list[Out], right: list[Out]) -> str:
        """A comparison of two relations."""
        pairs = [(a, b) for a in left for b in right if a.type == b.type and a.type in EXACT]
        if not pairs:
            return self.predicate(left + right, 0)
        if self.chance(0.1):
            pairs += [(a, b) for a in left for b in right if a.type in NUMBERS and b.type in NUMBERS]
        by_name = [(a, b) for a, b in pairs if a.name == b.name]
        one, two = self.rng.choice(by_name if by_name and self.chance(0.4) else pairs)
        roll = self.rng.random()
        if roll < 0.72:
            return f"{one.sql} = {two.sql}"
        if roll < 0.8:
            return f"{one.sql} IS NOT DISTINCT FROM {two.sql}"
        if roll < 0.86 and one.type == two.type == "int":
            return f"{one.sql} = {two.sql} + 1"
        if roll < 0.92 and one.type == two.type == "int":
            return f"{one.sql} BETWEEN {two.sql} AND {two.sql} + 2"
        return f"{one.sql} {self.rng.choice(('<', '<>', '>='))} {two.sql}"

    # ------------------------------------------------------------------ predicates
    def predicate(self, columns: list[Out], depth: int) -> str:
        roll = self.rng.random()
        if roll < 0.12:
            return (
                f"({self.predicate(columns, depth)} {self.rng.choice(('AND', 'OR'))} {self.predicate(columns, depth)})"
            )
        if roll < 0.16:
            return f"NOT ({self.predicate(columns, depth)})"
        if depth and roll < 0.6:
            return self.subquery_predicate(columns, depth)
        column = self.pick(columns, *EXACT)
        if column is None:
            return "TRUE"
        return self.comparison(column, columns)

    def comparison(self, column: Out, columns: list[Out]) -> str:
        rng, value = self.rng, literal(self.rng, column.type)
        others = [c for c in columns if c.type == column.type and c is not column]
        options = [
            f"{column.sql} IS NULL",
            f"{column.sql} IS NOT NULL",
            f"{column.sql} = {value}",
            f"{column.sql} <> {value}",
            f"{column.sql} IN ({value}, {literal(rng, column.type, 0.1)})",
            f"{column.sql} NOT IN ({value}, {literal(rng, column.type, 0.1)})",
            f"{column.sql} IS DISTINCT FROM {value}",
        ]
        if column.type == "bool":
            options += [column.sql, f"NOT {column.sql}", f"{column.sql} IS TRUE"]
        else:
            options += [f"{column.sql} > {value}", f"{column.sql} <= {value}", f"{column.sql} >= {value}"] * 2
            options.append(f"{column.sql} BETWEEN {literal(rng, column.type)} AND {value}")
        if column.type == "text":
            options.append(f"{column.sql} LIKE '%b%'")
        if others:
            other = rng.choice(others)
            options += [f"{column.sql} = {other.sql}", f"{column.sql} < {other.sql}"] if column.type != "bool" else []
        return rng.choice(options)

    def body(self, columns: list[Out], depth: int) -> tuple[Source, str]:
        """FROM and WHERE of a subquery; often it uses a column of the query around."""
        inner = self.item(depth - 1) if self.chance(0.8) else self.join(self.item(0), self.item(0))
        outer = [c for c in columns if c.type in EXACT]
        if outer and any(c.type in EXACT for c in inner.columns) and self.chance(0.08):
            inner = self.boxed(inner, outer)
        conditions = [self.link(inner.columns, outer)] if outer and self.chance(0.65) else []
        if self.chance(0.4):
            conditions.append(self.predicate(inner.columns, depth - 1))
        if outer and self.chance(0.15):
            self.features.add("two deep")
            deepest, more = self.body([*inner.columns, *outer], 0) if depth < 2 else self.body(inner.columns, depth - 1)
            conditions.append(f"{self.rng.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM {deepest.sql}{more})")
        return inner, f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def subquery_predicate(self, columns: list[Out], depth: int) -> str:
        column = self.pick(columns, *EXACT)
        if column is None:
            return "TRUE"
        inner, where = self.body(columns, depth)
        roll, no = self.rng.random(), self.rng.choice(("", "NOT "))
        if self.chance(0.15) and (key := self.pick(inner.columns, *EXACT)):
            self.features.add("groups in a subquery")
            call, kind = self.aggregate(inner.columns, exact=True)
            having = f" HAVING {self.comparison(Out(call, kind), [Out(call, kind)])}" if self.chance(0.6) else ""
            grouped = f"FROM {inner.sql}{where} GROUP BY {key.sql}{having}"
            left = self.pick(columns, kind)
            if left is None or roll < 0.5:
                return f"{no}EXISTS (SELECT {key.sql} {grouped})"
            return f"{left.sql} {no}IN (SELECT {call} {grouped})"
        if self.chance(0.08) and (pair := self.rows_in(columns, depth)):
            self.features.add(f"{no.lower()}in of several columns")
            left, query = pair
            return f"{left} {no}IN {query}"
        if roll < 0.4:
            self.features.add(f"{no.lower()}exists")
            return f"{no}EXISTS (SELECT 1 FROM {inner.sql}{where})"
        same = self.pick(inner.columns, column.type)
        if roll < 0.72 and same:
            self.features.add(f"{no.lower()}in")
            return f"{column.sql} {no}IN (SELECT {same.sql} FROM {inner.sql}{where})"
        if roll < 0.78 and same and column.type != "bool":
            self.features.add("any or all")
            compare = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
            which = self.rng.choice(("ANY", "ALL"))
            return f"{column.sql} {compare} {which} (SELECT {same.sql} FROM {inner.sql}{where})"
        self.features.add("scalar subquery")
        scalar, kind = self.scalar(inner, where)
        left = self.pick(columns, kind)
        if left is None or kind == "bool":
            return f"{scalar} IS {no}NULL"
        return f"{left.sql} {self.rng.choice(('=', '>=', '<', '<>'))} {scalar}"

    def rows_in(self, columns: list[Out], depth: int) -> tuple[str, str] | None:
        """Two columns, and a query of rows like them: not a correlated one, which DuckDB does not have."""
        inner, where = self.body([], depth)
        pairs = [(a, b) for a in columns for b in inner.columns if a.type in EXACT and a.type == b.type]
        if len(pairs) < 2:
            return None
        (a, x), (b, y) = self.rng.sample(pairs, 2)
        return f"({a.sql}, {b.sql})", f"(SELECT {x.sql}, {y.sql} FROM {inner.sql}{where})"

    def scalar(self, inner: Source, where: str) -> tuple[str, str]:
        """A subquery that gives one row."""
        if _exact(inner.columns) and self.chance(0.15):
            column = self.rng.choice(inner.columns)
            return f"(SELECT {column.sql} FROM {inner.sql}{where}{self.first(inner.columns, 1)})", column.type
        call, kind = self.aggregate(inner.columns, exact=True)
        if self.chance(0.3):
            call = self.value([Out(call, kind)], kind, 0)
        having = f" HAVING COUNT(*) > {self.rng.randint(0, 2)}" if self.chance(0.15) else ""
        return f"(SELECT {call} FROM {inner.sql}{where}{having})", kind

    # ------------------------------------------------------------------ values
    def value(self, columns: list[Out], kind: str, depth: int) -> str:
        """An expression of a type."""
        rng, column = self.rng, self.pick(columns, kind)
        if depth and self.chance(0.15):
            for _ in range(4):
                scalar, found = self.scalar(*self.body(columns, 1))
                if found == kind:
                    self.features.add("scalar subquery in select")
                    return scalar
        if column is None:
            column = Out(literal(rng, kind), kind)
            if self.chance(0.4) and (known := self.pick(columns, *EXACT)):
                return (
                    f"CASE WHEN {self.comparison(known, columns)} THEN {column.sql} ELSE {rng.choice(VALUES[kind])} END"
                )
        roll = rng.random()
        if roll < 0.35:
            return column.sql
        if roll < 0.5:
            return f"COALESCE({column.sql}, {literal(rng, kind)})"
        if roll < 0.62:
            known = self.pick(columns, *EXACT) or column
            return f"CASE WHEN {self.comparison(known, columns)} THEN {column.sql} ELSE {literal(rng, kind, 0.3)} END"
        if roll < 0.68:
            return f"NULLIF({column.sql}, {literal(rng, kind)})"
        other = self.pick(columns, kind) or column
        match kind:
            case "int":
                date = self.pick(columns, "date")
                return rng.choice(
                    (
                        f"({column.sql} + {other.sql})",
                        f"({column.sql} - {literal(rng, 'int')})",
                        f"({column.sql} % 3)",
                        f"ABS({column.sql})",
                        f"CAST({column.sql} AS BIGINT)",
                        f"CAST(EXTRACT(MONTH FROM {date.sql}) AS INTEGER)" if date else f"(-{column.sql})",
                    )
                )
            case "dec":
                return rng.choice((f"({column.sql} + {other.sql})", f"(-{column.sql})", f"ABS({column.sql})"))
            case "dbl":
                number = self.pick(columns, "int") or column
                return rng.choice((f"({column.sql} + {other.sql})", f"CAST({number.sql} AS DOUBLE)"))
            case "text":
                known = self.pick(columns, "int", "date", "bool", "text") or column
                return rng.choice(
                    (f"({column.sql} || {other.sql})", f"UPPER({column.sql})", f"CAST({known.sql} AS VARCHAR)")
                )
            case "bool":
                known = self.pick(columns, *EXACT)
                return self.comparison(known, columns) if known else column.sql
            case _:
                return column.sql


def _exact(outputs: list[Out]) -> bool:
    return all(o.type in EXACT for o in outputs)
