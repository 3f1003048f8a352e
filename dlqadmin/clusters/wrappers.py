"""What a log, a retry, a worker or a representation puts around an error is taken off. Pure, linear."""

import re

MOST_LAYERS = 6

_STAMP = (
    r"\[?(?:\d{4}[-/]\d\d[-/]\d\d|\d{1,2}[./]\d{1,2}[./]\d{4}|\d\d\d\d/\d{6})[T _:]?\d{0,2}[:\d.,]{0,18}"
    r"(?:Z|[+-]\d\d:?\d\d)?"
)
_LEVEL = (
    r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRITICAL|CRIT|FATAL|SEVERE|ALERT|EMERG|PANIC"
    r"|错误|FEHLER|HATA|ERREUR|ОШИБКА)"
)
_WORK = r"(?:message|job|task|event|delivery|record|request)"
_TO_DO = r"(?:process|processing|handle|handling|consume|consuming|execute|executing|deliver)"
_FRONT = re.compile(
    rf"""^(?:
      # 2026-11-30 12:00:00,123 ERROR …, [2026-11-30T12:00:00Z: ERROR/ForkPoolWorker-4] …
      {_STAMP}(?:[:,\s]{{0,3}}{_LEVEL}\b(?:/[\w-]{{1,60}})?)?\]?[\s:|-]{{0,4}}(?=\S)
      # PROCESSING ERROR [2026-11-30 12:00] …
    | [^\s:\[(]{{1,20}}(?:\s[^\s:\[(]{{1,20}}){{0,2}}\s{_STAMP}\]\s
    | \[?{_LEVEL}\]?(?:/[\w-]{{1,60}})?\s?[:|\]-]\s{{0,3}}
      # attempt 2 of 10: …
    | (?:[Aa]ttempt|[Rr]etry|[Tt]ry|[Dd]eneme|[Vv]ersuch|[Tt]entative|重试)\s?\#?\d{{1,4}}
      (?:\s?(?:of|/|von|sur)\s?\d{{1,4}})?(?:\s(?:failed|with|after|error)){{0,3}}\s?[:,-]\s?
      # worker billing-7d18c5-e192c: …, [billing-7d18c5-e192c] …
    | \[?(?:worker|consumer|pod|node|thread|job|task|process|pid|host)[\s=\#:-]{{1,2}}
      (?=[^\s:\]]{{0,60}}\d)[^\s:\]]{{1,80}}\]?\s?:\s
    | \[(?=[^\s\]]{{0,60}}\d)[^\s\]]{{1,80}}\]\s(?=\S)
      # Task billing.notify[…] raised unexpected: …, failed to process message …: …
    | [Tt]ask\s[\w.]{{1,120}}\[[0-9a-fA-F-]{{36}}\]\s
      (?:raised\s(?:unexpected|exception)|failed|retry(?:\sin\s[\d.]+s)?)\s?:\s
    | (?:[Ff]ailed\sto|[Ee]rror\s(?:while\s)?|[Uu]nable\sto|[Cc]ould\snot)\s?{_TO_DO}\s
      (?:the\s)?{_WORK}(?:\s[^\s:]{{1,80}})?\s?:\s
    | (?:Uncaught|Unhandled)\s(?:exception|error)?\s?:?\s?(?=[A-Z])
    | (?:PHP\s)?(?:Fatal\serror|Warning|Notice|Parse\serror)\s?:\s{{1,3}}
    )""",
    re.VERBOSE,
)
# KeyError('email'), as Python represents an exception.
_REPR = re.compile(
    r"^([A-Za-z_][\w.]{0,120}(?:Error|Exception|Exit|Warning|Timeout|Failure|Refused|Closed|Interrupt|Found|Lost|Exists))"
    r"\((['\"])(.*)\2,?\)$",
    re.DOTALL,
)
# (404, "NOT_FOUND - no queue …"), as a driver represents a reply: the text says what the code says.
_REPLY = re.compile(r"^\((\d{3,5}), (['\"])(.*)\2\)$", re.DOTALL)
_IN_FILE = re.compile(r" in (?:/|[A-Z]:\\)\S{1,300}(?::\d+| on line \d+)$")
_NESTED = re.compile(r"nested exception is (?=[\w.$]{3,200}[:;]?)|(?<= )---> ")


def unwrapped(line: str) -> str:
    """The line without what stands around the error."""
    line = _innermost(line)
    for _ in range(MOST_LAYERS):
        line = line.strip()
        if found := _FRONT.match(line):
            line = line[found.end() :]
        elif line[-1:] == ")" and (found := _REPR.match(line)):
            line = f"{found.group(1)}: {found.group(3)}"
        elif line[-1:] == ")" and (found := _REPLY.match(line)):
            line = found.group(3)
        else:
            break
    return _IN_FILE.sub("", line) if " in " in line else line


def _innermost(line: str) -> str:
    """What stands behind the last "nested exception is"."""
    end = 0
    if " is " not in line and "-->" not in line:
        return line
    for found in _NESTED.finditer(line):
        end = found.end()
    return line[end:]
