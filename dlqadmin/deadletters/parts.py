"""A person tells a part of a leaf apart, by the value of a parameter or by a pattern, with a preview.

Letters that come later go to the part at once (`clusters.assign`). Those that are there are moved by a job, portion by
portion, each in a transaction: it may be killed at any moment.
"""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _

from dlqadmin.clock import ClockTimestamp, db_now
from dlqadmin.clusters.fingerprint import fingerprint
from dlqadmin.clusters.groups import changing_groups
from dlqadmin.clusters.models import ClusterVerdict, ErrorCluster, SplitRule
from dlqadmin.clusters.splitting import BadPattern, Rule, compiled, holds
from dlqadmin.deadletters.models import DeadLetter, DeadLetterQuerySet
from dlqadmin.deadletters.moving import move_letters
from dlqadmin.leases.run import guarded
from dlqadmin.people.audit import Actor, actor_name, record

PREVIEWED = 2_000  # letters
EXAMPLES = 5
PORTION = 500
SETTLED = timedelta(minutes=1)  # no capture lasts longer

SPLITTING = "EXISTS (SELECT FROM dlqadmin_splitrule WHERE finished_at IS NULL)"


@dataclass(frozen=True, slots=True)
class Preview:
    """Of `read` letters of the leaf, of `total` in all, so many are of the part; some of their texts."""

    matching: int
    read: int
    total: int
    examples: list[str]


def preview_part(
    *, leaf: ErrorCluster, position: int | None = None, value: str = "", pattern: str = ""
) -> Preview:
    """What a split would take out of `leaf`, from its newest letters. Raises BadPattern."""
    rule = _rule(position, value, pattern)
    letters = DeadLetter.objects.filter(cluster=leaf)
    total = letters.count()
    newest = letters.order_by("-pk").values_list("error_class", "error_text", "traceback")[:PREVIEWED]
    read = [(told[1], _is_part(rule, *told)) for told in newest]
    matching = [text for text, part in read if part]
    return Preview(len(matching), len(read), total, list(dict.fromkeys(matching))[:EXAMPLES])


def split_part(
    *,
    leaf: ErrorCluster,
    by: Actor,
    position: int | None = None,
    value: str = "",
    pattern: str = "",
) -> SplitRule:
    """Tell a part of `leaf` apart: a new cluster. Raises BadPattern, also if the same was split before."""
    rule = _rule(position, value, pattern)
    name = hashlib.sha256(f"{leaf.fingerprint}\0{position}\0{value}\0{pattern}".encode()).hexdigest()
    with changing_groups(leaf.queue_id):
        if ErrorCluster.objects.filter(
            queue=leaf.queue_id, fingerprint=name, fingerprint_version=leaf.fingerprint_version
        ).exists():
            raise BadPattern(_("This part was told apart before."))
        target = ErrorCluster.objects.create(
            queue_id=leaf.queue_id,
            fingerprint=name,
            fingerprint_version=leaf.fingerprint_version,
            error_class=leaf.error_class,
            template=leaf.template,
            sample_text=leaf.sample_text,
            name=(value or pattern)[:200],
            keyed_at=ClockTimestamp(),
        )
        made = SplitRule.objects.create(
            cluster=leaf,
            target=target,
            position=rule.position,
            value=rule.value,
            pattern=rule.pattern,
            by_name=actor_name(by),
        )
        apart = ClusterVerdict.objects.create(
            queue_id=leaf.queue_id, one=leaf, other=target, same=False, by_name=actor_name(by)
        )
        after = {
            "target": target.pk,
            "verdicts": [apart.pk],
            "position": position,
            "value": value,
            "pattern": pattern,
        }
        record(by=by, action="cluster.split", target=leaf, after=after)
    return made


def move_parts() -> None:
    """Move the letters that were there before their rule."""
    for rule in SplitRule.objects.filter(finished_at=None).select_related("cluster").order_by("pk"):
        while _move_portion(rule):
            pass


def _move_portion(rule: SplitRule) -> bool:
    """Look at the next letters; False when none is left for now.

    Whoever captured a letter while the rule was made may not have known of it, and commit later: the letters of around
    that moment are looked at once more before the rule is done with.
    """
    judged = Rule(rule.target_id, rule.position, rule.value, rule.pattern)
    with guarded():
        letters = DeadLetter.objects.filter(cluster=rule.cluster_id)
        rows = _told(letters.filter(pk__gt=rule.moved_to).order_by("pk")[:PORTION])
        last = not rows and db_now() > rule.at + SETTLED
        if last:
            rows = _told(letters.filter(died_at__gt=rule.at - SETTLED))
        part = {pk: rule.target_id for pk, *told in rows if _is_part(judged, *told)}
        rule.moved += move_letters(rule.cluster_id, part)
        if last:
            rule.finished_at = ClockTimestamp()
        elif rows:
            rule.moved_to = rows[-1][0]
        rule.save(update_fields=["moved", "moved_to", "finished_at"])
    return bool(rows) and not last


def _told(letters: DeadLetterQuerySet) -> list[Any]:
    return list(letters.values_list("pk", "error_class", "error_text", "traceback"))


def _rule(position: int | None, value: str, pattern: str) -> Rule:
    if position is None:
        compiled(pattern)
    return Rule(0, position, value, pattern)


def _is_part(rule: Rule, error_class: str, text: str, traceback: str) -> bool:
    parameters = fingerprint(text, error_class, traceback).parameters if rule.position is not None else ()
    return holds(rule, parameters, text)
