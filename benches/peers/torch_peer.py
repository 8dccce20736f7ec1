"""The benchmark's workloads in PyTorch, on the CPU, eagerly or with --compile.

    python benches/peers/torch_peer.py WORKLOAD [--compile] [--dtype bf16] [--threads N] [--steps N]
"""

import torch
import torch.nn.functional as F
from torch import nn

import measure

EPSILON = 1e-5


def mlp():
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return classifier(model, torch.rand(64, 784)), torch.optim.SGD(model.parameters(), lr=0.01)


def mlpbig():
    model = nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    return classifier(model, torch.rand(256, 784)), adamw(model, 1e-3)


def cnn():
    def stage(channels_in, channels_out):
        convolution = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)
        return convolution, nn.ReLU(), nn.MaxPool2d(2)

    head = nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10)
    model = nn.Sequential(*stage(1, 32), *stage(32, 64), *head)
    return classifier(model, torch.rand(64, 1, 28, 28)), adamw(model, 1e-3)


def gpt():
    model = Gpt(vocabulary=4096, width=288, depth=6, heads=6, hidden=768, time=256)
    tokens, targets = torch.randint(0, 4096, (2, 4, 256))
    return Task(model, tokens, lambda y: F.cross_entropy(y.flatten(0, 1), targets.flatten())), (
        adamw(model, 3e-4)
    )


def norms():
    model = nn.Sequential(nn.LayerNorm(768), nn.RMSNorm(768, eps=EPSILON))
    inputs, weights = torch.randn(2, 4096, 768)
    # The gradient is taken of the inputs as well as of the norms' weights.
    inputs = inputs.clone().requires_grad_()
    return Task(model, inputs, lambda y: (y * weights).mean()), None


class Task:
    """A model, the batch it is trained on, and the loss of what comes out."""

    def __init__(self, model, inputs, loss):
        self.model, self.inputs, self.loss = model, inputs, loss


def classifier(model, inputs):
    labels = torch.randint(0, 10, (len(inputs),))
    return Task(model, inputs, lambda scores: F.cross_entropy(scores, labels))


def adamw(model, rate):
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)


class Gpt(nn.Module):
    """Decoder blocks with RMS norms, rotary positions and gated MLPs; the output is not tied."""

    def __init__(self, vocabulary, width, depth, heads, hidden, time):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(depth))
        self.norm = nn.RMSNorm(width, eps=EPSILON)
        self.scores = nn.Linear(width, vocabulary, bias=False)
        head = width // heads
        frequency = 10_000.0 ** (-torch.arange(0, head, 2) / head)
        angle = torch.outer(torch.arange(time), frequency)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return self.scores(self.norm(x))


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width, eps=EPSILON)
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.mlp_norm = nn.RMSNorm(width, eps=EPSILON)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosine, sine):
        x = x + self.attend(self.attention_norm(x), cosine, sine)
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def attend(self, x, cosine, sine):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        query = rotate(split(self.query(x)), cosine, sine)
        key = rotate(split(self.key(x)), cosine, sine)
        mixed = F.scaled_dot_product_attention(query, key, split(self.value(x)), is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(-2))


def rotate(x, cosine, sine):
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cosine - odd * sine, odd * cosine + even * sine), -1).flatten(-2)


WORKLOADS = {make.__name__: make for make in (mlp, mlpbig, cnn, gpt, norms)}


def main():
    chosen = measure.arguments(
        __doc__, dtypes=("f32", "bf16"), compile="compile the model with torch.compile"
    )
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    task, optimizer = WORKLOADS[chosen.workload]()
    leaves = [*task.model.parameters(), task.inputs]
    forward = torch.compile(task.model) if chosen.compile else task.model

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=chosen.dtype == "bf16"):
            loss = task.loss(forward(task.inputs))
        for leaf in leaves:
            leaf.grad = None
        loss.backward()
        if optimizer:
            optimizer.step()
        return loss

    engine = "torch-compile" if chosen.compile else "torch"
    parameters = sum(parameter.numel() for parameter in task.model.parameters())
    measure.report(engine, chosen, step, lambda loss: loss.item(), parameters)


if __name__ == "__main__":
    main()
