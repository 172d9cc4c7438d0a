"""The site is built without a warning, and a browser opens every page without an error, also as narrow as a phone.

Chromium is looked for on the path. Where there is none, the pages are built and not opened, and the reason is shown.
"""

import dataclasses
import functools
import http.server
import json
import queue
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import matplotlib as mpl
import pytest
from reports import result_of

mpl.use("Agg")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)
NEEDS_BROWSER = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path: the pages are not opened")
SECONDS = 240
HARNESS = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<iframe id="frame" width="400" height="800"></iframe><script>
console.error("control");
const frame = document.getElementById("frame");
const until = async (ready) => { for (let i = 0; i < 200 && !ready(); i++) await new Promise(r => setTimeout(r, 50)); };
async function open(url) {
  await new Promise(resolve => { frame.onload = resolve; frame.src = url; });
  return frame.contentDocument;
}
async function all() {
  const found = { pages: {} };
  for (const url of PAGES) {
    const page = await open(url), html = page.documentElement;
    const images = [...page.images].filter(image => !image.complete || !image.naturalWidth).map(image => image.src);
    found.pages[url] = { title: page.title, overflow: html.scrollWidth - html.clientWidth, broken: images };
  }
  const math = await open("explanation/algorithms.html");
  await math.fonts.ready;
  const sides = [...math.querySelectorAll("mfrac")].map(f => [...f.children].map(c => c.getBoundingClientRect()));
  found.fractions = sides.map(([above, below]) => above.height > 0 && above.bottom <= below.top + 1);
  found.fonts = [...math.fonts].filter(font => font.status === "loaded").map(font => font.family);
  const search = await open("search.html?q=with_jumps");
  const links = () => [...search.querySelectorAll("#search-results li a")].map(link => link.getAttribute("href"));
  await until(() => links().length);
  found.search = links();
  const report = await open("report.html");
  const column = () => [...report.querySelector("table").tBodies[0].rows].map(row => row.cells[1].textContent);
  found.columns = [column()];
  frame.width = 1200;
  found.hidden = [...report.querySelectorAll(".scroll")].slice(0, 1).map(room => room.scrollWidth - room.clientWidth);
  for (let i = 0; i < 2; i++) { report.querySelectorAll("th")[1].click(); found.columns.push(column()); }
  return found;
}
all().catch(error => ({ error: String(error) })).then(
  found => fetch("/found", { method: "POST", body: JSON.stringify(found) }));
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder with the pages, built as ``make docs`` does."""
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    settings = ["--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *settings, str(ROOT / "docs"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def opened(site, tmp_path_factory):
    """What the browser saw, and what it wrote to its console."""
    result = result_of(num_modes=12)
    modes = dataclasses.replace(result.modes, guide_weights=result.modes.weights)
    dataclasses.replace(result, modes=modes).to_html(site / "report.html")
    pages = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    (site / "harness.html").write_text(HARNESS.replace("PAGES", json.dumps(pages)), encoding="utf-8")
    answers: queue.Queue = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_POST(self):
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log = tmp_path_factory.mktemp("browser") / "log"
    address = f"http://127.0.0.1:{server.server_port}/harness.html"
    with log.open("w") as stream:
        flags = [*FLAGS, "--remote-debugging-port=0", f"--user-data-dir={log.parent / 'user'}"]
        browser = subprocess.Popen([BROWSER, *flags, address], stderr=stream, stdout=stream)
        try:
            found = answers.get(timeout=SECONDS)
        finally:
            browser.terminate()
            browser.wait(20)
            server.shutdown()
            server.server_close()
    assert "error" not in found, found["error"]
    return found, re.findall(r".*CONSOLE.*", log.read_text(errors="replace"))


def test_site_is_built_without_a_warning_and_asks_for_nothing_from_elsewhere(site):
    pages = [page for page in site.rglob("*.html") if page.name != "report.html"]
    assert len(pages) > 30
    elsewhere = r"(?:https?:)?//"
    loaded = (
        rf'<(?:script|img|iframe)[^>]*\ssrc="{elsewhere}|<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="{elsewhere}'
    )
    for page in pages:
        assert not re.findall(loaded, page.read_text(encoding="utf-8")), f"{page} loads something from elsewhere"


@NEEDS_BROWSER
def test_every_page_opens_without_an_error_and_fits_a_phone(opened):
    found, console = opened
    control, *errors = console
    assert "control" in control, "what goes to the console is seen"
    assert not errors
    for name, page in found["pages"].items():
        assert page["title"], name
        assert not page["broken"], name
        assert page["overflow"] <= 1, f"{name} is {page['overflow']} pixels wider than a phone"


@NEEDS_BROWSER
def test_mathematics_is_drawn_in_its_font(opened):
    found, _ = opened
    assert len(found["fractions"]) > 5
    assert all(found["fractions"])
    assert any("STIX" in family for family in found["fonts"])


@NEEDS_BROWSER
def test_search_finds_a_kernel(opened):
    found, _ = opened
    assert any("with_jumps" in link for link in found["search"])


@NEEDS_BROWSER
def test_the_table_of_modes_has_room_on_a_desk(opened):
    """All of its columns show on 1,200 pixels."""
    assert opened[0]["hidden"] == [0]


@NEEDS_BROWSER
def test_tables_of_a_report_sort(opened):
    before, down, up = opened[0]["columns"]
    assert down == sorted(before, key=float, reverse=True)
    assert up == down[::-1] or up == sorted(before, key=float)
    assert before != down
