"""A line -> its template: values become `<kind>`, names and codes stay. Pure, linear, deterministic.

1. What has blanks or brackets in it is taken first: payloads, quoted values, addresses of the web, long dates, people.
2. Each atom of the rest is judged by itself (`atoms.kind_of`), and then by its neighbours: the number behind `HTTP` is
   a code and stays, the one behind `after` is a value.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from dlqadmin.clusters import atoms
from dlqadmin.clusters.atoms import ENDS, INT, LONG_NUMBER, Kind, kind_of
from dlqadmin.clusters.vocabulary import CODE_WORDS, HTTP_PHRASES, NAME_WORDS, VALUE_KEYS, VALUE_NOUNS


class Parameter(NamedTuple):
    """A value that was masked. `kind`: int, uuid, hex, time, ip, host, url, path, email, str, …"""

    kind: str
    value: str


def mask(line: str) -> tuple[str, list[Parameter]]:
    """The template of one line, and the values that were masked."""
    parameters: list[Parameter] = []
    return _mask_atoms(_mask_phrases(line, parameters), parameters), parameters


# --- Phrases: what is longer than an atom -----------------------------------------------------------------------------

_PAYLOAD = re.compile(
    r"\b(?:kwargs|args|arguments|parameters|params|payload|body|record|row|UserInfo|userInfo|context|headers|extra"
    r"|request|response|details|event|dup key)(?:\s?[:=]\s?|\s)(?=[\[{(])"
)
_BRACKET = re.compile(r"[\[\](){}]")
_QUOTED = re.compile(
    r"(?<![\w'])(['\"`])((?:(?!\1)[^\n\\]|\\.){0,300})\1(?!\w)|“([^”\n]{0,300})”|»([^«\n]{0,300})«|«([^»\n]{0,300})»"
)
# A quoted text behind one of these is what somebody sent, not what somebody named.
_VALUE_BEFORE = re.compile(
    r"(?:(?:string|literal|values?|input|entry|data|token|text|date|timestamp|number|numeric|amount|uuid|json|parse"
    r"|parsing|convert|converting|cast|decode|deserialize|got|received|found|given|wert|zeichenfolge|eingabe|valeur"
    r"|chaîne|değer|değeri|值)(?: [\w()]{1,16}){0,5}: ?\(?"
    r"|(?:string|literal|the value|values?|input|input_value|entry|data|token|got|received|parse|parsing|cast|convert"
    r"|converting|thread|user|username|account|customer|member|login|sku|product|file|filename|document|recipient|address|email"
    r"|phone|host|url|uri|path|coupon|tracking|kullanıcı|müşteri|ürün|dosya|参数值|值)(?: is| of| was)?[=:]? ?\(?)$",
    re.IGNORECASE,
)
REACH = 40  # characters before a quoted text that are asked what it is
_VALUE_BEHIND = re.compile(
    r"\)? (?:is not (?:an? )?(?:valid|numeric|number|integer|int|known|allowed|parsable|finite|supported value|uuid)"
    r"|is invalid|could not be parsed|cannot be parsed|did not match|does not match (?:format|the)"
    r"|to (?:int|float|decimal|date|number|uuid|datetime|numeric|type)\b|as (?:int|float|decimal|date|number|json)\b"
    r"|was not recognized|has wrong format|as a (?:valid )?(?:date|number|int|long|uuid)|out of range|for key\b"
    r"|geçerli|ist kein|n'est pas un)",
    re.IGNORECASE,
)
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.\-]{1,20}://[^\s\"'<>`|\\^{}]{1,1000}")
_MONTHS = re.compile("Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec")
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_LONG_DATE = re.compile(
    rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},? )?(?:{_MONTH} \d{{1,2}}|\d{{1,2}} {_MONTH})"
    r"(?:,? (?:19|20)\d\d)?(?:,? \d{1,2}:\d\d(?::\d\d)?(?:\.\d{1,9})?)?(?: (?:[A-Z]{3,4}|[+-]\d{4}))?"
    r"(?: (?:19|20)\d\d)?\b"
)
# Whoever it was: a user is a value, whatever the word.
_USER = re.compile(
    r"\b((?:for|[Ii]nvalid|[Ii]llegal|[Uu]nknown|by|of|as|the) user |password for (?!invalid|illegal|user|the))"
    r"(?!(?:is|was|has|not|name|id|agent|unknown|does|cannot|account|must|with|in|of|and|or|to|from|by|for)\b)"
    r"[^\s()\[\]{}<>\"'`=,;|]{1,100}"
    r"|\b([Uu]ser )[^\s()\[\]{}<>\"'`=,;:|]{1,100}(?= (?:is|does|has|cannot|lacks|was)\b)"
)
_PERSON = re.compile(
    r"((?:customer|name|holder|owner|author|recipient|contact|member|employee|patient|kunde|client|sahibi|müşteri|alıcı"
    r"|gönderen) ?[:=] ?)((?:[A-ZÀ-ÞİŞĞÇÖÜ][\w'’.-]{0,30} ?){2,4})(?=[,;)\]]|$)"
)
_HIDDEN = frozenset(("str", "payload", "url", "time"))
KINDS = atoms.KINDS | _HIDDEN  # of parameters


def _mask_phrases(line: str, parameters: list[Parameter]) -> str:
    def hidden(kind: str, value: str) -> str:
        parameters.append(Parameter(kind, value))
        return f"<{kind}>"

    def quoted(match: re.Match[str]) -> str:
        start, end = match.span()
        if _leads_to_value(line[max(0, start - REACH) : start]) or _VALUE_BEHIND.match(line, end):
            return hidden("str", next(part for part in match.groups()[1:] if part is not None))
        return match.group()

    if "://" in line:
        line = _URL.sub(lambda match: hidden("url", match.group()), line)
    if _MONTHS.search(line):
        line = _LONG_DATE.sub(lambda match: hidden("time", match.group()), line)
    if "user " in line or "password for " in line:
        line = _USER.sub(lambda match: _behind(match, hidden), line)
    if ": " in line or "=" in line:
        line = _PERSON.sub(lambda match: f"{match.group(1)}{hidden('str', match.group(2))}", line)
    if "[" in line or "{" in line or "(" in line:
        line = _mask_payloads(line, parameters)
    if "'" in line or '"' in line or "`" in line or not line.isascii():
        line = _QUOTED.sub(quoted, line)
    return line


@lru_cache(maxsize=4_000)
def _leads_to_value(before: str) -> bool:
    return _VALUE_BEFORE.search(before) is not None


def _behind(match: re.Match[str], hidden: Callable[[str, str], str]) -> str:
    """What announces a user, and the user hidden."""
    front = match.group(1) or match.group(2)
    return f"{front}{hidden('str', match.group()[len(front) :])}"


def _mask_payloads(line: str, parameters: list[Parameter]) -> str:
    """Arguments and records, with all that their brackets hold."""
    out, start = [], 0
    while found := _PAYLOAD.search(line, start):
        end = _closing(line, found.end())
        parameters.append(Parameter("payload", line[found.end() : end]))
        out += [line[start : found.end()], "<payload>"]
        start = end
    return "".join([*out, line[start:]])


def _closing(line: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`, or the end of a line that was cut off."""
    depth = 0
    for bracket in _BRACKET.finditer(line, start):
        depth += 1 if bracket.group() in "[{(" else -1
        if not depth:
            return bracket.end()
    return len(line)


