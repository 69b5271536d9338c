-- What was found wrong, and what became of it.

-- name: report_findings_lock
-- The open alerts, in one order for all.
SELECT 1 FROM alerts WHERE cleared_at IS NULL ORDER BY id FOR UPDATE

-- name: findings
-- What was found, one array for each column.
unnest(:kinds::text[], :subjects::text[], :details::text[]) AS f (kind, subject, detail)

-- name: report_findings_seen
-- Open alerts that are found again.
UPDATE alerts AS a SET last_seen = {now}, detail = f.detail
FROM {findings} WHERE a.kind = f.kind AND a.subject = f.subject AND a.cleared_at IS NULL

-- name: report_findings_raise
-- New alerts; those that somebody else raises at this moment are his. Looked for first, so that no number is spent.
INSERT INTO alerts (kind, subject, detail, first_seen, last_seen, raised_event)
SELECT f.kind, f.subject, f.detail, {now}, {now}, :event_id FROM {findings}
WHERE NOT EXISTS (
    SELECT 1 FROM alerts AS a WHERE a.kind = f.kind AND a.subject = f.subject AND a.cleared_at IS NULL
)
ORDER BY f.kind COLLATE "C", f.subject COLLATE "C"
ON CONFLICT DO NOTHING

-- name: prune_alerts
-- Alerts that were cleared long ago.
DELETE FROM alerts WHERE id IN (
    SELECT id FROM alerts WHERE cleared_at < (SELECT {now} - :age::interval) ORDER BY cleared_at LIMIT :limit
)

-- name: report_findings_clear
-- The end of open alerts that nobody has named for a while.
UPDATE alerts SET cleared_at = {now}, cleared_event = :event_id
WHERE cleared_at IS NULL AND last_seen < {now} - :quiet::interval

-- name: alerts_columns
-- One row per alert.
SELECT id, kind, subject, detail, first_seen, last_seen, cleared_at, acknowledged_by, acknowledged_at FROM alerts

-- name: report_findings_raised
-- What an event has raised.
{alerts_columns} WHERE raised_event = :event_id ORDER BY id

-- name: report_findings_cleared
-- What an event has cleared.
{alerts_columns} WHERE cleared_event = :event_id ORDER BY id

-- name: alerts
-- Open alerts, or all, newest first.
{alerts_columns} WHERE cleared_at IS NULL OR :cleared::boolean ORDER BY id DESC LIMIT :limit

-- name: acknowledge_alert_shown
-- One alert.
{alerts_columns} WHERE id = :id

-- name: acknowledge_alert
-- Who has taken an open alert on; the first one stands.
UPDATE alerts SET acknowledged_by = :by, acknowledged_at = {now}
WHERE id = :id AND cleared_at IS NULL AND acknowledged_at IS NULL
