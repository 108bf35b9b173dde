-- COUNT of a condition asks whether the whole of it is NULL.
-- seed 1
CREATE TABLE a (k INTEGER, v INTEGER, s TEXT, d DECIMAL(10,2));
CREATE TABLE b (k INTEGER PRIMARY KEY, v INTEGER, s TEXT);
CREATE TABLE c (k INTEGER, w INTEGER);
INSERT INTO a VALUES (1, 2, 'x', 1.5), (1, 2, 'x', 1.5), (2, NULL, 'y', 2.5), (NULL, 3, NULL, NULL), (5, 1, 'z', 3);
INSERT INTO b VALUES (1, 1, 'x'), (2, NULL, 'y'), (3, 3, NULL);
INSERT INTO c VALUES (1, 1), (1, NULL), (NULL, 2), (4, 4);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT s, COUNT(k = 1 AND v = 2) AS n, COUNT(NOT k = 1) AS m, COUNT(k IS NULL) AS o, COUNT(k IN (1, NULL)) AS p FROM a GROUP BY s;
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT s, COUNT(k = 1 OR v = 2) AS n, AVG(CASE WHEN k = 1 OR v = 2 THEN 1 END) AS q FROM a GROUP BY s;
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
