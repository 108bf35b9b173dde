-- DuckDB 2.0 holds a join for empty if its statistics show that a side of an outer join, or what a count reads, is.
-- seed 710035
CREATE TABLE a (k INTEGER, v INTEGER);
CREATE TABLE c (k INTEGER, n INTEGER);
CREATE TABLE b (k INTEGER, f BOOLEAN, n INTEGER);
INSERT INTO a VALUES (1, 1), (2, 2), (NULL, 3);
INSERT INTO b VALUES (1, FALSE, 3), (2, FALSE, 4);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT a.k, a.v, r.n FROM a LEFT JOIN (SELECT * FROM b WHERE f) AS r ON a.v > 1;
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT a.k, a.v, r.n FROM a LEFT JOIN (SELECT * FROM b WHERE n = 99) AS r ON a.k = r.k;
CREATE MATERIALIZED VIEW v2 WITH (policy = 'incremental') AS SELECT a.k, a.v, r.n FROM a FULL JOIN (SELECT * FROM b WHERE n = 99) AS r ON a.k = r.k;
CREATE MATERIALIZED VIEW v3 WITH (policy = 'incremental') AS SELECT a.k, SUM(a.v) AS s, COUNT(*) AS c, COUNT(r.n) AS d FROM a LEFT JOIN (SELECT * FROM b WHERE n = 99) AS r ON a.k = r.k GROUP BY a.k;
CREATE MATERIALIZED VIEW v4 WITH (policy = 'incremental') AS SELECT s, COUNT(*) AS c FROM (SELECT a.k, SUM(a.v) AS s FROM a LEFT JOIN (SELECT * FROM b WHERE n = 99) AS r ON a.k = r.k GROUP BY a.k) AS t GROUP BY s;
CREATE MATERIALIZED VIEW v5 WITH (policy = 'incremental') AS SELECT a.k, (SELECT MAX(b.n) FROM b WHERE b.k = a.k AND b.f) AS m FROM a;
CREATE MATERIALIZED VIEW v6 WITH (policy = 'incremental') AS SELECT a.k FROM a WHERE NOT a.v < (SELECT COUNT(c.n) FROM c);
CREATE MATERIALIZED VIEW v7 WITH (policy = 'incremental') AS SELECT a.k, SUM(a.v) AS s FROM a CROSS JOIN (SELECT SUM(n) AS t FROM c) AS r GROUP BY a.k;
UPDATE a SET v = 5 WHERE k = 1;
INSERT INTO a VALUES (3, 4), (1, 1);
-- refresh
DELETE FROM a WHERE k = 2;
INSERT INTO b VALUES (7, FALSE, 5);
-- refresh
INSERT INTO b VALUES (1, TRUE, 99);
DELETE FROM a WHERE v = 3;
-- refresh
UPDATE b SET n = 4, f = FALSE;
INSERT INTO a VALUES (NULL, 7);
-- refresh
DELETE FROM a;
-- refresh
