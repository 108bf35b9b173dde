-- DuckDB 2.0's optimizer stops with an INTERNAL error at a join on k = k AND k < k below an EXISTS and a GROUP BY.
-- seed 750157
CREATE TABLE a (k INTEGER, v TEXT);
CREATE TABLE b (k INTEGER PRIMARY KEY, d DOUBLE);
INSERT INTO a VALUES (-1, 'x'), (4, 'x');
INSERT INTO b VALUES (8, 3), (7, 1.5), (6, 1.5), (9, 3), (1, 3), (12, 3);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT b.d, a.v FROM b LEFT JOIN a USING (k) WHERE k < a.k AND EXISTS (SELECT 1 FROM b AS c WHERE c.k = b.k AND c.k BETWEEN 0 AND 3);
DELETE FROM a WHERE v = 'x';
-- refresh
INSERT INTO a VALUES (1, 'y'), (3, NULL);
UPDATE b SET d = 2 WHERE k = 1;
-- refresh