# --- Atoms ------------------------------------------------------------------------------------------------------------

_ATOM = re.compile(r"([^\s()\[\]{}<>\"'`=,;|«»„“”‘’「」《》（）【】：，。；！？、]+)")
_VALUE = "\0"  # stands for a masked value in what is between two atoms
_CODE = re.compile(r"-?\d{1,6}|0[xX][0-9a-fA-F]{4,16}|[0-9A-Z]{5}|\d{1,3}\.\d{1,3}\.\d{1,3}")
_LEADS_TO_CODE = re.compile(r"[\s:=(\[#'\"]{0,6}")
_ANNOUNCES = (" ", "=")
_MAYBE_CODE = frozenset(("int", "hex", "version", "float", "id"))
_MAYBE_NAME = frozenset(("id", "version"))


def _mask_atoms(line: str, parameters: list[Parameter]) -> str:
    parts = _ATOM.split(line)
    word, between = "", ""  # the last word that stayed, and what stands between it and the atom
    for at in range(1, len(parts), 2):
        atom = parts[at]
        between += parts[at - 1]
        core = atom if atom.isalnum() else atom.rstrip(ENDS)
        # Numbers are not worth remembering.
        kind = INT if core.isdigit() and len(core) < LONG_NUMBER else kind_of(core)
        if kind is not None:
            if not _stays(core, kind, word, between, parts, at):
                parameters.append(Parameter(kind[0], core))
                parts[at] = kind[1] + atom[len(core) :]
            between += _VALUE
        elif between in _ANNOUNCES and _announced(word, between):
            parameters.append(Parameter("str", atom))
            parts[at] = "<str>"
            between += _VALUE
        elif between[-1:] == "<" and atom in _HIDDEN:
            between += _VALUE
        else:
            word, between = atom, ""
    return "".join(parts)


def _announced(word: str, between: str) -> bool:
    """Whether `user=` or `currency: ` stands before."""
    if between == "=":
        return word.lower() in VALUE_KEYS
    return word[-1:] == ":" and word[:-1].lower() in VALUE_NOUNS


def _stays(core: str, kind: Kind, word: str, between: str, parts: list[str], at: int) -> bool:
    """Whether what looks like a value is a code or a name."""
    name = kind[0]
    if name in _MAYBE_CODE and _is_code(core, word, between, parts, at):
        return True
    return name in _MAYBE_NAME and _is_name(core, word, between, parts, at)


@lru_cache(maxsize=10_000)
def _is_code_word(word: str) -> bool:
    return word.rstrip(":#.").lower().rpartition(".")[2] in CODE_WORDS


def _is_code(core: str, word: str, between: str, parts: list[str], at: int) -> bool:
    if (
        _VALUE not in between
        and _is_code_word(word)
        and _CODE.fullmatch(core)
        and _LEADS_TO_CODE.fullmatch(between)
    ):
        return True
    if len(core) != 3 or not core.isdigit() or not "100" <= core <= "599":
        return False
    behind = parts[at + 1]
    following = parts[at + 2].rstrip(":,.").lower() if at + 2 < len(parts) else ""
    if behind in (" ", ") ", " - ", "] ") and following in HTTP_PHRASES:
        return True
    # (452, b'4.2.2 …'): a reply, as Python shows it
    return parts[at - 1].endswith("(") and behind.startswith((", ", ") "))


def _is_name(core: str, word: str, between: str, parts: list[str], at: int) -> bool:
    """A quoted or announced name may have a digit or two in it."""
    before, behind = parts[at - 1][-1:], parts[at + 1][:1]
    quoted = before != "" and before in "'\"`" and behind == before
    announced = word.rstrip(":").lower() in NAME_WORDS and between in (" ", ' "', " '")
    if not quoted and not announced:
        return False
    return core.replace(".", "_").isidentifier() and sum(letter.isdigit() for letter in core) <= 2
