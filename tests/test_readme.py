"""What README.md and docs/ say is true: the example runs, links lead somewhere, printed plans are today's.

`VIEWKEEP_REWRITE_GOLDEN=1` fills the blocks `<!-- golden section: NAME, SECTION -->` … `<!-- end -->`
of docs pages from tests/golden/NAME.txt, as tests/test_golden.py does for the SQL blocks.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import viewkeep

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]
REWRITE = bool(os.environ.get("VIEWKEEP_REWRITE_GOLDEN"))
_EXAMPLE = re.compile(r"<!-- executed by tests/test_readme.py on both engines -->\n```python\n(.*?)```", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SECTION = re.compile(r"<!-- golden section: (\w+), ([^>]*?) -->.*?<!-- end -->", re.DOTALL)


@pytest.mark.parametrize(
    ("url", "made"),
    [("duckdb:///shop.duckdb", "shop.duckdb"), pytest.param("spark:///shop", "shop", marks=pytest.mark.spark)],
)
def test_the_example_runs(
    url: str, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [example] = _EXAMPLE.findall(README.read_text(encoding="utf-8"))
    assert example.count('connect("spark:///shop")') == 1
    monkeypatch.chdir(tmp_path)
    if url.startswith("spark"):
        _start_spark()
    exec(compile(example.replace("spark:///shop", url), str(README), "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert "income: classical, +2 −2 rows" in printed
    assert "{'user_name': 'Zeus', 'total': " in printed
    assert "income: equal to its query" in printed
    assert "plan, and how each operator is maintained" in printed
    assert (tmp_path / made).exists(), "it is relative to the working folder"


def _start_spark() -> None:
    os.environ.setdefault("VIEWKEEP_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    try:
        from viewkeep.engine.spark_session import local_session

        local_session()
    except (ImportError, viewkeep.ViewkeepError) as error:
        pytest.skip(f"Spark cannot start: {error}")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    targets = [t.partition("#")[0] for t in _LINK.findall(text) if not re.match(r"\w+:", t)]
    missing = [t for t in targets if t and not (page.parent / t).exists()]
    assert not missing


def _sections() -> list[tuple[Path, str, str]]:
    return [(page, name, title) for page in DOCS for name, title in _SECTION.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "name", "title"), _sections(), ids=lambda x: str(getattr(x, "stem", x)))
def test_printed_plans_are_those_of_the_golden_files(page: Path, name: str, title: str) -> None:
    golden = (ROOT / "tests" / "golden" / f"{name}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^---- {re.escape(title)}\n(.*?)(?=^---- |\Z)", golden, re.DOTALL | re.MULTILINE)
    assert found, f"tests/golden/{name}.txt has no section {title!r}"
    language = "sql" if title.endswith(("(duckdb)", "(spark)")) else "text"
    block = f"<!-- golden section: {name}, {title} -->\n```{language}\n{found.group(1).rstrip()}\n```\n<!-- end -->"
    pattern = re.compile(rf"<!-- golden section: {name}, {re.escape(title)} -->.*?<!-- end -->", re.DOTALL)
    text = page.read_text(encoding="utf-8")
    if REWRITE:
        page.write_text(pattern.sub(lambda _: block, text), encoding="utf-8")
        return
    assert pattern.findall(text) == [block], "run VIEWKEEP_REWRITE_GOLDEN=1 pytest tests/test_readme.py"
