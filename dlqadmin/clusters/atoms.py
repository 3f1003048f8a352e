"""What a word of an error text is by itself: a name, or a value of some kind. Pure, linear.

An atom is what stands between blanks, brackets, quotes, `=`, `,`, `;` and `|`.
"""

import re
from functools import lru_cache
from itertools import pairwise

from dlqadmin.clusters.vocabulary import (
    COUNTRIES,
    FILE_ENDINGS,
    KNOWN_NAMES,
    PACKAGE_ROOTS,
    SECOND_LEVEL,
    TOP_LEVEL,
)

LONGEST_NAME = 8  # letters and digits; longer ones that hold several numbers are ids
LONG_NUMBER = 14  # digits: a moment may be written so
ENDS = ".:!?…*"  # what ends a sentence is not part of the atom

KINDS = frozenset(
    (
        "uuid",
        "time",
        "ip",
        "mac",
        "int",
        "float",
        "amount",
        "ratio",
        "hex",
        "version",
        "url",
        "arn",
        "email",
        "path",
        "host",
        "id",
    )
)

Kind = tuple[str, str]  # the kind, and what stands for the atom: `<kind>`, with what of it is a name
INT: Kind = ("int", "<int>")

_CLOCK = r"\d{1,2}:\d\d(?::\d\d)?(?:[.,:]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)\d\d"
    rf"|\d{{1,2}}[-/](?:{_MONTH})[-/]\d{{2,4}}"
)
_STAMP = r"\d{8}T\d{6}Z?|(?:19|20)\d\d(?:0[1-9]|1[0-2])[0-3]\d[0-2]\d[0-5]\d[0-5]\d"
_NUMBER = r"[-+~±]?[$€£¥₺#]?\d+(?:[._’]\d+)*(?:[eE][-+]?\d{1,4})?"
_UNIT = (
    r"(?:ns|us|µs|μs|ms|msecs?|s|secs?|seconds?|sn|dk|m|mins?|minutes|h|hrs?|hours|d|days|w|[kKMGTP]?i?[bB]|[kKMGTP]i?"
    r"|bytes?|bps|[kKMG]?[Hh]z|px|%|x|th|st|nd|rd|€|\$|TL|USD|EUR|°C?|L)(?:/s|/sec|ec)?"
)
_SPAN = r"\d{1,4}[dhms](?:\d{1,2}[hms](?:\d{1,2}(?:\.\d+)?s)?|\d{1,2}m\d{1,2}(?:\.\d+)?s)?"
_RELEASE = r"(?:[-+_.]?(?:rc|alpha|beta|dev|final|snapshot|SNAPSHOT|RELEASE|GA|b|a)[-.]?\d*)?"

# The first that matches wins. Each takes the whole atom, and no part can match what its neighbour matches.
_WHOLE = re.compile(
    rf"""
      (?P<uuid>\{{?[0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}\}}?)
    | (?P<time>(?:{_DATE})(?:[T_:@-]?(?:{_CLOCK}|\d\d[-_]\d\d[-_]\d\d|\d{{4}}(?:\d\d)?Z?))?|{_CLOCK}|{_STAMP})
    | (?P<ip>/?(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?::\d{{1,5}}|/\d{{1,2}})?
        |/?[0-9a-fA-F]{{0,4}}(?::[0-9a-fA-F]{{0,4}}){{2,7}}(?:%\w{{1,8}})?(?:/\d{{1,3}})?)
    | (?P<mac>[0-9a-fA-F]{{2}}(?:[:-][0-9a-fA-F]{{2}}){{5,19}})
    | (?P<int>[-+~±]?[$€£¥₺#]?\d+)
    | (?P<float>{_NUMBER})
    | (?P<amount>{_NUMBER}{_UNIT}|{_SPAN})
    | (?P<ratio>\d+/\d+(?:/\d+)?)
    | (?P<hex>[@#]?0[xX][0-9a-fA-F]+|[@#]?(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{{8,512}}|[0-9a-fA-F]{{16,512}}
        |(?=[a-f]*\d[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{6,7}})
    | (?P<version>[vV]?\d+\.\d+(?:\.[0-9A-Za-z*]+)*{_RELEASE}|[vV]\d{{1,3}})
    """,
    re.VERBOSE,
)
# SKU-59480, INV2024-0031: a number that somebody gave to a thing.
_NUMBERED = re.compile(r"#?[A-Z]{1,8}[-_/#]?\d{3,}(?:[-_/]\d+)*")
# ORA-00001, E11000: a code that is written as one word.
_CODED = re.compile(
    r"(?:ORA|PLS|TNS|DPY|DPI|SQL|SQLCODE|RFC|CVE|CWE|AADSTS|MSB|NU|CS|TS|BC|E|S|P|SP2|IMP|EXP|RMAN|KUP|LRM|HTTP|JDBC|JMS"
    r"|DB2|AMQ|MQRC|CEE|IGZ|SMTP|SIG|XX|PGRST|WSAE|CORS|DBI|MONGO|EWS|JBAS|WFLY|HHH|SPR|ISPN|ARJUNA|UT|ELY|ERR|ERROR|TF"
    r"|VS|CA|SYSLIB|IDX)-?\d{2,6}"
)
_JOINTS = re.compile(r"([#:/])")
_PIECE = re.compile(r"[^-_.:/\\#@~+*!?&%$^]+")
_DIGITS = re.compile(r"\d+(?:[.,:/]\d+)*")
_FIRST_CJK = "⺀"


