"""Changing a queue's settings."""

import pytest

from dlqadmin.people.models import AuditEntry
from dlqadmin.queues.configure import SettingsChanged, configure_queue


def test_a_change_is_audited_with_before_after_and_reason(queue, make_user) -> None:
    lead = make_user("lead")
    changed = configure_queue(queue=queue, by=lead, reason="measured", max_attempts=6, owner=queue.owner)
    entry = AuditEntry.objects.get()
    assert changed.max_attempts == 6
    assert changed.config_version == queue.config_version + 1
    assert (entry.actor, entry.action, entry.reason) == ("lead", "queue.configure", "measured")
    assert (entry.before, entry.after) == ({"max_attempts": 3}, {"max_attempts": 6})


def test_a_change_of_nothing_leaves_no_trace(queue, make_user) -> None:
    configure_queue(queue=queue, by=make_user("lead"), max_attempts=queue.max_attempts)
    assert not AuditEntry.objects.exists()


def test_a_change_of_owner_is_audited_by_name(queue, make_user) -> None:
    configure_queue(queue=queue, by=make_user("admin"), owner=None)
    assert AuditEntry.objects.get().before == {"owner": "Members"}


def test_who_has_seen_an_older_version_changes_nothing(queue, make_user) -> None:
    seen, lead = queue.config_version, make_user("lead")
    configure_queue(queue=queue, by=lead, seen=seen, timeout=5.0)
    with pytest.raises(SettingsChanged) as changed:
        configure_queue(queue=queue, by=lead, seen=seen, timeout=30.0, concurrency=2)
    queue.refresh_from_db()
    assert (queue.timeout, queue.concurrency) == (5.0, 4)
    assert changed.value.version == queue.config_version
    assert AuditEntry.objects.count() == 1


def test_lists_are_audited_as_lists(queue, make_user) -> None:
    configure_queue(queue=queue, by=make_user("lead"), permanent_errors=["ValueError"])
    assert AuditEntry.objects.get().after == {"permanent_errors": ["ValueError"]}
