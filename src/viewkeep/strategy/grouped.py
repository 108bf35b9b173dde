"""Programs of a view whose top is an aggregate: groups with hidden state, found by key.

Additive state (COUNT, exact SUM and AVG, DISTINCT): the delta of the state is logged and added.

    D = γ_keys( Σ w, Σ w·x, Σ w·[x is not NULL] ) (ΔR)        state' = state + D

Otherwise each affected group is combined with its change where its rules allow it, and computed
anew from its own rows where not; its old row goes to the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from viewkeep.catalog import TableName
from viewkeep.incremental.affected import restrict
from viewkeep.incremental.delta import delta
from viewkeep.incremental.weighted import Context, Weighted, keep
from viewkeep.plan.lists import listed, nth
from viewkeep.plan.nodes import (
    Aggregate,
    Field,
    Filter,
    Fresh,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Scan,
    Union,
    types_of,
)
from viewkeep.plan.scalars import (
    Scalar,
    column,
    conjoin,
    integer,
    is_decimal,
    is_narrow,
    negated,
    null_safe_equal,
    operand,
)
from viewkeep.strategy import names
from viewkeep.strategy.components import Component, Rule, from_rows
from viewkeep.strategy.layout import GroupLayout
from viewkeep.strategy.logged import append_rows, state_logged_now
from viewkeep.strategy.program import Append, DropEmpty, MergeAdd, Program, Stage, Step, TakeOut
from viewkeep.strategy.runners_up import Ranked, without


def refresh_groups(layout: GroupLayout, context: Context, append_only: bool, logged: bool) -> Program:
    """`append_only`: no row can leave a group, so none dies. `logged`: changes of additive state are kept."""
    change = delta(layout.aggregate.input, context)
    if change is None:
        return Program(())
    if layout.state.additive:
        return Program(_add_state(layout, additive_delta(layout, change, context.fresh), append_only, logged))
    return Program(_combine(layout, change, context))


# ---------------------------------------------------------------------- additive state
def _add_state(layout: GroupLayout, changes: Node, append_only: bool, logged: bool) -> tuple[Step, ...]:
    """Log the changes of the state, then add them to the stored state; or add them at once."""
    counters, backing = layout.columns[len(layout.keys) :], names.backing(layout.view)
    steps: list[Step] = []
    if logged:
        why = "what each affected group gains or loses"
        steps.append(Append(names.log(layout.view), layout.columns, changes, why, names.VERSION))
    steps.append(MergeAdd(backing, layout.keys, counters, state_logged_now(layout) if logged else changes))
    if layout.keys and not append_only:
        steps.append(DropEmpty(backing, names.ROWS))
    return tuple(steps)


def additive_delta(layout: GroupLayout, change: Weighted, fresh: Fresh) -> Node:
    """One row a group: how much its row count and each stored sum and count change."""
    aggregate = layout.aggregate
    calls: list[Named] = [Named(Field(fresh("rows"), "BIGINT"), exp.Sum(this=change.weight_scalar))]
    outputs: list[Named] = [Named(Field(names.ROWS, "BIGINT"), _zero(column(calls[0].field.id)))]
    for component in layout.state.components:
        new_calls, scalar = signed(component, change, fresh)
        calls += new_calls
        outputs.append(Named(component.field, scalar))
    grouped = Aggregate(change.node, aggregate.keys, tuple(calls))
    rows: Node = Project(grouped, (*keep(tuple(k.field for k in aggregate.keys)), *outputs))
    return nonzero(rows, tuple(o.field.id for o in outputs))


def signed(component: Component, change: Weighted, fresh: Fresh) -> tuple[list[Named], Scalar]:
    """A counter's change: what came in minus what went out. Only what surely has room is multiplied by the weight."""
    weight, argument = change.weight_scalar, component.argument
    if isinstance(component.call, exp.Count):
        present = exp.Not(this=exp.Is(this=operand(argument), expression=exp.Null()))
        field = Field(fresh("n"), "BIGINT")
        counted = exp.Case(ifs=[exp.If(this=present, true=weight)], default=integer(0))
        return [Named(field, exp.Sum(this=counted))], _zero(column(field.id))
    if is_narrow(argument, types_of(change.node)):
        field = Field(fresh("net"))
        product = exp.Mul(this=weight, expression=exp.cast(argument.copy(), "BIGINT"))
        return [Named(field, exp.Sum(this=product))], _zero(column(field.id))
    inserted = exp.GT(this=weight, expression=integer(0))
    if is_decimal(argument, types_of(change.node)):
        # Not a difference of two sums: Spark would round the last digit of a wide one away.
        field = Field(fresh("net"))
        either = exp.Case(ifs=[exp.If(this=inserted, true=argument.copy())], default=negated(argument))
        return [Named(field, exp.Sum(this=either))], _zero(column(field.id))
    gained, lost = Field(fresh("gained")), Field(fresh("lost"))
    calls = [
        Named(gained, exp.Sum(this=when(inserted, argument))),
        Named(lost, exp.Sum(this=when(exp.LT(this=weight.copy(), expression=integer(0)), argument))),
    ]
    return calls, exp.Sub(this=_zero(column(gained.id)), expression=_zero(column(lost.id)))


