"""The clusters of error texts in memory: the fingerprint and the second pass's sure joins, without a database."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from dlqadmin.clusters.fingerprint import fingerprint
from dlqadmin.clusters.joining import Judgement, KeyKind, judge, keys_of


def group_texts(texts: Sequence[str]) -> list[str]:
    """The group of each text: the smallest fingerprint that is joined with its own. Independent of their order."""
    found = [fingerprint(text) for text in texts]
    templates = {one.digest: one.template for one in found}
    roots = roots_of(templates)
    return [roots[one.digest] for one in found]


def roots_of(templates: dict[str, str]) -> dict[str, str]:
    """fingerprint -> the smallest fingerprint of its group, for templates by fingerprint."""
    holders: dict[tuple[KeyKind, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for digest, template in templates.items():
        for key in keys_of(template):
            holders[key.kind, key.digest][key.fill].add(digest)
    parents = {digest: digest for digest in templates}
    for (kind, _), fills in holders.items():
        if judge(kind, fills) is Judgement.SURE:
            _join(parents, [digest for digests in fills.values() for digest in digests])
    return {digest: _root(parents, digest) for digest in templates}


def _join(parents: dict[str, str], digests: Iterable[str]) -> None:
    roots = {_root(parents, digest) for digest in digests}
    least = min(roots)
    for root in roots:
        parents[root] = least


def _root(parents: dict[str, str], digest: str) -> str:
    while parents[digest] != digest:
        parents[digest] = digest = parents[parents[digest]]
    return digest
