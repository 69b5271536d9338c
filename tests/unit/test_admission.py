"""A node takes what falls into its own buckets, and says which those are when it does not."""

from datetime import timedelta

import pytest

from chong.cli.definition import options_text
from chong.store.buckets import BucketPolicy, parse_buckets
from chong.store.errors import Refused
from chong.store.specimens import LATER_TERM, NODE, START
from chong.store.states import Status
from chong.supervisor.admission import Admission
from chong.supervisor.catalogue import Catalogue, Refusal, Task, read_catalogue
from chong.supervisor.files import write_json
from chong.supervisor.signature import Types
from chong.supervisor.submission import Submission
from chong.worker.options import Options, options_from_json
from chong.worker.wire import ProtocolError

ALL = [None, frozenset(range(64))]
MINE = parse_buckets("0-15")
DEEP = "[" * 100_000
UNTYPED = {"shapes": {}, "rest": None, "classes": [], "unchecked": []}


def admission(owned):
    return Admission(NODE, LATER_TERM, 2, BucketPolicy(64), owned)


def task(name="billing.sync", **options):
    return Task(name, "tasks", "(ctx)", Options(**options))


def takes(task, *names):
    """Whether it takes parameters of these names."""
    try:
        task.check_names(dict.fromkeys(names))
    except Refused:
        return False
    return True


class TestOwnership:
    @pytest.mark.parametrize("owned", ALL)
    def test_a_full_cover_needs_no_key(self, owned):
        """Whether it says so or lists every bucket."""
        assert (
            admission(owned).owns_all_buckets,
            admission(owned).bucket_for(None),
            admission(owned).bucket_for("globex"),
        ) == (True, None, 26)

    def test_a_partition_expects_a_key(self):
        """Work without one belongs to nobody there."""
        with pytest.raises(Refused) as refused:
            admission(MINE).bucket_for(None)
        assert str(refused.value) == "key: node 'node-a' owns buckets 0-15 only and expects a key, got none"

    def test_a_partition_takes_its_own_keys(self):
        """By their bucket."""
        assert admission(MINE).bucket_for("acme") == 1

    def test_a_partition_refuses_others_keys(self):
        """It names the bucket, and its own."""
        with pytest.raises(Refused) as refused:
            admission(MINE).bucket_for("globex")
        assert str(refused.value) == "key 'globex' falls into bucket 26: expected one of node 'node-a', 0-15"

    @pytest.mark.parametrize("owned", ALL)
    def test_owning_says_nothing_of_keys(self, owned):
        """It answers for each bucket."""
        assert all(admission(owned).owns_bucket(bucket) for bucket in range(64))
        assert [admission(MINE).owns_bucket(bucket) for bucket in (15, 16)] == [True, False]


class TestAdmit:
    def test_a_task_is_queued_with_what_it_is(self):
        """Bucket and key are recorded once; retries are further attempts."""
        submission = Submission(name="billing.sync", key="acme", params={"secret": 1}, unique_key="u")
        state, save = admission(MINE).admit(submission, task(retries=3, priority=5, tags=("io",)), START)
        found = save.snapshot
        assert (
            found.status,
            found.version,
            found.bucket,
            found.bucket_key,
            found.max_attempts,
            found.priority,
        ) == (Status.QUEUED, 1, 1, "acme", 4, 5)
        assert (found, LATER_TERM, 0) == (state.task, state.term, state.stored_version)

    def test_what_a_submission_says_counts_before_its_definition(self):
        """Also where that is nought; the time that a task may run is among its options from then on."""
        said = Submission(name="n", priority=0, retries=0, run_timeout=9.0, due_at=START + timedelta(hours=1))
        state, save = admission(None).admit(said, task(retries=3, priority=5, timeout=60.0), START)
        found = save.snapshot
        assert (found.priority, found.max_attempts, found.run_timeout, found.due_at) == (0, 1, 9.0, said.due_at)
        assert (state.options.timeout, state.options.retries) == (9.0, 3)
        assert save.transitions[0].reason == "manual, due 2026-03-01 13:00:00Z"

    @pytest.mark.parametrize("due", [START, START - timedelta(days=1)])
    def test_what_is_due_already_has_no_due_time(self, due):
        """It waits for nothing."""
        _, save = admission(None).admit(Submission(name="n", due_at=due), task(), START)
        assert (save.snapshot.due_at, save.transitions[0].reason) == (None, "manual")

    def test_parameters_are_never_in_what_the_store_gets(self):
        """They stay on the node."""
        _, save = admission(None).admit(Submission(name="n", params={"password": "hunter2"}), task(), START)
        assert "hunter2" not in repr(save)

    def test_the_same_submission_twice_is_two_events(self):
        """Sent again after its task has ended it must be a conflict."""
        submission = Submission(name="n")
        first, second = (admission(None).admit(submission, task(), START)[1] for _ in range(2))
        assert first.transitions[0].event_id != second.transitions[0].event_id