def nonzero(node: Node, counters: tuple[str, ...]) -> Node:
    """Groups whose changes cancelled out are not touched."""
    moved: list[Scalar] = [exp.NEQ(this=column(c), expression=integer(0)) for c in counters]
    return Filter(node, reduce(lambda a, b: exp.Or(this=a, expression=b), moved))


def when(condition: Scalar, value: Scalar) -> Scalar:
    return exp.Case(ifs=[exp.If(this=condition, true=value.copy())])


def _zero(scalar: Scalar) -> Scalar:
    return exp.Coalesce(this=scalar, expressions=[integer(0)])


# ---------------------------------------------------------------------- state with other rules
_SUMMED = (Rule.ADD, Rule.EXTEND_SUM)
"""Their stored value and what is added are rows of one SUM. By + Spark would give a wide decimal fewer digits after the
point."""


def _combine(layout: GroupLayout, change: Weighted, context: Context) -> tuple[Step, ...]:
    groups = Combination(layout, change, context, names.stage(layout.view, "groups"))
    found = "affected groups are found by key" if layout.keys else "there is one group"
    return (
        groups.step(),
        TakeOut(layout.view, layout.columns, layout.keys, groups.keys_only(), unique=True, why=found, exact=False),
        *(append_rows(layout, rows, why) for rows, why in groups.new_rows()),
    )


