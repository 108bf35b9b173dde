-- DuckDB 2.0 takes COALESCE of a sum for 0 above an outer join with a side that its statistics show to be empty.
-- seed 771100
CREATE TABLE a (k INTEGER, t TEXT);
CREATE TABLE b (k INTEGER PRIMARY KEY, t TEXT);
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT COUNT(b.t) AS c FROM b LEFT JOIN a ON a.t <> 'a';
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT b.t, COUNT(*) AS c, SUM(b.k) AS s FROM b LEFT JOIN a ON a.t <> 'a' AND a.k = b.k GROUP BY b.t;
CREATE MATERIALIZED VIEW v2 WITH (policy = 'incremental') AS SELECT b.t, MAX(b.k) AS m FROM b LEFT JOIN a ON a.t <> 'a' AND a.k = b.k GROUP BY b.t;
CREATE MATERIALIZED VIEW v3 WITH (policy = 'incremental') AS SELECT COUNT(*) AS c, SUM(b.k) AS s FROM a FULL JOIN b ON a.t <> 'a' AND a.k = b.k;
INSERT INTO b VALUES (0, ''), (3, 'x');
-- refresh
UPDATE b SET k = 5 WHERE k = 3;
-- refresh
INSERT INTO a VALUES (5, 'a'), (0, 'b'), (NULL, NULL);
-- refresh
DELETE FROM a;
UPDATE b SET t = NULL WHERE k = 5;
-- refresh
DELETE FROM b;
-- refresh
