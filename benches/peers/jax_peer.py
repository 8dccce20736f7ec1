"""The benchmark's workloads in JAX, on the CPU; a training step is one compiled function.

    python benches/peers/jax_peer.py WORKLOAD [--threads N] [--steps N]

XLA takes as many threads as the process has cores, whatever --threads says: run.py sees to that.
"""

import functools

import jax
import jax.numpy as jnp

import measure

EPSILON = 1e-5


class Draw:
    """Random arrays, each from a key of its own."""

    def __init__(self, seed):
        self.key = jax.random.key(seed)

    def _next(self):
        self.key, key = jax.random.split(self.key)
        return key

    def normal(self, *shape, scale=1.0):
        return scale * jax.random.normal(self._next(), shape)

    def uniform(self, *shape):
        return jax.random.uniform(self._next(), shape)

    def integers(self, bound, *shape):
        return jax.random.randint(self._next(), shape, 0, bound)

    def linear(self, inputs, outputs):
        limit = inputs**-0.5
        weight = limit * (2.0 * self.uniform(inputs, outputs) - 1.0)
        return {"weight": weight, "bias": jnp.zeros(outputs)}


def linear(layer, x):
    return x @ layer["weight"] + layer["bias"]


def rms_norm(x, weight):
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + EPSILON) * weight


def cross_entropy(scores, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[..., None], axis=-1)
    return -chosen.mean()


# Each workload gives its parameters, its loss as a function of them, and its optimizer.


def dense(draw, widths, batch):
    parameters = [draw.linear(*pair) for pair in zip(widths, widths[1:])]
    inputs, labels = draw.uniform(batch, widths[0]), draw.integers(widths[-1], batch)

    def loss(parameters):
        x = inputs
        for layer in parameters[:-1]:
            x = jax.nn.relu(linear(layer, x))
        return cross_entropy(linear(parameters[-1], x), labels)

    return parameters, loss


def mlp(draw):
    return *dense(draw, [784, 128, 10], batch=64), sgd(0.01)


def mlpbig(draw):
    return *dense(draw, [784, 1024, 1024, 10], batch=256), adamw(1e-3)


def cnn(draw):
    def kernel(channels_in, channels_out, scale):
        weight = draw.normal(3, 3, channels_in, channels_out, scale=scale)
        return {"weight": weight, "bias": jnp.zeros(channels_out)}

    parameters = {
        "stages": [kernel(1, 32, 0.3), kernel(32, 64, 0.05)],
        "hidden": draw.linear(64 * 7 * 7, 128),
        "scores": draw.linear(128, 10),
    }
    images, labels = draw.uniform(64, 28, 28, 1), draw.integers(10, 64)

    def stage(x, layer):
        x = jax.lax.conv_general_dilated(
            x, layer["weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + layer["bias"])
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    def loss(parameters):
        x = functools.reduce(stage, parameters["stages"], images)
        x = jax.nn.relu(linear(parameters["hidden"], x.reshape(len(x), -1)))
        return cross_entropy(linear(parameters["scores"], x), labels)

    return parameters, loss, adamw(1e-3)


def gpt(draw, vocabulary=4096, width=288, depth=6, heads=6, hidden=768, batch=4, time=256):
    def weight(rows, columns):
        return draw.normal(rows, columns, scale=0.02)

    def block():
        square = {name: weight(width, width) for name in ("query", "key", "value", "out")}
        gated = {"gate": weight(width, hidden), "up": weight(width, hidden)}
        norm = {"attention_norm": jnp.ones(width), "mlp_norm": jnp.ones(width)}
        return {**square, **gated, "down": weight(hidden, width), **norm}

    parameters = {
        "embedding": weight(vocabulary, width),
        "blocks": [block() for _ in range(depth)],
        "norm": jnp.ones(width),
        "scores": weight(width, vocabulary),
    }
    tokens, targets = draw.integers(vocabulary, 2, batch, time)
    head = width // heads
    angle = jnp.outer(jnp.arange(time), 10_000.0 ** (-jnp.arange(0, head, 2) / head))
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    visible = jnp.tril(jnp.ones((time, time), bool))

    def rotate(x):
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = jnp.stack([even * cosine - odd * sine, odd * cosine + even * sine], axis=-1)
        return pairs.reshape(x.shape)

    def attend(layer, x):
        def split(y):
            return y.reshape(batch, time, heads, head).swapaxes(1, 2)

        query, key = rotate(split(x @ layer["query"])), rotate(split(x @ layer["key"]))
        scores = query @ key.swapaxes(-1, -2) * head**-0.5
        shares = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf))
        mixed = shares @ split(x @ layer["value"])
        return mixed.swapaxes(1, 2).reshape(batch, time, width) @ layer["out"]

    def loss(parameters):
        x = parameters["embedding"][tokens]
        for layer in parameters["blocks"]:
            x = x + attend(layer, rms_norm(x, layer["attention_norm"]))
            y = rms_norm(x, layer["mlp_norm"])
            x = x + (jax.nn.silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]
        return cross_entropy(rms_norm(x, parameters["norm"]) @ parameters["scores"], targets)

    return parameters, loss, adamw(3e-4)


