"""What a new term makes of each task that its node had."""

import json
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chong.store.buckets import BucketPolicy
from chong.store.errors import ConfigurationError, Refused, RightsMissing, StoreUnavailable
from chong.store.memory import InMemoryTaskStore
from chong.store.model import LeaseGrant
from chong.store.specimens import (
    LATER_TERM,
    NODE,
    START,
    TERM,
    TTL,
    moved,
    node_record,
    put,
    queued,
    read,
    save_of,
    start_of,
    step,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.states import Status
from chong.supervisor.claim import claim_id, claim_of
from chong.supervisor.inventory import Inventory
from chong.supervisor.paths import Paths
from chong.supervisor.recover import find, find_dead, is_proven_dead, running_seconds
from chong.supervisor.remains import Remains, read_remains
from chong.supervisor.replay import replay
from chong.supervisor.scene import Scene
from chong.supervisor.submission import Submission
from chong.supervisor.unsent import unsent_of

CLAIMANT = "tester"
"""The specimens' transitions are signed so."""
GENERATION = 3
"""The one that `claimed_run` is claimed for."""


@pytest.fixture
def store():
    with InMemoryTaskStore() as store:
        store.register_term(term_record(), node_record())
        yield store


class RebucketedMeanwhile(InMemoryTaskStore):
    """Somebody else's change of the number ends just before the node is registered."""

    def register_term(self, term, node):
        if self.deployment().num_buckets == 64:
            self.rebucket(96, "rebucket", actor="olga")
        super().register_term(term, node)


@pytest.mark.parametrize("named", [64, None])
def test_a_node_that_begins_during_a_rebucket_goes_by_the_new_number(tmp_path, named):
    """It was not seen as live, and has read the old number: it adopts the new one, or ends and is not live."""
    with RebucketedMeanwhile() as store:
        store.record_num_buckets(64)
        if named is None:
            assert find(store, scene(tmp_path, num_buckets=named)).num_buckets == 96
        else:
            with pytest.raises(ConfigurationError, match="expected 96"):
                find(store, scene(tmp_path, num_buckets=named))
            assert [node.is_live for node in store.nodes()] == [False]


def scene(tmp_path, **facts):
    """The second term of a node whose first one has died."""
    plain = {
        "term": term_record(LATER_TERM),
        "node": node_record(LATER_TERM),
        "owned_buckets": None,
        "num_buckets": None,
        "ttl": TTL,
        "paths": Paths(tmp_path / "state", tmp_path / "run"),
        "attached": frozenset(),
        "served": frozenset(),
        "silent": frozenset(),
        "accepted": {},
        "stored": frozenset(),
    }
    return Scene(**(plain | facts))


def claimed_run(store, number=1):
    """As `stored_run`, claimed as a supervisor does it."""
    task = stored_queued(store, number)
    run = start_of(task)
    return put(store, task, run, claim_id(run.run, GENERATION), lease=LeaseGrant(TERM, TTL))


class Counted:
    """Passes every call on to a store, and counts them by name."""

    def __init__(self, store):
        self._store = store
        self.calls = Counter()

    def __getattr__(self, name):
        self.calls[name] += 1
        return getattr(self._store, name)


def submission_of(task):
    return Submission(name=task.name, id=task.id)


def found(findings):
    """The names of the lists that are not empty."""
    parts = ((name, getattr(findings, name)) for name in Inventory.__dataclass_fields__)
    return {name for name, part in parts if isinstance(part, list) and part}


class TestRuns:
    def test_an_attached_run_is_adopted_and_goes_on(self, store, tmp_path):
        """With the seconds that it has run."""
        run = stored_run(store)
        run = put(store, run, moved(run, Status.RUNNING, started_at=START))
        findings = find(store, scene(tmp_path, attached=frozenset({run.run})))
        ((task, _),) = findings.running
        assert ({"running"}, LATER_TERM, run.version + 1) == (found(findings), task.lease_owner, task.version)
        assert task == read(store, run)

    def test_a_start_that_its_forkserver_does_not_know_was_never_forked(self, store, tmp_path):
        """It alone can have been asked, it answered, and it had the term that claimed the run."""
        run = claimed_run(store)
        served = frozenset({(CLAIMANT, GENERATION), (CLAIMANT, 4)})
        findings = find(store, scene(tmp_path, served=served))
        assert ({"unforked"}, [run.id]) == (found(findings), [task.id for task, _ in findings.unforked])

    def test_a_forkserver_that_is_silent_takes_nothing_from_the_word_of_another(self, store, tmp_path):
        """One that still imports, perhaps: the run was not claimed for it."""
        claimed_run(store)
        served = frozenset({(CLAIMANT, GENERATION)})
        assert {"unforked"} == found(find(store, scene(tmp_path, served=served, silent=frozenset({4}))))

    @pytest.mark.parametrize("served", [(), (("node-a.0", GENERATION),), ((CLAIMANT, 2), (CLAIMANT, 4))])
    def test_a_start_whose_forkserver_does_not_answer_is_dead(self, store, tmp_path, served):
        """Another term's of the same number, or other generations of its own term, cannot know what it did."""
        claimed_run(store)
        assert {"dead"} == found(find(store, scene(tmp_path, served=frozenset(served))))

    def test_a_history_is_read_once(self, store, tmp_path):
        """For each run that is not attached."""
        claimed_run(store)
        counted = Counted(store)
        find(counted, scene(tmp_path, served=frozenset({(CLAIMANT, GENERATION)})))
        assert counted.calls["history"] == 1

    def test_a_start_that_names_no_generation_is_dead(self, store, tmp_path):
        """Nobody can vouch for it."""
        stored_run(store)
        assert {"dead"} == found(find(store, scene(tmp_path, served=frozenset({(CLAIMANT, GENERATION)}))))

    def test_a_start_that_was_adopted_in_between_was_still_never_forked(self, store, tmp_path):
        """Who claimed it counts: a term that was killed while starting up had only adopted it."""
        run = claimed_run(store)
        store.register_term(term_record("node-a.between"), node_record("node-a.between"))
        store.adopt(TERM, "node-a.between", [run.id], TTL, "adopted")
        findings = find(store, scene(tmp_path, served=frozenset({(CLAIMANT, GENERATION)})))
        assert {"unforked"} == found(findings)

    def test_an_adopter_that_had_other_forkservers_proves_nothing(self, store, tmp_path):
        """Only the claimant can have asked for the worker, and its forkserver is gone."""
        claimed_run(store)
        assert {"dead"} == found(find(store, scene(tmp_path, served=frozenset({(TERM, GENERATION)}))))

    def test_a_started_run_without_a_worker_is_dead(self, store, tmp_path):
        """Whoever was served."""
        run = claimed_run(store)
        put(store, run, moved(run, Status.RUNNING, started_at=START))
        assert {"dead"} == found(find(store, scene(tmp_path, served=frozenset({(CLAIMANT, GENERATION)}))))

    @pytest.mark.parametrize(
        "differs",
        [
            {"term": replace(term_record(LATER_TERM), boot_id="another boot")},
            {"term": replace(term_record(LATER_TERM), node_id="a clone")},
            {"term": replace(term_record(LATER_TERM), lock_inode=8)},
            {"silent": frozenset({3})},
        ],
    )
    def test_a_run_that_is_not_proven_dead_is_doubtful(self, store, tmp_path, differs):
        """Another boot, a clone, a restored directory, or a forkserver that does not answer."""
        run = stored_run(store)
        findings = find(store, scene(tmp_path, **differs))
        assert ({"doubtful"}, TERM) == (found(findings), read(store, run).lease_owner)

    def test_an_attached_run_needs_no_proof(self, store, tmp_path):
        """Its worker is in our hands."""
        run = stored_run(store)
        assert {"running"} == found(find(store, scene(tmp_path, attached=frozenset({run.run}), silent=frozenset({3}))))

    def test_a_run_of_an_unknown_term_is_doubtful(self, store, tmp_path):
        """Nothing proves its death."""
        stored_run(store, lease_owner="node-a.0")
        assert {"doubtful"} == found(find(store, scene(tmp_path)))

    def test_a_proof_needs_a_record(self, tmp_path):
        """And the same lock on the same boot of the same machine."""
        assert [is_proven_dead(holder, scene(tmp_path)) for holder in (term_record(), None)] == [True, False]


class TestSilent:
    """A forkserver that did not answer, and is gone since."""

    def test_its_run_is_dead_then(self, store, tmp_path):
        """What it has left of the run, or nobody, tells how that ended."""
        run = stored_run(store)
        where = scene(tmp_path, silent=frozenset({3}))
        assert {"doubtful"} == found(find(store, where))
        findings = find_dead(store, where, frozenset({run.id}))
        assert ({"dead"}, LATER_TERM) == (found(findings), read(store, run).lease_owner)

    def test_a_lost_answer_costs_nothing(self, store, tmp_path):
        """The store had adopted the run, and did not come to say so."""
        run = stored_run(store)
        where = scene(tmp_path, silent=frozenset({3}))
        find(store, where)
        find_dead(store, where, frozenset({run.id}))
        assert [run.id] == [task.id for task in find_dead(store, where, frozenset({run.id})).dead]

    def test_what_it_does_not_prove_stays_doubtful(self, store, tmp_path):
        """A run of another boot is still judged by its lease."""
        run = stored_run(store)
        where = scene(tmp_path, term=replace(term_record(LATER_TERM), boot_id="another boot"), silent=frozenset({3}))
        find(store, where)
        assert {"doubtful"} == found(find_dead(store, where, frozenset({run.id})))


def test_what_still_writes_the_log_of_a_dead_run_is_ended(store, tmp_path):
    """With the first contact, in the store's thread: to look for it takes the main loop too long."""
    run = stored_run(store)
    log = scene(tmp_path).paths.log_of(run.run)
    log.parent.mkdir(parents=True)
    with log.open("wb") as output:
        survivor = subprocess.Popen(["sleep", "60"], stdout=output)
    assert [survivor.pid] == find(store, scene(tmp_path)).survivors
    assert survivor.wait(10) == -signal.SIGKILL


class TestClaim:
    def test_the_newest_attempt_says_who_claimed_it(self, store):
        """An earlier one may have come from another generation."""
        first = claimed_run(store)
        waiting = put(store, first, moved(first, Status.RETRYING))
        second = start_of(waiting)
        put(store, waiting, second, claim_id(second.run, 12), lease=LeaseGrant(TERM, TTL))
        assert claim_of(store.history(first.id)) == (CLAIMANT, 12)

    @pytest.mark.parametrize("event_id", ["7", "1.1.start.x.00", "1.1.start..00", "1.1.begin.3.00", "a.start.3"])
    def test_an_event_of_another_form_says_nothing(self, store, event_id):
        """A supervisor of another version may have named it otherwise."""
        task = stored_queued(store)
        put(store, task, start_of(task), event_id, lease=LeaseGrant(TERM, TTL))
        assert claim_of(store.history(task.id)) is None


class TestAttached:
    def test_an_end_of_our_own_is_only_released(self, store, tmp_path):
        """It was stored, and the former term died before it could say so."""
        run = stored_run(store)
        put(store, run, moved(run, Status.SUCCEEDED, ended_at=START), event_id=f"{run.run}.exit")
        findings = find(store, scene(tmp_path, attached=frozenset({run.run})))
        assert ({"stored_runs"}, [run.run]) == (found(findings), findings.stored_runs)

    def test_a_run_that_somebody_judged_is_foreign(self, store, tmp_path):
        """While its worker lived on."""
        run = stored_run(store)
        put(store, run, moved(run, Status.LOST, ended_at=START))
        findings = find(store, scene(tmp_path, attached=frozenset({run.run})))
        assert ({"foreign_runs"}, [(run.run, read(store, run))]) == (found(findings), findings.foreign_runs)

    def test_a_run_that_the_store_does_not_know_is_foreign(self, store, tmp_path):
        """The store was replaced, perhaps."""
        run = f"{task_id(9)}.1"
        assert [(run, None)] == find(store, scene(tmp_path, attached=frozenset({run}))).foreign_runs


class TestWaiting:
    def test_waiting_work_with_its_submission_waits_on(self, store, tmp_path):
        """On the node that accepted it."""
        task = stored_queued(store)
        findings = find(store, scene(tmp_path, accepted={task.id: submission_of(task)}))
        assert ({"waiting"}, [read(store, task)]) == (found(findings), findings.waiting)

    def test_waiting_work_without_its_submission_is_spoolless(self, store, tmp_path):
        """Nobody has its parameters any more."""
        stored_queued(store)
        assert {"spoolless"} == found(find(store, scene(tmp_path)))

    def test_an_accepted_task_that_the_store_does_not_have_is_unsaved(self, store, tmp_path):
        """It was accepted while the store was away."""
        task = queued(5)
        findings = find(store, scene(tmp_path, accepted={task.id: submission_of(task)}))
        assert ({"unsaved"}, [submission_of(task)]) == (found(findings), findings.unsaved)

    def test_an_accepted_task_that_has_ended_is_ended(self, store, tmp_path):
        """Only its file is left."""
        run = stored_run(store)
        put(store, run, moved(run, Status.FAILED, ended_at=START))
        findings = find(store, scene(tmp_path, accepted={run.id: submission_of(run)}))
        assert ({"ended"}, [run.id]) == (found(findings), [task.id for task in findings.ended])

    def test_what_was_accepted_is_looked_up_together(self, store, tmp_path):
        """A term that begins after an outage may have thousands of them, and its store may be far."""
        ended = [stored_end(store, number) for number in (1, 2, 3)]
        accepted = {task.id: submission_of(task) for task in (*ended, queued(4), queued(5))}
        counted = Counted(store)
        findings = find(counted, scene(tmp_path, accepted=accepted))
        assert (len(findings.ended), len(findings.unsaved)) == (3, 2)
        assert (counted.calls["get"], counted.calls["query"]) == (0, 2)

    def test_other_nodes_tasks_are_left_alone(self, store, tmp_path):
        """Nobody runs somebody else's task."""
        stored_run(store, 1, node="node-b")
        stored_queued(store, 2, node="node-b")
        assert set() == found(find(store, scene(tmp_path)))


class TestDeployment:
    @pytest.mark.parametrize(("wanted", "number"), [(None, 64), (8, 8)])
    def test_the_first_node_records_the_number_of_buckets(self, store, tmp_path, wanted, number):
        """Its setting, or the default."""
        findings = find(store, scene(tmp_path, num_buckets=wanted))
        assert (number, number) == (findings.num_buckets, store.deployment().num_buckets)

    def test_another_number_of_buckets_is_refused(self, store, tmp_path):
        """Before the node announces itself."""
        store.record_num_buckets(64)
        with pytest.raises(ConfigurationError) as refused:
            find(store, scene(tmp_path, num_buckets=32))
        assert str(refused.value) == "number of buckets: expected 64 as the deployment has recorded, got 32"
        assert [record.term for record in store.terms(NODE)] == [TERM]

    def test_the_term_and_its_buckets_are_announced(self, store, tmp_path):
        """As what it declares, for audit."""
        find(store, scene(tmp_path, owned_buckets=frozenset({3, 4}), num_buckets=8))
        assert [record.term for record in store.terms(NODE)] == [LATER_TERM, TERM]
        assert [declared.bucket for declared in store.declarations()] == [3, 4]


def history(*moves):
    """Targets with the seconds at which they happened."""
    trail, last = [], None
    for version, (status, seconds) in enumerate(moves, start=1):
        at = START + timedelta(seconds=seconds)
        task = queued(status=status, version=version, status_changed_at=at)
        trail.append(step(last, task))
        last = task
    return trail


class TestRunningSeconds:
    @pytest.mark.parametrize(
        ("moves", "seconds"),
        [
            ([(Status.QUEUED, 0), (Status.STARTING, 10)], 0.0),
            ([(Status.STARTING, 0), (Status.RUNNING, 10)], 90.0),
            ([(Status.RUNNING, 10), (Status.PAUSING, 20), (Status.PAUSED, 25)], 15.0),
            ([(Status.RUNNING, 10), (Status.PAUSING, 20), (Status.PAUSED, 25), (Status.RUNNING, 65)], 50.0),
            ([(Status.RUNNING, 10), (Status.PAUSING, 20), (Status.RUNNING, 30)], 90.0),
            ([(Status.RUNNING, 10), (Status.RETRYING, 50), (Status.STARTING, 60), (Status.RUNNING, 80)], 20.0),
            ([(Status.RUNNING, 10), (Status.STOPPING, 50)], 40.0),
        ],
    )
    def test_pauses_and_earlier_attempts_do_not_count(self, moves, seconds):
        """Looked at in the hundredth second."""
        assert seconds == running_seconds(history(*moves), START + timedelta(seconds=100))


class TestRemains:
    def test_they_are_read_as_they_were_written(self, tmp_path):
        """A frame comes back as the worker sent it."""
        remains = {"code": None, "signal": 9, "at": START.timestamp(), "frames": [{"n": 1, "kind": "名前"}]}
        (tmp_path / "remains.json").write_text(json.dumps(remains, ensure_ascii=False))
        assert Remains(None, 9, START, ('{"n": 1, "kind": "名前"}'.encode(),)) == read_remains(tmp_path)

    @pytest.mark.parametrize(
        "text", [None, "", "[]", "7", "{}", '{"code": 0, "signal": null}', '{"frames": 3}', "[" * 100_000]
    )
    def test_without_them_nobody_knows(self, tmp_path, text):
        """Missing, torn or senseless: the outcome is unknown."""
        if text is not None:
            (tmp_path / "remains.json").write_text(text)
        assert None is read_remains(tmp_path)


def test_a_run_that_retried_is_adopted_with_its_attempt(store, tmp_path):
    """The name of a run says which attempt it is."""
    first = stored_run(store)
    waiting = put(store, first, moved(first, Status.RETRYING))
    second = put(store, waiting, start_of(waiting), lease=LeaseGrant(TERM, TTL))
    findings = find(store, scene(tmp_path, attached=frozenset({second.run})))
    assert [task.attempt for task, _ in findings.running] == [2]
    assert findings.running[0][1] <= (datetime.now(UTC) - START).total_seconds()


class TestWhatIsOver:
    def run_dir(self, tmp_path, run, **remains):
        directory = Paths(tmp_path / "state", tmp_path / "run").run_dir(run)
        directory.mkdir(parents=True)
        (directory / "params.json").write_text("{}")
        if remains:
            (directory / "remains.json").write_text(json.dumps(remains))
        return directory

    def test_directories_of_runs_that_are_over_go(self, store, tmp_path):
        """Their term was killed before it could remove them; those of open and of attached runs stay."""
        run = stored_run(store)
        stays, goes = self.run_dir(tmp_path, run.run), self.run_dir(tmp_path, f"{task_id(7)}.1")
        find(store, scene(tmp_path))
        assert (stays.exists(), goes.exists()) == (True, False)

    def test_remains_of_a_run_that_was_called_lost_become_a_note(self, store, tmp_path):
        """Evidence that came too late; the state stays."""
        run = stored_run(store)
        lost = put(store, run, moved(run, Status.LOST, ended_at=START))
        frames = [{"kind": "result", "n": 3, "at": 1, "value": 1}]
        left = self.run_dir(tmp_path, run.run, code=0, signal=None, at=START.timestamp(), frames=frames)
        find(store, scene(tmp_path))
        (note,) = store.notes(run.id)
        assert (note.kind, note.at, read(store, run).status) == ("late_result", START, lost.status)
        assert "with a result and exit code 0" in note.detail
        assert not left.exists()

    def test_work_that_ran_here_but_is_unknown_to_the_store_is_not_run_again(self, store, tmp_path):
        """The store was replaced by an older one, or by an empty one."""
        paths = Paths(tmp_path / "state", tmp_path / "run")
        paths.logs.mkdir(parents=True)
        paths.log_of(f"{task_id(1)}.1").touch()
        accepted = {task_id(n): Submission(name="n", id=task_id(n)) for n in (1, 2)}
        findings = find(store, scene(tmp_path, accepted=accepted))
        assert ([task_id(1)], [task_id(2)]) == (findings.forgotten, [s.id for s in findings.unsaved])

    def test_work_that_the_store_had_and_has_no_more_is_not_run(self, store, tmp_path):
        """It was called lost and pruned while the node was away; what never reached the store is handed to it."""
        accepted = {task_id(n): Submission(name="n", id=task_id(n)) for n in (1, 2)}
        findings = find(store, scene(tmp_path, accepted=accepted, stored=frozenset({task_id(1)})))
        assert ([task_id(1)], [task_id(2)]) == (findings.forgotten, [s.id for s in findings.unsaved])

    def test_another_living_node_of_the_same_name_is_refused(self, store, tmp_path):
        """Each would take the other's commands, and the other's runs for its own."""
        with pytest.raises(ConfigurationError, match="expected a name of its own, another state directory uses it"):
            find(store, scene(tmp_path, node=replace(node_record(LATER_TERM), node_id="another")))

    def test_of_two_that_start_together_the_one_that_was_displaced_ends(self, tmp_path):
        """Both had looked before either was registered; the other's row stays as it is."""
        with DisplacedMeanwhile() as store:
            with pytest.raises(ConfigurationError, match="another state directory uses it on elsewhere"):
                find(store, scene(tmp_path))
            assert [(node.host, node.is_live) for node in store.nodes()] == [("elsewhere", True)]

    @pytest.mark.parametrize("query", ["holds", "declare_buckets", "query"])
    @pytest.mark.parametrize("error", [RightsMissing, StoreUnavailable, Refused, KeyboardInterrupt])
    def test_a_first_contact_that_fails_leaves_no_live_node(self, store, tmp_path, monkeypatch, query, error):
        """Whatever fails behind the registration, and however."""

        def fail(*_, **__):
            raise error("no")

        monkeypatch.setattr(store, query, fail)
        with pytest.raises(error):
            find(store, scene(tmp_path))
        assert [(node.term, node.is_live) for node in store.nodes()] == [(LATER_TERM, False)]

    def test_a_term_that_cannot_be_ended_hides_no_error(self, store, tmp_path, monkeypatch):
        """The first one is the one to tell."""

        def fail(*_):
            raise StoreUnavailable("the second")

        def refuse():
            raise RightsMissing("the first")

        monkeypatch.setattr(store, "holds", refuse)
        monkeypatch.setattr(store, "end_term", fail)
        known = []
        with pytest.raises(RightsMissing, match="the first"):
            find(store, scene(tmp_path), known.append)
        assert known == [True]

    def test_a_term_that_has_been_ended_is_known_no_more(self, store, tmp_path, monkeypatch):
        """So its state directory may become another node's."""

        def refuse():
            raise RightsMissing("at the holds")

        monkeypatch.setattr(store, "holds", refuse)
        known = []
        with pytest.raises(RightsMissing):
            find(store, scene(tmp_path), known.append)
        assert known == [True, False]


class DisplacedMeanwhile(InMemoryTaskStore):
    """A namesake registers right behind the node."""

    def register_term(self, term, node):
        super().register_term(term, node)
        other = replace(term, term="node-a.9", node_id="another")
        super().register_term(other, replace(node, term=other.term, node_id="another", host="elsewhere"))


def test_what_was_unsent_over_a_rebucket_lies_in_the_bucket_of_today(store, tmp_path):
    """The rebucket could not count it anew, as the store had never seen it."""
    task = replace(queued(7), bucket_key="acme", bucket=BucketPolicy(64).bucket_of("acme"))
    began = scene(tmp_path, unsent=(unsent_of(save_of(None, task)),), is_behind=False)
    store.record_num_buckets(1000)
    inventory = Inventory(num_buckets=1000)
    replay(store, began, inventory)
    assert (store.get(task.id).bucket, inventory.refused) == (BucketPolicy(1000).bucket_of("acme"), [])
    assert store.get(task.id).bucket != task.bucket


def test_a_start_that_was_unsent_is_not_made_up_for(store, tmp_path):
    """Nothing was forked before it was stored: the task waits as before, and what was to follow is left out."""
    task = stored_queued(store, 7)
    start = save_of(task, start_of(task), lease=LeaseGrant(TERM, TTL))
    end = save_of(start.snapshot, moved(start.snapshot, Status.STOPPED))
    inventory = Inventory(num_buckets=64)
    replay(store, scene(tmp_path, unsent=(unsent_of(start), unsent_of(end)), is_behind=False), inventory)
    assert (read(store, task).status, inventory.refused, len(inventory.replayed)) == (Status.QUEUED, [], 2)