class Combination:
    """The staged table of one refresh: for each affected group its old state beside its changes.

    Old state and changes are brought into one row a group by UNION ALL and GROUP BY, which treats
    NULL keys as a join would not.
    """

    HIT = "_vk_hit"

    def __init__(self, layout: GroupLayout, change: Weighted, context: Context, name: TableName) -> None:
        self.layout, self.name, self.fresh = layout, name, context.fresh
        self.key_fields = tuple(k.field for k in layout.aggregate.keys)
        self.before = {c.field.id: Field(self.fresh("before"), c.field.type) for c in layout.state.components}
        self.gain = {c.field.id: Field(self.fresh("gain"), c.field.type) for c in layout.state.components}
        self.loss = {c.field.id: Field(self.fresh("loss"), c.field.type) for c in layout.state.components}
        self.rows_before, self.rows_gain = (
            Field(self.fresh("rows_before"), "BIGINT"),
            Field(self.fresh("rows_gain"), "BIGINT"),
        )
        self.hit = Field(self.HIT, "BOOLEAN")
        self.lists = [_Lists.of(ranked, self.fresh) for ranked in layout.state.ranked]
        self.node = self._build(change)

    def step(self) -> Step:
        return Stage(
            self.name, tuple(f.id for f in self.node.fields), self.node, "old state and change of each affected group"
        )

    def scan(self) -> Scan:
        return Scan(self.name, tuple((f, f.id) for f in self.node.fields))

    def keys_only(self, hit: bool = False, suffix: bool = False) -> Node:
        """The affected keys; with `hit` only those that must be computed anew."""
        node: Node = self.scan()
        if hit:
            node = Filter(node, column(self.hit.id))
        fields = tuple(Field(self.fresh("k"), f.type) if suffix else f for f in self.key_fields)
        if not fields:  # of a global aggregate: one row says that there is a change
            return Project(node, (Named(Field(self.fresh("one"), "INTEGER"), integer(1)),))
        return Project(node, tuple(Named(n, column(f.id)) for n, f in zip(fields, self.key_fields, strict=True)))

    # ------------------------------------------------------------------ the staged rows
    def _build(self, change: Weighted) -> Node:
        changes = self._changes(change)
        old = self._old(changes)
        state = self._all_fields()
        both = Union((old, changes), (*self.key_fields, *state))
        # One row from each side at most, so any aggregate that skips NULLs picks the one there is. What is
        # added has a value on both sides.
        added = {self.gain[c.field.id].id for c in self.layout.state.components if c.rule in _SUMMED}
        picked = Aggregate(
            both,
            keep(self.key_fields),
            tuple(Named(f, (exp.Sum if f.id in added else exp.Max)(this=column(f.id))) for f in state),
        )
        found = self._ranked(picked) if self.lists else picked
        return Project(found, (*keep(found.fields), Named(self.hit, self._must_recompute())))

    def _ranked(self, picked: Node) -> Node:
        """One projection a step: a list that is used twice is made once."""
        seen = keep((*self.key_fields, *self._state_fields()))
        candidates = Project(picked, (*seen, *(named for lists in self.lists for named in lists.candidates())))
        left = Project(candidates, (*seen, *(lists.left() for lists in self.lists)))
        return Project(left, (*seen, *(named for lists in self.lists for named in lists.after())))

    def _state_fields(self) -> tuple[Field, ...]:
        """What is staged of a group; a component that is always computed anew needs nothing."""
        derived = [c for c in self.layout.state.components if c.rule not in (Rule.RECOMPUTE, Rule.RANKED)]
        lossy = [c for c in derived if c.rule is not Rule.ADD]
        return (
            self.rows_before,
            self.rows_gain,
            *(self.before[c.field.id] for c in lossy if c.rule not in _SUMMED),
            *(self.gain[c.field.id] for c in derived),
            *(self.loss[c.field.id] for c in lossy),
        )

    def _all_fields(self) -> tuple[Field, ...]:
        """The lists included that are only needed on the way."""
        return (*self._state_fields(), *(f for lists in self.lists for f in lists.fields))

    def _changes(self, change: Weighted) -> Node:
        """Each affected group's gains and losses, and nothing where the old state goes."""
        rows = Named(Field(self.fresh("rows"), "BIGINT"), exp.Sum(this=change.weight_scalar))
        calls: list[Named] = [rows]
        outputs = {
            self.rows_gain.id: column(rows.field.id),
            self.rows_before.id: _nothing(exp.cast(integer(0), "BIGINT")),
        }
        inserted = exp.GT(this=change.weight_scalar, expression=integer(0))
        deleted = exp.LT(this=change.weight_scalar, expression=integer(0))
        for component in self.layout.state.components:
            before, gain, loss = (d[component.field.id].id for d in (self.before, self.gain, self.loss))
            match component.rule:
                case Rule.ADD:
                    new, outputs[gain] = signed(component, change, self.fresh)
                    calls += new
                case Rule.EXTEND_SUM | Rule.EXTEND_MIN | Rule.EXTEND_MAX:
                    function = type(component.call)
                    came = Named(Field(self.fresh("came")), function(this=when(inserted.copy(), component.argument)))
                    went = Named(Field(self.fresh("went")), _loss(component, when(deleted.copy(), component.argument)))
                    calls += [came, went]
                    outputs[gain], outputs[loss] = column(came.field.id), column(went.field.id)
                case Rule.RECOMPUTE | Rule.RANKED:
                    continue
            outputs[before] = _nothing(outputs[gain])
        for lists in self.lists:
            new, found = lists.of_changes(inserted, deleted)
            calls += new
            outputs |= found
        grouped = Aggregate(change.node, self.layout.aggregate.keys, tuple(calls))
        return Project(grouped, (*keep(self.key_fields), *self._state(outputs)))

    def _state(self, outputs: Mapping[str, Scalar]) -> tuple[Named, ...]:
        return tuple(Named(f, outputs[f.id]) for f in self._all_fields())

    def _old(self, changes: Node) -> Node:
        """Each affected group's stored state, and nothing where its changes go."""
        restricted = _semi(self.layout.scan(), self.key_fields, changes, self.fresh)
        outputs = {self.rows_before.id: column(names.ROWS), self.rows_gain.id: _nothing(column(names.ROWS))}
        for component in self.layout.state.components:
            stored = column(component.field.id)
            outputs[self.before[component.field.id].id] = stored
            outputs[self.gain[component.field.id].id] = stored if component.rule in _SUMMED else _nothing(stored)
            counted = component.rule is Rule.EXTEND_SUM
            outputs[self.loss[component.field.id].id] = _nothing(column(names.ROWS) if counted else stored)
        for lists in self.lists:
            outputs |= lists.of_stored()
        return Project(restricted, (*keep(self.key_fields), *self._state(outputs)))

    def _must_recompute(self) -> Scalar:
        """Whether a deleted value may have been what the state rests on."""
        reasons: list[Scalar] = [lists.ran_out(self.gain[lists.ranked.count.id]) for lists in self.lists]
        for component in self.layout.state.components:
            before, gain, loss = (column(d[component.field.id].id) for d in (self.before, self.gain, self.loss))
            match component.rule:
                case Rule.ADD | Rule.RANKED:
                    continue
                case Rule.RECOMPUTE:
                    return exp.true()
                case Rule.EXTEND_SUM:
                    reasons.append(exp.GT(this=_zero(loss), expression=integer(0)))
                case Rule.EXTEND_MIN:
                    # Also against the inserted minimum: a value may have come and gone in one batch.
                    reasons.append(exp.LTE(this=loss, expression=_smaller(before, gain, exp.LT)))
                case Rule.EXTEND_MAX:
                    reasons.append(exp.GTE(this=loss, expression=_smaller(before, gain, exp.GT)))
        any_reason = reduce(lambda a, b: exp.Or(this=a, expression=b), reasons)
        return exp.Coalesce(this=exp.paren(any_reason), expressions=[exp.false()])

    # ------------------------------------------------------------------ what it becomes
    def new_rows(self) -> list[tuple[Node, str]]:
        anew = (self.from_rows(), "groups whose state cannot be derived, from their rows")
        derived = self.derived()
        return [anew] if derived is None else [(derived, "groups whose state follows from the change"), anew]

    def derived(self) -> Node | None:
        """Groups whose state follows from the change; None where every group is computed anew."""
        if any(c.rule is Rule.RECOMPUTE for c in self.layout.state.components):
            return None
        total = exp.Add(this=_zero(column(self.rows_before.id)), expression=_zero(column(self.rows_gain.id)))
        kept: Scalar = exp.Not(this=column(self.hit.id))
        if self.key_fields:
            kept = exp.And(this=kept, expression=exp.GT(this=exp.paren(total.copy()), expression=integer(0)))
        outputs = [Named(Field(names.ROWS, "BIGINT"), total)]
        ranked = {f.id: after.id for lists in self.lists for f, after in lists.pairs()}
        for component in self.layout.state.components:
            before, gain = (column(d[component.field.id].id) for d in (self.before, self.gain))
            match component.rule:
                case Rule.ADD:
                    value: Scalar = _zero(gain)
                case Rule.EXTEND_SUM:
                    value = gain
                case Rule.RANKED:
                    value = column(ranked[component.field.id])
                case Rule.EXTEND_MIN:
                    value = _smaller(before, gain, exp.LT)
                case _:
                    value = _smaller(before, gain, exp.GT)
            outputs.append(Named(component.field, value))
        return Project(Filter(self.scan(), kept), (*keep(self.key_fields), *outputs))

    def from_rows(self) -> Node:
        """Groups whose state cannot be derived, from their rows."""
        aggregate = self.layout.aggregate
        keys = self.keys_only(hit=True, suffix=True)
        narrowed = restrict(aggregate.input, tuple(k.scalar for k in aggregate.keys), keys) if aggregate.keys else None
        if narrowed is not None:
            raw, stored = from_rows(Aggregate(narrowed, aggregate.keys, aggregate.calls), self.layout.state)
            return Project(raw, stored)
        raw, stored = from_rows(aggregate, self.layout.state)
        # The one group of a global aggregate: its row counts only if it was hit.
        return Join(Project(raw, stored), keys, None, JoinKind.SEMI)


