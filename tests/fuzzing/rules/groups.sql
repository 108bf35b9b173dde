-- Groups, sets and limits below other operators.
-- seed 1
CREATE TABLE a (k INTEGER, v INTEGER, s TEXT, d DECIMAL(10,2));
CREATE TABLE b (k INTEGER PRIMARY KEY, v INTEGER, s TEXT);
CREATE TABLE c (k INTEGER, w INTEGER);
INSERT INTO a VALUES (1, 2, 'x', 1.5), (1, 2, 'x', 1.5), (2, NULL, 'y', 2.5), (NULL, 3, NULL, NULL), (5, 1, 'z', 3);
INSERT INTO b VALUES (1, 1, 'x'), (2, NULL, 'y'), (3, 3, NULL);
INSERT INTO c VALUES (1, 1), (1, NULL), (NULL, 2), (4, 4);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT k, v FROM a WHERE v > 1;
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT n, t, COUNT(*) AS m FROM (SELECT s, COUNT(v) AS n, SUM(v) AS t FROM a GROUP BY s) q GROUP BY n, t;
CREATE MATERIALIZED VIEW v2 WITH (policy = 'incremental') AS SELECT lo, COUNT(*) AS m FROM (SELECT s, MIN(v) AS lo FROM a GROUP BY s) q GROUP BY lo;
CREATE MATERIALIZED VIEW v3 WITH (policy = 'incremental') AS SELECT k, COUNT(*) AS n FROM (SELECT k FROM a UNION ALL SELECT k FROM c) u GROUP BY k HAVING COUNT(*) > 1;
CREATE MATERIALIZED VIEW v4 WITH (policy = 'incremental') AS SELECT n, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM (SELECT k FROM a UNION ALL SELECT k FROM c) u GROUP BY k) q GROUP BY n;
CREATE MATERIALIZED VIEW v5 WITH (policy = 'incremental') AS SELECT k FROM a UNION ALL SELECT k FROM c;
CREATE MATERIALIZED VIEW v6 WITH (policy = 'incremental') AS SELECT k FROM a EXCEPT ALL SELECT k FROM c;
CREATE MATERIALIZED VIEW v7 WITH (policy = 'incremental') AS SELECT k FROM a INTERSECT SELECT k FROM c;
CREATE MATERIALIZED VIEW v8 WITH (policy = 'incremental') AS SELECT b.k, t.v FROM b JOIN (SELECT k, v FROM a ORDER BY v DESC NULLS LAST, k, s, d LIMIT 2) t ON t.k = b.k;
CREATE MATERIALIZED VIEW v9 WITH (policy = 'incremental') AS SELECT MAX(v) AS v, COUNT(*) AS n FROM (SELECT k, v FROM a ORDER BY v, k, s, d LIMIT 3) t;
CREATE MATERIALIZED VIEW v10 WITH (policy = 'incremental') AS SELECT d.k, COUNT(*) AS n FROM (SELECT DISTINCT k, v FROM a) d GROUP BY d.k;
CREATE MATERIALIZED VIEW v11 WITH (policy = 'incremental') AS SELECT a.k, g.n FROM a JOIN (SELECT k, COUNT(*) AS n FROM a GROUP BY k) g ON g.k IS NOT DISTINCT FROM a.k;
CREATE MATERIALIZED VIEW v12 WITH (policy = 'incremental') AS SELECT t, COUNT(*) AS m FROM (SELECT s, SUM(d) AS t FROM a GROUP BY s) q GROUP BY t;
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
