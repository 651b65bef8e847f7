"""What is vendored is exactly what the `VENDOR.md` beside it says, and the templates use nothing that the CSP would refuse."""

import gzip
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "static"
VENDOR = STATIC / "vendor"  # what pages load
FOLDERS = (VENDOR, ROOT / "tests" / "browser")  # and what only tests do


@dataclass(frozen=True)
class Row:
    """One line of a `VENDOR.md`."""

    folder: Path
    name: str
    version: str
    file: str
    sha256: str
    licence: str

    @property
    def path(self) -> Path:
        name = re.search(r"`([^`]+)`", self.file)
        assert name, self.file
        return (self.folder / name[1]).resolve()


ROWS = [
    Row(folder, *(cell.strip() for cell in line.strip("|").split("|")))
    for folder in FOLDERS
    for line in (folder / "VENDOR.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| name", "| ---"))
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_the_hash_is_the_recorded_one(row):
    digest = hashlib.sha256(row.path.read_bytes()).hexdigest()
    assert digest == row.sha256.strip("`"), f"{row.name} {row.version} is not the file that was vendored"
    assert row.licence


def test_nothing_is_vendored_that_is_not_recorded():
    recorded = {row.path for row in ROWS}
    scripts = {path for folder in FOLDERS for path in folder.rglob("*") if path.suffix in (".js", ".css", ".svg", ".woff2")}
    assert scripts <= recorded


def test_every_vendored_package_brings_its_licence():
    for row in ROWS:
        assert (row.folder / f"{row.name}-{row.version}" / "LICENSE").is_file()


def test_nothing_is_loaded_from_elsewhere():
    for path in [*STATIC.glob("*.css"), *STATIC.glob("*.js"), *(ROOT / "templates").rglob("*.html")]:
        addresses = set(re.findall(r"https?://[^\s\"'<>)]+", path.read_text())) - {"http://www.w3.org/2000/svg"}
        assert not addresses, f"{path.relative_to(ROOT)} names {addresses}"


def test_what_a_page_loads_stays_small():
    files = [row.path for row in ROWS if row.folder == VENDOR and row.path.suffix == ".js"]
    files += [STATIC / "app.js", STATIC / "app.css"]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= 35 * 1024


def test_a_page_asks_for_few_files():
    files = re.findall(r"{% static '([^']+)' %}", (ROOT / "templates" / "base.html").read_text())
    assert len({*files, "icons.svg"}) + 1 <= 6, "with the page itself"
