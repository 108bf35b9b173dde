-- A key of a grouping set is the same with and without parentheses.
-- seed 740046
CREATE TABLE a (k INTEGER, v INTEGER);
INSERT INTO a VALUES (1, 1), (2, NULL);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT MAX(k) AS m FROM a GROUP BY GROUPING SETS (((COALESCE(v, 4))), COALESCE(v, 4)) HAVING COALESCE(v, 4) > 0;
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT k + 1 AS p, GROUPING(k + 1) AS g, COUNT(*) AS n FROM a GROUP BY CUBE ((k + 1), ((v)));
CREATE MATERIALIZED VIEW v2 WITH (policy = 'incremental') AS SELECT k + 1 AS p, COUNT(*) AS n FROM a GROUP BY (k + 1);
INSERT INTO a VALUES (4, 1), (NULL, 3);
-- refresh
DELETE FROM a WHERE v = 1;
-- refresh
DELETE FROM a;
-- refresh
