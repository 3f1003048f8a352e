"""Who may do what."""

import pytest
from django.contrib.auth.models import AnonymousUser

from dlqadmin.people.models import Owner
from dlqadmin.people.permissions import ACTIONS, ADMIN, ANYBODY, SIGNED_IN, may, visible_owners

RANKS = ["viewer", "operator", "lead"]


@pytest.mark.parametrize("action", sorted(ACTIONS))
@pytest.mark.parametrize("role", [*RANKS, None, "admin", "anonymous"])
def test_every_action_is_allowed_exactly_from_its_role_upwards(action, role, make_user, queue) -> None:
    user = AnonymousUser() if role == "anonymous" else make_user(role)
    ladder = [ANYBODY, SIGNED_IN, *RANKS, ADMIN]
    standing = {"anonymous": ANYBODY, "admin": ADMIN, None: SIGNED_IN}.get(role, role)
    expected = ladder.index(standing) >= ladder.index(ACTIONS[action])
    assert may(user, action, queue) is expected


def test_a_role_in_one_team_gives_nothing_in_another(make_user, make_queue) -> None:
    other = Owner.objects.create(name="Billing", slug="billing")
    assert not may(make_user("lead"), "queue.view", make_queue("invoices", owner=other))


def test_a_queue_without_an_owner_is_for_admins_only(make_user, make_queue) -> None:
    queue = make_queue("orphan", owner=None)
    assert not may(make_user("lead"), "queue.view", queue)
    assert may(make_user("admin"), "queue.view", queue)


def test_an_unknown_action_is_an_error_and_never_a_silent_yes(make_user) -> None:
    with pytest.raises(KeyError):
        may(make_user("admin"), "queue.delete-everything")


def test_a_deactivated_admin_may_nothing(make_user) -> None:
    admin = make_user("admin")
    admin.is_active = False
    assert not may(admin, "overview.view")


def test_admins_see_all_queues_and_members_their_own(make_user, owner) -> None:
    assert visible_owners(make_user("admin")) is None
    assert visible_owners(make_user("viewer")) == [owner.pk]
    assert visible_owners(make_user(None)) == []
