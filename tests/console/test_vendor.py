"""What is vendored is exactly what `static/vendor/VENDOR.md` says, and the templates use nothing that the CSP would refuse."""

import gzip
import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "static"
VENDOR = STATIC / "vendor"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (VENDOR / "VENDOR.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| name", "| ---"))
]


def vendored_path(cell: str) -> Path:
    name = re.search(r"`([^`]+)`", cell)
    assert name, cell
    return (VENDOR / name[1]).resolve()


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_hash_is_the_recorded_one(row):
    name, version, file, sha256, licence = row
    digest = hashlib.sha256(vendored_path(file).read_bytes()).hexdigest()
    assert digest == sha256.strip("`"), f"{name} {version} is not the file that was vendored"
    assert licence


def test_nothing_is_vendored_that_is_not_recorded():
    recorded = {vendored_path(row[2]) for row in ROWS}
    scripts = {path for path in VENDOR.rglob("*") if path.suffix in (".js", ".css", ".svg", ".woff2")}
    assert scripts <= recorded


def test_every_vendored_package_brings_its_licence():
    for row in ROWS:
        assert (VENDOR / f"{row[0]}-{row[1]}" / "LICENSE").is_file()


def test_nothing_is_loaded_from_elsewhere():
    for path in [*STATIC.glob("*.css"), *STATIC.glob("*.js"), *(ROOT / "templates").rglob("*.html")]:
        addresses = set(re.findall(r"https?://[^\s\"'<>)]+", path.read_text())) - {"http://www.w3.org/2000/svg"}
        assert not addresses, f"{path.relative_to(ROOT)} names {addresses}"


def test_what_a_page_loads_stays_small():
    files = [vendored_path(row[2]) for row in ROWS if row[2].strip("`").endswith(".js")]
    files += [STATIC / "app.js", STATIC / "app.css"]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= 35 * 1024


def test_a_page_asks_for_few_files():
    files = re.findall(r"{% static '([^']+)' %}", (ROOT / "templates" / "base.html").read_text())
    assert len({*files, "icons.svg"}) + 1 <= 6, "with the page itself"
