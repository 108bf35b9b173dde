"""`make mutate`: every delta rule made wrong on purpose, one at a time. A mutation that nothing notices survives.

Each is tried on a copy of the sources: first the kept scripts, then random views for some seconds, then tests
that compare rows.
Golden files are left out, as they would notice any other text.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = Path("src/viewkeep/incremental")
TESTS = (
    "test_traps.py",
    "test_joined_once.py",
    "test_partners.py",
    "test_old_state.py",
    "test_foreign_keys.py",
    "test_time_filter.py",
    "test_declared_keys.py",
    "test_netting.py",
    "test_wide_decimals.py",
    "test_operators.py",
)


@dataclass(frozen=True)
class Mutation:
    what: str
    file: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        assert text.count(self.old) == 1, f"{self.file}: {self.old!r} is there {text.count(self.old)} times"
        return text.replace(self.old, self.new)


MUTATIONS = (
    Mutation(
        "keys compared without regard to NULL",
        "affected.py",
        "conjoin(null_safe_equal(s, column(f.id)) for",
        "conjoin(exp.EQ(this=operand(s), expression=column(f.id)) for",
    ),
    Mutation("NULL keys of NULL-safe joins forgotten", "affected.py", "if not p.null_safe\n", "if True\n"),
    Mutation(
        "windows narrowed below their partition",
        "affected.py",
        "if used <= {s.name for s in node.partition if isinstance(s, exp.Column)}:",
        "if True:",
    ),
    Mutation("old groups added", "aggregate.py", "add([now, negate(then, context.fresh)]", "add([now, then]"),
    Mutation(
        "old groups from new rows",
        "aggregate.py",
        "Weighted(restrict(before.node, scalars, keys), before.weight)",
        "Weighted(new_input)",
    ),
    Mutation(
        "partners of the new left side",
        "delta.py",
        "partners(node, old(node.left, context), old(node.right, context), right",
        "partners(node, Weighted(node.left), old(node.right, context), right",
    ),
    Mutation(
        "partners were as they are",
        "delta.py",
        "partners(node, old(node.left, context), old(node.right, context), right",
        "partners(node, old(node.left, context), Weighted(node.right), right",
    ),
    Mutation(
        "full join without what a left change does to right rows",
        "delta.py",
        "left, context) if left else None",
        "left, context) if False else None",
    ),
    Mutation("filter forgotten", "filter.py", "Weighted(Filter(below.node, node.predicate), below.weight)", "below"),
    Mutation(
        "join: new for old",
        "join.py",
        "before = [old(relations[m], context) for",
        "before = [Weighted(relations[m]) for",
    ),
    Mutation(
        "join: old for new", "join.py", "after = [Weighted(relations[m]) for", "after = [old(relations[m], context) for"
    ),
    Mutation("join: one branch only", "join.py", "add(branches, tuple(", "add(branches[:1], tuple("),
    Mutation(
        "join: a changed table joined once",
        "joined_once.py",
        "not p.others and not context.touches(relations[p.root])",
        "not p.others",
    ),
    Mutation(
        "a netted change that only adds",
        "netting.py",
        "units.weight_scalar if f.id == weight else",
        'exp.Literal.number("1") if f.id == weight else',
    ),
    Mutation(
        "a change netted below the wrong side", "netting.py", "replace(node, right=right)", "replace(node, left=right)"
    ),
    Mutation(
        "old state: changes added",
        "old.py",
        "changes = negate(delta_scan(node, context), context.fresh)",
        "changes = delta_scan(node, context)",
    ),
    Mutation(
        "old union is the new one", "old.py", "add([old(child, context) for child", "add([Weighted(child) for child"
    ),
    Mutation("old rows: the changed ones twice", "old.py", "replace(touched, kind=JoinKind.ANTI)", "touched"),
    Mutation(
        "weights added, not multiplied", "old.py", "exp.Mul(this=a, expression=b)", "exp.Add(this=a, expression=b)"
    ),
    Mutation(
        "old partners not netted", "old.py", "other = consolidate(right, context.fresh).node", "other = right.node"
    ),
    Mutation("old full join of weighted rows", "old.py", "if node.kind is JoinKind.FULL:", "if False:"),
    Mutation(
        "outer join: the wrong sign beside NULLs",
        "outer_join.py",
        "[beside_nulls(moved.lost, node.right), negate(beside_nulls(moved.won, node.right), context.fresh)]",
        "[beside_nulls(moved.won, node.right), negate(beside_nulls(moved.lost, node.right), context.fresh)]",
    ),
    Mutation(
        "outer join: a changed left row needs a partner",
        "outer_join.py",
        "left, context.fresh), node.condition, JoinKind.LEFT)",
        "left, context.fresh), node.condition, JoinKind.INNER)",
    ),
    Mutation(
        "outer join without the joined change of the right side",
        "outer_join.py",
        "terms.append(join_weighted([right, moved.candidates], conjuncts(node.condition), context))",
        "pass",
    ),
    Mutation(
        "won whoever had partners before",
        "partners.py",
        "meet(meet(candidates, there, JoinKind.ANTI), now, JoinKind.SEMI)",
        "meet(candidates, now, JoinKind.SEMI)",
    ),
    Mutation(
        "lost whoever still has partners",
        "partners.py",
        "meet(meet(candidates, there, JoinKind.SEMI), now, JoinKind.ANTI)",
        "meet(candidates, there, JoinKind.SEMI)",
    ),
    Mutation(
        "old partners not netted in partners",
        "partners.py",
        "consolidate(Weighted(then, right.weight), context.fresh).node if right.weight else then",
        "then",
    ),
    Mutation(
        "semi join: comes and goes swapped",
        "semi_join.py",
        "(moved.won, moved.lost) if node.kind is JoinKind.SEMI",
        "(moved.won, moved.lost) if node.kind is JoinKind.ANTI",
    ),
    Mutation("old limit added", "top_k.py", "negate(then, context.fresh)", "then"),
    Mutation("old limit of new rows", "top_k.py", "Weighted(replace(node, input=before))", "Weighted(node)"),
    Mutation("union: first input only", "union.py", "add(changes, node.fields", "add(changes[:1], node.fields"),
    Mutation("plain rows not negated", "weighted.py", "else integer(-1)", "else integer(1)"),
    Mutation(
        "netted rows that are gone forgotten",
        "weighted.py",
        "exp.NEQ(this=column(total.id), expression=integer(0))",
        "exp.GT(this=column(total.id), expression=integer(0))",
    ),
    Mutation(
        "rows once, however often",
        "weighted.py",
        "Named(times, exp.Abs(this=total.copy()))",
        "Named(times, integer(1))",
    ),
    Mutation(
        "time: rows that were there do not cross",
        "time_filter.py",
        "terms.append(_crossing(node, before, context))",
        "pass",
    ),
    Mutation("time: crossing rows always leave", "time_filter.py", "true=integer(1))", "true=integer(-1))"),
    Mutation(
        "time: the old state at the new time", "time_filter.py", "State.OLD if context.time_moved", "State.NEW if True"
    ),
    Mutation(
        "time: crossing rows of the new state",
        "delta.py",
        "before = old(node.input, context) if",
        "before = Weighted(node.input) if",
    ),
    Mutation(
        "time: a row at the bound itself", "time_filter.py", "exp.GT: (exp.GT, exp.LTE),", "exp.GT: (exp.GTE, exp.LT),"
    ),
    Mutation("time: the bound may only go on", "time_filter.py", "(State.OLD, State.NEW)", "(State.NEW, State.NEW)"),
    Mutation(
        "time: an unchanged source is an unchanged view",
        "weighted.py",
        "return changed or (self.time_moved and is_timed(node))",
        "return changed",
    ),
    Mutation("dead groups kept", "weighted_groups.py", "    if node.keys:\n", "    if False:\n"),
    Mutation("sums: losses added", "weighted_groups.py", "both = exp.Sub(", "both = exp.Add("),
    Mutation("sums: losses of decimals added", "weighted_groups.py", "default=negated(argument)", "default=argument"),
    Mutation("sums of nothing are 0", "weighted_groups.py", "_when(some, both)", "both"),
    Mutation("counts of NULLs", "weighted_groups.py", "_count(_when(present, weight))", "_count(weight)"),
    Mutation(
        "windows over new rows for the old ones",
        "window.py",
        "Weighted(graft(node, base, old_rows))",
        "Weighted(graft(node, base, new_rows))",
    ),
    Mutation(
        "windows maintained by the finer partition",
        "window.py",
        "min(lower, partition, key=len)",
        "max(lower, partition, key=len)",
    ),
    Mutation(
        "foreign keys: what was lost forgotten",
        "foreign_keys.py",
        "return Weighted(Union((relation, _lost(relation, context)), relation.fields))",
        "return Weighted(relation)",
    ),
    Mutation(
        "foreign keys: a key that came again is trusted",
        "foreign_keys.py",
        "return _again(edge, parent, context) if parent.table.folded in context.lost_rows else None",
        "return None",
    ),
    Mutation(
        "foreign keys: rows that pointed at nobody are trusted",
        "foreign_keys.py",
        "exp.Sum(this=column(f.id))) for f in (left, waited)",
        "exp.Sum(this=column(f.id))) for f in (left, left)",
    ),
    Mutation(
        "foreign keys: rows that point at what is gone are trusted",
        "foreign_keys.py",
        "exp.LT(this=weight.copy(), expression=integer(0)), integer(1)",
        "exp.LT(this=weight.copy(), expression=integer(0)), integer(0)",
    ),
)


def survives(mutation: Mutation, seconds: float) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        path = Path(folder) / RULES / mutation.file
        path.write_text(mutation.apply(path.read_text()))
        env = {**os.environ, "PYTHONPATH": f"{folder}/src{os.pathsep}{ROOT / 'tests'}", "PYTHONDONTWRITEBYTECODE": "1"}
        quiet = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not spark"]
        fuzz = [sys.executable, "-m", "fuzzing", "--failures", "1", "--shrink", "0"]
        attempts = (
            [*quiet, str(ROOT / "tests" / "test_fuzz.py"), "-k", "script"],
            [*fuzz, "--seed", "1", "--minutes", str(seconds / 60)],
            [*quiet, *(str(ROOT / "tests" / t) for t in TESTS)],
        )
        return not any(subprocess.run(a, env=env, cwd=ROOT, capture_output=True).returncode for a in attempts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="fuzzing.mutate", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of random views, for each mutation")
    parser.add_argument("--only", default="", help="mutations whose file or description contains this")
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if options.only in m.file or options.only in m.what]
    left = []
    for mutation in chosen:
        alive = survives(mutation, options.seconds)
        print(f"{'SURVIVES' if alive else 'noticed ':8}  {mutation.file}: {mutation.what}", flush=True)
        left += [mutation] if alive else []
    print(f"{len(chosen) - len(left)} of {len(chosen)} wrong rules are noticed")
    raise SystemExit(1 if left else 0)


if __name__ == "__main__":
    main()
