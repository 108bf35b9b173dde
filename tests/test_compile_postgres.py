"""The compiled program for PostgreSQL, run on a real server: views equal their queries after every batch."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeep

SCHEMA = """
CREATE TABLE gods (uid INT, user_name TEXT);
CREATE TABLE payments (from_uid INT, to_uid INT, amount DECIMAL(12, 2));
"""
VIEWS = {
    "additive": """SELECT g.user_name, SUM(p.amount) AS total, COUNT(*) AS n, COUNT(p.from_uid) AS known
        FROM gods g JOIN payments p ON p.to_uid = g.uid GROUP BY g.user_name""",
    "extremes": "SELECT to_uid, MIN(amount) AS lo, MAX(amount) AS hi FROM payments GROUP BY to_uid",
    "overall": "SELECT MIN(amount) AS lo, COUNT(*) AS n FROM payments",
    "bag": "SELECT g.user_name, p.amount FROM gods g JOIN payments p ON p.to_uid = g.uid",
    "selfjoin": "SELECT a.uid AS x, b.uid AS y FROM gods a JOIN gods b ON a.user_name = b.user_name",
    "different": "SELECT DISTINCT to_uid FROM payments",
    "beside": "SELECT g.uid, g.user_name, p.amount FROM gods g LEFT JOIN payments p ON p.to_uid = g.uid",
    "either": "SELECT g.user_name, p.amount, p.from_uid FROM gods g FULL JOIN payments p ON p.to_uid = g.uid",
    "unpaid": """SELECT uid FROM gods g
        WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.to_uid = g.uid AND p.amount > g.uid)""",
    "known": "SELECT uid, user_name FROM gods WHERE uid NOT IN (SELECT to_uid FROM payments WHERE amount > 5)",
    "marked": """SELECT uid, uid IN (SELECT from_uid FROM payments) AS pays,
        (SELECT COUNT(*) FROM payments p WHERE p.to_uid = g.uid) AS n,
        (SELECT p.amount FROM payments p WHERE p.to_uid = g.uid AND p.amount = 100) AS hundred FROM gods g""",
    "more": "SELECT uid, (SELECT COUNT(*) FROM payments p WHERE p.amount > g.uid) AS n FROM gods g",
    "nested": """SELECT hi, COUNT(*) AS n FROM (SELECT to_uid, MAX(amount) AS hi FROM payments GROUP BY to_uid) m
        GROUP BY hi HAVING COUNT(*) > 0""",
    "less": "SELECT to_uid FROM payments EXCEPT ALL SELECT uid FROM gods",
    "shared": "SELECT to_uid FROM payments INTERSECT SELECT uid FROM gods",
    "ranked": "SELECT amount, RANK() OVER (PARTITION BY to_uid ORDER BY amount DESC) AS place FROM payments",
    "running": """SELECT n, COUNT(*) AS c FROM (SELECT ROW_NUMBER() OVER (PARTITION BY to_uid ORDER BY amount) AS n,
        SUM(amount) OVER (ORDER BY amount RANGE 3 PRECEDING) AS s FROM payments) w GROUP BY n""",
    "best": "SELECT to_uid, amount FROM payments ORDER BY amount DESC FETCH FIRST 2 ROWS WITH TIES",
    "totals": """SELECT to_uid, from_uid, GROUPING(to_uid, from_uid) AS g, SUM(amount) AS s, COUNT(*) AS n
        FROM payments GROUP BY ROLLUP (to_uid, from_uid)""",
    "spread": """SELECT to_uid, STDDEV(amount) AS s, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) AS m
        FROM payments GROUP BY to_uid""",
    "first": "SELECT DISTINCT ON (to_uid) to_uid, amount FROM payments ORDER BY to_uid, amount, from_uid",
}
BASE = """
INSERT INTO gods VALUES (1, 'Laika'), (2, 'Scooby'), (3, NULL), (4, 'Laika'), (NULL, 'Toto');
INSERT INTO payments VALUES (1, 2, 10), (2, 1, 5.5), (NULL, 2, 7), (1, NULL, 3), (1, 2, 10), (3, 3, NULL), (4, 3, 1);
"""
BATCHES = (
    "INSERT INTO payments VALUES (2, 4, 100), (2, 2, 0.5), (2, 2, 0.5); INSERT INTO gods VALUES (9, 'Lassie');",
    "DELETE FROM payments WHERE amount = 0.5; UPDATE gods SET uid = 2 WHERE user_name = 'Lassie';",
    "UPDATE payments SET to_uid = 9, amount = amount + 1 WHERE to_uid = 2; DELETE FROM gods WHERE uid = 1;",
    "INSERT INTO payments VALUES (5, 3, -4); DELETE FROM payments WHERE amount = -4;",
    "DELETE FROM payments; DELETE FROM gods;",
    BASE,
)


class Server:
    """A server of its own in a temporary folder, spoken to through psql on a local socket."""

    def __init__(self, folder: Path, bin_: Path) -> None:
        self.folder, self.bin = folder, bin_
        self.prefix: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, "postgres")
            self.prefix = ["runuser", "-u", "postgres", "--"]

    def run(self, *command: str) -> str:
        done = subprocess.run([*self.prefix, *command], capture_output=True, text=True, timeout=60, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self) -> None:
        data = str(self.folder / "data")
        self.run(str(self.bin / "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off"
        log = str(self.folder / "log")
        self.run(str(self.bin / "pg_ctl"), "-D", data, "-o", options, "-l", log, "-w", "start")

    def stop(self) -> None:
        self.run(str(self.bin / "pg_ctl"), "-D", str(self.folder / "data"), "-m", "immediate", "stop")

    def sql(self, text: str) -> list[str]:
        """All statements in one session and one transaction; the rows of the last query."""
        file = self.folder / "script.sql"
        file.write_text(text)
        os.chmod(file, 0o644)
        flags = ["-X", "-q", "-A", "-t", "-1", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-U", "postgres"]
        return self.run(str(self.bin / "psql"), *flags, "-f", str(file), "postgres").splitlines()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("no PostgreSQL server is installed (initdb not found)")
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("running as root and there is no user 'postgres' to run the server as")
    folder = Path(os.path.realpath("/tmp")) / f"viewkeep-pg-{os.getpid()}"  # socket paths must be short
    folder.mkdir()
    server = Server(folder, Path(initdb).parent)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", VIEWS)
def test_program_keeps_the_view_equal_to_its_query(server: Server, name: str) -> None:
    check(server, name, viewkeep.compile(SCHEMA, f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}", "postgres"))


@pytest.mark.parametrize("name", ["additive", "bag"])
def test_program_decides_by_itself_whether_a_foreign_key_holds(server: Server, name: str) -> None:
    schema = SCHEMA + "ALTER TABLE payments ADD FOREIGN KEY (to_uid) REFERENCES gods (uid) NOT ENFORCED"
    made = f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}"
    check(server, name, viewkeep.compile(schema, made, "postgres", strategy="foreign-key"))


def check(server: Server, name: str, program: list[str]) -> None:
    query = VIEWS[name]
    once = [s for s in program if s.startswith(("-- setup", "-- capture"))]
    refresh = [s for s in program if s.startswith("-- refresh")]
    assert len(once) + len(refresh) == len(program)
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP SCHEMA IF EXISTS _viewkeep CASCADE;")
    server.sql(SCHEMA + BASE + ";\n".join(once) + ";")
    differences = f"SELECT COUNT(*) FROM (({query}) EXCEPT ALL (TABLE {name})) d UNION ALL "
    differences += f"SELECT COUNT(*) FROM ((TABLE {name}) EXCEPT ALL ({query})) d;"
    for batch in BATCHES:
        server.sql(batch)
        server.sql(";\n".join(refresh) + ";")
        assert server.sql(differences) == ["0", "0"], batch
    assert int(server.sql(f"SELECT COUNT(*) FROM {name}")[0]) > 0
