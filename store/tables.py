"""The part of the contract that is the same over any SQL: a named query, its values, its rows.

What depends on how a database locks, or on how many round trips it takes, is the subclass's: SQLite's in
`sqlite_tables`, PostgreSQL's in `postgres`.
"""

from chong.store.node_tables import NodeTables
from chong.store.rebucket_tables import RebucketTables
from chong.store.survey_tables import SurveyTables
from chong.store.task_tables import TaskTables


class TableStore(TaskTables, NodeTables, RebucketTables, SurveyTables):
    """The methods that are one query, or one after the other in a transaction."""
