"""The look at a whole deployment, and its alerts, over any SQL."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from chong.store.alert import Alert, AlertChanges, Finding
from chong.store.survey import Survey
from chong.store.table_calls import TableCalls


class SurveyTables(TableCalls):
    # --- the deployment as a whole -----------------------------------------------------------------------

    def survey(self, *, still: timedelta) -> Survey:
        with self._surveying() as db:
            values = {"now": self._now(), "still": self._age(still), "node": None, "known": None}

            def rows(query: str) -> list[Any]:
                return db.execute(self._queries[query], values).fetchall()

            store = rows("survey")[0]
            return Survey(
                now=self._codec.moment_out(store["now"]),
                engine=store["engine"],
                engine_version=store["engine_version"],
                deployment=self._codec.deployment_from_rows(rows("deployment")),
                nodes=tuple(map(self._codec.node_from_row, rows("nodes"))),
                declarations=tuple(map(self._codec.declaration_from_row, rows("declarations"))),
                loads=tuple(map(self._codec.bucket_load_from_row, rows("bucket_loads"))),
                catalogue=tuple(map(self._codec.catalogue_entry_from_row, rows("catalogue"))),
                work=tuple(map(self._codec.open_work_from_row, rows("survey_work"))),
                commands=tuple(map(self._codec.open_commands_from_row, rows("survey_commands"))),
                holds=self._holds(rows("changed_holds")),
            )

    def report_clock(self, term: str, ahead: timedelta) -> None:
        self._write("report_clock", term=term, ahead=self._codec.span_in(ahead))

    def report_findings(self, findings: Sequence[Finding], *, quiet: timedelta, event_id: str) -> AlertChanges:
        named = {(finding.kind, finding.subject): finding.detail for finding in findings}
        values = {
            "kinds": self._array(kind for kind, _ in named),
            "subjects": self._array(subject for _, subject in named),
            "details": self._array(named.values()),
            "quiet": self._age(quiet),
            "event_id": event_id,
        }
        with self._writing() as db:
            values["now"] = self._now()
            for part in ("lock", "seen", "raise", "clear"):
                db.execute(self._queries[f"report_findings_{part}"], values)
            raised, cleared = (
                db.execute(self._queries[f"report_findings_{part}"], values) for part in ("raised", "cleared")
            )
        return AlertChanges(*(tuple(map(self._codec.alert_from_row, found.fetchall())) for found in (raised, cleared)))

    def alerts(self, *, cleared: bool = False, limit: int = 1000) -> list[Alert]:
        rows = self._rows("alerts", cleared=cleared, limit=limit)
        return [self._codec.alert_from_row(row) for row in rows]

    def acknowledge_alert(self, alert_id: int, by: str) -> Alert | None:
        self._write("acknowledge_alert", id=alert_id, by=by)
        rows = self._rows("acknowledge_alert_shown", id=alert_id)
        return self._codec.alert_from_row(rows[0]) if rows else None