@dataclass(frozen=True, slots=True, eq=False)
class _Lists:
    """The first values of a group while they are brought up to date."""

    ranked: Ranked
    known: Field
    whole: Field
    came: Field
    went: Field
    merged: Field
    firsts: tuple[Field, ...]
    """What is stored afterwards."""

    @classmethod
    def of(cls, ranked: Ranked, fresh: Fresh) -> _Lists:
        known, came, went, merged = (Field(fresh(n)) for n in ("known", "came", "went", "merged"))
        firsts = tuple(Field(fresh("first"), f.type) for f in ranked.fields)
        return cls(ranked, known, Field(fresh("whole"), "BOOLEAN"), came, went, merged, firsts)

    @property
    def fields(self) -> tuple[Field, ...]:
        return (self.known, self.whole, self.came, self.went)

    def pairs(self) -> Iterator[tuple[Field, Field]]:
        """The stored columns, and those of the staged rows that they become."""
        return zip(self.ranked.fields, self.firsts, strict=True)

    def of_changes(self, inserted: Scalar, deleted: Scalar) -> tuple[list[Named], dict[str, Scalar]]:
        """The aggregates over a change, and what they give; told which rows were inserted and which deleted."""
        sides = ((self.came, inserted), (self.went, deleted))
        calls = [Named(f, self.ranked.first_of(when(side.copy(), self.ranked.argument))) for f, side in sides]
        nothing = {self.known.id: _nothing(column(self.came.id)), self.whole.id: _nothing(exp.true())}
        return calls, nothing | {f.id: column(f.id) for f in (self.came, self.went)}

    def of_stored(self) -> dict[str, Scalar]:
        known = self.ranked.known()
        nothing = {f.id: _nothing(known) for f in (self.came, self.went)}
        return {self.known.id: known, self.whole.id: self.ranked.whole(), **nothing}

    def candidates(self) -> tuple[Named, Named]:
        """Of a new group nothing was stored, and of some nothing came or went."""
        known, came, went = (
            exp.Coalesce(this=column(f.id), expressions=[listed([])]) for f in (self.known, self.came, self.went)
        )
        whole = exp.Coalesce(this=column(self.whole.id), expressions=[exp.true()])
        return Named(self.merged, self.ranked.candidates(known, whole, came, went)), Named(self.went, went)

    def left(self) -> Named:
        return Named(self.merged, without(column(self.merged.id), column(self.went.id)))

    def after(self) -> list[Named]:
        return [Named(f, nth(column(self.merged.id), at)) for at, f in enumerate(self.firsts, 1)]

    def ran_out(self, count: Field) -> Scalar:
        """Whether the group has values and none of them is known."""
        gone = exp.Is(this=column(self.firsts[0].id), expression=exp.Null())
        return exp.paren(exp.And(this=gone, expression=exp.GT(this=column(count.id), expression=integer(0))))


