"""The change of the number of buckets over any SQL."""

from collections.abc import Mapping
from typing import Any

from chong.store.buckets import BucketPolicy
from chong.store.rebucketing import Progress, Rebucketing, check_at_rest
from chong.store.table_calls import Database, TableCalls

_MOVED_AT_ONCE = 1000


class RebucketTables(TableCalls):
    # --- the number of buckets ---------------------------------------------------------------------------

    def rebucket(
        self,
        num_buckets: int,
        event_id: str,
        *,
        actor: str,
        reason: str | None = None,
        on_progress: Progress | None = None,
    ) -> Rebucketing:
        policy = BucketPolicy(num_buckets)
        with self._writing_long() as db:
            db.execute(self._queries["rebucket_lock"], {})
            # Now, not before the wait: by an older clock a node that registered meanwhile would not be live yet.
            known = {"event_id": event_id, "now": self._now()}
            done = db.execute(self._queries["rebucket_done"], known).fetchone()
            if done is None:
                before, waiting = self._check_rebucket(db, known)
                change = {"by": actor, "reason": reason, "before": before, "after": num_buckets, "waiting": waiting}
                moved = self._move_tasks(db, policy, known | change, on_progress)
                for part in ("declarations", "deployment", "record"):
                    db.execute(self._queries[f"rebucket_{part}"], known | change | {"moved": moved})
                done = db.execute(self._queries["rebucket_done"], known).fetchone()
        return self._codec.rebucketing_from_row(done, self._on_unreadable)

    def rebucketings(self) -> list[Rebucketing]:
        return self._in_part(self._codec.rebucketing_from_row, self._rows("rebucketings"))

    def _check_rebucket(self, db: Database, values: Mapping[str, Any]) -> tuple[int, int]:
        """The number of buckets as it stands, and how many waiting tasks have one."""

        def rows(query: str) -> list[Any]:
            return db.execute(self._queries[query], values).fetchall()

        counts = rows("rebucket_counts")[0]
        before = check_at_rest(
            recorded=self._codec.deployment_from_rows(rows("deployment")).num_buckets,
            live=[row["node"] for row in rows("rebucket_live")],
            runs=counts["runs"],
            held=[row["target"] for row in rows("rebucket_held")],
        )
        return before, counts["waiting"]

    def _move_tasks(
        self, db: Database, policy: BucketPolicy, change: dict[str, Any], on_progress: Progress | None
    ) -> int:
        waiting = db.execute(self._queries["rebucket_waiting"], {}).fetchall()
        moved = 0
        for first in range(0, len(waiting), _MOVED_AT_ONCE):
            rows = waiting[first : first + _MOVED_AT_ONCE]
            tasks = [
                {"id": row["id"], "bucket": bucket, "detail": _moved(row, bucket, change)} | change
                for row in rows
                if (bucket := policy.bucket_of(row["bucket_key"])) != row["bucket"]
            ]
            if tasks:
                for part in ("task", "note"):
                    db.executemany(self._queries[f"rebucket_{part}"], tasks)
            moved += len(tasks)
            if on_progress is not None:
                on_progress(first + len(rows), len(waiting))
        return moved


def _moved(row: Any, bucket: int, change: Mapping[str, Any]) -> str:
    reason = f": {change['reason']}" if change["reason"] else ""
    return f"from bucket {row['bucket']} of {change['before']} to {bucket} of {change['after']}{reason}"
