"""Figures 5, 6 and 7 of the paper on foreign keys, from the tables of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.tables import Table

COLORS = {
    "classical": "#c8553d",
    "foreign-key": "#0b6e4f",
    "auto, checked keys": "#74a892",
    "foreign-key-materialized": "#4f6d9b",
    "recompute": "#8d99ae",
}


def figures(tables: Sequence[Table]) -> dict[str, plt.Figure]:
    delta, refresh = tables[0], tables[1]
    found = {"refresh": _whole(delta, refresh), "approaches": _approaches(refresh)}
    found["delta"] = _delta(delta, tables[3] if len(tables) > 3 else None)
    return found


def _rows(table: Table) -> dict[str, dict[str, Any]]:
    names = [c.name for c in table.columns]
    return {row[0]: dict(zip(names, row, strict=True)) for row in table.rows}


def _bars(ax: Axes, labels: Sequence[str], series: dict[str, Sequence[float | None]]) -> None:
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        at = [i + (number - (len(series) - 1) / 2) * width for i in range(len(labels))]
        heights = [1000 * (v or 0.0) for v in values]
        ax.bar(at, heights, width, color=COLORS[name], label=name)
    ax.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    _plain(ax)


def _plain(ax: Axes) -> None:
    ax.set_ylabel("milliseconds")
    ax.grid(True, axis="y", color="#dddddd", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _delta(table: Table, by_share: Table | None) -> plt.Figure:
    """Figure 5: the delta computation; stars by dimensions, then by share of changed rows."""
    rows, shown = _rows(table), ("classical", "foreign-key", "auto, checked keys")
    stars = [name for name in rows if name.endswith("dim")]
    views = list(dict.fromkeys(by_share.column("view"))) if by_share else []
    figure, axes = plt.subplots(1, 1 + len(views) + bool(views), figsize=(6 + 4 * (len(views) + bool(views)), 3.8))
    first, *rest = axes if views else [axes]
    _bars(first, stars, {s: [rows[n][f"{s} ms"] for n in stars] for s in shown})
    first.set_title("delta computation, stars", fontsize=11)
    first.legend(frameon=False, fontsize=8)
    for ax, view in zip(rest, views, strict=False):
        assert by_share is not None
        found = [r for r in by_share.rows if r[0] == view]
        shares = [100 * r[1] for r in found]
        for at, name in ((3, "classical"), (4, "foreign-key")):
            ax.plot(shares, [1000 * r[at] for r in found], marker="o", markersize=4, color=COLORS[name], label=name)
        ax.set_title(f"delta computation, {view}", fontsize=11)
        ax.set_xlabel("% of the rows that point nowhere")
        ax.set_ylim(bottom=0)
        _plain(ax)
    if views:
        assert by_share is not None
        for view, color in zip(views, ("#0b6e4f", "#4f6d9b"), strict=False):
            found = [r for r in by_share.rows if r[0] == view]
            times = [1000 * r[5] for r in found]
            rest[-1].plot([100 * r[1] for r in found], times, marker="o", markersize=4, color=color, label=view)
        rest[-1].set_title("asking whether keys hold", fontsize=11)
        rest[-1].set_xlabel("% of the rows that point nowhere")
        rest[-1].set_ylim(bottom=0)
        rest[-1].legend(frameon=False, fontsize=8)
        _plain(rest[-1])
    figure.tight_layout()
    return figure


def _whole(delta: Table, refresh: Table) -> plt.Figure:
    """Figure 6: the whole refresh, what of it is the delta computation, and what is saved of both."""
    deltas, wholes = _rows(delta), _rows(refresh)
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.2), width_ratios=(3, 1))
    for number, name in enumerate(("classical", "foreign-key")):
        at = [i + (number - 0.5) * 0.4 for i in range(len(wholes))]
        whole = [1000 * wholes[v][f"{name} ms"] for v in wholes]
        part = [1000 * deltas[v][f"{name} ms"] for v in wholes]
        left.bar(at, part, 0.4, color=COLORS[name], label=f"{name}: delta")
        merge = [max(w - p, 0) for w, p in zip(whole, part, strict=True)]
        left.bar(at, merge, 0.4, bottom=part, color=COLORS[name], alpha=0.35, label=f"{name}: the rest")
    left.set_xticks(range(len(wholes)), list(wholes), rotation=30, ha="right")
    left.set_title("whole refresh", fontsize=11)
    left.legend(frameon=False, fontsize=8)
    _plain(left)
    sets = {
        "1 dim": [v for v in wholes if v.endswith("1dim")],
        "2 dims": [v for v in wholes if v.endswith("2dim")],
        "3 dims": [v for v in wholes if v.endswith("3dim")],
        "all": list(wholes),
    }
    known = {name: views for name, views in sets.items() if views}
    for number, (label, table, color) in enumerate((("delta", deltas, "#0b6e4f"), ("refresh", wholes, "#8d99ae"))):
        saved = [100 * (1 - _total(table, v, "foreign-key") / _total(table, v, "classical")) for v in known.values()]
        right.bar([i + (number - 0.5) * 0.4 for i in range(len(known))], saved, 0.4, color=color, label=label)
    right.set_xticks(range(len(known)), list(known))
    right.set_title("time saved", fontsize=11)
    _plain(right)
    right.set_ylabel("%")
    right.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


def _total(table: dict[str, dict[str, Any]], views: Sequence[str], strategy: str) -> float:
    return float(sum(table[v][f"{strategy} ms"] for v in views))


def _approaches(refresh: Table) -> plt.Figure:
    """Figure 7: every approach for the views that have sub-trees."""
    rows = _rows(refresh)
    views = [v for v in rows if v.startswith(("snowflake", "chain"))]
    shown = ("classical", "foreign-key", "auto, checked keys", "foreign-key-materialized", "recompute")
    figure, axes = plt.subplots(1, len(views), figsize=(3.2 * len(views), 3.8), squeeze=False)
    for ax, view in zip(axes[0], views, strict=True):
        values = [1000 * rows[view][f"{s} ms"] for s in shown]
        ax.bar(range(len(shown)), values, color=[COLORS[s] for s in shown])
        ax.set_xticks(range(len(shown)), [s.replace("foreign-key", "fk") for s in shown], rotation=30, ha="right")
        ax.set_title(view, fontsize=11)
        _plain(ax)
    figure.tight_layout()
    return figure
