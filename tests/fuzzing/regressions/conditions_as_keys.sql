-- A group or a partition by a condition: compared with its key it needs parentheses.
-- seed 1
CREATE TABLE a (k INTEGER, v INTEGER, s TEXT, d DECIMAL(10,2));
CREATE TABLE b (k INTEGER PRIMARY KEY, v INTEGER, s TEXT);
CREATE TABLE c (k INTEGER, w INTEGER);
INSERT INTO a VALUES (1, 2, 'x', 1.5), (1, 2, 'x', 1.5), (2, NULL, 'y', 2.5), (NULL, 3, NULL, NULL), (5, 1, 'z', 3);
INSERT INTO b VALUES (1, 1, 'x'), (2, NULL, 'y'), (3, 3, NULL);
INSERT INTO c VALUES (1, 1), (1, NULL), (NULL, 2), (4, 4);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT k = 1 OR v = 2 AS n, COUNT(*) AS m, MIN(d) AS e FROM a GROUP BY k = 1 OR v = 2;
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT n, COUNT(*) AS c FROM (SELECT NOT k = 1 AS n, k IS NULL AS z, COUNT(*) AS m, MIN(d) AS e FROM a GROUP BY NOT k = 1, k IS NULL) t GROUP BY n;
CREATE MATERIALIZED VIEW v2 WITH (policy = 'incremental') AS SELECT k, COUNT(*) OVER (PARTITION BY v = 2 OR k = 1) AS n, COUNT(*) OVER (PARTITION BY NOT v = 2) AS m FROM a;
CREATE MATERIALIZED VIEW v3 WITH (policy = 'incremental') AS SELECT n, MIN(e) AS e FROM (SELECT s IS DISTINCT FROM 'x' AS n, MIN(d) AS e FROM a GROUP BY s IS DISTINCT FROM 'x') t GROUP BY n;
INSERT INTO c VALUES (5, 3), (1, 1);
DELETE FROM a WHERE k = 1;
-- refresh
INSERT INTO a VALUES (1, 2, 'x', 1), (4, 4, 'x', 2), (3, 1, 'x', -1);
DELETE FROM b WHERE k = 3;
-- refresh
UPDATE b SET v = 2;
UPDATE a SET k = NULL WHERE k = 5;
INSERT INTO b VALUES (5, NULL, 'z');
-- refresh
DELETE FROM c;
-- refresh
INSERT INTO c VALUES (1, 1), (NULL, NULL), (2, 2);
DELETE FROM a;
-- refresh
DELETE FROM b;
INSERT INTO a VALUES (1, 2, 'x', 1), (1, 2, 'x', 1), (2, NULL, NULL, 2);
-- refresh
INSERT INTO b VALUES (1, 1, 'x');
DELETE FROM a WHERE k = 2;
-- refresh
