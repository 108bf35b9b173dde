"""The figures: crossover by share of changed rows, cost by table size; those of foreign keys are in fk_plots.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.fk_plots import figures as foreign_key_figures
from bench.tables import Result, Table

REFRESH, RECOMPUTE, PLAIN = "#0b6e4f", "#c8553d", "#8d99ae"


def plot(result: Result, folder: Path) -> list[Path]:
    """The figures of a result, if it has some; the files written."""
    match result.name:
        case "crossover":
            figures = {"": _crossover(result.tables[:-1])}
        case "growth":
            figures = {"": _growth(result.tables[0])}
        case "spark-growth":
            figures = {"": _spark_growth(result.tables[0], result.tables[1])}
        case "foreign-keys" | "spark-foreign-keys":
            figures = foreign_key_figures(result.tables)
        case _:
            return []
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in figures.items():
        for kind in ("png", "svg"):
            path = folder / f"{result.name}{'-' if name else ''}{name}.{kind}"
            dated = {"Date": None} if kind == "svg" else None
            figure.savefig(path, dpi=150, bbox_inches="tight", metadata=dated)
            paths.append(path)
        plt.close(figure)
    return paths


def _crossover(tables: Sequence[Table]) -> plt.Figure:
    figure, axes = plt.subplots(1, len(tables), figsize=(4.6 * len(tables), 3.8), sharey=True)
    for ax, table in zip(axes, tables, strict=True):
        shares = [100 * s for s in table.column("share")]
        _line(ax, shares, table.column("refresh ms"), "refresh", REFRESH)
        _line(ax, shares, table.column("viewkeep's recompute ms"), "viewkeep's recompute", RECOMPUTE)
        _line(ax, shares, table.column("CREATE TABLE … AS ms"), "CREATE TABLE … AS", PLAIN)
        ax.set_title(table.title.split(":")[0], fontsize=11)
        ax.set_xlabel("changed rows, % of all source rows")
        _log(ax)
    axes[0].set_ylabel("milliseconds")
    axes[0].legend(frameon=False, fontsize=9)
    return figure


def _growth(table: Table) -> plt.Figure:
    figure, ax = plt.subplots(figsize=(6, 3.8))
    sizes = [n / 1e6 for n in table.column("payments")]
    _line(ax, sizes, table.column("refresh ms"), "refresh", REFRESH)
    _line(ax, sizes, table.column("recompute ms"), "CREATE TABLE … AS", PLAIN)
    ax.set_xlabel("payments, millions (the change stays the same)")
    ax.set_ylabel("milliseconds")
    _log(ax)
    ax.set_xticks(sizes, [f"{s:g}" for s in sizes])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=9)
    return figure


def _spark_growth(whole: Table, views: Table) -> plt.Figure:
    """All views together against recompute, and each view by itself."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), sharey=True)
    scales = [float(s) for s in whole.column("scale")]
    _line(left, scales, whole.column("refresh ms"), "refresh", REFRESH)
    _line(left, scales, whole.column("recompute ms"), "recompute, written to a Delta table", PLAIN)
    left.set_ylabel("milliseconds")
    left.set_title("all views together", fontsize=11)
    colors = plt.colormaps["viridis"]
    for i, row in enumerate(views.rows):
        times = row[2 : 2 + len(scales)]
        _line(right, scales, times, row[0], colors(i / max(len(views.rows) - 1, 1)))
    right.set_title("the refresh of each", fontsize=11)
    for ax in (left, right):
        ax.set_xlabel("TPC-H scale (the change stays the same)")
        _log(ax)
        ax.set_xticks(scales, [f"{s:g}" for s in scales])
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize=8)
    return figure


def _line(ax: Axes, x: Sequence[float], seconds: Sequence[float], name: str, color: Any) -> None:
    ax.plot(x, [1000 * s for s in seconds], marker="o", markersize=4, linewidth=1.8, color=color, label=name)


def _log(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    ax.grid(True, which="major", color="#dddddd", linewidth=0.7)
    ax.spines[["top", "right"]].set_visible(False)
