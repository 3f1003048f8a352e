"""Which line of a traceback tells the cause. Pure, linear.

1. The line of the exception, if it says what went wrong.
2. The innermost cause, when that line is a wrapper.
3. The first frame of one's own code beside it, when no line says anything.

Tracebacks of Python, Java, .NET, Node and Ruby are read.
"""

import re

from dlqadmin.clusters.vocabulary import BASE_ERRORS, WRAPPERS

_CLASS = r"(?:[A-Za-z_$][\w$]{0,120}(?:\.|::|\\|/))*[A-Z_$][\w$`]{0,120}"
# An exception's line: a class, then nothing or its message.
_RAISED = re.compile(
    r"^(?:Exception in thread \"[^\"]{0,100}\" |Uncaught |Unhandled exception\. )?"
    rf"({_CLASS}|Error)(?:$|: ?(.*)| \(.*)",
    re.DOTALL,
)
_PYTHON = "Traceback (most recent call last)"
_CAUSED = re.compile(r"^\s*(?:Caused by|\[cause\]|--->|Cause\s?\d*|Caused by error|Innermost)[:\s]\s*(.*)")
_FRAME = re.compile(r"^\s*(?:at|bei|в|à|en|位置|在|konum:) ([^\s(]+)")
_RUBY_FRAME = re.compile(r"^\s*(?:from )?([^\s:]+\.rb):\d+:in [`']([^']{0,120})'")
_PYTHON_FRAME = re.compile(r'^\s+File "([^"]{0,300})", line \d+, in (.{0,120})')
# Frames of runtimes, frameworks and drivers: they are the same for every cause.
_FOREIGN = re.compile(
    r"^(?:async )?(?:new )?(?:java|javax|jakarta|jdk|sun|com\.sun|kotlin|kotlinx|scala|akka|reactor|io\.netty"
    r"|io\.quarkus|io\.micronaut|io\.vertx|org\.springframework|org\.apache|org\.hibernate|org\.jboss|org\.eclipse|org\.postgresql"
    r"|com\.mysql|com\.rabbitmq|com\.zaxxer|com\.fasterxml|System|Microsoft|MassTransit|NServiceBus|Npgsql|RabbitMQ"
    r"|Newtonsoft|node:|process\.|Module\.|Object\.<anonymous>)[.:/$ ]?"
)
_FOREIGN_FILE = re.compile(
    r"site-packages|dist-packages|/lib/python\d|/gems/|/lib/ruby/|node_modules|node:|<frozen|/vendor/|internal/"
)
_COMPILED = re.compile(r"\$\$?\w*\d\w*|\d+$|<|>d__\d+")  # what a compiler adds to a name
_SAYS_NOTHING = re.compile(
    r"(?:|null|none|undefined|nil|error|an error occurred|unknown error|unexpected error|internal server error"
    r"|something went wrong|assertion failed|segmentation fault"
    r"|exception has been thrown by the target of an invocation"
    r"|one or more errors occurred|object reference not set to an instance of an object"
    r"|der objektverweis wurde nicht auf eine objektinstanz festgelegt"
    r"|la référence d'objet n'est pas définie à une instance d'un objet"
    r"|referencia a objeto no establecida como instancia de un objeto"
    r"|nesne başvurusu bir nesnenin örneğine ayarlanmadı|未将对象引用设置到对象的实例)[.!。 ]*",
    re.IGNORECASE,
)
_WRAPS = re.compile(
    r"\b(?:threw exception|nested exception is|handler failed|execution failed|job failed|listener"
    r"|(?:failed|unable|error|could not|cannot) (?:to )?(?:process|handl|execut|consum|deliver|invok|perform|run)"
    r"(?:e|ing|es)?)\b",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[.:\\/$]")
MOST_LINES_BEFORE = 8  # Node shows the line of code first


def telling_line(lines: list[str]) -> str | None:
    """The line that tells the cause; None if `lines` are no traceback."""
    if any(line.startswith(_PYTHON) for line in lines):
        return _of_python(lines)
    frames = [line for line in lines[1:] if _FRAME.match(line) or _RUBY_FRAME.match(line)]
    causes = [at for at, line in enumerate(lines) if at and (found := _CAUSED.match(line)) and found.group(1)]
    if not frames and not causes:
        return None
    head = _first_raised(lines)
    if causes and _is_wrapper(head):
        innermost = _CAUSED.match(lines[causes[-1]])
        return _with_frame(innermost.group(1) if innermost else head, lines[causes[-1] + 1 :])
    return _with_frame(head, frames)


def needs_trace(line: str) -> bool:
    """Whether an exception's line does not say what went wrong: it has no message, or is a generic wrapper."""
    found = _RAISED.match(line)
    return bool(found and _SAYS_NOTHING.fullmatch((found.group(2) or "").strip())) or _is_wrapper(line)


def _first_raised(lines: list[str]) -> str:
    for line in lines[:MOST_LINES_BEFORE]:
        if _RAISED.match(line) and ("Error" in line or "Exception" in line):
            return line
    return next((line for line in lines if line.strip()), "")


def _of_python(lines: list[str]) -> str:
    """The exception of the last traceback, or of the first in a chain that ends in a wrapper."""
    raised = _raised_in_python(lines)
    if not raised:
        return next((line for line in reversed(lines) if line.strip() and not line[:1].isspace()), "")
    line, frames = raised[0] if len(raised) > 1 and _is_wrapper(raised[-1][0]) else raised[-1]
    return _with_frame(line, frames[::-1])


def _raised_in_python(lines: list[str]) -> list[tuple[str, list[str]]]:
    """The exceptions of a chain, each with its frames, outermost first."""
    raised: list[tuple[str, list[str]]] = []
    frames: list[str] = []
    inside = False
    for at, line in enumerate(lines):
        if line.startswith(_PYTHON):
            inside, frames = True, []
        elif inside and line[:1].isspace():
            frames.append(line)
        elif inside and line.strip():
            behind = lines[at + 1].strip() if line.rstrip().endswith(":") and at + 1 < len(lines) else ""
            raised.append((f"{line.rstrip()} {behind}".rstrip(), frames))
            inside = False
    return raised


def _is_wrapper(line: str) -> bool:
    found = _RAISED.match(line)
    if not found:
        return bool(_WRAPS.search(line))
    simple, message = _SEPARATORS.split(found.group(1))[-1], (found.group(2) or "").strip()
    if simple in WRAPPERS or _SAYS_NOTHING.fullmatch(message) or _WRAPS.search(message):
        return True
    return simple in BASE_ERRORS and bool(_RAISED.match(message))


def _with_frame(line: str, frames: list[str]) -> str:
    """The line, and the first own frame if the line does not say what went wrong."""
    found = _RAISED.match(line)
    if not found or not _SAYS_NOTHING.fullmatch((found.group(2) or "").strip()):
        return line
    frame = next((name for one in frames if (name := _own(one))), "")
    return f"{line.strip().rstrip(':')} in {frame}" if frame else line


def _own(line: str) -> str:
    """The name of a frame's function if it is code of one's own, without line numbers; else ""."""
    for pattern in (_PYTHON_FRAME, _RUBY_FRAME):
        if found := pattern.match(line):
            file, function = found.groups()
            return "" if _FOREIGN_FILE.search(file) else f"{_stem(file)}.{function}"
    frame = _FRAME.match(line)
    if not frame or _FOREIGN.match(frame.group(1)) or _FOREIGN_FILE.search(line):
        return ""
    return _COMPILED.sub("", frame.group(1))


def _stem(path: str) -> str:
    return re.split(r"[\\/]", path)[-1].rpartition(".")[0]
