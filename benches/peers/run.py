"""Compares our training steps with those of PyTorch, JAX, candle and Burn on this machine's CPU.

    pip install torch jax
    cargo build --release --example yardstick
    cargo build --release --manifest-path benches/peers/rust/Cargo.toml --all-features
    python benches/peers/run.py [WORKLOAD ...] [--rounds N] [--threads N] [--engines NAME ...]

Every round runs each engine once, in turn, so that a machine that slows down slows them all. An
engine's figure is the median over the rounds of its own median; its best block stands beside it,
for machines with other work to do. Engines that are not installed are reported and left out.

Where `rustc` is there, the time of a cache line between two threads is taken before and after every
run. Above FAR nanoseconds the cores share no cache: that makes two threads slower, ours and the
peers', and a second table has the medians of near and far runs apart.

Prints tables in markdown. With --save FILE every line that an engine printed is kept there as soon
as it is there, so that a run that was cut off can be shown, or several together:

    python benches/peers/run.py --show FILE ...
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OURS = HERE.parents[1] / "target" / "release" / "examples" / "yardstick"
WORKLOADS = ["mlp", "mlpbig", "cnn", "gpt", "norms"]

# Engines that can round the operands of products to bf16.
HALVES = ["ours", "torch", "torch-compile"]

# A round trip of a cache line that takes longer than this many nanoseconds leaves the chip.
FAR = 350

# Settings that make a BLAS take another processor's kernels would slow the peers down.
UNSET = ["OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"]


class Engine:
    def __init__(self, name, command, probe, advice):
        self.name = name
        # What to run; the workload and the number of threads follow.
        self.command = command
        # What must succeed for the engine to be there, and what to do when it does not.
        self.probe, self.advice = probe, advice

    def missing(self):
        """Why the engine cannot run, or nothing."""
        if shutil.which(self.probe[0]) is None:
            return f"{self.name} is not there: {self.advice}"
        found = subprocess.run(self.probe, env=environment(), capture_output=True)
        return None if found.returncode == 0 else f"{self.name} is not there: {self.advice}"

    def run(self, workload, threads, extra):
        """The line the engine prints, or an error in words."""
        command = [*self.command, workload, "--threads", str(threads), *extra]
        done = subprocess.run(
            command,
            env=environment(),
            cwd=HERE,
            capture_output=True,
            text=True,
            preexec_fn=lambda: keep_to_cores(threads),
        )
        try:
            line = json.loads(done.stdout.strip().splitlines()[-1])
            for key in ("ms_per_step", "ms_min", "loss_first"):
                line[key] = float(line[key])
            return line, None
        except (IndexError, KeyError, TypeError, ValueError):
            words = (done.stderr.strip() or "it printed no line of JSON").splitlines()[-1]
            return None, f"{self.name} failed on {workload} (status {done.returncode}): {words}"


def engines(ours, python):
    def peer(name, module, file, *flags):
        return Engine(
            name,
            [python, str(HERE / file), *flags],
            [python, "-c", f"import {module}"],
            f"pip install {module}",
        )

    def rust_peer(name):
        program = HERE / "rust" / "target" / "release" / f"{name}_peer"
        build = "cargo build --release --manifest-path benches/peers/rust/Cargo.toml --all-features"
        return Engine(name, [str(program)], [str(program), "--help"], build)

    build = "cargo build --release --example yardstick"
    return [
        # The file alone is the probe: `--help` starts no device.
        Engine("ours", [str(ours)], [str(ours), "--help"], build),
        peer("torch", "torch", "torch_peer.py"),
        peer("torch-compile", "torch", "torch_peer.py", "--compile"),
        peer("jax", "jax", "jax_peer.py"),
        rust_peer("candle"),
        rust_peer("burn"),
    ]


def environment():
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**kept, "JAX_PLATFORMS": "cpu"}


def keep_to_cores(threads):
    """Binds this process to as many cores as it may have threads, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:threads])


class RoundTrip:
    """The time of a cache line from one thread to another and back."""

    def __init__(self, folder):
        self.program = pathlib.Path(folder) / "round_trip"
        source = HERE / "round_trip.rs"
        compiler = shutil.which("rustc")
        command = [compiler, "-O", "--edition", "2024", "-o", str(self.program), str(source)]
        built = compiler and subprocess.run(command, capture_output=True).returncode == 0
        self.there = bool(built)

    def take(self):
        """Nanoseconds, or nothing."""
        if not self.there:
            return None
        done = subprocess.run([str(self.program)], capture_output=True, text=True)
        return float(done.stdout) if done.returncode == 0 else None


def place(before, after):
    """Where the cores lay during a run: near, far, or neither all the time."""
    if before is None or after is None:
        return None
    if max(before, after) < FAR:
        return "near"
    return "far" if min(before, after) >= FAR else "changing"


def measure(present, workloads, rounds, threads, extra, round_trip, save):
    """Every line by (workload, engine), and what went wrong. Lines are saved as they come."""
    lines, problems, failed = collections.defaultdict(list), [], set()
    for turn in range(rounds):
        for workload in workloads:
            for engine in present:
                if (workload, engine.name) in failed:
                    continue
                before = round_trip.take()
                line, problem = engine.run(workload, threads, extra)
                after = round_trip.take()
                if problem:
                    # What fails once fails every round: say so once.
                    failed.add((workload, engine.name))
                    problems.append(problem)
                    continue
                line |= {"program": engine.name, "workload": workload, "cores": place(before, after)}
                lines[workload, engine.name].append(line)
                if save:
                    with save.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                progress = f"{turn + 1}/{rounds} {workload} {engine.name}: {line['ms_per_step']} ms"
                progress += f" {line['cores'] or ''}"
                print(progress, file=sys.stderr, flush=True)
    return lines, problems


