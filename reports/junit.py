"""Write a comparison as JUnit XML, which CI servers show as tests."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from harness.model.comparison import Gate, Outcome, Result, Versus
from reports import compare_messages, numbers
from reports.escaping import printable_xml


def render_junit(versus: Versus, gate: Gate) -> str:
    """Return a test case for each comparison: a regression fails, an undecided one is skipped."""
    suite = ET.Element("testsuite", name="tfbench compare", timestamp=versus.runs[versus.reference].created)
    for each in versus.results:
        if each.ratio is not None:
            _add_result(suite, versus, gate, each)
    for run, key in gate.missing:
        _add(suite, "failure", versus.runs[run].label, " ".join(key), "measured in the baseline only")
    for run in gate.copied:
        _add(suite, "failure", versus.runs[run].label, "recording", "the same recording as the baseline")
    if gate.is_empty:
        _add(suite, "error", "all runs", "comparisons", "nothing could be compared")
    for name, tag in (
        ("tests", "testcase"),
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ):
        suite.set(name, str(len(list(suite.iter(tag)))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_result(suite: ET.Element, versus: Versus, gate: Gate, each: Result) -> None:
    assert each.ratio is not None
    limit, label = numbers.percent(versus.limit), versus.runs[each.run].label
    text = f"{numbers.ratio_estimate(each.ratio)} of {compare_messages.reference_name(versus)}: {each.outcome.value}"
    tag = ""
    if each in gate.failed:
        tag, text = "failure", f"{text} by {limit} or more"
    elif each.outcome is Outcome.UNKNOWN:
        tag, text = "skipped", f"{text}, which cannot show a difference"
    elif each in gate.open or each.outcome is Outcome.UNDECIDED:
        tag, text = "skipped", f"{text}; a difference of {limit} is neither shown nor excluded"
    _add(suite, tag, label, compare_messages.subject(versus, each), text)


def _add(suite: ET.Element, tag: str, label: str, name: str, text: str) -> None:
    """Add a test case; without a `tag` it passes and the text is its output."""
    case = ET.SubElement(
        suite, "testcase", classname=printable_xml(label), name=printable_xml(name), time="0"
    )
    if tag:
        ET.SubElement(case, tag, message=printable_xml(text))
    else:
        ET.SubElement(case, "system-out").text = printable_xml(text)
