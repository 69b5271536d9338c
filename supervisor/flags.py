"""The flags of a task that stand beside its status."""

UNKILLABLE = "unkillable"
"""The flag of a task whose worker SIGKILL does not end: in uninterruptible sleep, or held by a tracer."""
FROZEN = "frozen"
"""The flag of a paused task whose processes are stopped, not only waiting at a checkpoint."""