def saved(files):
    """Lines that earlier runs saved, as `measure` returns them."""
    lines = collections.defaultdict(list)
    for file in files:
        for text in file.read_text().splitlines():
            line = json.loads(text)
            lines[line["workload"], line["program"]].append(line)
    return lines


def table(lines, workloads, names):
    """Medians and best blocks in milliseconds; the ratios are ours by the best peer's."""

    def summary(workload, statistic, key):
        """That statistic of each engine that has lines for the workload."""
        own = {name: lines[workload, name] for name in names if lines.get((workload, name))}
        return {name: statistic(line[key] for line in found) for name, found in own.items()}

    def ratio(figures):
        peers = [figure for name, figure in figures.items() if name != "ours"]
        return f"{figures['ours'] / min(peers):.2f}" if "ours" in figures and peers else ""

    head = ["workload", *names, "ours / best peer", "by best blocks", "first loss"]
    rows = [head, ["---"] * len(head)]
    for workload in workloads:
        medians = summary(workload, statistics.median, "ms_per_step")
        best = summary(workload, min, "ms_min")
        losses = summary(workload, min, "loss_first").values()
        cells = [f"{medians[n]:.3g} ({best[n]:.3g})" if n in medians else "" for n in names]
        first = " ".join(f"{loss:.3f}" for loss in losses)
        rows.append([workload, *cells, ratio(medians), ratio(best), first])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def table_by_place(lines, workloads, names):
    """Medians of the runs on near and on far cores, with how many there were."""
    head = ["workload", "cores", *names, "ours / best peer"]
    rows = [head, ["---"] * len(head)]
    for workload in workloads:
        for cores in ("near", "far"):
            figures = {}
            for name in names:
                own = [line for line in lines.get((workload, name), []) if line["cores"] == cores]
                if own:
                    figures[name] = (statistics.median(x["ms_per_step"] for x in own), len(own))
            peers = [median for name, (median, _) in figures.items() if name != "ours"]
            if "ours" not in figures or not peers:
                continue
            cells = [f"{figures[n][0]:.3g} ({figures[n][1]})" if n in figures else "" for n in names]
            rows.append([workload, cores, *cells, f"{figures['ours'][0] / min(peers):.2f}"])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [engine.name for engine in engines(OURS, sys.executable)]
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="steps in a timed block, for all engines")
    parser.add_argument("--engines", nargs="+", choices=names, default=names)
    dtype = "of products; engines that have no bf16 are left out"
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help=dtype)
    parser.add_argument("--ours", type=pathlib.Path, default=OURS, help="our program")
    parser.add_argument("--python", default=sys.executable, help="the peers' interpreter")
    parser.add_argument("--save", type=pathlib.Path, help="a new file for all lines")
    parser.add_argument("--show", type=pathlib.Path, nargs="+", help="measure nothing, show these")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}: there are {', '.join(WORKLOADS)}")
    if chosen.rounds < 1 or chosen.threads < 1:
        parser.error("--rounds and --threads are 1 or more")
    chosen.workloads = chosen.workloads or WORKLOADS
    if chosen.dtype == "bf16":
        chosen.engines = [name for name in chosen.engines if name in HALVES]
    return chosen


def show(lines, workloads, threads):
    """Prints the tables of all engines that have lines."""
    names = [engine.name for engine in engines(OURS, sys.executable)]
    names = [name for name in names if any(program == name for _, program in lines)]
    workloads = [workload for workload in workloads if any(own == workload for own, _ in lines)]
    rounds = max(len(own) for own in lines.values())
    dtypes = ", ".join(sorted({line["dtype"] for own in lines.values() for line in own}))
    settings = f"median of up to {rounds} rounds (best block), threads: {threads}, {dtypes}"
    print(f"Milliseconds per step, {settings}.\n\n{table(lines, workloads, names)}")
    if any(line["cores"] for own in lines.values() for line in own):
        print("\nBy where the cores lay: medians, and how many runs.\n")
        print(table_by_place(lines, workloads, names))


def main():
    chosen = parse()
    if chosen.show:
        show(saved(chosen.show), chosen.workloads, chosen.threads)
        return
    if chosen.save and chosen.save.exists():
        sys.exit(f"{chosen.save} is there already: --save wants a new file")
    wanted = [e for e in engines(chosen.ours, chosen.python) if e.name in chosen.engines]
    reasons = {engine.name: engine.missing() for engine in wanted}
    present = [engine for engine in wanted if not reasons[engine.name]]
    notes = [reason for reason in reasons.values() if reason]
    for note in notes:
        print(note, file=sys.stderr)
    if not present:
        sys.exit("nothing to measure")
    extra = ["--steps", str(chosen.steps)] if chosen.steps else []
    extra += ["--dtype", chosen.dtype] if chosen.dtype != "f32" else []
    with tempfile.TemporaryDirectory() as folder:
        settings = (chosen.workloads, chosen.rounds, chosen.threads, extra)
        lines, problems = measure(present, *settings, RoundTrip(folder), chosen.save)
    if lines:
        show(lines, chosen.workloads, chosen.threads)
    for note in [*notes, *problems]:
        print(f"\n- {note}", end="")
    print()


if __name__ == "__main__":
    main()
