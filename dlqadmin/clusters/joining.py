"""Which templates are the same cause, told by the set of templates seen and by nothing else. Pure.

Every template has keys; templates that share a key are judged together. The outcome does not depend on who came first.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from dlqadmin.clusters.fingerprint import skeleton
from dlqadmin.clusters.vocabulary import CODE_WORDS, GENERIC_PHRASES, NAME_WORDS

SURE_FILLS = 8  # different fills of a slot that make it a slot for values; fewer than 8 mixed identities
PROPOSED_FILLS = 3  # from here a person is asked
LONGEST_RUN = 3  # free words in a slot
MOST_WORDS = 60  # of a template that slots are looked for in
LEAST_CONTEXT = 3  # words that a template must have beside a slot
LEAST_SUFFIX = 2  # words that must stand behind a wrapper
MOST_SUFFIXES = 6
LONGEST_FILL = 100  # characters
_GAP = "\0"


class KeyKind(StrEnum):
    """`slot`: the template without an inner run of free words. `suffix`: what stands behind or before a wrapper."""

    SLOT = "slot"
    SUFFIX = "suffix"


class Judgement(StrEnum):
    """What a key says of the templates that share it."""

    SURE = "sure"
    PROPOSED = "proposed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class JoinKey:
    """`digest`: 32 hex characters of what is shared. `fill`: what is not: the words in a slot; of a suffix "" when it
    is the whole template, else 32 hex characters that stand for the template."""

    kind: KeyKind
    digest: str
    fill: str


def keys_of(template: str) -> list[JoinKey]:
    """The keys under which this template may meet others."""
    return [
        *(JoinKey(KeyKind.SUFFIX, _digest(shared), fill) for shared, fill in suffixes(template)),
        *(JoinKey(KeyKind.SLOT, _digest(shared), fill) for shared, fill in slots(skeleton(template))),
    ]


def judge(kind: KeyKind, fills: Collection[str]) -> Judgement:
    """What the different fills of one key say. A suffix joins when its bare text was seen itself."""
    if kind is KeyKind.SUFFIX:
        return Judgement.SURE if "" in fills and len(fills) > 1 else Judgement.NONE
    if len(fills) >= SURE_FILLS:
        return Judgement.SURE
    return Judgement.PROPOSED if len(fills) >= PROPOSED_FILLS else Judgement.NONE


def _digest(shared: str) -> str:
    return hashlib.blake2b(shared.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# --- Wrappers ---------------------------------------------------------------------------------------------------------

# Where what stands in front may end: "ValueError: ", "[billing-7] ", "(UndefinedTable) ", "retry 3 - ", "a.b.C: ".
_BOUNDARY = re.compile(r"(?::|\]|\)|(?<=\s)[-–—|>]+|：)\s+|(?<=[a-z_\d])\.(?=[A-Z]\w+: )")
# A remark at the end that holds values or a code, no name.
_REMARK = re.compile(
    r"\s?[(（\[](?:[^()（）\[\]'\"`]*<[a-z]+>[^()（）\[\]'\"`]*|SQLSTATE [0-9A-Z]{5})[)）\]][.。]?$"
)
_WORD = re.compile(r"[^\W\d_]{2,}")


def suffixes(template: str) -> list[tuple[str, str]]:
    """(what is shared, the wrapper) of each way to take a wrapper off, the template itself (without wrapper) first."""
    whole = skeleton(template)
    found = {whole: ""}
    wrapper = _digest(whole)
    for end in _ends(template):
        core = skeleton(end)
        found.setdefault(core, wrapper)
        for boundary in islice(_BOUNDARY.finditer(core), MOST_SUFFIXES):
            rest = core[boundary.end() :]
            for behind in (rest, rest.lstrip("([{* ")):
                if _says_enough(behind):
                    found.setdefault(behind, wrapper)
    return list(found.items())


def _ends(template: str) -> list[str]:
    remark = _REMARK.search(template)
    return [template, template[: remark.start()]] if remark else [template]


def _says_enough(rest: str) -> bool:
    if rest.lower() in GENERIC_PHRASES:
        return False
    words = _WORD.findall(rest)
    return len(words) >= LEAST_SUFFIX or any(len(word) >= 6 and not word.isascii() for word in words)


# --- Slots ------------------------------------------------------------------------------------------------------------

_FREE = re.compile(r"[^\W\d_A-Z*]*\*?[^\W\d_A-Z*]*[,.;:]?")
_SETTING = re.compile(r"([\w.-]+)=([^\s=]+?)([,;.]?)")
# What these are set to is identity.
_TELLING = NAME_WORDS | CODE_WORDS | {"reason", "state", "name", "title", "message", "exception", "cause"}


def slots(shape: str) -> list[tuple[str, str]]:
    """(the skeleton without a run of free words or what a key is set to, what stands there), for each of them."""
    words = shape.split(" ")
    if not LEAST_CONTEXT < len(words) <= MOST_WORDS:
        return []
    return [*_runs(words), *_settings(words)]


def _runs(words: list[str]) -> Iterator[tuple[str, str]]:
    free = [_is_free(words, at) for at in range(len(words))]
    for start in range(1, len(words) - 1):
        for end in range(start + 1, min(start + LONGEST_RUN, len(words) - 1) + 1):
            if not free[end - 1]:
                break
            if len(words) - (end - start) >= LEAST_CONTEXT:
                yield _without(words, start, end, _GAP), " ".join(words[start:end])[:LONGEST_FILL]


def _is_free(words: list[str], at: int) -> bool:
    return bool(_FREE.fullmatch(words[at])) and words[at - 1].lower() not in NAME_WORDS


def _settings(words: list[str]) -> Iterator[tuple[str, str]]:
    for at, word in enumerate(words):
        found = _SETTING.fullmatch(word)
        if found and found.group(1).lower() not in _TELLING:
            yield (
                _without(words, at, at + 1, f"{found.group(1)}={_GAP}{found.group(3)}"),
                found.group(2)[:LONGEST_FILL],
            )


def _without(words: list[str], start: int, end: int, gap: str) -> str:
    return " ".join([*words[:start], gap, *words[end:]])
