-- What a node asks of its spool.

-- name: keep_submission
-- The same one may come again, of a term that was killed before it could act on it.
INSERT INTO submissions (id, content, accepted_at) VALUES (:id, :content, :now)
ON CONFLICT (id) DO NOTHING

-- name: mark_stored
-- The store has had the task.
UPDATE submissions SET was_stored = 1 WHERE id = :id

-- name: end_submission
-- The task is over; what it was asked for is kept for a rerun.
UPDATE submissions SET ended_at = :now WHERE id = :id AND ended_at IS NULL

-- name: complete_submission
-- What it was asked for is whole now: a result was handed to it.
UPDATE submissions SET content = :content WHERE id = :id

-- name: forget_submission
-- It was refused after all.
DELETE FROM submissions WHERE id = :id

-- name: submission
-- One submission, whether its task is over or not.
SELECT content FROM submissions WHERE id = :id

-- name: open_submissions
-- What was accepted and is not over, as it came.
SELECT id, content, was_stored FROM submissions WHERE ended_at IS NULL ORDER BY rowid

-- name: keep_state
-- The newest counts.
INSERT INTO states (id, content) VALUES (:id, :content)
ON CONFLICT (id) DO UPDATE SET content = excluded.content

-- name: state
-- The newest state of a task.
SELECT content FROM states WHERE id = :id

-- name: drop_state
-- The task is over.
DELETE FROM states WHERE id = :id

-- name: drop_lone_states
-- Of tasks that are not open any more.
DELETE FROM states WHERE id NOT IN (SELECT id FROM submissions WHERE ended_at IS NULL)

-- name: keep_unsent
-- A later write of the same step has what the earlier one had; it keeps its turn.
INSERT INTO unsent (id, content) VALUES (:id, :content)
ON CONFLICT (id) DO UPDATE SET content = excluded.content

-- name: drop_unsent
-- The store has it, or refuses it.
DELETE FROM unsent WHERE id = :id

-- name: unsent
-- In the order in which they came.
SELECT id, content FROM unsent ORDER BY rowid

-- name: begin_term
-- Before the store hears of it.
INSERT INTO terms (id) VALUES (:id) ON CONFLICT (id) DO NOTHING

-- name: meet_store
-- From now on the store's newest term of this node is this one.
DELETE FROM terms WHERE id <> :id

-- name: terms
-- Who has written here.
SELECT id FROM terms

-- name: set_aside_submission
-- What cannot be read does not stand in the way, and is not thrown away.
INSERT INTO unreadable (kind, id, content, found_at)
SELECT 'submission', id, content, :now FROM submissions WHERE id = :id

-- name: set_aside_state
-- As a submission.
INSERT INTO unreadable (kind, id, content, found_at)
SELECT 'state', id, content, :now FROM states WHERE id = :id

-- name: set_aside_unsent
-- As a submission.
INSERT INTO unreadable (kind, id, content, found_at)
SELECT 'unsent', id, content, :now FROM unsent WHERE id = :id

-- name: set_aside_group
-- As a submission.
INSERT INTO unreadable (kind, id, content, found_at)
SELECT 'group', id, content, :now FROM groups WHERE id = :id

-- name: keep_group
-- With all its members, or not at all.
INSERT INTO groups (id, content, accepted_at) VALUES (:id, :content, :now)
ON CONFLICT (id) DO NOTHING

-- name: open_groups
-- Those that are not over.
SELECT id, content, accepted_at FROM groups WHERE ended_at IS NULL ORDER BY rowid

-- name: groups_by_part
-- Whose id begins or ends so, the newest first.
SELECT id, content, accepted_at, ended_at FROM groups
WHERE id LIKE :part || '%' OR id LIKE '%' || :part ORDER BY rowid DESC LIMIT :limit

-- name: end_group
-- All its members are over.
UPDATE groups SET ended_at = :now WHERE id = :id AND ended_at IS NULL

-- name: drop_group
-- It was refused, or cannot be read.
DELETE FROM groups WHERE id = :id

-- name: end_member
-- One member is over.
INSERT INTO member_ends (id, group_id, status) VALUES (:id, :group_id, :status)
ON CONFLICT (id) DO NOTHING

-- name: member_ends
-- Of one group.
SELECT id, status FROM member_ends WHERE group_id = :group_id

-- name: keep_notice
-- Somebody is to be told of this end.
INSERT INTO notices (id, content) VALUES (:id, :content)
ON CONFLICT (id) DO NOTHING

-- name: notices
-- As they came.
SELECT id, content FROM notices ORDER BY rowid

-- name: drop_notice
-- It was told, or nobody wants to hear it.
DELETE FROM notices WHERE id = :id

-- name: set_aside_notice
-- As a submission.
INSERT INTO unreadable (kind, id, content, found_at)
SELECT 'notice', id, content, :now FROM notices WHERE id = :id

-- name: prune_groups
-- Ended before `until`.
DELETE FROM groups WHERE ended_at < :until

-- name: prune_member_ends
-- Of groups that are there no more.
DELETE FROM member_ends WHERE group_id NOT IN (SELECT id FROM groups)

-- name: prune_kept
-- Ended before `until`, or so many bytes of younger ones are there that this one is too much.
DELETE FROM submissions WHERE id IN (
    SELECT id FROM (
        SELECT id, ended_at, sum(length(content)) OVER (ORDER BY ended_at DESC, rowid DESC) AS bytes
        FROM submissions WHERE ended_at IS NOT NULL
    ) WHERE ended_at < :until OR bytes > :most
)

-- name: prune_unreadable
-- Set aside before `until`.
DELETE FROM unreadable WHERE found_at < :until
