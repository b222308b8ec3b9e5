"""Survey checks of AWX 24.6.1: the specification when it is stored, the answers when a job is launched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "textarea": str,
    "password": str,
    "multiplechoice": str,
    "multiselect": str,
    "integer": int,
    "float": (float, int),
}


def problems(spec: Any) -> Iterator[str]:
    """Yield AWX's errors about a survey."""
    for name, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(spec, dict) or not isinstance(spec.get(name), kind):
            yield f"Field '{name}' is missing from survey spec, or is no {kind.__name__}."
            return
    if not spec["spec"]:
        yield "'spec' doesn't contain any items."
    names = [question.get("variable") for question in spec["spec"]]
    yield from (f"'variable' '{name}' duplicated in survey." for name in {n for n in names if names.count(n) > 1})
    for number, question in enumerate(spec["spec"]):
        yield from (f"survey question {number}: {problem}" for problem in _question_problems(question))


def _question_problems(question: Mapping[str, Any]) -> Iterator[str]:
    for name, kind in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
        if not isinstance(question.get(name), kind):
            yield f"'{name}' is missing or no {kind.__name__}"
            return
    kind = question["type"]
    if kind not in _TYPES:
        yield f"{kind} is not one of {', '.join(_TYPES)}"
        return
    default = question.get("default", "")
    if default != "" and (not isinstance(default, _TYPES[kind]) or isinstance(default, bool)):
        yield f"default {default!r} does not fit the type {kind}"
    for limit in ("min", "max"):
        if not isinstance(question.get(limit, 0), int):
            yield f"the {limit} limit is expected to be an integer"
    if kind.startswith("multi"):
        choices = question.get("choices")
        if not choices:
            yield "must specify choices"
        elif any(item not in choices for item in str(default).splitlines()):
            yield f"default {default!r} must be one of the choices"


def refusals(spec: Sequence[Mapping[str, Any]], answers: Mapping[str, Any]) -> list[str]:
    """Return why AWX refuses these answers of a schedule or a launch. Defaults are not considered.

    A schedule refuses a variable without a question; a launch ignores it.
    """
    errors = []
    for question in spec:
        name = question["variable"]
        if name in answers:
            errors += [f"'{name}' value {answers[name]!r} {why}" for why in _wrong(question, answers[name])]
        elif question["required"]:
            errors.append(f"'{name}' value missing")
    return errors


def unasked(spec: Sequence[Mapping[str, Any]], answers: Mapping[str, Any]) -> list[str]:
    """Return the variables without a question."""
    known = {question["variable"] for question in spec}
    return [name for name in answers if name not in known]


def job_variables(spec: Sequence[Mapping[str, Any]], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra variables of a job: the answers, and the defaults that are valid for their questions.

    An empty text is valid, an empty choice or number is not.
    """
    proposed = {q["variable"]: q["default"] for q in spec if q.get("default") is not None}
    fitting = {q["variable"] for q in spec if q["variable"] in proposed and not [*_wrong(q, proposed[q["variable"]])]}
    return {name: value for name, value in proposed.items() if name in fitting} | dict(answers)


def launch_variables(spec: Sequence[Mapping[str, Any]], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra variables of a job. Raises ValueError for answers that AWX would refuse or ignore."""
    errors = [f"Variables {name} are not allowed on launch" for name in unasked(spec, answers)]
    if errors := errors + refusals(spec, answers):
        raise ValueError("; ".join(errors))
    return job_variables(spec, answers)


def _wrong(question: Mapping[str, Any], value: Any) -> Iterator[str]:
    kind = question["type"]
    if kind == "multiplechoice":
        if value not in question["choices"]:
            yield f"expected to be one of {question['choices']}"
    elif not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        yield f"expected to be of type {kind}"
    else:
        size = len(value) if isinstance(value, str) else value
        if size < question.get("min", size):
            yield f"is too small (must be at least {question['min']})"
        if size > question.get("max", size):
            yield f"is too large (must be no more than {question['max']})"
