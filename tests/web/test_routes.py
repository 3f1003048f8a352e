"""Every route has a rule, and the rule holds."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from dlqadmin.alerts.evaluate import evaluate
from dlqadmin.alerts.models import Alert
from dlqadmin.people.permissions import ACTIONS
from dlqadmin.redrive.models import Redrive
from dlqadmin.web.routes import route

ROLES = ["anonymous", "stranger", "viewer", "operator", "lead", "admin"]
EVERYBODY = [200, 200, 200, 200, 200, 200]
SIGNED_IN = [302, 200, 200, 200, 200, 200]
FROM_VIEWER = [302, 403, 200, 200, 200, 200]

# (method, url name, which object) -> the status for each of ROLES. 302 is the way to the sign-in, or on after a change.
EXPECTED: dict[tuple[str, str, str], list[int]] = {
    ("GET", "healthz", ""): EVERYBODY,
    ("GET", "sign-in", ""): [200, 302, 302, 302, 302, 302],
    ("POST", "sign-in", ""): [422, 422, 422, 422, 422, 422],
    ("POST", "sign-out", ""): [302, 302, 302, 302, 302, 302],
    ("POST", "theme", ""): [302, 302, 302, 302, 302, 302],
    ("GET", "overview", ""): SIGNED_IN,
    ("GET", "letters", ""): SIGNED_IN,
    ("GET", "export-csv", ""): SIGNED_IN,
    ("GET", "export-jsonl", ""): SIGNED_IN,
    ("GET", "redrives", ""): SIGNED_IN,
    ("GET", "system", ""): SIGNED_IN,
    ("GET", "alerts", ""): SIGNED_IN,
    ("GET", "queue", "queue"): FROM_VIEWER,
    ("GET", "queue-settings", "queue"): FROM_VIEWER,
    ("POST", "queue-settings", "queue"): [302, 403, 403, 403, 422, 422],
    ("GET", "queue-pause", "queue"): [302, 403, 403, 200, 200, 200],
    ("POST", "queue-pause", "queue"): [302, 403, 403, 302, 302, 302],
    ("POST", "queue-resume", "queue"): [302, 403, 403, 302, 302, 302],
    ("GET", "letter", "letter"): FROM_VIEWER,
    ("GET", "letter-body", "letter"): FROM_VIEWER,
    ("GET", "cluster", "cluster"): FROM_VIEWER,
    ("POST", "diagnose-cluster", "cluster"): [302, 403, 403, 422, 422, 422],
    ("GET", "redrive-letters", "queue"): [302, 403, 403, 200, 200, 200],
    ("POST", "redrive-letters", "queue"): [302, 403, 403, 422, 422, 422],
    ("POST", "approve-redrive", "cluster"): [302, 403, 403, 422, 422, 422],
    ("POST", "control-redrive", "redrive"): [302, 403, 403, 302, 302, 302],
    ("POST", "resolve-dropped", "queue"): [302, 403, 403, 302, 302, 302],
    ("GET", "settle-letters", "queue"): [302, 403, 403, 200, 200, 200],
    ("POST", "settle-letters", "queue"): [302, 403, 403, 422, 422, 422],
    ("GET", "edit-letter", "letter"): [302, 403, 403, 403, 200, 200],
    ("POST", "edit-letter", "letter"): [302, 403, 403, 403, 422, 422],
    ("GET", "patch-letters", "queue"): [302, 403, 403, 403, 200, 200],
    ("POST", "patch-letters", "queue"): [302, 403, 403, 403, 422, 422],
    ("POST", "settle-letter", "letter"): [302, 403, 403, 302, 302, 302],
    ("POST", "merge-clusters", "cluster"): [302, 403, 403, 422, 422, 422],
    ("POST", "tell-clusters-apart", "cluster"): [302, 403, 403, 422, 422, 422],
    ("POST", "split-templates", "cluster"): [302, 403, 403, 422, 422, 422],
    ("POST", "split-by-part", "cluster"): [302, 403, 403, 422, 422, 422],
    ("POST", "undo-grouping", "cluster"): [302, 403, 403, 422, 422, 422],
    ("POST", "edit-cluster", "cluster"): [302, 403, 403, 302, 302, 302],
    ("GET", "redrive", "redrive"): FROM_VIEWER,
    ("POST", "acknowledge-alert", "alert"): [302, 403, 403, 302, 302, 302],
}


def patterns(resolver: URLResolver) -> Iterator[URLPattern]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern)
        else:
            yield pattern


def test_every_url_pattern_of_the_project_has_a_rule() -> None:
    for pattern in patterns(get_resolver()):
        actions = getattr(pattern.callback, "actions", {})
        assert actions, f"{pattern} has no rule: decorate its view with @route"
        assert set(actions.values()) <= set(ACTIONS)


def test_every_route_of_the_pages_is_tried_with_every_role() -> None:
    ours = [p for p in patterns(get_resolver()) if p.callback.__module__.startswith("dlqadmin.web")]
    routes = {(method, p.name) for p in ours for method in p.callback.actions}  # type: ignore[attr-defined]
    assert routes == {(method, name) for method, name, _ in EXPECTED}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_the_table_says_and_nothing_else(
    role: str, redrive: Redrive, die: Any, make_user: Callable[..., Any]
) -> None:
    letter = die()
    evaluate()
    objects = {
        "": [],
        "queue": [letter.queue.name],
        "letter": [letter.pk],
        "cluster": [letter.cluster_id],
        "redrive": [redrive.pk],
        "alert": [Alert.objects.latest("pk").pk],
    }
    client = Client()
    if role != "anonymous":
        user = make_user(None if role == "stranger" else role, name=f"the {role}")
    for (method, name, thing), statuses in EXPECTED.items():
        if role != "anonymous":
            client.force_login(user)
        response = client.generic(method, reverse(name, args=objects[thing]))
        assert response.status_code == statuses[ROLES.index(role)], (method, name)


def test_an_action_that_is_not_in_the_table_stops_the_program_at_its_start() -> None:
    with pytest.raises(KeyError):
        route("queue.explode")


def test_a_stranger_reads_who_could_but_nothing_about_the_object(signed_in: Any, die: Any) -> None:
    client, letter = signed_in(None), die("a secret error", body="a secret body", type="secret.type")
    for name, args in [
        ("queue", [letter.queue.name]),
        ("letter", [letter.pk]),
        ("cluster", [letter.cluster_id]),
    ]:
        page = client.get(reverse(name, args=args))
        assert page.status_code == 403
        assert "viewer" in page.text
        assert "secret" not in page.text
        assert letter.queue.owner.name not in page.text
        assert letter.queue.name not in page.text.partition("<main")[2]


def test_anonymous_people_cannot_tell_what_exists(client: Client, die: Any) -> None:
    there = client.get(reverse("letter", args=[die().pk]))
    not_there = client.get(reverse("letter", args=[10**15]))
    assert there.status_code == not_there.status_code == 302
    assert there["Location"].startswith(reverse("sign-in") + "?next=/letters/")


def test_a_poll_after_the_session_ended_reloads_the_page_instead_of_swapping_the_sign_in_into_it(
    client: Client, db: None
) -> None:
    response = client.get(reverse("overview"), headers={"HX-Request": "true"})
    assert response["HX-Refresh"] == "true"


def test_a_method_without_a_rule_is_not_allowed(signed_in: Any) -> None:
    client = signed_in("admin")
    assert client.post(reverse("overview")).status_code == 405
    assert client.get(reverse("sign-out")).status_code == 405


@pytest.mark.parametrize("name", ["a.b:c-d_e", "team/orders", "a/settings", "ödünç/kitap"])
def test_a_queue_is_found_by_its_name_and_its_settings_are_not_another_queue(
    name: str, signed_in: Any, make_queue: Any
) -> None:
    client = signed_in("lead")
    make_queue(name)
    make_queue("a")
    assert f"<h1>{name}</h1>" in client.get(reverse("queue", args=[name])).text
    assert f"<h1>Settings of {name}</h1>" in client.get(reverse("queue-settings", args=[name])).text
    assert "<h1>Settings of a</h1>" in client.get(reverse("queue-settings", args=["a"])).text


def test_numbers_too_large_for_an_id_are_not_found(signed_in: Any) -> None:
    client = signed_in("admin")
    assert client.get(f"/letters/{10**30}/").status_code == 404


def test_every_page_has_a_content_security_policy_and_holds_nothing_that_it_forbids(
    signed_in: Any, redrive: Redrive, die: Any
) -> None:
    client, letter = signed_in("admin"), die()
    evaluate()
    for name, args in [
        ("overview", []),
        ("queue", [letter.queue.name]),
        ("queue-settings", [letter.queue.name]),
        ("queue-pause", [letter.queue.name]),
        ("letters", []),
        ("letter", [letter.pk]),
        ("cluster", [letter.cluster_id]),
        ("redrives", []),
        ("redrive", [redrive.pk]),
        ("alerts", []),
    ]:
        page = client.get(reverse(name, args=args))
        policy = page["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert " style=" not in page.text
        assert " onclick=" not in page.text
        assert page.text.count("<script") == page.text.count('<script src="')