@lru_cache(maxsize=50_000)
def kind_of(atom: str) -> Kind | None:
    """What an atom is by itself, without the signs of ENDS: None is a word; else the kind and its form."""
    if not atom or (atom.isalpha() and atom.isascii()):
        return None
    if atom.lower() in KNOWN_NAMES:
        return None
    if whole := _WHOLE.fullmatch(atom):
        return whole.lastgroup or "", f"<{whole.lastgroup}>"
    if "://" in atom or atom.startswith(("www.", "mailto:", "urn:")):
        return "url", "<url>"
    if atom.startswith("arn:"):
        # The last part names a queue, a topic, a table.
        return "arn", f"<arn>:{atom.rpartition(':')[2]}" if atom.count(":") == 5 else "<arn>"
    if "@" in atom:
        return _with_at(atom)
    if "\\" in atom or "/" in atom:
        return _with_slash(atom)
    if not atom.isascii() and any(letter >= _FIRST_CJK for letter in atom):
        form = _DIGITS.sub("<int>", atom)
        return None if form == atom else ("int", form)
    if "." in atom and (found := _with_dots(atom)):
        return found
    return _mixed(atom)


def _with_at(atom: str) -> Kind | None:
    user, _, place = atom.rpartition("@")
    if not user or not place:
        return _mixed(atom)
    if "." in place and place.rpartition(".")[2].isalpha():
        return "email", "<email>"
    # Order@1b2c3d4e: an object, as Java writes it
    return "id", f"{user if user.isalpha() else _piecewise(user)}@{_piecewise(place)}"


def _with_slash(atom: str) -> Kind | None:
    parts = atom.replace("\\", "/").split("/")
    if atom[0] in "/\\~." or atom[1:2] == ":":
        return ("path", "<path>") if len(atom) > 1 else None
    if "." in parts[-1] and parts[-1].rpartition(".")[2].lower() in FILE_ENDINGS:
        return "path", "<path>"
    if not any(letter.isdigit() for letter in atom):
        # application/json, USD/TRY, read/write
        return None if len(parts) < 4 else ("path", "<path>")
    return ("path", "<path>") if len(parts) > 2 else _mixed(atom)


def _with_dots(atom: str) -> Kind | None:
    """A host or a file; None for a dotted name of code."""
    name, colon, port = atom.partition(":")
    labels = name.split(".")
    last = labels[-1]
    if not all(labels):
        return None
    if last.lower() in FILE_ENDINGS and (not colon or port.replace(":", "").isdigit()):
        return "path", "<path>"
    if colon and not port.isdigit():
        return None
    if labels[0].lower() in PACKAGE_ROOTS and (len(labels) > 2 and last not in TOP_LEVEL):
        return None
    return ("host", "<host>") if _is_host(name, labels, bool(colon)) else None


def _is_host(name: str, labels: list[str], with_port: bool) -> bool:
    last = labels[-1]
    lower = name.lower() == name
    numbered = any(letter.isdigit() or letter == "-" for letter in name)
    if labels[0] in ("com", "org", "io", "net"):
        return False
    if lower or numbered:
        if last in TOP_LEVEL:
            return True
        if last in COUNTRIES and (len(labels) > 2 or labels[-2] in SECOND_LEVEL or "-" in name):
            return True
    if lower and len(labels) > 3 and "-" in name and numbered and last.isalpha():
        return True
    return with_port and lower and len(labels) > 2


def _mixed(atom: str) -> Kind | None:
    """Letters and digits: an id, or a name with a number in it."""
    if not any(letter.isdigit() for letter in atom) or _CODED.fullmatch(atom):
        return None
    if _NUMBERED.fullmatch(atom):
        return "id", "<id>"
    parts = _JOINTS.split(atom)
    form = "".join(map(_part, parts)) if len(parts) > 1 else _piecewise(atom)
    return None if form == atom else ("id", form)


def _part(part: str) -> str:
    kind = kind_of(part) if part else None
    return kind[1] if kind else part


def _piecewise(atom: str) -> str:
    if any(_is_id(piece) for piece in _PIECE.findall(atom)):
        return "<id>"
    return _PIECE.sub(_masked_piece, atom)


def _is_id(piece: str) -> bool:
    """Whether a run of letters and digits names one thing of many."""
    digits = sum(letter.isdigit() for letter in piece)
    if not digits or digits == len(piece):
        return False
    changes = sum(one.isdigit() != other.isdigit() for one, other in pairwise(piece))
    if len(piece) >= LONGEST_NAME and (changes >= 3 or digits >= 5):
        # IO80211Family is a name of code
        return not (piece[0].isupper() and changes == 2 and piece[-3:].islower())
    return len(piece) >= 5 and changes >= 3


def _masked_piece(match: re.Match[str]) -> str:
    piece = match.group()
    if piece.isdigit():
        return "<int>"
    if piece.lower() in KNOWN_NAMES or not any(letter.isdigit() for letter in piece):
        return piece
    stem, rest = piece.rstrip("0123456789"), piece.lstrip("0123456789")
    if stem != piece and stem.isalpha():
        return f"{stem}<int>"
    if rest != piece and rest.isalpha() and len(rest) <= 4:
        return f"<int>{rest}"
    return piece
