"""What MkDocs does for the site besides rendering pages: see ``hooks`` in mkdocs.yml.

- A page with ``<!-- include FILE -->`` shows a file of the repository, so that README, CONTRIBUTING and CHANGELOG are
  written once. Links in them are rewritten to the pages of the site.
- The API reference has one page for each room of the package, with all of its public modules.
- A page that would load anything from the network fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "x2localizer"
COPIED = ("LICENSE", "CITATION.cff")
"""Files of the repository that pages link to."""
PAGE_OF = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
COMPLETE = {"x2localizer.config"}
"""Modules of which members without a docstring are shown, too: every field is a setting."""
INCLUDE = re.compile(r"^<!-- include (\S+) -->$", re.MULTILINE)
TARGET = re.compile(r'(\]\(|src="|href=")([^)":#]+)')
LOADED = re.compile(r"""<(?:script|img|iframe)[^>]+src=["']?https?:|<link[^>]+stylesheet[^>]+href=["']?https?:""")


def rooms() -> dict[str, list[str]]:
    """Every room of the package, in the order of architecture.md, with the dotted names of its public modules.

    Modules outside of any room are the room ``core``.
    """
    order = re.findall(r"^  (\w+)/", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    found: dict[str, list[str]] = {room: [] for room in ["core", *order] if room == "core" or (PACKAGE / room).is_dir()}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1].startswith("_"):
            continue
        found.setdefault(parts[0] if len(parts) > 1 else "core", []).append(".".join((PACKAGE.name, *parts)))
    return {room: modules for room, modules in found.items() if modules}


def room_page(room: str, modules: list[str]) -> str:
    """The Markdown of a room's page: what the room is for, then its modules."""
    package = (
        f"::: {PACKAGE.name}.{room}\n    options: {{members: [], show_root_heading: false, show_root_toc_entry: false}}"
    )
    top = "Values, geometry, settings and errors: what every room uses." if room == "core" else package
    parts = [f"::: {m}\n    options: {{show_if_no_docstring: {str(m in COMPLETE).lower()}}}" for m in modules]
    return "\n\n".join([f"# {room}", top, *parts]) + "\n"


def on_config(config: MkDocsConfig) -> None:
    """Add the pages of the rooms to the navigation."""
    reference = next(section["API reference"] for section in config.nav or [] if "API reference" in section)
    reference.extend({room: f"reference/{room}.md"} for room in rooms())


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages of the rooms, and the files of the repository that pages link to."""
    for room, modules in rooms().items():
        files.append(File.generated(config, f"reference/{room}.md", content=room_page(room, modules)))
    for name in COPIED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put included files in their place."""
    return INCLUDE.sub(lambda match: _for_site((ROOT / match[1]).read_text(encoding="utf-8")), markdown)


def _for_site(markdown: str) -> str:
    """Text of a file at the root of the repository, with the links it needs in docs/."""
    return TARGET.sub(lambda match: match[1] + PAGE_OF.get(match[2], match[2].removeprefix("docs/")), markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:
    """Refuse a page that loads something from the network."""
    if outside := LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads from the network: {outside[0]}")
