-- Inner, semi, anti and outer joins, above and below other operators.
-- seed 1
CREATE TABLE a (k INTEGER, v INTEGER, s TEXT, d DECIMAL(10,2));
CREATE TABLE b (k INTEGER PRIMARY KEY, v INTEGER, s TEXT);
CREATE TABLE c (k INTEGER, w INTEGER);
INSERT INTO a VALUES (1, 2, 'x', 1.5), (1, 2, 'x', 1.5), (2, NULL, 'y', 2.5), (NULL, 3, NULL, NULL), (5, 1, 'z', 3);
INSERT INTO b VALUES (1, 1, 'x'), (2, NULL, 'y'), (3, 3, NULL);
INSERT INTO c VALUES (1, 1), (1, NULL), (NULL, 2), (4, 4);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT a.k, b.v, c.w FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.k;
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT x.k, y.v FROM a x JOIN a y ON x.k = y.k;
CREATE MATERIALIZED VIEW v2 WITH (policy = 'incremental') AS SELECT a.k, c.w FROM a JOIN c ON a.k IS NOT DISTINCT FROM c.k;
CREATE MATERIALIZED VIEW v3 WITH (policy = 'incremental') AS SELECT a.k, a.v, c.w FROM a LEFT JOIN c ON a.k = c.k;
CREATE MATERIALIZED VIEW v4 WITH (policy = 'incremental') AS SELECT a.k, a.v, c.w FROM a LEFT JOIN c ON a.k IS NOT DISTINCT FROM c.k;
CREATE MATERIALIZED VIEW v5 WITH (policy = 'incremental') AS SELECT a.k, c.k AS j, c.w FROM a FULL JOIN c ON a.k = c.k;
CREATE MATERIALIZED VIEW v6 WITH (policy = 'incremental') AS SELECT a.k, b.k AS j, c.w FROM a FULL JOIN b ON a.k = b.k AND a.v > 1 LEFT JOIN c ON c.w = b.v;
CREATE MATERIALIZED VIEW v7 WITH (policy = 'incremental') AS SELECT a.k, c.w FROM a LEFT JOIN c ON a.k < c.k;
CREATE MATERIALIZED VIEW v8 WITH (policy = 'incremental') AS SELECT a.k, a.v FROM a SEMI JOIN c ON a.k = c.k;
CREATE MATERIALIZED VIEW v9 WITH (policy = 'incremental') AS SELECT a.k, a.v FROM a ANTI JOIN c ON a.k = c.k;
CREATE MATERIALIZED VIEW v10 WITH (policy = 'incremental') AS SELECT a.k FROM a WHERE a.v NOT IN (SELECT w FROM c);
CREATE MATERIALIZED VIEW v11 WITH (policy = 'incremental') AS SELECT n, COUNT(*) AS m FROM (SELECT a.k, COUNT(c.w) AS n FROM a LEFT JOIN c ON a.k = c.k GROUP BY a.k) t GROUP BY n;
CREATE MATERIALIZED VIEW v12 WITH (policy = 'incremental') AS SELECT n, COUNT(*) AS m FROM (SELECT a.k, COUNT(c.w) AS n FROM a FULL JOIN c ON a.k = c.k GROUP BY a.k) t GROUP BY n;
CREATE MATERIALIZED VIEW v13 WITH (policy = 'incremental') AS SELECT n, COUNT(*) AS m FROM (SELECT a.k, COUNT(*) AS n FROM a ANTI JOIN c ON a.k = c.k GROUP BY a.k) t GROUP BY n;
CREATE MATERIALIZED VIEW v14 WITH (policy = 'incremental') AS SELECT a.k, g.n FROM a LEFT JOIN (SELECT k, COUNT(*) AS n FROM c GROUP BY k) g ON g.k = a.k;
CREATE MATERIALIZED VIEW v15 WITH (policy = 'incremental') AS SELECT a.k, (SELECT SUM(w) FROM c WHERE c.k = a.k) AS n FROM a;
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
