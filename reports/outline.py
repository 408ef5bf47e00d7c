"""A rendered page as a tree of what it says, for typesetting it elsewhere than in a browser."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

_VOID = frozenset({"meta", "br", "hr", "img", "link", "input", "wbr"})
# What a printed page has no use for: what is clicked, what a script needs, and drawings, which come apart.
_LEFT_OUT = frozenset({"script", "style", "nav", "button", "noscript", "svg", "head"})
_LEFT_OUT_CLASSES = frozenset({"needs-script", "skip", "behind", "legend", "live", "still"})
# White space between the blocks in these is no text: it would become a paragraph of its own.
_CONTAINERS = frozenset(
    {"body", "html", "header", "main", "section", "div", "article", "details", "figure", "footer"}
    | {"dl", "ul", "ol", "table", "thead", "tbody", "tr"}
)
_BREAK = "\u200b"  # where a line may break, and nothing is seen
_SPACE = " \n\r\t\f"

Node = dict[str, Any]


class Outline(HTMLParser):
    """Reads a page of ours, which is well-formed, into nested nodes.

    A node has "tag", "class" (a list), "id", "colspan" and "children", each a node or a string; white space
    is collapsed as a browser does, but for what is preformatted.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root: Node = _node("body", {})
        self._open: list[Node] = [self.root]
        self._skipped: list[str] = []
        self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        attributes = {name: value or "" for name, value in attrs}
        if self._skipped or self._is_left_out(tag, attributes):
            if tag not in _VOID:
                self._skipped.append(tag)
            return
        if tag == "wbr":
            self._open[-1]["children"].append(_BREAK)
            return
        node = _node(tag, attributes)
        self._open[-1]["children"].append(node)
        if tag not in _VOID:
            self._open.append(node)
            self._preformatted += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        if self._skipped:
            self._skipped.pop()
        elif tag not in _VOID and len(self._open) > 1:
            self._open.pop()
            self._preformatted -= tag == "pre"

    def handle_data(self, data: str) -> None:
        """Take in text."""
        if self._skipped:
            return
        children = self._open[-1]["children"]
        if self._preformatted:
            children.append(data)
            return
        # Narrow no-break spaces, which group digits, are not white space here.
        text = " ".join(filter(None, data.replace("\n", " ").split(" ")))
        lead = " " if data[:1] in _SPACE and data[:1] else ""
        tail = " " if data[-1:] in _SPACE and data[-1:] and text else ""
        if text or lead:
            children.append(f"{lead}{text}{tail}")

    @staticmethod
    def _is_left_out(tag: str, attributes: dict[str, str]) -> bool:
        return tag in _LEFT_OUT or bool(_LEFT_OUT_CLASSES & set(attributes.get("class", "").split()))


def outline(page: str) -> Node:
    """Read a page into its tree; as on a page that a browser prints, what unfolds is left folded.

    Evidence of a verdict, which stands in its article, is kept. A paragraph that leads up to a figure or a
    table has the class "sticky".
    """
    reader = Outline()
    reader.feed(page)
    reader.close()
    return _settled(reader.root)


def _settled(node: Node) -> Node:
    children: list[Node | str] = []
    for child in node["children"]:
        if isinstance(child, dict):
            if child["tag"] == "details" and node["tag"] != "article":
                continue
            children.append(_settled(child))
        elif child.strip() or node["tag"] not in _CONTAINERS:
            children.append(child)
    elements = [child for child in children if isinstance(child, dict)]
    for one, following in pairwise(elements):
        if one["tag"] == "p" and (following["tag"] == "figure" or "scroll" in following["class"]):
            one["class"].append("sticky")
    return {**node, "children": children}


def _node(tag: str, attributes: dict[str, str]) -> Node:
    return {
        "tag": tag,
        "class": attributes.get("class", "").split(),
        "id": attributes.get("id", ""),
        "colspan": int(attributes.get("colspan") or 1),
        "children": [],
    }
