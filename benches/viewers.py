"""Model Explorer and Netron on Deuteron's files, in headless Chromium.

pip installs both into `build/viewers`, which finds PyTorch and ExecuTorch in this environment; Model Explorer takes
half a gigabyte. It shows the edge program of a build's ETRecord with a profile's `model_explorer.json`: it must know
each node, and list the times and their sum. Netron must show the operators of a converted TFLite file. Other rows say
if it shows a program: two of Deuteron's, two of ExecuTorch's.

make bench-viewers
"""

import argparse
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from harness import Results, main, progress, table
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from deuteron import api
from deuteron.builds.manifest import ETRECORD, PROGRAM

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ai-edge-model-explorer==0.1.34", "netron==9.3.3")
PATIENCE = 120
"""Seconds for a server to start, and for a page to be done."""

EXPLORE = """\
import sys
import model_explorer
from executorch.devtools import parse_etrecord
from model_explorer import server

record, times, port = sys.argv[1:]
config = model_explorer.config()
config.add_model_from_pytorch("model", exported_program=parse_etrecord(record).edge_dialect_program)
config.add_node_data_from_path(times)
print("nodes", *(node.id for node in config.graphs_list[0]["graphs"][0].nodes))
print("data", config.to_url_param_value(), flush=True)
server.start(config=config, port=int(port), no_open_in_browser=True, skip_health_check=True)
"""
NETRON = "import netron, sys; netron.start(sys.argv[1], ('localhost', int(sys.argv[2])), browse=False); netron.wait()"


