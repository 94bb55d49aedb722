"""tools/report.py: one page of two runs, one of them killed and started again from an earlier step; nothing is fetched."""
import glob
import html.parser
import os
import subprocess
import sys

import job
from table import Table

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "report.py")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href")]


def main():
    with job.folder() as folder:
        table = Table(folder)
        deck = job.write(table.path("small.toml"), job.SMALL)
        prometheus = table.path("trireme.prom")
        common = [deck, "checkpoint.every=10", "checkpoint.keep=0", f"log.prometheus={prometheus}", "lr.decay=100"]
        runs = [table.path("first <run>"), table.path("second")]
        for run in runs:
            table.train(f"run {os.path.basename(run)}", 0, [], [*common, "run.steps=25", f"run.output={run}"])
        with open(os.path.join(runs[0], "metrics.jsonl"), "a") as file:
            file.write('{"step":26,"los')  # what a kill leaves
        checkpoint = os.path.join(runs[0], "checkpoints", "step_00000010.h5")
        table.train("  started again from step 10", 0, [], [*common, "run.steps=30", f"run.output={runs[0]}",
                                                            f"run.resume={checkpoint}"])
        out = table.path("report.html")
        done = subprocess.run([sys.executable, TOOL, "-o", out, *runs], capture_output=True, text=True)
        with open(out) as file:
            text = file.read()
        page = Page(text)
        with open(prometheus) as file:
            numbers = dict(line.rsplit(" ", 1) for line in file if not line.startswith("#"))
        faults = [done.stderr] if done.returncode != 0 else []
        faults += [f"{page.tags.count('polyline')} curves"] if page.tags.count("polyline") < 10 else []
        faults += [f"fetches {page.links}"] if page.links or "http" in text.replace("http-equiv", "") else []
        faults += ["the start from step 10 is not marked"] if "started again from step 10" not in text else []
        faults += ["a name is not escaped"] if "first <run>" in text else []
        faults += [f"{prometheus}: {numbers}"] if float(numbers.get('trireme_step{run="run"}', "0")) != 30 else []
        events = glob.glob(os.path.join(glob.escape(runs[0]), "events.out.tfevents.*"))
        faults += [f"{len(events)} event files, expected one per start"] if len(events) != 2 else []
        absent = subprocess.run([sys.executable, TOOL, folder], capture_output=True, text=True)
        faults += [f"a folder without a run: {absent.returncode}"] if absent.returncode != 3 else []
        table.failures += bool(faults)
        print(f"{'FAIL' if faults else 'ok  '} the page", *faults, sep="\n     ")
        print(f"{table.failures} failures")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
