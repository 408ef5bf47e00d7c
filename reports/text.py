"""Text of reports: names of devices, variants and parts; escaping of untrusted text for HTML and Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from markupsafe import Markup, escape

from harness.model.analysis import Analysis
from harness.model.device import CPU, GPU, positions
from workloads.variants import Part

SHORT_PARTS = {Part.INPUT_WAIT: "input", Part.INPUT_SLOWDOWN: "input", Part.HOST: "host"}


def device_name(device: str) -> str:
    """Return a device's name: "CPU", "GPU 0", "4 GPUs"."""
    gpus = positions(device)
    if len(gpus) > 1:
        return f"{len(gpus)} GPUs"
    return f"GPU {gpus[0]}" if gpus else {CPU: "CPU", GPU: "GPU"}.get(device, device)


def device_names(devices: Iterable[str]) -> dict[str, str]:
    """Return the name of each device; a single GPU is "GPU", or "1 GPU" next to a multi-GPU device."""
    names = {device: device_name(device) for device in devices}
    single = [device for device in names if len(positions(device)) == 1]
    if len(single) == 1:
        names[single[0]] = "1 GPU" if any(len(positions(device)) > 1 for device in names) else "GPU"
    return names


def devices_of(analysis: Analysis) -> dict[str, str]:
    """Return the name of each device in an analysis."""
    groups = (analysis.run.planned, analysis.run.trials, analysis.cases, analysis.published)
    return device_names(each.device for group in groups for each in group)


def titles_of(analysis: Analysis) -> dict[str, str]:
    """Return workload name -> title, or the name itself without a declared title."""
    groups = (analysis.run.planned, analysis.run.trials, analysis.cases)
    titles = {workload.name: workload.title or workload.name for workload in analysis.run.workloads}
    return {each.workload: each.workload for group in groups for each in group} | titles


# Unicode control characters (category Cc) except line feed and tab, and bidirectional controls.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Characters with a meaning in GitHub Markdown.
_SPECIAL = re.compile(r"([\\`*_\[\]#|~])")
_AT_LINE_START = re.compile(r"^(\d*)([-+=>.)])(?=\s|$)")
_BREAKS = re.compile(r"\s*[\r\n\t\v\f\u2028\u2029]+\s*")


def harmless(text: str) -> str:
    """Replace control characters, including those that change text direction, except line feeds and tabs."""
    return _CONTROLS.sub("\ufffd", text)


def exact(text: str) -> str:
    """Return a text as JSON in ASCII, for what is saved of a page; "" if `harmless` leaves it as it is."""
    return "" if harmless(text) == text else json.dumps(text)


def printable_xml(text: str) -> str:
    """Replace the characters that XML forbids, and control characters."""
    return re.sub("[\ud800-\udfff\ufffe\uffff]", "\ufffd", harmless(text))


def escape_html(value: object) -> object:
    """Replace control characters in a template value; Jinja escapes it."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def coded(text: str) -> Markup:
    """Escape text for HTML and format text in backticks as code."""
    escaped = str(escape(harmless(text)))  # re.sub on Markup escapes once more
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", escaped))  # noqa: S704


def breakable(name: str) -> Markup:
    """Escape a name for HTML and allow line breaks after its underscores."""
    return escape(harmless(name)).replace("_", Markup("_<wbr>"))


def escape_markdown(value: object) -> str:
    """Escape a template value for Markdown; Markup, made only by our own filters, is unchanged."""
    if isinstance(value, Markup):
        return str(value)
    flat = _BREAKS.sub(" ", harmless(str(value))).replace("&", "&amp;").replace("<", "&lt;")
    escaped = _AT_LINE_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", flat))
    # A zero-width joiner keeps "@name" from mentioning a GitHub user, and addresses from becoming links.
    return escaped.replace("@", "@\u200d").replace("://", ":\u200d//").replace("www.", "www\u200d.")


def code_block(text: str, language: str = "") -> Markup:
    """Format text as a Markdown code block, fenced by more backticks than the text contains."""
    text = harmless(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text.rstrip()}\n{fence}")  # noqa: S704
