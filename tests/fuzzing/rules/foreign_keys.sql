-- Joins along foreign keys that are declared, and broken, and joins along those that the engine enforces.
-- seed 1
CREATE TABLE p (k INTEGER PRIMARY KEY, v INTEGER);
CREATE TABLE q (k INTEGER, v INTEGER);
CREATE TABLE e (k INTEGER REFERENCES p (k), v INTEGER);
INSERT INTO p VALUES (1, 1), (2, 2), (3, 3), (4, 4);
INSERT INTO q VALUES (1, 1), (2, 2), (9, 9);
INSERT INTO e VALUES (1, 1), (2, 2);
ALTER TABLE q ADD CONSTRAINT f FOREIGN KEY (k) REFERENCES p (k) RELY;
CREATE MATERIALIZED VIEW v0 WITH (policy = 'incremental') AS SELECT q.k, q.v, p.v AS w FROM q JOIN p ON q.k = p.k;
CREATE MATERIALIZED VIEW v1 WITH (policy = 'incremental') AS SELECT p.v, SUM(q.v) AS n FROM q JOIN p ON q.k = p.k GROUP BY p.v;
CREATE MATERIALIZED VIEW v2 WITH (policy = 'incremental') AS SELECT e.k, e.v, p.v AS w FROM e JOIN p ON e.k = p.k;
INSERT INTO q VALUES (3, 5);
DELETE FROM q WHERE k = 2;
DELETE FROM p WHERE k = 2;
-- refresh
INSERT INTO p VALUES (9, 1), (2, 7);
-- refresh
INSERT INTO q VALUES (4, 4), (2, 2);
DELETE FROM p WHERE k = 9;
-- refresh
DELETE FROM p WHERE k = 3;
INSERT INTO p VALUES (3, 8);
-- refresh
DELETE FROM e WHERE k = 1;
-- refresh
DELETE FROM q WHERE k = 1;
DELETE FROM p WHERE k = 1;
INSERT INTO p VALUES (5, 5);
INSERT INTO q VALUES (5, 5);
-- refresh
UPDATE p SET v = v + 1;
-- refresh