def _nothing(like: Scalar) -> Scalar:
    """A NULL of the type of another value: a bare one would be text to some engines."""
    return when(exp.false(), like)


def _loss(component: Component, value: Scalar) -> Scalar:
    """The lost value that matters: how many for a sum, the extreme for a minimum or maximum."""
    if component.rule is Rule.EXTEND_SUM:
        return exp.Count(this=value)
    return type(component.call)(this=value)


def _smaller(left: Scalar, right: Scalar, compare: type[exp.Expr]) -> Scalar:
    """The one that compares first, or the one that is not NULL."""
    return exp.Case(
        ifs=[
            exp.If(this=exp.Is(this=left.copy(), expression=exp.Null()), true=right.copy()),
            exp.If(this=compare(this=right.copy(), expression=left.copy()), true=right.copy()),
        ],
        default=left.copy(),
    )


def _semi(node: Node, fields: tuple[Field, ...], keys: Node, fresh: Fresh) -> Node:
    """Stored rows whose key is among the first columns of `keys`."""
    if not fields:
        return node
    renamed = tuple(Field(fresh("k"), f.type) for f in fields)
    narrow = Project(keys, tuple(Named(n, column(f.id)) for n, f in zip(renamed, keys.fields, strict=False)))
    pairs = zip(fields, renamed, strict=True)
    return Join(node, narrow, conjoin(null_safe_equal(column(f.id), column(n.id)) for f, n in pairs), JoinKind.SEMI)
