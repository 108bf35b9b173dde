-- On DuckDB COUNT_IF of nothing is NULL, not 0.
-- seed 700295
CREATE TABLE a (k INTEGER, v INTEGER);
CREATE TABLE b (k INTEGER, f BOOLEAN);
INSERT INTO a VALUES (1, 1), (2, 2), (NULL, 3);
INSERT INTO b VALUES (1, TRUE), (1, NULL);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT a.k, (SELECT COUNT_IF(b.f) FROM b WHERE b.k = a.k) AS n, l.c FROM a LEFT JOIN LATERAL (SELECT COUNT_IF(b.f) AS c FROM b WHERE b.k = a.v) AS l ON TRUE;
INSERT INTO b VALUES (2, NULL), (3, FALSE);
-- refresh
DELETE FROM b WHERE k = 1;
-- refresh
INSERT INTO a VALUES (1, 2), (4, NULL);
UPDATE b SET k = 1;
-- refresh
DELETE FROM b;
-- refresh
