"""A table of jobs that end badly: runs them in one folder, prints each, counts those that end otherwise."""
import concurrent.futures
import os

import job


class Table:
    """Runs cases in one folder, prints each, and counts those that end in another way than expected."""

    def __init__(self, folder):
        self.folder, self.failures, self.n = folder, 0, 0
        self.pool, self.pending = concurrent.futures.ThreadPoolExecutor(4), []

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, name, ended, code, expected, faults=(), n_messages=1):
        faults = list(faults)
        said = ended.messages()
        if ended.code != code and code is not None:
            faults.append(f"exit code {ended.code}, expected {code}")
        if code is None and ended.code in (0, None):
            faults.append(f"exit code {ended.code}, expected a failure")
        for text in expected:
            if text not in ended.err + ended.out:
                faults.append(f"no message holds: {text}")
        if code not in (0, 75, None) and len(said) != n_messages:
            faults.append(f"{len(said)} messages, expected {n_messages}")
        self.failures += bool(faults)
        text = "; ".join(said)[:230]
        print(f"{'FAIL' if faults else 'ok  '} {name:44} {ended.code!s:>4} {ended.seconds:5.1f} s  {text}", *faults,
              sep="\n     ", flush=True)
        if faults:
            print(ended.out[-1500:], ended.err[-1500:], sep="\n")

    def start(self, arguments, ranks):
        """arguments[0] is the deck; every case has an output folder of its own unless the arguments name one."""
        self.n += 1
        if not any(str(a).startswith("run.output=") for a in arguments):
            arguments = [*arguments, f"run.output={self.path(f'run{self.n}')}"]

        def work():
            running = job.Job(ranks, ["train", *arguments], cwd=self.folder)
            ended = running.wait(60)
            behind = running.left_behind()
            return ended, [f"ranks left behind: {behind}"] if behind else []
        return self.pool.submit(work)

    def train(self, name, code, expected, arguments, ranks=2):
        ended, faults = self.start(arguments, ranks).result()
        self.check(name, ended, code, expected, faults)
        return ended

    def beside(self, name, code, expected, arguments, ranks=2):
        """The same beside others that do not depend on it: most of a failing job is waiting. finish() reports."""
        self.pending.append((name, code, expected, self.start(arguments, ranks)))

    def finish(self):
        for name, code, expected, future in self.pending:
            ended, faults = future.result()
            self.check(name, ended, code, expected, faults)
        self.pending = []
