"""A JSON patch (RFC 6902) over the bytes of a body. Pure; the operations themselves are a library's."""

import copy
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed
from jsonpointer import JsonPointerException

from dlqadmin.deadletters.exact_json import NotExact, dumps, loads

MOST_OPERATIONS = 100
EXAMPLE = '[{"op": "add", "path": "/taxCode", "value": "A1"}]'

# What an operation needs beside its path; the library finds out only when it runs.
_NEEDS = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from"}


class BadPatch(ValueError):
    """The patch itself cannot be used; the text says why."""


class CannotPatch(ValueError):
    """The patch does not fit this body; the text says why, without anything of the body."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch that was read: its text, and its operations, each also as the library runs it."""

    text: str
    operations: list[dict[str, Any]]
    steps: list[JsonPatch]

    def apply(self, body: bytes) -> bytes:
        """The body after all operations; the same bytes if they change nothing. Raises CannotPatch."""
        try:
            text = body.decode()
            before = loads(text)
            after = copy.deepcopy(before)
            for number, step in enumerate(self.steps, 1):
                after = _run(step, number, self.operations[number - 1], after)
            return body if after == before else dumps(after, ascii_only=text.isascii()).encode()
        except UnicodeDecodeError as error:
            raise CannotPatch(_("The body is no JSON: it is not UTF-8.")) from error
        except UnicodeEncodeError as error:
            raise CannotPatch(_("A half of a surrogate pair stands alone in it.")) from error
        except (NotExact, RecursionError) as error:
            raise CannotPatch(_("The body cannot be patched: %s.") % _cause(error)) from error


def read_patch(text: str) -> Patch:
    """The patch that this JSON text holds. Raises BadPatch."""
    try:
        operations = loads(text)
    except NotExact as error:
        raise BadPatch(_("The patch cannot be read: %s.") % error) from error
    if not isinstance(operations, list) or not operations:
        raise BadPatch(_("A patch is a list of operations, such as %s.") % EXAMPLE)
    if len(operations) > MOST_OPERATIONS:
        raise BadPatch(_("A patch has at most %d operations.") % MOST_OPERATIONS)
    for number, operation in enumerate(operations, 1):
        needed = _NEEDS.get(str(operation.get("op"))) if isinstance(operation, dict) else None
        if needed and needed not in operation:
            place = {"number": number, "needed": needed}
            raise BadPatch(_("Operation %(number)d has no “%(needed)s”.") % place)
    try:
        return Patch(text, operations, [JsonPatch([operation]) for operation in operations])
    except (JsonPatchException, JsonPointerException, TypeError) as error:
        raise BadPatch(_("The patch cannot be used: %s.") % error) from error


def _run(step: JsonPatch, number: int, operation: dict[str, Any], document: Any) -> Any:
    """One operation; what the library says of a failure quotes the body, so it is said anew."""
    place = {"number": number, "path": operation.get("path")}
    try:
        return step.apply(document, in_place=True)
    except JsonPatchTestFailed as error:
        raise CannotPatch(_("Operation %(number)d: the test of %(path)s does not hold.") % place) from error
    except (JsonPatchException, JsonPointerException, TypeError, KeyError, IndexError) as error:
        raise CannotPatch(_("Operation %(number)d: %(path)s is not there.") % place) from error


def _cause(error: Exception) -> str:
    return _("it is nested too deeply") if isinstance(error, RecursionError) else str(error)
