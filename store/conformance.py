"""The contract as tests; a backend passes them all.

from chong.store.conformance import StoreContract

class TestMyStore(StoreContract):
    def make_store(self, clock):
        return MyStore(empty_database(), clock=clock)
"""

from chong.store.conformance_alerts import AlertRules, SurveyRules
from chong.store.conformance_attempts import AttemptRules
from chong.store.conformance_batches import BatchRules
from chong.store.conformance_commands import CommandRules
from chong.store.conformance_holds import ForgetRules, HoldRules
from chong.store.conformance_leases import LeaseRules
from chong.store.conformance_nodes import NodeRules
from chong.store.conformance_owners import OwnerRules
from chong.store.conformance_pruning import PruneRules
from chong.store.conformance_queries import QueryRules
from chong.store.conformance_rebucketing import RebucketRules
from chong.store.conformance_saves import SaveRules


class StoreContract(
    SaveRules,
    AttemptRules,
    BatchRules,
    LeaseRules,
    OwnerRules,
    CommandRules,
    QueryRules,
    PruneRules,
    NodeRules,
    HoldRules,
    ForgetRules,
    RebucketRules,
    SurveyRules,
    AlertRules,
):
    """Every promise of `chong.store.contract`, one test each."""