class TestCatalogue:
    CATALOGUE = Catalogue({"billing.sync": task(), "report.daily": task("report.daily")}, {"broken": "no module"})

    def test_a_task_is_found_by_its_name(self):
        """As it was declared."""
        assert task() == self.CATALOGUE.find("billing.sync")

    @pytest.mark.parametrize(
        ("name", "errors", "message"),
        [
            ("biling.sync", {"broken": "no x"}, "unknown task 'biling.sync', did you mean 'billing.sync'?"),
            ("zzz", {}, "unknown task 'zzz'"),
            ("zzz", {"broken": "no x"}, "unknown task 'zzz'; a module could not be imported, see chong tasks"),
            ("zzz", {"a": "no x", "b": "no y"}, "unknown task 'zzz'; 2 modules could not be imported, see chong tasks"),
            ("b.zzz", {"a": "no x", "b": "no y"}, "unknown task 'b.zzz'; module b failed: no y"),
            ("mail.out", {"acme.mail_tasks": "no x", "b": "no y"},
             "unknown task 'mail.out'; module acme.mail_tasks failed: no x"),
            ("billing.snc", {"billing": "no x", "b": "no y"},
             "unknown task 'billing.snc', did you mean 'billing.sync'?; module billing failed: no x"),
        ],
    )  # fmt: skip
    def test_an_unknown_task_is_refused(self, name, errors, message):
        """With the nearest name, and with what might have defined it; what cannot matter is not told."""
        with pytest.raises(Refused) as refused:
            Catalogue(self.CATALOGUE.tasks, errors).find(name)
        assert message == str(refused.value)

    def test_a_task_that_was_refused_is_refused_with_the_reason(self):
        """Nothing is said of its module, which is served."""
        catalogue = Catalogue({}, {}, {"n": Refusal("m", "m:3 (f) is refused: no such user")})
        with pytest.raises(Refused) as refused:
            catalogue.find("n")
        assert str(refused.value) == "task 'n': m:3 (f) is refused: no such user"
        (entry,) = catalogue.entries("a", {"n": "held"}, {})
        assert (entry.name, entry.module, entry.error, entry.hold) == (
            "n",
            "m",
            "m:3 (f) is refused: no such user",
            "held",
        )

    def test_what_is_wrong_with_a_name_stands_beside_its_task(self, tmp_path):
        """All of it: definitions that were refused, and a schedule that cannot be."""
        refusals = [{"module": module, "task": "n", "error": f"{module} is refused"} for module in ("b", "c")]
        write_json(tmp_path / "c.json", {"tasks": [], "errors": refusals})
        refused = read_catalogue(tmp_path / "c.json").refused
        assert refused == {"n": Refusal("b", "b is refused; c is refused")}
        (entry,) = Catalogue({"n": task("n")}, {}, refused).entries("a", {}, {"n": "no plan"})
        assert entry.error == "no plan; b is refused; c is refused"

    def test_it_is_read_as_a_forkserver_wrote_it(self, tmp_path):
        """Options that this version does not know are left out."""
        options = {"timeout": 5.0, "tags": ["a"], "x": 1}
        accepts = {"required": ["a"], "optional": ["b"], "any": False}
        item = {"name": "n", "module": "m", "parameters": "(a, b=1)", "options": options, "accepts": accepts}
        item["exec"] = True
        write_json(tmp_path / "c.json", {"tasks": [item], "errors": [{"module": "b", "task": None, "error": "e"}]})
        task = Task(
            "n", "m", "(a, b=1)", Options(timeout=5.0, tags=("a",)), frozenset("a"), frozenset("b"), is_executed=True
        )
        assert Catalogue({"n": task}, {"b": "e"}) == read_catalogue(tmp_path / "c.json")

    @pytest.mark.parametrize(
        ("params", "got"),
        [
            ({}, "no 'a'"),
            ({"a": 1, "c": 2}, "an unknown 'c'"),
            ({"c": 2}, "no 'a', an unknown 'c'"),
            ({"a": 1, "lates": 2}, "an unknown 'lates' (did you mean 'latest'?)"),
        ],
    )
    def test_parameters_that_do_not_fit_are_refused_with_the_signature(self, params, got):
        """Such a run could only fail, as often as it is retried."""
        task = Task("n", "m", "(a, b=1)", Options(), frozenset("a"), frozenset({"b", "latest"}))
        with pytest.raises(Refused, match=r"\Atask 'n': expected parameters \(a, b=1\), got ") as refused:
            task.check_names(params)
        assert str(refused.value).endswith(f"got {got}")

    @pytest.mark.parametrize(
        "types",
        [3, {}, {**UNTYPED, "shapes": {"a": {"is": "toast"}}},
         {**UNTYPED, "shapes": {"a": {"is": "class", "number": 1}}},
         {**UNTYPED, "shapes": {"a": {"is": "int", "limits": {"ge": "x"}}}},
         {**UNTYPED, "shapes": {"a": {"is": "choice", "of": [1.5]}}},
         {**UNTYPED, "classes": [{"name": "C", "required": [], "fields": {"f": {"is": "list"}}}]}],
    )  # fmt: skip
    def test_types_that_no_forkserver_writes_are_its_fault(self, tmp_path, types):
        """Found when they are read: a submission must not meet them."""
        item = {"name": "n", "module": "m", "parameters": "(a)", "options": {}, "exec": False, "types": types}
        item["accepts"] = {"required": ["a"], "optional": [], "any": False}
        write_json(tmp_path / "c.json", {"tasks": [item], "errors": []})
        with pytest.raises(ProtocolError, match="expected a forkserver's list of tasks"):
            read_catalogue(tmp_path / "c.json")

    def test_parameters_that_are_not_checked_are_shown(self):
        """`chong tasks` says so; of others there is nothing to say."""
        tasks = {"n": Task("n", "m", "(a)", Options(), types=Types(unchecked=("a",))), "o": task("o")}
        shown = {entry.name: entry.options for entry in Catalogue(tasks).entries("a", {}, {})}
        assert [options.get("unchecked") for options in shown.values()] == [["a"], None]
        assert options_text(shown["n"]).endswith("(not checked: a)")

    def test_parameters_that_fit_are_taken(self):
        """Required ones, optional ones, and any where the function takes any."""
        some = Task("n", "m", "(a, b=1)", Options(), frozenset("a"), frozenset("b"))
        assert [takes(some, *names) for names in ("a", "ab", "b", "abz")] == [True, True, False, False]
        anything = Task("n", "m", "(**more)", Options(), accepts_any=True)
        assert [takes(anything, *names) for names in ("", "z")] == [True, True]

    @pytest.mark.parametrize("text", [None, "", "[]", "7", '{"tasks": [{}], "errors": []}', '{"tasks": 3}', DEEP])
    def test_one_that_cannot_be_read_is_its_forkservers_fault(self, tmp_path, text):
        """It is ended and replaced; the supervisor goes on."""
        if text is not None:
            (tmp_path / "c.json").write_text(text)
        with pytest.raises(ProtocolError, match="expected a forkserver's list of tasks"):
            read_catalogue(tmp_path / "c.json")

    def test_what_is_missing_has_its_default(self):
        """It was written by an older version."""
        assert Options() == options_from_json({})

    def test_it_is_published_with_what_is_broken(self):
        """A broken module is an entry of its own."""
        entries = self.CATALOGUE.entries(NODE, {}, {})
        assert [(entry.name, entry.error) for entry in entries] == [
            ("billing.sync", None),
            ("report.daily", None),
            ("(broken)", "no module"),
        ]
