"""What Spark itself says of the jobs it ran: how many, how long, how many rows they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import viewkeep


@dataclass(frozen=True, slots=True)
class Job:
    id: int
    seconds: float
    rows: int
    """Records that its stages read from files; what statistics skipped inside a file is not counted."""
    bytes: int
    stages: int
    tasks: int


class JobWatch:
    """Jobs that started since this was made, or since it was last asked."""

    def __init__(self, keeper: viewkeep.Keeper) -> None:
        context: Any = keeper.engine.session.sparkContext
        self._bus = context._jsc.sc().listenerBus()
        self._store = context._jsc.sc().statusStore()
        self._seen = self._newest()

    def _newest(self) -> int:
        self._bus.waitUntilEmpty()
        jobs = self._store.jobsList(None)
        return max((jobs.apply(i).jobId() for i in range(jobs.size())), default=-1)

    def taken(self) -> list[Job]:
        self._bus.waitUntilEmpty()
        jobs = self._store.jobsList(None)
        found = [jobs.apply(i) for i in range(jobs.size())]
        new = sorted((j for j in found if j.jobId() > self._seen), key=lambda j: j.jobId())
        self._seen = max([self._seen, *(j.jobId() for j in new)])
        return [self._job(j) for j in new]

    def _job(self, job: Any) -> Job:
        spent = 0.0
        if job.submissionTime().isDefined() and job.completionTime().isDefined():
            spent = (job.completionTime().get().getTime() - job.submissionTime().get().getTime()) / 1000
        rows = size = stages = 0
        ids = job.stageIds()
        for i in range(ids.size()):
            attempts = self._store.stageData(ids.apply(i), False, *_no_details(self._store))
            for k in range(attempts.size()):
                stage = attempts.apply(k)
                rows, size = rows + stage.inputRecords(), size + stage.inputBytes()
                stages += 1
        return Job(job.jobId(), spent, rows, size, stages, job.numTasks())


def _no_details(store: Any) -> tuple[Any, ...]:
    """The arguments of `stageData` that ask for less, at the values that Scala gives them by default."""
    return tuple(getattr(store, f"stageData$default${n}")() for n in range(3, 6))
