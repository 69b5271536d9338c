"""A module that cannot be imported."""

import no_such_library  # noqa: F401 - that is the fault