def viewers() -> Path:
    """The Python of the environment that has both, made when it is not there."""
    place = ROOT / "build" / "viewers"
    python = place / "bin" / "python"
    if not (place / "made").exists():
        venv.create(place, with_pip=True)
        subprocess.run((python, "-m", "pip", "install", "-q", *PACKAGES), check=True)
        packages = next((place / "lib").glob("python*")) / "site-packages"
        (packages / "ours.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
        (place / "made").touch()
    return python


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium without a window."""
    chromium, driver = (shutil.which(program) for program in ("chromium", "chromedriver"))
    if not chromium or not driver:
        sys.exit("error: `chromium` or `chromedriver` is missing: `tools/debian-packages.sh boards` installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    # Model Explorer draws by WebGL; both would ask other computers for this and that.
    here = ("--enable-unsafe-swiftshader", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost")
    for argument in ("--headless=new", "--window-size=1400,1000", *here, *root):
        options.add_argument(argument)
    opened = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield opened
    finally:
        opened.quit()


@contextmanager
def served(python: Path, script: str, *arguments: str | Path) -> Iterator[tuple[str, str]]:
    """The address of a server, and what it has printed until it answers."""
    with closing(socket.socket()) as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen((python, "-c", script, *arguments, str(port)), stdout=said)
        try:
            await_(lambda: answers(port))
            said.seek(0)
            yield f"http://localhost:{port}/", said.read()
        finally:
            server.kill()
            server.wait()


def answers(port: int) -> bool:
    """True if a server answers there."""
    connection = http.client.HTTPConnection("localhost", port)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def await_(is_done: Callable[[], bool]) -> None:
    """Wait until something is done."""
    end = time.monotonic() + PATIENCE
    while not is_done():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing happened in {PATIENCE} seconds")
        time.sleep(0.2)


def text(chrome: webdriver.Chrome) -> str:
    """The text of a page."""
    return chrome.find_element(By.TAG_NAME, "body").text


def explored(python: Path, chrome: webdriver.Chrome, record: Path, times: Path) -> tuple[str, bool]:
    """Return Model Explorer's display, and whether it is what was written."""
    ours = json.loads(times.read_text())["graph"]
    values = [result["value"] for result in ours["results"].values()]
    with served(python, EXPLORE, record, times) as (address, said):
        data, nodes = (re.findall(f"^{name} (.*)$", said, re.MULTILINE)[0] for name in ("data", "nodes"))
        chrome.get(f"{address}?data={data}")
        await_(lambda: "Node data" in text(chrome))
        shown = text(chrome)
    (name,) = re.findall(r"^\d+ nodes$", shown, re.MULTILINE)
    (total,) = re.findall(r"^Sum ([\d.e-]+)$", shown, re.MULTILINE)
    listed = re.findall(r"^\d+ \w\S* ([\d.e-]*\d)$", shown[shown.rindex("Node data") :], re.MULTILINE)
    lacking = ours["results"].keys() - {*nodes.split()}
    is_listed = ours["name"] in shown and bool(listed) and {*map(float, listed)} <= {*values}
    is_sum = abs(float(total) - sum(values)) < 1e-6 * sum(values)
    display = f"{name}, `{ours['name']}`: {len(values) - len(lacking)} of {len(values)} of our nodes in the graph, "
    display += f"the first {len(listed)} times listed, their sum {float(total):.6g} of {sum(values):.6g}"
    return display, is_listed and is_sum and not lacking


def in_netron(python: Path, chrome: webdriver.Chrome, path: Path) -> str:
    """Return the names of nodes that Netron shows, or its message."""
    with served(python, NETRON, path) as (address, _):
        chrome.get(address)
        body = chrome.find_element(By.TAG_NAME, "body")
        states = ("default", "alert")
        await_(lambda: body.get_attribute("class") in states or "Accept" in body.text)
        if body.get_attribute("class") not in states:  # it asks once whether it may count its users
            chrome.find_element(By.ID, "message-button").click()
            await_(lambda: body.get_attribute("class") in states)
        if body.get_attribute("class") == "alert":
            return f"refused: {chrome.find_element(By.ID, 'message-text').text}"
        nodes = chrome.find_elements(By.CSS_SELECTOR, "g.node-item-type text")
        return "shown: " + ", ".join(dict.fromkeys(node.text for node in nodes))


def programs(folder: Path) -> Iterator[tuple[str, Path]]:
    """Programs of ExecuTorch's own making, with a delegate and without."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval()
    for title, partitioner in (("XNNPACK", [XnnpackPartitioner()]), ("portable", [])):
        exported = torch.export.export(module, (torch.randn(1, 8),), strict=True)
        path = folder / f"{title}.pte"
        path.write_bytes(to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().buffer)
        yield f"ExecuTorch's .pte, {title}", path


def rows(folder: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield the tool, its display, and whether that is right."""
    python = viewers()
    build = folder / "digits"
    api.build_model("digits", output=build, options=api.BuildOptions(use_profiling=True))
    api.profile(build, on="sim", output=folder / "profile")
    api.build_model("digits", target="ethos-u55-128", output=folder / "ethosu")
    converted = folder / "digits.tflite"
    api.convert_file(ROOT / "examples" / "digits.tflite", converted)
    with browser() as chrome:
        shown, is_ours = explored(python, chrome, build / ETRECORD, folder / "profile" / "model_explorer.json")
        yield "Model Explorer: ETRecord and times", shown, is_ours
        shown = in_netron(python, chrome, converted)
        yield "Netron: converted TFLite file", shown, "NeutronGraph" in shown
        ours = (("our .pte, imxrt700", build / PROGRAM), ("our .pte, ethos-u55-128", folder / "ethosu" / PROGRAM))
        for title, path in (*ours, *programs(folder)):
            yield f"Netron: {title}", in_netron(python, chrome, path), True


def results(_: argparse.Namespace) -> Results:
    """Each tool and file."""
    with tempfile.TemporaryDirectory() as folder:
        found = [progress(each) for each in rows(Path(folder))]
    shown = table(found, {"what": lambda row: row[0], "shown": lambda row: row[1]})
    problems = [f"{title}: {text}" for title, text, is_good in found if not is_good]
    return Results("counted", [{"what": title, "shown": text} for title, text, _ in found], [shown], problems)


if __name__ == "__main__":
    sys.exit(main(results))
