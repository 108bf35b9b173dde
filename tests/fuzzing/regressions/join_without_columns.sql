-- A side of an outer join of which nobody reads a column is filtered: its rows still count.
-- seed 780150
CREATE TABLE t0 (k INTEGER PRIMARY KEY, i0 INTEGER);
CREATE TABLE t2 (k INTEGER PRIMARY KEY, i0 INTEGER);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT a.k FROM t0 a FULL JOIN ((SELECT CASE WHEN k > 1 THEN 'x' END FROM t0) EXCEPT ALL (SELECT CASE WHEN SUM(DISTINCT k) > 1 THEN 'x' END FROM t2)) b ON a.k > 0;
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT a.k FROM t0 a LEFT JOIN ((SELECT i0 FROM t0) EXCEPT ALL (SELECT i0 FROM t2)) b ON a.k > 0;
INSERT INTO t0 VALUES (1, 0), (2, 0), (-1, NULL);
-- refresh
INSERT INTO t2 VALUES (4, 0), (5, NULL);
-- refresh
UPDATE t0 SET k = 3 WHERE k = -1;
-- refresh
DELETE FROM t2 WHERE k = 4;
-- refresh
DELETE FROM t0;
-- refresh
