"""The views that every operator is tested by: what they ask, over the tables of `support`."""
# ruff: noqa: E501 (a query is one line)

from __future__ import annotations

from dataclasses import dataclass

from support import TABLES


@dataclass(frozen=True)
class Case:
    name: str
    query: str
    setup: str = ""
    """Plain views that the query reads."""
    more: tuple[str, ...] = ()
    """Tables that only `setup` names."""

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(t.api for t in TABLES.values() if t.sql in self.query or t.api in self.more)


CASES = (
    # ------------------------------------------------------------------ filter and project
    Case("filter", "SELECT * FROM orders WHERE qty > 2 AND amount IS NOT NULL"),
    Case("filter of three values", "SELECT kind, value FROM events WHERE NOT (ok AND value > 1)"),
    Case(
        "filter in, between, like",
        "SELECT * FROM customers WHERE region IN ('north', 'east') OR name LIKE '%a' OR id BETWEEN 3 AND 5",
    ),
    Case("project without key", "SELECT kind, value FROM events"),
    Case("project key away", "SELECT customer, qty FROM orders"),
    Case(
        "case and coalesce",
        "SELECT id, CASE WHEN qty > 3 THEN 'many' WHEN qty IS NULL THEN NULL ELSE 'few' END AS much, COALESCE(region, 'none') AS region FROM orders JOIN customers USING (id)",
    ),
    Case(
        "casts",
        "SELECT CAST(value AS TEXT) AS t, value::DOUBLE / 3 AS third, CAST(weight AS DECIMAL(18,3)) AS d, TRY_CAST(kind AS INTEGER) AS k FROM events",
    ),
    Case(
        "dates",
        "SELECT id, EXTRACT(year FROM day) AS y, date_trunc('month', day) AS m, day + INTERVAL 1 DAY AS next, day - DATE '2024-01-01' AS n FROM orders",
    ),
    Case(
        "times",
        "SELECT kind, date_trunc('hour', moment) AS h, moment::DATE AS d, strftime(moment, '%H:%M') AS s FROM events",
    ),
    Case(
        "decimals",
        "SELECT id, amount * qty AS total, ROUND(amount / 3, 2) AS third, -amount AS minus, amount % 7 AS rest FROM orders",
    ),
    Case(
        "strings",
        "SELECT id, UPPER(name) AS up, name || '-' || region AS joined, LENGTH(name) AS n, SUBSTRING(name, 1, 2) AS s, TRIM(name) AS t, REPLACE(name, 'a', 'b') AS r FROM customers",
    ),
    Case("constants", "SELECT 1 AS one, 'x' AS x, NULL AS nothing, kind FROM events"),
    Case("star except and replace", "SELECT * EXCLUDE (moment) REPLACE (value + 1 AS value) FROM events"),
    Case(
        "booleans",
        "SELECT id, active AND score > 0 AS a, active IS DISTINCT FROM TRUE AS b, NOT active AS c FROM customers",
    ),
    Case("lateral alias", "SELECT qty + 1 AS more, more * 2 AS twice FROM orders"),
    # ------------------------------------------------------------------ joins
    Case("join on keys", "SELECT o.id, c.name, o.amount FROM orders o JOIN customers c ON o.customer = c.id"),
    Case("join without keys", "SELECT e.kind, e.value, t.tag FROM events e JOIN tags t ON e.customer = t.customer"),
    Case("join drops key", "SELECT c.region, o.qty FROM orders o JOIN customers c ON o.customer = c.id"),
    Case("comma join", "SELECT c.name, t.tag FROM customers c, tags t WHERE c.id = t.customer AND c.active"),
    Case("cross join", "SELECT p.id, p.label, t.tag FROM products p CROSS JOIN tags t"),
    Case("theta join", "SELECT a.id AS a, b.id AS b FROM customers a JOIN products b ON a.id < b.id"),
    Case("null-safe join", "SELECT e.kind, t.tag FROM events e JOIN tags t ON e.kind IS NOT DISTINCT FROM t.tag"),
    Case(
        "join on expression",
        "SELECT e.value, p.label FROM events e JOIN products p ON e.value + 1 = p.id AND p.price > e.value",
    ),
    Case(
        "self join",
        "SELECT a.id AS a, b.id AS b FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id",
    ),
    Case("self join of bags", "SELECT a.tag AS x, b.tag AS y FROM tags a JOIN tags b USING (customer)"),
    Case(
        "self join three times",
        "SELECT a.tag AS a, b.tag AS b, c.tag AS c FROM tags a, tags b, tags c WHERE a.customer = b.customer AND b.customer = c.customer",
    ),
    Case("using", "SELECT customer, kind, tag FROM events JOIN tags USING (customer)"),
    Case("using with star", "SELECT * FROM events JOIN tags USING (customer)"),
    Case("natural", "SELECT * FROM tags NATURAL JOIN (SELECT customer, qty FROM orders) o"),
    Case(
        "three tables",
        "SELECT o.id, c.name, p.label FROM orders o JOIN customers c ON o.customer = c.id JOIN products p ON o.product = p.id",
    ),
    Case(
        "four tables",
        "SELECT o.id, c.name, p.label, t.tag FROM orders o JOIN customers c ON o.customer = c.id JOIN products p ON o.product = p.id JOIN tags t ON t.customer = c.id",
    ),
    Case(
        "five tables",
        "SELECT c.name, p.label, t.tag, e.kind, o.qty FROM orders o, customers c, products p, tags t, events e WHERE o.customer = c.id AND o.product = p.id AND t.customer = c.id AND e.customer = c.id AND e.value = p.id",
    ),
    Case(
        "five tables grouped",
        "SELECT p.label, t.tag, SUM(o.amount) AS s, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id JOIN products p ON o.product = p.id JOIN tags t ON t.customer = c.id JOIN events e ON e.customer = c.id GROUP BY p.label, t.tag",
    ),
    # ------------------------------------------------------------------ outer, semi and anti joins
    Case("left join", "SELECT o.id, o.amount, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id"),
    Case(
        "left join of bags",
        "SELECT t.customer, t.tag, e.kind FROM tags t LEFT JOIN events e ON e.customer = t.customer",
    ),
    Case("right join", "SELECT t.tag, e.kind, e.value FROM tags t RIGHT JOIN events e ON e.customer = t.customer"),
    Case(
        "full join",
        "SELECT t.customer AS tc, t.tag, e.customer AS ec, e.kind FROM tags t FULL OUTER JOIN events e ON e.customer = t.customer",
    ),
    Case(
        "full join on keys",
        "SELECT c.id, c.name, p.id AS p, p.label FROM customers c FULL JOIN products p ON c.id = p.id",
    ),
    Case(
        "left join on two columns",
        "SELECT e.kind, t.tag, e.value FROM events e LEFT JOIN tags t ON e.customer = t.customer AND e.kind = t.tag",
    ),
    Case(
        "left join, on or where",
        "SELECT c.id, o.id AS o, o.qty FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.qty > 2 AND c.active WHERE c.region <> 'east' OR o.id IS NULL",
    ),
    Case(
        "left join where right is null",
        "SELECT c.id, c.name FROM customers c LEFT JOIN orders o ON o.customer = c.id WHERE o.id IS NULL",
    ),
    Case(
        "left join made inner by where",
        "SELECT c.id, o.qty FROM customers c LEFT JOIN orders o ON o.customer = c.id WHERE o.qty > 1",
    ),
    Case(
        "full join made left by where",
        "SELECT t.tag, e.kind FROM tags t FULL JOIN events e USING (customer) WHERE t.tag = 'x'",
    ),
    Case(
        "full join made right by where",
        "SELECT t.tag, e.kind FROM tags t FULL JOIN events e USING (customer) WHERE e.kind = 'a'",
    ),
    Case(
        "full join made inner by where",
        "SELECT t.tag, e.kind FROM tags t FULL JOIN events e USING (customer) WHERE e.kind = 'a' AND t.tag IS NOT NULL",
    ),
    Case(
        "left join on a mixed condition",
        "SELECT t.tag, e.value, t.customer FROM tags t LEFT JOIN events e ON e.customer = t.customer AND e.kind < t.tag",
    ),
    Case("left theta join", "SELECT c.id, p.id AS p FROM customers c LEFT JOIN products p ON c.id < p.id"),
    Case(
        "left band join",
        "SELECT p.id, o.id AS o FROM products p LEFT JOIN orders o ON o.amount BETWEEN p.price - 1 AND p.price + 1",
    ),
    Case("full theta join", "SELECT c.id, p.id AS p FROM customers c FULL JOIN products p ON c.id + 4 < p.id"),
    Case("left join on true", "SELECT t.tag, p.id FROM tags t LEFT JOIN products p ON TRUE"),
    Case(
        "left join null-safe",
        "SELECT e.kind, t.tag FROM events e LEFT JOIN tags t ON e.kind IS NOT DISTINCT FROM t.tag",
    ),
    Case(
        "left join on expressions", "SELECT e.value, p.label FROM events e LEFT JOIN products p ON e.value + 1 = p.id"
    ),
    Case(
        "left join chain",
        "SELECT t.tag, c.name, o.qty FROM tags t LEFT JOIN customers c ON c.id = t.customer LEFT JOIN orders o ON o.customer = c.id AND o.qty > 3",
    ),
    Case(
        "left join of a join",
        "SELECT c.id, o.id AS o, p.label FROM customers c LEFT JOIN (orders o JOIN products p ON o.product = p.id) ON o.customer = c.id",
    ),
    Case(
        "join of a left join",
        "SELECT c.id, o.id AS o, p.label FROM customers c LEFT JOIN orders o ON o.customer = c.id JOIN products p ON p.id = c.id",
    ),
    Case(
        "full join chain",
        "SELECT * FROM tags t FULL JOIN (SELECT customer, kind FROM events) e USING (customer) FULL JOIN (SELECT customer, qty FROM orders) o USING (customer)",
    ),
    Case("left join using", "SELECT * FROM tags LEFT JOIN events USING (customer)"),
    Case("right join using", "SELECT * FROM tags RIGHT JOIN events USING (customer)"),
    Case(
        "full join using",
        "SELECT customer, t.customer AS tc, e.customer AS ec, tag FROM tags t FULL JOIN events e USING (customer)",
    ),
    Case("natural left join", "SELECT * FROM tags NATURAL LEFT JOIN (SELECT customer, qty FROM orders) o"),
    Case("natural full join", "SELECT * FROM tags NATURAL FULL JOIN (SELECT customer, qty FROM orders) o"),
    Case(
        "left self join",
        "SELECT a.id, b.id AS b FROM orders a LEFT JOIN orders b ON b.product = a.product AND b.id > a.id",
    ),
    Case("full self join", "SELECT a.tag AS x, b.tag AS y FROM tags a FULL JOIN tags b ON a.customer = b.customer + 1"),
    Case(
        "left join of groups",
        "SELECT c.id, g.n, g.s FROM customers c LEFT JOIN (SELECT customer, COUNT(*) AS n, SUM(qty) AS s FROM orders GROUP BY customer) g ON g.customer = c.id",
    ),
    Case(
        "groups left join rows",
        "SELECT g.kind, g.n, t.customer FROM (SELECT kind, COUNT(*) AS n FROM events GROUP BY kind) g LEFT JOIN tags t ON t.tag = g.kind OR t.customer = g.n",
    ),
    Case(
        "groups full join groups",
        "SELECT a.n, b.m, a.customer AS ac, b.customer AS bc FROM (SELECT customer, COUNT(*) AS n FROM tags GROUP BY customer) a FULL JOIN (SELECT customer, MAX(value) AS m FROM events GROUP BY customer) b ON a.customer = b.customer",
    ),
    Case(
        "left join below sums",
        "SELECT c.region, COUNT(*) AS n, COUNT(o.id) AS orders, SUM(o.qty) AS q, COALESCE(SUM(o.amount), 0) AS s FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.region",
    ),
    Case(
        "left join below extremes",
        "SELECT c.region, MIN(o.qty) AS lo, MAX(o.amount) AS hi, COUNT(DISTINCT o.product) AS p FROM orders o LEFT JOIN customers c ON o.customer = c.id GROUP BY c.region",
    ),
    Case(
        "full join below sums",
        "SELECT t.tag, e.kind, COUNT(*) AS n, SUM(e.value) AS s, MAX(t.customer) AS m FROM tags t FULL JOIN events e ON e.customer = t.customer GROUP BY t.tag, e.kind",
    ),
    Case("left join below distinct", "SELECT DISTINCT t.tag, e.kind FROM tags t LEFT JOIN events e USING (customer)"),
    Case(
        "left join below groups of groups",
        "SELECT n, COUNT(*) AS customers FROM (SELECT c.id, COUNT(o.id) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.id) x GROUP BY n",
    ),
    Case(
        "left join in a union",
        "SELECT c.id, t.tag FROM customers c LEFT JOIN tags t ON t.customer = c.id UNION ALL SELECT customer, kind FROM events",
    ),
    Case("semi join", "SELECT * FROM events SEMI JOIN tags USING (customer)"),
    Case("anti join", "SELECT kind, value FROM events e ANTI JOIN tags t ON e.customer = t.customer AND t.tag <> 'x'"),
    # ------------------------------------------------------------------ subqueries, CTEs, plain views
    Case(
        "subquery in from",
        "SELECT s.k, s.v + 1 AS v FROM (SELECT kind AS k, value AS v FROM events WHERE ok) s WHERE s.v < 4",
    ),
    Case(
        "join of subqueries",
        "SELECT * FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) a JOIN (SELECT customer AS other, MAX(tag) AS top FROM tags GROUP BY customer) b ON a.customer = b.other",
    ),
    Case("cte used once", "WITH big AS (SELECT * FROM orders WHERE qty > 1) SELECT id, amount FROM big"),
    Case(
        "cte used twice",
        "WITH c AS (SELECT customer, tag FROM tags WHERE tag <> 'z') SELECT a.tag AS x, b.tag AS y FROM c a JOIN c b ON a.customer = b.customer",
    ),
    Case(
        "cte of cte",
        "WITH a AS (SELECT customer, qty FROM orders), b(who, total) AS (SELECT customer, SUM(qty) FROM a GROUP BY customer) SELECT b.who, b.total, a.qty FROM a JOIN b ON a.customer = b.who",
    ),
    Case(
        "cte in union",
        "WITH a AS (SELECT customer FROM tags) SELECT customer FROM a UNION ALL SELECT customer + 1 FROM a",
    ),
    Case(
        "plain view",
        "SELECT who, n FROM plain WHERE n > 1",
        "CREATE VIEW plain AS SELECT customer AS who, value AS n FROM events",
        ("events",),
    ),
    Case(
        "plain view of plain view",
        "SELECT p.region, SUM(p.qty) AS s FROM outer_view p GROUP BY p.region",
        "CREATE VIEW inner_view AS SELECT customer, qty FROM orders WHERE qty > 0; CREATE VIEW outer_view AS SELECT c.region, i.qty FROM inner_view i JOIN customers c ON c.id = i.customer",
        ("orders", "customers"),
    ),
    Case(
        "plain view joined with its table",
        "SELECT o.id, t.n FROM orders o JOIN totals t ON o.customer = t.customer",
        "CREATE VIEW totals AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer",
        ("orders",),
    ),
    Case(
        "count of a plain view",
        "SELECT n FROM counts",
        "CREATE VIEW counts AS SELECT kind, COUNT(*) AS n FROM events GROUP BY kind",
        ("events",),
    ),
    Case(
        "global count of a plain view",
        "SELECT n FROM counted",
        "CREATE VIEW counted AS SELECT COUNT(*) AS n FROM tags",
        ("tags",),
    ),
    # ------------------------------------------------------------------ set operations and DISTINCT
    Case("union all", "SELECT customer, tag AS what FROM tags UNION ALL SELECT customer, kind FROM events"),
    Case("union all of one table", "SELECT tag FROM tags UNION ALL SELECT tag FROM tags WHERE customer > 4"),
    Case("union", "SELECT customer FROM tags UNION SELECT customer FROM events"),
    Case(
        "union of three",
        "SELECT id FROM customers UNION ALL SELECT customer FROM tags UNION SELECT customer FROM events",
    ),
    Case(
        "union below join",
        "SELECT c.name, u.w FROM customers c JOIN (SELECT customer, tag AS w FROM tags UNION ALL SELECT customer, kind FROM events) u ON u.customer = c.id",
    ),
    Case(
        "union below group",
        "SELECT w, COUNT(*) AS n FROM (SELECT tag AS w FROM tags UNION ALL SELECT kind FROM events) u GROUP BY w",
    ),
    Case("union of types", "SELECT qty AS n FROM orders UNION ALL SELECT amount FROM orders"),
    Case("distinct", "SELECT DISTINCT kind, value FROM events"),
    Case("distinct of join", "SELECT DISTINCT c.region, t.tag FROM customers c JOIN tags t ON c.id = t.customer"),
    Case(
        "distinct below join",
        "SELECT c.id, d.tag FROM customers c JOIN (SELECT DISTINCT customer, tag FROM tags) d ON c.id = d.customer",
    ),
    Case(
        "distinct below group",
        "SELECT tag, COUNT(*) AS n FROM (SELECT DISTINCT customer, tag FROM tags) d GROUP BY tag",
    ),
    Case("distinct of group", "SELECT DISTINCT COUNT(*) AS n FROM events GROUP BY kind"),
    Case("intersect", "SELECT customer FROM tags INTERSECT SELECT customer FROM events"),
    Case("intersect all", "SELECT customer FROM tags INTERSECT ALL SELECT customer FROM events"),
    Case("except", "SELECT customer, tag FROM tags EXCEPT SELECT customer, kind FROM events"),
    Case("except all", "SELECT customer FROM events EXCEPT ALL SELECT customer FROM tags"),
    Case("except all self", "SELECT tag FROM tags EXCEPT ALL SELECT tag FROM tags WHERE customer > 4"),
    Case(
        "nested sets",
        "(SELECT customer FROM events EXCEPT ALL SELECT customer FROM tags) UNION SELECT id FROM customers INTERSECT SELECT customer FROM orders",
    ),
    Case(
        "sets below join",
        "SELECT c.name, u.customer FROM customers c JOIN (SELECT customer FROM events EXCEPT ALL SELECT customer FROM tags) u ON u.customer = c.id",
    ),
    Case(
        "sets below group",
        "SELECT customer, COUNT(*) AS n FROM (SELECT customer FROM events INTERSECT ALL SELECT customer FROM orders) u GROUP BY customer",
    ),
    Case("set types", "SELECT qty AS n FROM orders EXCEPT SELECT amount FROM orders"),
    Case("set by name", "SELECT customer, tag FROM tags UNION BY NAME SELECT customer, kind FROM events"),
    Case(
        "set limit",
        "SELECT customer FROM tags EXCEPT SELECT customer FROM events ORDER BY customer DESC NULLS LAST LIMIT 3",
    ),
    Case(
        "set distinct ops",
        "SELECT DISTINCT customer FROM (SELECT customer FROM events EXCEPT ALL SELECT customer FROM tags) t",
    ),
    Case(
        "sets of groups",
        "SELECT customer, COUNT(*) AS n FROM events GROUP BY customer EXCEPT SELECT customer, COUNT(*) FROM tags GROUP BY customer",
    ),
    # ------------------------------------------------------------------ aggregates
    Case(
        "sum and count", "SELECT customer, SUM(qty) AS s, COUNT(qty) AS c, COUNT(*) AS n FROM orders GROUP BY customer"
    ),
    Case(
        "sum of decimals",
        "SELECT product, SUM(amount) AS s, AVG(amount) AS a, SUM(amount * qty) AS p FROM orders GROUP BY product",
    ),
    Case("avg", "SELECT kind, AVG(value) AS a, SUM(value) * 1.0 / COUNT(*) AS b FROM events GROUP BY kind"),
    Case("doubles", "SELECT region, SUM(score) AS s, AVG(score) AS a FROM customers GROUP BY region"),
    Case(
        "min and max",
        "SELECT customer, MIN(qty) AS lo, MAX(qty) AS hi, MIN(day) AS first, MAX(moment) AS last, MAX(amount) AS dear FROM orders GROUP BY customer",
    ),
    Case(
        "min and max of text",
        "SELECT kind, MIN(moment) AS a, MAX(ok) AS o, MIN(kind || value) AS m FROM events GROUP BY kind",
    ),
    Case(
        "min beside sum",
        "SELECT tag, MIN(value) AS lo, SUM(value) AS s, COUNT(*) AS n FROM tags JOIN events USING (customer) GROUP BY tag",
    ),
    Case(
        "count distinct",
        "SELECT kind, COUNT(DISTINCT value) AS d, COUNT(DISTINCT customer) AS c, SUM(DISTINCT value) AS s FROM events GROUP BY kind",
    ),
    Case("count distinct of expression", "SELECT COUNT(DISTINCT value % 2) AS d, COUNT(*) AS n FROM events"),
    Case(
        "filter clause",
        "SELECT kind, SUM(value) FILTER (WHERE ok) AS s, COUNT(*) FILTER (WHERE value > 1) AS n, MIN(value) FILTER (WHERE NOT ok) AS m, COUNT(DISTINCT value) FILTER (WHERE ok) AS d, AVG(weight) FILTER (WHERE value IS NULL) AS a FROM events GROUP BY kind",
    ),
    Case(
        "expressions over aggregates",
        "SELECT customer, SUM(qty) + COUNT(*) AS x, CASE WHEN MAX(qty) > 5 THEN 'big' ELSE 'small' END AS size, customer * 10 + MIN(qty) AS y FROM orders GROUP BY customer",
    ),
    Case("having", "SELECT customer, SUM(qty) AS s FROM orders GROUP BY customer HAVING SUM(qty) > 4"),
    Case(
        "having of a hidden aggregate", "SELECT kind FROM events GROUP BY kind HAVING COUNT(*) > 5 AND MIN(value) = 0"
    ),
    Case("having by alias", "SELECT tag, COUNT(*) AS n FROM tags GROUP BY tag HAVING n > 2"),
    Case("having without group", "SELECT COUNT(*) AS n FROM tags HAVING COUNT(*) > 3"),
    Case("global", "SELECT SUM(qty) AS s, COUNT(*) AS n, COUNT(qty) AS c, AVG(amount) AS a FROM orders"),
    Case(
        "global min and max", "SELECT MIN(value) AS lo, MAX(value) AS hi, MAX(weight) AS w, SUM(value) AS s FROM events"
    ),
    Case("global double", "SELECT SUM(weight) AS s, AVG(weight) AS a FROM events WHERE ok"),
    Case(
        "global over join",
        "SELECT COUNT(*) AS n, SUM(o.amount * p.price) AS s FROM orders o JOIN products p ON o.product = p.id",
    ),
    Case(
        "group by expression",
        "SELECT qty % 3 AS r, date_trunc('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY qty % 3, date_trunc('month', day)",
    ),
    Case(
        "group by expression used inside",
        "SELECT UPPER(kind) || '!' AS k, SUM(value) AS s FROM events GROUP BY UPPER(kind)",
    ),
    Case(
        "group by case",
        "SELECT CASE WHEN value > 1 THEN 'hi' ELSE kind END AS k, MAX(value) AS m FROM events GROUP BY 1",
    ),
    Case("group by two nulls", "SELECT kind, ok, COUNT(*) AS n, SUM(value) AS s FROM events GROUP BY kind, ok"),
    Case("group by all", "SELECT kind, ok, SUM(value) AS s FROM events GROUP BY ALL"),
    Case("group by ordinals", "SELECT ok, kind, COUNT(*) AS n FROM events GROUP BY 2, 1"),
    Case("group by alias", "SELECT value + 1 AS more, COUNT(*) AS n FROM events GROUP BY more"),
    Case("group key not selected", "SELECT SUM(value) AS s FROM events GROUP BY kind"),
    Case("group by only", "SELECT kind FROM events GROUP BY kind, ok"),
    Case(
        "group of join",
        "SELECT c.region, SUM(o.amount) AS s, MIN(o.day) AS d, COUNT(DISTINCT o.product) AS p FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region",
    ),
    Case(
        "group of self join",
        "SELECT a.customer, COUNT(*) AS n, MIN(b.tag) AS m FROM tags a JOIN tags b USING (customer) GROUP BY a.customer",
    ),
    Case(
        "aggregate of aggregate",
        "SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t GROUP BY n",
    ),
    Case(
        "aggregate of min",
        "SELECT MAX(lo) AS m, SUM(lo) AS s FROM (SELECT kind, MIN(value) AS lo FROM events GROUP BY kind) t",
    ),
    Case(
        "aggregate three deep",
        "SELECT MAX(k) AS m FROM (SELECT n, COUNT(*) AS k FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t GROUP BY n) u",
    ),
    Case(
        "aggregate below join",
        "SELECT o.id, t.s FROM orders o JOIN (SELECT customer, SUM(qty) AS s FROM orders GROUP BY customer) t ON o.customer = t.customer WHERE o.qty * 2 > t.s",
    ),
    Case("global below join", "SELECT t.tag, g.n FROM tags t CROSS JOIN (SELECT COUNT(*) AS n FROM events) g"),
    # ------------------------------------------------------------------ grouping sets and other aggregates
    Case(
        "rollup",
        "SELECT kind, ok, COUNT(*) AS n, SUM(value) AS s, AVG(value) AS a FROM events GROUP BY ROLLUP (kind, ok)",
    ),
    Case(
        "cube",
        "SELECT kind, ok, GROUPING(kind) AS gk, GROUPING_ID(kind, ok) AS g, MIN(value) AS lo, COUNT(DISTINCT customer) AS d FROM events GROUP BY CUBE (kind, ok)",
    ),
    Case(
        "grouping sets",
        "SELECT customer, product, SUM(amount) AS s FROM orders GROUP BY GROUPING SETS ((customer), (product), (customer, product), ())",
    ),
    Case(
        "grouping sets mixed",
        "SELECT kind, ok, value, COUNT(*) AS n FROM events GROUP BY kind, ROLLUP (ok), GROUPING SETS ((value), ())",
    ),
    Case("grouping sets twice", "SELECT kind, COUNT(*) AS n FROM events GROUP BY GROUPING SETS ((kind), (kind))"),
    Case(
        "grouping sets of expressions",
        "SELECT value % 2 AS r, SUM(value) AS s, MAX(value % 2) AS m FROM events GROUP BY ROLLUP (value % 2)",
    ),
    Case(
        "grouping sets of join",
        "SELECT c.region, p.label, SUM(o.qty) AS s, GROUPING(c.region, p.label) AS g FROM orders o JOIN customers c ON o.customer = c.id JOIN products p ON p.id = o.product GROUP BY ROLLUP (c.region, p.label) HAVING COUNT(*) > 1",
    ),
    Case(
        "grouping sets below join",
        "SELECT t.n, c.name FROM customers c JOIN (SELECT customer, product, COUNT(*) AS n FROM orders GROUP BY CUBE (customer, product)) t ON t.customer = c.id",
    ),
    Case(
        "grouping sets with window",
        "SELECT customer, product, SUM(qty) AS s, RANK() OVER (PARTITION BY GROUPING(product) ORDER BY SUM(qty)) AS rk FROM orders GROUP BY ROLLUP (customer, product)",
    ),
    Case(
        "grouping only total",
        "SELECT COUNT(*) AS n, SUM(1) AS o, SUM(COALESCE(qty, 0)) AS s, MEDIAN(qty) AS m, LIST(qty ORDER BY qty) AS l FROM orders GROUP BY GROUPING SETS (())",
    ),
    Case(
        "grouping by alias",
        "SELECT qty > 3 AS big, kind, COUNT(*) AS n FROM orders JOIN events USING (customer) GROUP BY ROLLUP (big, kind)",
    ),
    Case(
        "distinct aggregates",
        "SELECT kind, COUNT(DISTINCT value) AS a, SUM(DISTINCT value) AS b, AVG(DISTINCT value) AS c, COUNT(DISTINCT customer) AS d, COUNT(DISTINCT (value, customer)) AS e FROM events GROUP BY kind",
    ),
    Case(
        "stddev",
        "SELECT kind, STDDEV(value) AS a, STDDEV_POP(weight) AS b, VARIANCE(weight) AS c, VAR_POP(value) AS d, STDDEV_SAMP(value) AS e, VAR_SAMP(value) AS f FROM events GROUP BY kind",
    ),
    Case(
        "booleans agg",
        "SELECT kind, BOOL_AND(ok) AS a, BOOL_OR(ok) AS b, BIT_AND(value) AS c, BIT_OR(value) AS d, BIT_XOR(value) AS e FROM events GROUP BY kind",
    ),
    Case(
        "quantiles",
        "SELECT customer, MEDIAN(qty) AS a, QUANTILE_CONT(qty, 0.25) AS b, QUANTILE_DISC(qty, 0.75) AS c, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY qty) AS d, PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY qty DESC) AS e, MODE(qty) AS m FROM orders GROUP BY customer",
    ),
    Case("quantiles global", "SELECT MEDIAN(qty) AS a, QUANTILE_CONT(amount, [0.25, 0.5]) AS b FROM orders"),
    Case(
        "lists",
        "SELECT customer, STRING_AGG(id, ',' ORDER BY id) AS a, ARRAY_AGG(qty ORDER BY id) AS b, LIST(DISTINCT qty ORDER BY qty) AS c, GROUP_CONCAT(id, '' ORDER BY id) AS e FROM orders GROUP BY customer",
    ),
    Case(
        "corr",
        "SELECT kind, CORR(value, weight) AS a, COVAR_POP(value, weight) AS b, COVAR_SAMP(value, weight) AS c, REGR_SLOPE(value, weight) AS d, KURTOSIS(value) AS k, SKEWNESS(value) AS s FROM events GROUP BY kind",
    ),
    Case(
        "by id",
        "SELECT customer, MIN_BY(qty, id) AS a, MAX_BY(amount, id) AS b, ARG_MAX(day, id) AS c, FIRST(qty ORDER BY id) AS d, ANY_VALUE(customer) AS e FROM orders GROUP BY customer",
    ),
    Case("approx", "SELECT kind, APPROX_COUNT_DISTINCT(customer) AS a FROM events GROUP BY kind"),
    Case(
        "products",
        "SELECT kind, PRODUCT(value + 1) AS p, HISTOGRAM(value) AS h, COUNT_IF(value > 1) AS c, SUM(value) FILTER (WHERE value > 1) AS s, MEDIAN(value) FILTER (WHERE ok) AS m FROM events GROUP BY kind",
    ),
    Case(
        "distinct below",
        "SELECT a, COUNT(*) AS n FROM (SELECT kind, COUNT(DISTINCT value) AS a, AVG(DISTINCT value) AS c FROM events GROUP BY kind) t GROUP BY a",
    ),
    Case(
        "stddev below",
        "SELECT AVG(a) AS a, MAX(b) AS b FROM (SELECT kind, STDDEV(weight) AS a, VAR_POP(weight) AS b, STDDEV_SAMP(value) AS c FROM events GROUP BY kind) t",
    ),
    Case(
        "quantiles below",
        "SELECT c.name, t.a, t.b, t.c, t.d FROM customers c JOIN (SELECT customer, MEDIAN(qty) AS a, QUANTILE_CONT(qty, 0.25) AS b, QUANTILE_DISC(qty, 0.75) AS c, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY qty) AS d FROM orders GROUP BY customer) t ON t.customer = c.id",
    ),
    Case(
        "lists below",
        "SELECT c.name, t.a, t.b, t.d FROM customers c JOIN (SELECT customer, STRING_AGG(id, ',' ORDER BY id) AS a, ARRAY_AGG(qty ORDER BY id) AS b, LIST(DISTINCT qty ORDER BY qty) AS d FROM orders GROUP BY customer) t ON t.customer = c.id",
    ),
    Case(
        "corr below",
        "SELECT c.name, t.a, t.b, t.d FROM customers c JOIN (SELECT customer, CORR(value, weight) AS a, COVAR_POP(value, weight) AS b, REGR_SLOPE(value, weight) AS d FROM events GROUP BY customer) t ON t.customer = c.id",
    ),
    Case(
        "by below",
        "SELECT c.name, t.a, t.b FROM customers c JOIN (SELECT customer, MIN_BY(qty, id) AS a, MAX_BY(amount, id) AS b FROM orders GROUP BY customer) t ON t.customer = c.id",
    ),
    Case(
        "booleans below",
        "SELECT a, b, c, COUNT(*) AS n FROM (SELECT kind, BOOL_AND(ok) AS a, BIT_XOR(value) AS b, COUNT_IF(ok) AS c FROM events GROUP BY kind) t GROUP BY a, b, c",
    ),
    Case(
        "approx below",
        "SELECT a, COUNT(*) AS n FROM (SELECT kind, APPROX_COUNT_DISTINCT(customer) AS a FROM events GROUP BY kind) t GROUP BY a",
    ),
    Case(
        "filter below",
        "SELECT a, COUNT(*) AS n FROM (SELECT kind, MEDIAN(value) FILTER (WHERE ok) AS a, SUM(weight) FILTER (WHERE ok) AS b FROM events GROUP BY kind) t GROUP BY a",
    ),
    Case(
        "aggregate of window",
        "SELECT customer, MEDIAN(r) AS m FROM (SELECT customer, qty - AVG(qty) OVER (PARTITION BY product) AS r FROM orders) t GROUP BY customer",
    ),
    Case(
        "distinct over aggregates", "SELECT DISTINCT MAX(value) AS m, COUNT(*) > 3 AS b FROM events GROUP BY kind, ok"
    ),
    Case("group by constant", "SELECT 1 AS one, COUNT(*) AS n FROM events GROUP BY 1"),
    Case(
        "having window mix",
        "SELECT kind, ok, COUNT(*) AS n FROM events GROUP BY kind, ok HAVING COUNT(*) > 1 QUALIFY ROW_NUMBER() OVER (PARTITION BY kind ORDER BY COUNT(*), ok) = 1",
    ),
    # ------------------------------------------------------------------ windows
    Case(
        "rank",
        "SELECT id, customer, RANK() OVER (PARTITION BY customer ORDER BY qty DESC NULLS LAST) AS rk, SUM(qty) OVER (PARTITION BY customer) AS total FROM orders",
    ),
    Case("row number", "SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY qty, id) AS rn FROM orders"),
    Case(
        "row number of bag",
        "SELECT kind, value, ROW_NUMBER() OVER (PARTITION BY kind ORDER BY value, customer, weight, ok, moment) AS rn FROM events",
    ),
    Case(
        "top per group",
        "SELECT kind, customer FROM (SELECT kind, customer, ROW_NUMBER() OVER (PARTITION BY kind ORDER BY customer) AS rn FROM events) t WHERE rn <= 2",
    ),
    Case(
        "lag lead",
        "SELECT id, LAG(qty) OVER w AS before, LEAD(qty, 2, -1) OVER w AS after, qty - FIRST_VALUE(qty) OVER w AS d FROM orders WINDOW w AS (PARTITION BY customer ORDER BY id)",
    ),
    Case(
        "frames",
        "SELECT id, SUM(qty) OVER (PARTITION BY product ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS r, COUNT(*) OVER (PARTITION BY product ORDER BY qty RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS g, MAX(qty) OVER (PARTITION BY product ORDER BY day GROUPS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) AS m FROM orders",
    ),
    Case(
        "exclude",
        "SELECT kind, value, SUM(value) OVER (PARTITION BY kind ORDER BY value RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) AS s FROM events",
    ),
    Case(
        "unpartitioned",
        "SELECT id, SUM(amount) OVER (ORDER BY id) AS running, RANK() OVER (ORDER BY qty) AS rk, COUNT(*) OVER () AS n FROM orders",
    ),
    Case(
        "two partitions",
        "SELECT id, SUM(qty) OVER (PARTITION BY customer) AS c, SUM(qty) OVER (PARTITION BY product) AS p, COUNT(*) OVER (PARTITION BY customer, product) AS b FROM orders",
    ),
    Case(
        "two partitions of bags",
        "SELECT kind, value, COUNT(*) OVER (PARTITION BY kind) AS c, SUM(customer) OVER (PARTITION BY value) AS p FROM events",
    ),
    Case(
        "qualify",
        "SELECT id, qty FROM orders QUALIFY RANK() OVER (PARTITION BY customer ORDER BY qty DESC NULLS LAST) <= 2",
    ),
    Case(
        "qualify of all columns, and limit",
        "SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY qty DESC NULLS LAST, id) <= 2 ORDER BY amount + id DESC, id LIMIT 5",
    ),
    Case(
        "distinct on, and limit",
        "SELECT DISTINCT ON (customer) customer, id FROM orders ORDER BY customer DESC, qty DESC, id LIMIT 2",
    ),
    Case(
        "qualify alias",
        "SELECT id, qty, DENSE_RANK() OVER (PARTITION BY customer ORDER BY qty) AS rk FROM orders QUALIFY rk = 1",
    ),
    Case(
        "window over groups",
        "SELECT customer, product, SUM(qty) AS s, SUM(SUM(qty)) OVER (PARTITION BY customer) AS t, RANK() OVER (PARTITION BY customer ORDER BY COUNT(*) DESC) AS rk FROM orders GROUP BY customer, product",
    ),
    Case(
        "rank of groups",
        "SELECT customer, SUM(qty) AS s, RANK() OVER (ORDER BY SUM(qty) DESC) AS n, COUNT(*) OVER () AS many FROM orders GROUP BY customer",
    ),
    Case(
        "first of the groups",
        "SELECT kind, MIN(value) AS low FROM events GROUP BY kind QUALIFY ROW_NUMBER() OVER (ORDER BY MIN(value), kind) <= 2",
    ),
    Case(
        "rank and limit of groups",
        "SELECT c.region, COUNT(*) AS n, DENSE_RANK() OVER (ORDER BY COUNT(*)) AS place FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region HAVING COUNT(*) > 1 ORDER BY place, region LIMIT 3",
    ),
    Case(
        "window over groups global",
        "SELECT customer, SUM(amount) AS s, SUM(SUM(amount)) OVER (ORDER BY customer) AS t FROM orders GROUP BY customer HAVING COUNT(*) > 1",
    ),
    Case(
        "group of windows",
        "SELECT rk, COUNT(*) AS n FROM (SELECT RANK() OVER (PARTITION BY customer ORDER BY qty) AS rk FROM orders) t GROUP BY rk",
    ),
    Case(
        "join of windows",
        "SELECT c.name, t.rk FROM customers c JOIN (SELECT customer, RANK() OVER (PARTITION BY customer ORDER BY qty, id) AS rk FROM orders) t ON t.customer = c.id",
    ),
    Case(
        "window over join",
        "SELECT o.id, c.region, AVG(o.qty) OVER (PARTITION BY c.region) AS a FROM orders o JOIN customers c ON o.customer = c.id",
    ),
    Case(
        "window doubles",
        "SELECT kind, weight, SUM(weight) OVER (PARTITION BY kind) AS s, AVG(weight) OVER (PARTITION BY kind ORDER BY weight) AS a FROM events",
    ),
    Case(
        "window nan",
        "SELECT sensor, reading, SUM(reading) OVER (PARTITION BY sensor ORDER BY reading ROWS UNBOUNDED PRECEDING) AS s, RANK() OVER (PARTITION BY sensor ORDER BY reading) AS r FROM readings",
    ),
    Case("window by nan", "SELECT reading, COUNT(*) OVER (PARTITION BY reading) AS s FROM readings"),
    Case(
        "ntile cume",
        "SELECT id, NTILE(3) OVER (PARTITION BY product ORDER BY id) AS n, CUME_DIST() OVER (PARTITION BY product ORDER BY qty) AS c, PERCENT_RANK() OVER (PARTITION BY product ORDER BY qty) AS p FROM orders",
    ),
    Case(
        "last value",
        "SELECT id, LAST_VALUE(qty) OVER (PARTITION BY customer ORDER BY id) AS l, LAST_VALUE(qty IGNORE NULLS) OVER (PARTITION BY customer ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS k, NTH_VALUE(qty, 2) OVER (PARTITION BY customer ORDER BY id) AS n FROM orders",
    ),
    Case(
        "window filter",
        "SELECT id, SUM(qty) FILTER (WHERE qty > 2) OVER (PARTITION BY customer) AS s, COUNT(*) FILTER (WHERE amount > 10) OVER (PARTITION BY customer ORDER BY id) AS n FROM orders",
    ),
    Case(
        "window in expression",
        "SELECT id, 100.0 * qty / SUM(qty) OVER (PARTITION BY customer) AS share, CASE WHEN qty > AVG(qty) OVER (PARTITION BY customer) THEN 'hi' ELSE 'lo' END AS k FROM orders",
    ),
    Case(
        "window order by",
        "SELECT id, qty FROM orders ORDER BY RANK() OVER (PARTITION BY customer ORDER BY qty, id), id LIMIT 5",
    ),
    Case(
        "window of expression partition",
        "SELECT id, COUNT(*) OVER (PARTITION BY qty % 3, day > DATE '2024-01-01') AS c FROM orders",
    ),
    Case("window count distinct", "SELECT id, COUNT(DISTINCT product) OVER (PARTITION BY customer) AS c FROM orders"),
    Case(
        "windows stacked",
        "SELECT id, rk, SUM(rk) OVER (PARTITION BY product) AS t FROM (SELECT id, product, RANK() OVER (PARTITION BY customer ORDER BY qty) AS rk FROM orders) t",
    ),
    Case("distinct window", "SELECT DISTINCT customer, MAX(qty) OVER (PARTITION BY customer) AS m FROM orders"),
    # ------------------------------------------------------------------ order and limit
    Case("order only", "SELECT id, qty FROM orders ORDER BY qty DESC NULLS LAST, id"),
    Case("top k", "SELECT id, amount FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 5"),
    Case("top k with offset", "SELECT id, qty FROM orders ORDER BY qty NULLS FIRST, id DESC LIMIT 4 OFFSET 2"),
    Case("limit of one row", "SELECT SUM(qty) AS s, COUNT(*) AS n FROM orders LIMIT 10"),
    Case(
        "limit of single rows side by side",
        "SELECT * FROM (SELECT COUNT(*) AS a FROM orders) x, (SELECT MAX(qty) AS b FROM orders WHERE qty > 3) y LIMIT 1",
    ),
    Case("top k by a hidden column", "SELECT name FROM customers ORDER BY id LIMIT 3"),
    Case(
        "top k of groups",
        "SELECT customer, SUM(qty) AS s FROM orders GROUP BY customer ORDER BY s DESC NULLS LAST, customer NULLS LAST LIMIT 3",
    ),
    Case(
        "top k of minima",
        "SELECT kind, MIN(value) AS m FROM events GROUP BY kind ORDER BY 2 NULLS LAST, 1 NULLS LAST LIMIT 2",
    ),
    Case("top k of duplicates", "SELECT tag, customer FROM tags ORDER BY tag NULLS LAST, customer NULLS LAST LIMIT 6"),
    Case(
        "distinct on",
        "SELECT DISTINCT ON (customer) customer, id, qty FROM orders ORDER BY customer, qty DESC NULLS LAST, id",
    ),
    Case(
        "limit inside",
        "SELECT c.name, t.id FROM customers c JOIN (SELECT id, customer, amount FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 8) t ON t.customer = c.id",
    ),
    Case(
        "limit below group",
        "SELECT customer, COUNT(*) AS n FROM (SELECT id, customer FROM orders ORDER BY qty DESC NULLS LAST, id LIMIT 10 OFFSET 2) t GROUP BY customer",
    ),
    Case(
        "limit of groups inside",
        "SELECT o.id, t.s FROM orders o JOIN (SELECT customer, SUM(qty) AS s FROM orders GROUP BY customer ORDER BY s DESC NULLS LAST, customer NULLS LAST LIMIT 3) t USING (customer)",
    ),
    Case(
        "limit then filter",
        "SELECT id FROM (SELECT id, qty FROM orders ORDER BY qty NULLS LAST, id LIMIT 6) t WHERE qty > 0",
    ),
    Case(
        "limit twice",
        "SELECT id FROM (SELECT id, qty FROM orders ORDER BY id LIMIT 6) t ORDER BY qty NULLS LAST, id LIMIT 3",
    ),
    # ------------------------------------------------------------------ scalar subqueries
    Case("scalar subquery in where", "SELECT id, qty FROM orders WHERE qty > (SELECT AVG(qty) FROM orders)"),
    Case("scalar subquery of another table", "SELECT id, qty - (SELECT MIN(value) FROM events) AS d FROM orders"),
    Case("scalar subquery of count", "SELECT tag, (SELECT COUNT(*) FROM events) AS n FROM tags"),
    Case(
        "scalar subquery in having",
        "SELECT customer, SUM(qty) AS s FROM orders GROUP BY customer HAVING SUM(qty) > (SELECT MAX(value) FROM events)",
    ),
    # ------------------------------------------------------------------ EXISTS and IN
    Case("exists", "SELECT * FROM events e WHERE EXISTS (SELECT 1 FROM tags t WHERE t.customer = e.customer)"),
    Case(
        "not exists",
        "SELECT kind, value FROM events e WHERE NOT EXISTS (SELECT * FROM tags t WHERE t.customer = e.customer AND t.tag <> 'x')",
    ),
    Case(
        "exists as a key",
        "SELECT customer, CASE WHEN EXISTS (SELECT 1 FROM tags t WHERE t.customer = e.customer) THEN 'y' ELSE 'n' END AS f, COUNT(*) AS n FROM events e GROUP BY customer, CASE WHEN EXISTS (SELECT 1 FROM tags t WHERE t.customer = e.customer) THEN 'y' ELSE 'n' END",
    ),
    Case("exists, uncorrelated", "SELECT tag FROM tags WHERE EXISTS (SELECT 1 FROM events WHERE value = 4 AND ok)"),
    Case(
        "not exists, uncorrelated",
        "SELECT tag FROM tags WHERE NOT EXISTS (SELECT 1 FROM events WHERE value = 4 AND ok)",
    ),
    Case(
        "exists by inequality",
        "SELECT id FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.qty > c.id AND o.product < c.id)",
    ),
    Case(
        "not exists by inequality",
        "SELECT id, qty FROM orders a WHERE NOT EXISTS (SELECT 1 FROM orders b WHERE b.customer = a.customer AND b.qty > a.qty)",
    ),
    Case(
        "exists over a join",
        "SELECT c.id FROM customers c WHERE EXISTS (SELECT 1 FROM orders o JOIN products p ON o.product = p.id WHERE o.customer = c.id AND p.price > 5)",
    ),
    Case(
        "exists under a join",
        "SELECT c.name, o.qty FROM customers c, orders o WHERE EXISTS (SELECT 1 FROM tags t WHERE t.customer = c.id AND t.tag > 'x') AND c.id = o.customer",
    ),
    Case(
        "exists of two relations",
        "SELECT c.id, p.id AS p FROM customers c JOIN products p ON c.id > p.id WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.product = p.id)",
    ),
    Case(
        "exists two deep",
        "SELECT c.id FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND NOT EXISTS (SELECT 1 FROM products p WHERE p.id = o.product AND p.price > c.id))",
    ),
    Case(
        "exists two deep to the outermost",
        "SELECT c.id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM products p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.product = p.id AND o.customer = c.id))",
    ),
    Case(
        "exists of groups",
        "SELECT c.id FROM customers c WHERE EXISTS (SELECT o.product FROM orders o WHERE o.customer = c.id GROUP BY o.product HAVING COUNT(*) > 1)",
    ),
    Case(
        "exists of groups by inequality",
        "SELECT c.id FROM customers c WHERE EXISTS (SELECT o.product FROM orders o WHERE o.qty < c.id GROUP BY o.product HAVING SUM(o.qty) > c.id)",
    ),
    Case(
        "exists of an aggregate",
        "SELECT c.id FROM customers c WHERE EXISTS (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id HAVING COUNT(*) < 2)",
    ),
    Case(
        "exists in having",
        "SELECT customer, COUNT(*) AS n FROM orders o GROUP BY customer HAVING EXISTS (SELECT 1 FROM tags t WHERE t.customer = o.customer)",
    ),
    Case("in", "SELECT id, name FROM customers WHERE id IN (SELECT customer FROM tags WHERE tag = 'x')"),
    Case(
        "in, correlated",
        "SELECT kind, value FROM events e WHERE kind IN (SELECT tag FROM tags t WHERE t.customer > e.customer)",
    ),
    Case(
        "in of groups",
        "SELECT id, customer FROM orders WHERE customer IN (SELECT customer FROM orders GROUP BY customer HAVING SUM(qty) > 5)",
    ),
    Case("in of expressions", "SELECT id FROM orders WHERE qty + 1 IN (SELECT value * 2 FROM events)"),
    Case(
        "in two deep",
        "SELECT id FROM customers WHERE id IN (SELECT customer FROM orders WHERE product IN (SELECT id FROM products WHERE price > 10))",
    ),
    Case(
        "in of several columns",
        "SELECT kind, value FROM events WHERE (kind, customer) IN (SELECT tag, customer FROM tags)",
    ),
    Case(
        "in of an aggregate",
        "SELECT id, qty FROM orders o WHERE qty IN (SELECT MAX(p.qty) FROM orders p WHERE p.customer = o.customer)",
    ),
    Case(
        "not in of an aggregate",
        "SELECT id, qty FROM orders WHERE qty NOT IN (SELECT MAX(value) FROM events HAVING COUNT(*) > 8)",
    ),
    Case(
        "in of a union",
        "SELECT id FROM customers WHERE id IN (SELECT customer FROM tags UNION ALL SELECT customer FROM events WHERE ok)",
    ),
    Case("not in", "SELECT id, customer FROM orders WHERE customer NOT IN (SELECT customer FROM tags)"),
    Case(
        "not in without nulls",
        "SELECT id, customer FROM orders WHERE customer NOT IN (SELECT customer FROM tags WHERE customer IS NOT NULL)",
    ),
    Case(
        "not in, correlated",
        "SELECT kind, value, customer FROM events e WHERE kind NOT IN (SELECT tag FROM tags t WHERE t.customer = e.customer)",
    ),
    Case(
        "not in by inequality",
        "SELECT kind, value, customer FROM events e WHERE kind NOT IN (SELECT tag FROM tags t WHERE t.customer > e.customer + 6)",
    ),
    Case(
        "not in of several columns",
        "SELECT kind, value FROM events WHERE (kind, customer) NOT IN (SELECT tag, customer FROM tags)",
    ),
    Case("any", "SELECT id, qty FROM orders WHERE qty > ANY (SELECT value FROM events WHERE ok)"),
    Case(
        "all", "SELECT id, qty FROM orders o WHERE qty >= ALL (SELECT qty FROM orders p WHERE p.customer = o.customer)"
    ),
    Case("not any", "SELECT id, qty FROM orders WHERE NOT qty = ANY (SELECT value FROM events)"),
    Case("not all", "SELECT id, qty FROM orders WHERE NOT qty < ALL (SELECT value FROM events WHERE value > 1)"),
    Case(
        "any of one row",
        "SELECT id, qty FROM orders o WHERE qty <> ANY (SELECT MAX(p.qty) FROM orders p WHERE p.customer = o.customer)",
    ),
    Case(
        "not all of one row", "SELECT id, qty FROM orders WHERE NOT qty >= ALL (SELECT MAX(value) FROM events WHERE ok)"
    ),
    Case(
        "not in of several columns of one row",
        "SELECT kind, value FROM events WHERE (kind, customer) NOT IN (SELECT MAX(tag), MIN(customer) FROM tags)",
    ),
    # ------------------------------------------------------------------ EXISTS and IN inside expressions
    Case(
        "exists or",
        "SELECT c.id, c.region FROM customers c WHERE c.active OR EXISTS (SELECT 1 FROM tags t WHERE t.customer = c.id)",
    ),
    Case(
        "any or",
        "SELECT id, qty FROM orders o WHERE customer = 3 OR qty > ANY (SELECT e.value FROM events e WHERE e.customer = o.customer)",
    ),
    Case(
        "any and all selected",
        "SELECT kind, value, value < ANY (SELECT qty FROM orders WHERE amount > 5) AS a, value >= ALL (SELECT qty FROM orders o WHERE o.customer = e.customer) AS b, value = ALL (SELECT MAX(qty) FROM orders) AS c FROM events e",
    ),
    Case(
        "in of several columns, selected",
        "SELECT kind, customer, (kind, customer) IN (SELECT tag, customer FROM tags) AS a, (customer, kind) NOT IN (SELECT customer, tag FROM tags WHERE tag IS NOT NULL) AS b, (customer, kind) = ALL (SELECT customer, tag FROM tags WHERE customer > 6) AS c FROM events",
    ),
    Case(
        "any and in of windows",
        "SELECT id, qty, RANK() OVER (PARTITION BY customer ORDER BY qty) < ANY (SELECT value FROM events) AS a, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id) IN (SELECT value FROM events WHERE ok) AS b FROM orders QUALIFY COUNT(*) OVER (PARTITION BY customer) NOT IN (SELECT value FROM events WHERE value > 2)",
    ),
    Case(
        "any, all and in of groups",
        "SELECT customer, SUM(qty) AS s, SUM(qty) > ANY (SELECT value FROM events) AS a, (customer, COUNT(*)) IN (SELECT customer, value FROM events) AS b FROM orders GROUP BY customer HAVING SUM(qty) >= ALL (SELECT value FROM events WHERE ok) OR MAX(qty) < 4",
    ),
    Case(
        "in of several columns, in case",
        "SELECT value, COUNT(*) FILTER (WHERE (kind, customer) IN (SELECT tag, customer FROM tags)) AS n, SUM(CASE WHEN (customer, kind) NOT IN (SELECT customer, tag FROM tags) OR ok THEN 1 ELSE 0 END) AS m FROM events GROUP BY value",
    ),
    Case(
        "exists selected",
        "SELECT e.kind, EXISTS (SELECT 1 FROM tags t WHERE t.customer = e.customer) AS tagged, NOT EXISTS (SELECT 1 FROM orders WHERE qty = 9) AS none FROM events e",
    ),
    Case(
        "exists in case",
        "SELECT id, CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.qty > 5) THEN 'big' WHEN EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id) THEN 'some' ELSE 'none' END AS size FROM customers c",
    ),
    Case(
        "exists selected by inequality",
        "SELECT tag, EXISTS (SELECT 1 FROM orders o WHERE o.qty > t.customer) AS some FROM tags t",
    ),
    Case(
        "in selected",
        "SELECT customer, kind, kind IN (SELECT tag FROM tags) AS known, value IN (SELECT qty FROM orders WHERE product = 1) AS odd FROM events",
    ),
    Case(
        "in selected, correlated",
        "SELECT e.customer, e.kind IN (SELECT tag FROM tags t WHERE t.customer = e.customer) AS known FROM events e",
    ),
    Case(
        "in or",
        "SELECT id, customer FROM orders WHERE qty > 7 OR customer IN (SELECT customer FROM tags) OR NOT product IN (SELECT value FROM events)",
    ),
    Case(
        "not in or",
        "SELECT id, customer FROM orders o WHERE qty > 7 OR customer NOT IN (SELECT t.customer FROM tags t WHERE t.customer > o.qty)",
    ),
    Case(
        "in inside an aggregate",
        "SELECT kind, SUM(CASE WHEN customer IN (SELECT customer FROM tags) THEN value ELSE 0 END) AS s, COUNT(*) AS n FROM events GROUP BY kind",
    ),
    Case(
        "exists grouped by",
        "SELECT EXISTS (SELECT 1 FROM tags t WHERE t.customer = o.customer) AS tagged, COUNT(*) AS n FROM orders o GROUP BY 1",
    ),
    # ------------------------------------------------------------------ correlated scalar subqueries
    Case(
        "correlated sum", "SELECT c.id, (SELECT SUM(o.qty) FROM orders o WHERE o.customer = c.id) AS s FROM customers c"
    ),
    Case(
        "correlated count",
        "SELECT e.kind, e.customer, (SELECT COUNT(*) FROM tags t WHERE t.customer = e.customer) AS n, (SELECT COUNT(t.tag) + 1 FROM tags t WHERE t.customer = e.customer) AS m FROM events e",
    ),
    Case(
        "correlated count in where",
        "SELECT id FROM customers c WHERE (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id) < 2",
    ),
    Case(
        "correlated average in where",
        "SELECT id, qty FROM orders o WHERE qty > (SELECT AVG(p.qty) FROM orders p WHERE p.product = o.product)",
    ),
    Case(
        "correlated coalesce",
        "SELECT c.id, (SELECT COALESCE(MAX(o.qty), -1) FROM orders o WHERE o.customer = c.id) AS m FROM customers c",
    ),
    Case(
        "correlated by inequality",
        "SELECT t.tag, t.customer, (SELECT COUNT(*) FROM orders o WHERE o.qty < t.customer) AS n, (SELECT MAX(o.day) FROM orders o WHERE o.qty < t.customer AND o.product = t.customer) AS d FROM tags t",
    ),
    Case(
        "correlated in the aggregate",
        "SELECT t.customer, (SELECT SUM(o.qty * t.customer) FROM orders o WHERE o.customer = t.customer) AS s FROM tags t",
    ),
    Case(
        "correlated with having",
        "SELECT c.id, (SELECT SUM(o.qty) FROM orders o WHERE o.customer = c.id HAVING COUNT(*) <> 1) AS s, (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id HAVING COUNT(*) <> 1) AS n FROM customers c",
    ),
    Case(
        "correlated null-safe",
        "SELECT e.kind, (SELECT COUNT(*) FROM tags t WHERE t.tag IS NOT DISTINCT FROM e.kind) AS n FROM events e",
    ),
    Case(
        "correlated by an expression",
        "SELECT e.value, (SELECT MIN(p.price) FROM products p WHERE p.id = e.value + 1) AS m FROM events e",
    ),
    Case(
        "correlated in having",
        "SELECT customer, SUM(qty) AS s FROM orders o GROUP BY customer HAVING SUM(qty) > (SELECT COUNT(*) FROM tags t WHERE t.customer = o.customer)",
    ),
    Case(
        "correlated after grouping",
        "SELECT customer, COUNT(*) AS n, (SELECT MAX(t.tag) FROM tags t WHERE t.customer = e.customer) AS top FROM events e GROUP BY customer",
    ),
    Case(
        "correlated below grouping",
        "SELECT kind, SUM((SELECT COUNT(*) FROM tags t WHERE t.customer = e.customer)) AS n FROM events e GROUP BY kind",
    ),
    Case(
        "correlated two deep",
        "SELECT c.id, (SELECT SUM(o.qty) FROM orders o WHERE o.customer = c.id AND o.amount > (SELECT AVG(p.price) FROM products p WHERE p.id <> o.product)) AS s FROM customers c",
    ),
    Case(
        "correlated two deep to the outermost",
        "SELECT c.id, (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id AND o.qty > (SELECT MIN(e.value) FROM events e WHERE e.customer = c.id AND e.value < o.qty)) AS n FROM customers c",
    ),
    Case(
        "scalar by key", "SELECT o.id, (SELECT c.name FROM customers c WHERE c.id = o.customer) AS name FROM orders o"
    ),
    Case(
        "scalar by key with distinct",
        "SELECT t.tag, (SELECT DISTINCT u.customer FROM tags u WHERE u.customer = t.customer) AS same FROM tags t",
    ),
    Case("scalar of one row", "SELECT t.tag, (SELECT label FROM products WHERE id = 3) AS label FROM tags t"),
    Case(
        "scalar of groups",
        "SELECT t.tag, (SELECT COUNT(*) FROM events e WHERE e.customer = t.customer GROUP BY e.customer) AS n FROM tags t",
    ),
    Case(
        "scalar over a left join",
        "SELECT c.id, o.qty, (SELECT COUNT(*) FROM tags t WHERE t.customer = o.product) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id",
    ),
    Case(
        "left join in a subquery",
        "SELECT id FROM products p WHERE EXISTS (SELECT 1 FROM orders o LEFT JOIN customers c ON c.id = o.customer WHERE o.product = p.id AND c.id IS NULL)",
    ),
    Case(
        "lateral",
        "SELECT c.id, o.n, o.q FROM customers c CROSS JOIN LATERAL (SELECT o.id AS n, o.qty + 1 AS q FROM orders o WHERE o.customer = c.id AND o.qty > 1) o",
    ),
    Case(
        "left lateral",
        "SELECT t.tag, e.v FROM tags t LEFT JOIN LATERAL (SELECT 'v' || e.value AS v FROM events e WHERE e.customer = t.customer AND e.kind < t.tag) e ON TRUE",
    ),
    Case(
        "lateral aggregate",
        "SELECT c.id, g.n, g.s FROM customers c, LATERAL (SELECT COUNT(*) AS n, SUM(o.qty) AS s FROM orders o WHERE o.customer = c.id) g WHERE g.n < 3",
    ),
    Case(
        "lateral groups",
        "SELECT c.id, g.product, g.n FROM customers c JOIN LATERAL (SELECT o.product, COUNT(*) AS n FROM orders o WHERE o.qty < c.id GROUP BY o.product) g ON g.n > 1",
    ),
    Case(
        "lateral distinct",
        "SELECT t.customer, d.k FROM tags t, LATERAL (SELECT DISTINCT e.kind AS k FROM events e WHERE e.customer = t.customer) d(k)",
    ),
    # ------------------------------------------------------------------ the first rows of each
    Case(
        "lateral first rows",
        "SELECT c.id, o.n, o.qty FROM customers c, LATERAL (SELECT o.id AS n, o.qty FROM orders o WHERE o.customer = c.id ORDER BY o.qty DESC NULLS LAST, o.id LIMIT 2) o",
    ),
    Case(
        "left lateral first row after the first",
        "SELECT c.id, o.n FROM customers c LEFT JOIN LATERAL (SELECT o.id AS n FROM orders o WHERE o.customer = c.id ORDER BY o.id LIMIT 1 OFFSET 1) o ON TRUE",
    ),
    Case(
        "left lateral on a condition",
        "SELECT c.id, o.n, o.qty FROM customers c LEFT JOIN LATERAL (SELECT o.id AS n, o.qty FROM orders o WHERE o.customer = c.id ORDER BY o.id LIMIT 2) o ON o.qty > c.id",
    ),
    Case(
        "lateral nearest",
        "SELECT o.id, p.label FROM orders o, LATERAL (SELECT p.label FROM products p WHERE p.price <= o.amount ORDER BY o.amount - p.price, p.id LIMIT 1) p",
    ),
    Case(
        "scalar first row",
        "SELECT c.id, (SELECT COALESCE(o.qty, -99) FROM orders o WHERE o.customer = c.id ORDER BY o.day DESC, o.id LIMIT 1) AS last FROM customers c",
    ),
    Case(
        "scalar first row of a key",
        "SELECT o.id, (SELECT p.label FROM products p WHERE p.id = o.product LIMIT 1) AS label FROM orders o",
    ),
    Case(
        "scalar of the largest group",
        "SELECT c.id, (SELECT o.product FROM orders o WHERE o.customer = c.id GROUP BY o.product ORDER BY COUNT(*) DESC, o.product LIMIT 1) AS favourite FROM customers c",
    ),
    Case(
        "not in the first rows",
        "SELECT id, qty FROM orders o WHERE qty NOT IN (SELECT e.value FROM events e WHERE e.customer = o.customer ORDER BY e.value, e.kind LIMIT 2)",
    ),
    Case(
        "exists a second row",
        "SELECT c.id FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id ORDER BY o.id LIMIT 1 OFFSET 1)",
    ),
    Case(
        "lateral distinct first rows",
        "SELECT c.id, e.kind FROM customers c, LATERAL (SELECT DISTINCT e.kind FROM events e WHERE e.customer = c.id ORDER BY e.kind LIMIT 2) e",
    ),
    Case(
        "lateral ranks",
        "SELECT c.id, o.n, o.place FROM customers c, LATERAL (SELECT o.id AS n, RANK() OVER (ORDER BY o.qty) AS place, SUM(o.qty) OVER (PARTITION BY o.product) AS total FROM orders o WHERE o.customer = c.id) o WHERE o.place < 3",
    ),
    Case(
        "lateral with ties",
        "SELECT c.id, o.n FROM customers c, LATERAL (SELECT o.id AS n FROM orders o WHERE o.customer < c.id ORDER BY o.qty FETCH FIRST 2 ROWS WITH TIES) o",
    ),
    Case(
        "lateral distinct on",
        "SELECT c.id, o.product, o.qty FROM customers c, LATERAL (SELECT DISTINCT ON (o.product) o.product, o.qty FROM orders o WHERE o.customer = c.id ORDER BY o.product, o.qty, o.id) o",
    ),
    Case(
        "lateral aggregate with having",
        "SELECT c.id, g.n FROM customers c, LATERAL (SELECT COUNT(*) AS n FROM orders o WHERE o.customer = c.id HAVING COUNT(*) <> 1) g",
    ),
    Case(
        "left lateral aggregate on a condition",
        "SELECT c.id, g.n, g.m FROM customers c LEFT JOIN LATERAL (SELECT COUNT(*) AS n, MAX(o.qty) AS m FROM orders o WHERE o.customer = c.id HAVING COUNT(*) > 1) g ON g.m > c.id",
    ),
    # ------------------------------------------------------------------ subqueries in the condition of a join
    Case(
        "left join on exists",
        "SELECT c.id, o.id AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id AND EXISTS (SELECT 1 FROM events e WHERE e.customer = c.id)",
    ),
    Case(
        "left join above the average",
        "SELECT c.id, o.id AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.qty > (SELECT AVG(qty) FROM orders)",
    ),
    Case(
        "right join on a count",
        "SELECT c.id, o.id AS n FROM customers c RIGHT JOIN orders o ON o.customer = c.id AND o.qty >= (SELECT COUNT(*) FROM events e WHERE e.customer = c.id)",
    ),
    Case(
        "full join on in and not in",
        "SELECT c.id, o.id AS n FROM customers c FULL JOIN orders o ON o.customer = c.id AND c.id IN (SELECT e.customer FROM events e WHERE e.ok) AND o.qty NOT IN (SELECT e.value FROM events e WHERE e.customer = o.customer)",
    ),
    Case(
        "anti join on exists",
        "SELECT c.id FROM customers c ANTI JOIN orders o ON o.customer = c.id AND EXISTS (SELECT 1 FROM products p WHERE p.id = o.product AND p.label = 'ink')",
    ),
    Case(
        "list of a query",
        "SELECT c.id, ARRAY(SELECT o.id FROM orders o WHERE o.customer = c.id ORDER BY o.id DESC) AS ids FROM customers c",
    ),
    # ------------------------------------------------------------------ correlated queries in FROM and set operations
    Case(
        "scalar over the first rows",
        "SELECT c.id, (SELECT AVG(x.qty) FROM (SELECT o.qty FROM orders o WHERE o.customer = c.id ORDER BY o.id DESC LIMIT 3) x) AS recent FROM customers c",
    ),
    Case(
        "scalar over an aggregate in from",
        "SELECT c.id, (SELECT SUM(x.n) FROM (SELECT COUNT(*) AS n FROM orders o WHERE o.customer = c.id) x JOIN products p ON p.id > x.n) AS s FROM customers c",
    ),
    Case(
        "scalar over a union",
        "SELECT c.id, (SELECT COUNT(*) FROM (SELECT o.qty AS v FROM orders o WHERE o.customer = c.id UNION ALL SELECT e.value FROM events e WHERE e.customer = c.id) x) AS n FROM customers c",
    ),
    Case(
        "scalar over a union linked two ways",
        "SELECT c.id, (SELECT SUM(x.v) FROM (SELECT o.qty AS v FROM orders o WHERE o.customer = c.id UNION SELECT e.value FROM events e WHERE e.customer > c.id) x) AS s FROM customers c",
    ),
    Case(
        "exists an intersection",
        "SELECT c.id FROM customers c WHERE EXISTS (SELECT o.qty FROM orders o WHERE o.customer = c.id INTERSECT SELECT e.value FROM events e WHERE e.customer = c.id)",
    ),
    Case(
        "not in a union",
        "SELECT id, qty FROM orders o WHERE qty NOT IN (SELECT e.value FROM events e WHERE e.customer = o.customer UNION ALL SELECT p.id FROM products p WHERE p.price > 5)",
    ),
    Case(
        "first rows of a lateral union",
        "SELECT c.id, x.v FROM customers c, LATERAL (SELECT o.qty AS v FROM orders o WHERE o.customer = c.id UNION SELECT e.value FROM events e WHERE e.customer = c.id ORDER BY v DESC NULLS LAST LIMIT 2) x",
    ),
    Case(
        "lateral except all",
        "SELECT c.id, x.v FROM customers c, LATERAL (SELECT o.qty AS v FROM orders o WHERE o.customer = c.id EXCEPT ALL SELECT e.value FROM events e WHERE e.customer = c.id) x",
    ),
    Case(
        "cte of the query around",
        "SELECT c.id, (WITH own AS (SELECT o.qty, o.product FROM orders o WHERE o.customer = c.id) SELECT SUM(a.qty) FROM own a JOIN own b ON a.product = b.product) AS s FROM customers c",
    ),
    # ------------------------------------------------------------------ NaN and infinity
    Case("nan rows", "SELECT sensor, reading FROM readings"),
    Case(
        "nan sums",
        "SELECT sensor, SUM(reading) AS s, AVG(reading) AS a, COUNT(reading) AS n FROM readings GROUP BY sensor",
    ),
    Case("nan extremes", "SELECT sensor, MIN(reading) AS lo, MAX(reading) AS hi FROM readings GROUP BY sensor"),
    Case("nan keys", "SELECT reading, COUNT(*) AS n FROM readings GROUP BY reading"),
    Case("nan distinct", "SELECT DISTINCT reading FROM readings"),
    Case("nan join", "SELECT a.sensor AS a, b.sensor AS b FROM readings a JOIN readings b ON a.reading = b.reading"),
    Case("nan global", "SELECT SUM(reading) AS s, MAX(reading) AS m FROM readings"),
    # ------------------------------------------------------------------ pivot and unpivot
    Case(
        "pivot", "SELECT * FROM (SELECT customer, kind, value FROM events) t PIVOT (SUM(value) FOR kind IN ('a', 'b'))"
    ),
    Case(
        "pivot counts",
        "SELECT * FROM (SELECT customer, kind FROM events) t PIVOT (COUNT(*) FOR kind IN ('a' AS some, 'none')) AS p",
    ),
    Case(
        "pivot two aggregates",
        "SELECT customer, b_s, a_n FROM (SELECT customer, kind, value FROM events) t PIVOT (SUM(value) AS s, COUNT(value) AS n FOR kind IN ('a', 'b')) AS p",
    ),
    Case(
        "pivot extremes",
        "SELECT * FROM (SELECT customer, kind, value, moment FROM events) t PIVOT (MIN(value) AS lo, MAX(moment) AS hi FOR kind IN ('a', 'c')) AS p",
    ),
    Case(
        "pivot global",
        "SELECT * FROM (SELECT kind, value FROM events) t PIVOT (SUM(value) FOR kind IN ('a', 'b', 'c'))",
    ),
    Case(
        "pivot of two columns",
        "SELECT * FROM events PIVOT (COUNT(*) FOR kind IN ('a', NULL) ok IN (TRUE, FALSE) GROUP BY customer) AS p",
    ),
    Case("pivot of numbers", "SELECT * FROM events PIVOT (COUNT(*) FOR weight IN (0.1, 0.70, -3.3) GROUP BY kind)"),
    Case(
        "pivot of pairs",
        "SELECT * FROM events PIVOT (SUM(value) FOR (kind, ok) IN (('a', TRUE), ('b', FALSE)) GROUP BY customer)",
    ),
    Case(
        "pivot statement",
        "SELECT * FROM (PIVOT events ON kind IN ('a', 'b') USING SUM(value) AS s, MAX(weight) AS m GROUP BY ok)",
    ),
    Case(
        "pivot joined",
        "SELECT c.name, p.a, p.b FROM customers c LEFT JOIN (SELECT customer, kind, value FROM events) t PIVOT (SUM(value) FOR kind IN ('a', 'b')) AS p ON p.customer = c.id",
    ),
    Case(
        "pivot in a cte, grouped again",
        "WITH p AS (SELECT * FROM (SELECT customer, kind, value FROM events) t PIVOT (SUM(value) FOR kind IN ('a', 'b'))) SELECT a, COUNT(*) AS n FROM p GROUP BY a",
    ),
    Case("unpivot", "SELECT * FROM (SELECT id, qty, product FROM orders) t UNPIVOT (n FOR what IN (qty, product))"),
    Case(
        "unpivot with nulls",
        "SELECT * FROM (SELECT customer, value, weight FROM events) t UNPIVOT INCLUDE NULLS (n FOR what IN (value AS v, weight)) AS u",
    ),
    Case(
        "unpivot grouped",
        "SELECT what, SUM(n) AS s, COUNT(*) AS c FROM (SELECT id, qty, product FROM orders) t UNPIVOT (n FOR what IN (qty, product)) AS u GROUP BY what",
    ),
    Case("unpivot statement", "SELECT * FROM (UNPIVOT orders ON qty, product INTO NAME what VALUE n)"),
    # ------------------------------------------------------------------ names
    Case(
        "quoted names", 'SELECT "Group", "select" + 1 AS "Plus One", "quo""te" FROM "Mixed Case" WHERE "Order By" > 0'
    ),
    Case(
        "quoted group",
        'SELECT "Group" AS "from", SUM("select") AS "Sum", MAX("Order By") AS "max" FROM "Mixed Case" m GROUP BY "Group"',
    ),
    Case(
        "quoted join",
        'SELECT a."Group", b."quo""te" AS "table" FROM "Mixed Case" a JOIN "Mixed Case" b ON a."select" = b."Order By"',
    ),
    Case("odd names", 'SELECT "Group", "select" + 1 AS "plus-1", "quo""te" FROM "Odd-Names" WHERE "order-by" > 0'),
    Case(
        "odd group",
        'SELECT "Group" AS "from", SUM("select") AS "Sum", MAX("order-by") AS "max" FROM "Odd-Names" m GROUP BY "Group"',
    ),
    Case(
        "odd join",
        'SELECT a."Group", b."quo""te" AS "table" FROM "Odd-Names" a JOIN "Odd-Names" b ON a."select" = b."order-by"',
    ),
    Case("odd case", 'SELECT "GROUP" AS g, COUNT(*) AS n FROM "odd-names" GROUP BY "group"', more=("Odd-Names",)),
    Case("other case", 'SELECT "GROUP" AS g, COUNT(*) AS n FROM "mixed case" GROUP BY "group"', more=("Mixed Case",)),
    Case(
        "schema",
        "SELECT s.product, p.label, SUM(s.count) AS n FROM shop.stock s JOIN products p ON p.id = s.product GROUP BY s.product, p.label",
    ),
    Case("schema in column", "SELECT stock.product, shop.stock.count FROM shop.stock WHERE stock.count > 3"),
)
