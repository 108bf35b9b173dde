-- To DuckDB t.a and a are two keys in grouping sets.
-- seed 760971
CREATE TABLE a (k INTEGER, v INTEGER);
INSERT INTO a VALUES (1, 1), (2, NULL);
CREATE MATERIALIZED VIEW v0 AS SELECT k, COUNT(*) AS n FROM a GROUP BY CUBE (a.k, k);
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT a.k, K AS l, COUNT(*) AS n FROM a GROUP BY ROLLUP (k, K);
INSERT INTO a VALUES (1, 3), (NULL, 3);
-- refresh
DELETE FROM a WHERE v = 1;
-- refresh
