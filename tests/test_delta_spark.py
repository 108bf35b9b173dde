"""Tables that need Delta Lake's Spark extension: what their logs say, without Spark; and with the real jar,
where a Maven repository can be reached (another than Maven Central: VIEWKEEP_MAVEN_REPOSITORY)."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from viewkeep.engine.delta_log import DeltaLog
from viewkeep.engine.delta_spark import DeltaSpark
from viewkeep.engine.table_format import Change, Kind, LostHistory
from viewkeep.errors import EngineError

CASES = Path(__file__).with_name("delta_spark_cases.py")


# ---------------------------------------------------------------------- with the extension
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_with_the_real_extension(subtests: pytest.Subtests) -> None:
    ran = subprocess.run([sys.executable, str(CASES)], capture_output=True, text=True, check=False)
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"case"')]
    if not told:
        reason = next((line for line in ran.stderr.splitlines() if "unresolved dependency" in line), None)
        if reason is None:
            pytest.fail(f"no session came up:\n{ran.stderr[-3000:]}")
        print(reason)
        pytest.skip(f"Delta Lake's jar cannot be fetched: {reason.strip(' :')}")
    for result in told:
        with subtests.test(result["case"]):
            assert not result["failed"], result["failed"]
    assert ran.returncode == 0, ran.stderr[-3000:]


# ---------------------------------------------------------------------- logs alone
class Log:
    """A Delta log that is written entry by entry; its files are empty, since only the log is read."""

    def __init__(self, folder: Path, features: list[str], **configuration: str) -> None:
        self.folder, self.version = folder, -1
        self.configuration = configuration
        (folder / "_delta_log").mkdir(parents=True)
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
        self.id = str(uuid.uuid4())
        self.commit({"protocol": {**protocol, "writerFeatures": features}}, self.columns(k="k", g="g"))

    def columns(self, **physical: str) -> dict[str, Any]:
        fields = [
            {
                "name": name,
                "type": "integer",
                "nullable": True,
                "metadata": {"delta.columnMapping.id": i, "delta.columnMapping.physicalName": inside},
            }
            for i, (name, inside) in enumerate(physical.items(), 1)
        ]
        return {
            "metaData": {
                "id": self.id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": self.configuration,
                "createdTime": 0,
            }
        }

    def commit(self, *actions: dict[str, Any]) -> int:
        self.version += 1
        path = self.folder / "_delta_log" / f"{self.version:020}.json"
        path.write_text("\n".join(json.dumps(a) for a in ({"commitInfo": {"timestamp": 0}}, *actions)))
        return self.version

    def add(self, name: str, rows: int, deleted: int = 0, change: bool = True) -> dict[str, Any]:
        (self.folder / name).touch()
        return {"add": self._file(name, rows, deleted, change) | {"modificationTime": 0}}

    def remove(self, name: str, rows: int, deleted: int = 0, change: bool = True) -> dict[str, Any]:
        return {"remove": self._file(name, rows, deleted, change) | {"deletionTimestamp": 0}}

    def _file(self, name: str, rows: int, deleted: int, change: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"path": name, "partitionValues": {}, "size": 10, "dataChange": change}
        body["stats"] = json.dumps({"numRecords": rows})
        if deleted:
            # Inside the log entry, so that no other file is needed.
            vector = f"wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{{L{deleted}"
            body["deletionVector"] = {
                "storageType": "i",
                "pathOrInlineDv": vector,
                "sizeInBytes": 40,
                "cardinality": deleted,
            }
        return body

    def change(self, since: int) -> Change:
        format_ = DeltaSpark()
        return format_.changes(format_.snapshot(str(self.folder)), since)


@pytest.fixture
def vectors(tmp_path: Path) -> Log:
    log = Log(tmp_path / "t", ["deletionVectors"])
    log.commit(log.add("a", 100), log.add("b", 100))
    return log


def names(files: tuple[Any, ...]) -> list[str]:
    return sorted(Path(f.path).name for f in files)


def test_the_log_alone_refuses_and_names_the_feature(vectors: Log) -> None:
    with pytest.raises(EngineError, match="'deletionVectors'") as refused:
        DeltaLog().snapshot(str(vectors.folder))
    assert "extension" in (refused.value.hint or "")
    assert DeltaSpark().snapshot(str(vectors.folder)).by_version


def test_a_deletion_vector_takes_out_a_few_rows(vectors: Log) -> None:
    since = vectors.commit(vectors.remove("a", 100), vectors.add("a", 100, 3)) - 1
    change = vectors.change(since)
    assert (change.kind, change.inserted, change.deleted) == (Kind.MUTATED, 0, 3)
    assert change.between is not None
    assert (names(change.between.came), names(change.between.gone)) == (["a"], ["a"])


def test_appended_files_without_a_vector_are_read_as_they_are(vectors: Log) -> None:
    since = vectors.commit(vectors.add("c", 5)) - 1
    change = vectors.change(since)
    assert (change.kind, names(change.added), change.inserted, change.between) == (Kind.APPENDED, ["c"], 5, None)


def test_rows_that_only_move_are_no_change(vectors: Log) -> None:
    since = vectors.version
    vectors.commit(
        vectors.remove("a", 100, change=False), vectors.remove("b", 100, change=False), vectors.add("c", 200, 0, False)
    )
    assert vectors.change(since).kind is Kind.NOTHING
    vectors.commit(vectors.add("d", 1))
    change = vectors.change(since)
    assert (change.kind, change.inserted, change.deleted) == (Kind.APPENDED, 1, 0)
    assert (names(change.added), names(change.removed)) == (["c", "d"], ["a", "b"])


def test_restored_to_what_it_was(vectors: Log) -> None:
    since = vectors.version
    vectors.commit(vectors.remove("a", 100), vectors.add("a", 100, 3), vectors.add("c", 1))
    vectors.commit(vectors.remove("a", 100, 3), vectors.add("a", 100), vectors.remove("c", 1))
    assert vectors.change(since).kind is Kind.NOTHING
    assert vectors.change(since + 1).deleted == 1


def test_what_came_and_went_leaves_the_old_rows_alone(vectors: Log) -> None:
    since = vectors.version
    vectors.commit(vectors.add("c", 10))
    vectors.commit(vectors.remove("c", 10), vectors.add("c", 10, 4))
    change = vectors.change(since)
    assert (change.kind, change.deleted) == (Kind.APPENDED, 0)
    assert change.between is not None
    assert not change.between.gone


def test_replaced_as_a_whole(vectors: Log) -> None:
    since = vectors.commit(vectors.remove("a", 100), vectors.remove("b", 100), vectors.add("c", 7)) - 1
    change = vectors.change(since)
    assert (change.kind, change.inserted, change.deleted) == (Kind.REPLACED, 7, 200)


def test_files_of_one_name_are_read_in_both_versions(tmp_path: Path) -> None:
    log = Log(tmp_path / "t", ["deletionVectors"])
    for folder in ("x", "y"):
        (log.folder / folder).mkdir()
    log.commit(log.add("x/part", 100, 1))
    since = log.commit(log.add("y/part", 5, 1)) - 1
    change = log.change(since)
    assert change.kind is Kind.APPENDED
    assert change.cancels
    assert change.between is not None
    assert (len(change.between.came), len(change.between.gone)) == (2, 1)


def test_vacuumed_files_and_lost_entries(vectors: Log) -> None:
    since = vectors.commit(vectors.remove("a", 100), vectors.add("c", 99)) - 1
    (vectors.folder / "a").unlink()
    with pytest.raises(LostHistory, match="'a' is gone"):
        vectors.change(since)
    (vectors.folder / "_delta_log" / f"{since + 1:020}.json").write_text("no entry")
    with pytest.raises((LostHistory, EngineError)):
        vectors.change(since)


def test_mapped_columns(tmp_path: Path) -> None:
    log = Log(tmp_path / "t", ["columnMapping"], **{"delta.columnMapping.mode": "name"})
    since = log.commit(log.add("a", 100))
    log.commit(log.columns(k="k", h="g"))
    assert log.change(since).kind is Kind.NOTHING
    log.commit(log.add("c", 2))
    change = log.change(since)
    assert change.kind is Kind.APPENDED
    assert change.between is not None
    assert change.between.columns == ("k",)
    log.commit(log.columns(k="new", h="g"))
    with pytest.raises(LostHistory, match="'k' is not the same"):
        log.change(since)


def test_the_feed_is_used_where_it_was_kept_all_the_time(tmp_path: Path) -> None:
    kept = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
    log = Log(tmp_path / "t", ["columnMapping"], **kept)
    since = log.commit(log.add("a", 100))
    log.commit(log.remove("a", 100), log.add("c", 99))
    change = log.change(since)
    assert change.between is not None
    assert change.between.feed
    log.commit(log.columns(k="k", g="g"))
    change = log.change(since)
    assert change.between is not None
    assert not change.between.feed