def norms(draw):
    # The inputs are a parameter: their gradient is what is asked for.
    parameters = {
        "inputs": draw.normal(4096, 768),
        "weight": jnp.ones(768),
        "bias": jnp.zeros(768),
        "scale": jnp.ones(768),
    }
    weights = draw.normal(4096, 768)

    def loss(parameters):
        x = parameters["inputs"]
        centered = x - x.mean(-1, keepdims=True)
        variance = jnp.square(centered).mean(-1, keepdims=True)
        x = centered * jax.lax.rsqrt(variance + EPSILON) * parameters["weight"]
        x = rms_norm(x + parameters["bias"], parameters["scale"])
        return (x * weights).mean()

    return parameters, loss, None


# An optimizer maps parameters, gradients, state and the step's number to new ones.


def sgd(rate):
    def update(parameters, gradients, state, _):
        return jax.tree.map(lambda p, g: p - rate * g, parameters, gradients), state

    return (lambda parameters: ()), update


def adamw(rate, decay=0.01, beta1=0.9, beta2=0.999, epsilon=1e-8):
    def start(parameters):
        return jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters)

    def update(parameters, gradients, state, number):
        mean = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state[0], gradients)
        square = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, state[1], gradients)

        def move(p, m, v):
            m, v = m / (1 - beta1**number), v / (1 - beta2**number)
            return p * (1 - rate * decay) - rate * m / (jnp.sqrt(v) + epsilon)

        return jax.tree.map(move, parameters, mean, square), (mean, square)

    return start, update


def training_step(parameters, loss, optimizer):
    """A function that does one step each time it is called and returns the loss."""
    if optimizer is None:
        gradient = jax.jit(jax.value_and_grad(loss))
        # The gradients are waited for as well: their work is what is measured.
        return lambda: gradient(parameters)
    start, update = optimizer

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def advance(parameters, state, number):
        value, gradients = jax.value_and_grad(loss)(parameters)
        return value, *update(parameters, gradients, state, number)

    current = [parameters, start(parameters), 0.0]

    def step():
        value, parameters, state = advance(current[0], current[1], current[2] + 1.0)
        current[:] = parameters, state, current[2] + 1.0
        return value, parameters

    return step


WORKLOADS = {make.__name__: make for make in (mlp, mlpbig, cnn, gpt, norms)}


def main():
    chosen = measure.arguments(__doc__)
    parameters, loss, optimizer = WORKLOADS[chosen.workload](Draw(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    if chosen.workload == "norms":
        count -= parameters["inputs"].size
    step = training_step(parameters, loss, optimizer)
    measure.report("jax", chosen, step, lambda out: jax.block_until_ready(out)[0].item(), count)


if __name__ == "__main__":
    main()
