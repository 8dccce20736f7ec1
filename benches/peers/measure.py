"""What the peers' programs share: the arguments, the way of timing, the line they print."""

import argparse
import json
import time

BLOCKS = 5

# Steps in a timed block: enough that a block takes a good part of a second.
STEPS = {"mlp": 500, "mlpbig": 60, "cnn": 40, "gpt": 8, "norms": 40}


def arguments(description, dtypes=("f32",), **flags):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("workload", choices=STEPS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="steps in each of the timed blocks")
    parser.add_argument("--dtype", choices=dtypes, default=dtypes[0], help="of products")
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    chosen = parser.parse_args()
    chosen.steps = chosen.steps or STEPS[chosen.workload]
    return chosen


def report(engine, chosen, step, value_of, parameters):
    """Times `step`, which does one training step and returns the loss from before it.

    `value_of` waits for such a loss and makes it a number; it is called once a block, so that an
    engine may work ahead within a block.
    """
    first = value_of(step())
    for _ in range(max(3, chosen.steps // 10)):
        loss = step()
    value_of(loss)
    times = []
    for _ in range(BLOCKS):
        start = time.perf_counter()
        for _ in range(chosen.steps):
            loss = step()
        last = value_of(loss)
        times.append((time.perf_counter() - start) * 1e3 / chosen.steps)
    times.sort()
    line = {
        "engine": engine,
        "workload": chosen.workload,
        "dtype": chosen.dtype,
        "ms_per_step": round(times[BLOCKS // 2], 4),
        "ms_min": round(times[0], 4),
        "loss_first": round(first, 4),
        "loss_last": round(last, 4),
        "threads": chosen.threads,
        "params": parameters,
    }
    print(json.dumps(line))
