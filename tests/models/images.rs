//! Models of images.

use meganeura::prelude::*;

/// LeCun et al., 1998, with rectifiers and max pools.
#[derive(Model, Clone, Debug, PartialEq)]
#[model(input(image: [batch, 1, 28, 28]), output = [batch, 10])]
pub struct LeNet {
    #[layer(out = 6, kernel = 5, padding = 2)]
    conv1: (Conv2d, Relu, MaxPool2d),
    #[layer(out = 16, kernel = 5)]
    conv2: (Conv2d, Relu, MaxPool2d),
    flat: Flatten,
    #[layer(out = 120)]
    fc1: (Linear, Relu),
    #[layer(out = 84)]
    fc2: (Linear, Relu),
    #[layer(out = 10)]
    scores: Linear,
}

#[derive(Model, Clone, Debug, PartialEq)]
#[model(config(out: usize, stride: usize = 1), input(x))]
pub struct BasicBlock {
    #[layer(out = out, kernel = 3, stride = stride, padding = 1, bias = false)]
    conv1: (Conv2d, BatchNorm, Relu),
    #[layer(out = out, kernel = 3, padding = 1, bias = false)]
    conv2: (Conv2d, BatchNorm),
    #[layer(from(x), when(stride > 1), out = out, kernel = 1, stride = stride, bias = false)]
    shortcut: Option<(Conv2d, BatchNorm)>,
    #[layer(from(conv2, shortcut))]
    sum: (Add, Relu),
}

/// He et al., 2016.
#[derive(Model, Clone, Debug, PartialEq)]
#[model(
    config(width: usize = 64, classes: usize = 1000),
    input(image: [batch, 3, height, across]),
    output = [batch, classes],
)]
pub struct ResNet18 {
    #[layer(out = width, kernel = 7, stride = 2, padding = 3, bias = false)]
    stem: (Conv2d, BatchNorm, Relu),
    #[layer(size = 3, stride = 2, padding = 1)]
    pool: MaxPool2d,
    #[layer(repeat(2), out = width)]
    stage1: Vec<BasicBlock>,
    #[layer(out = 2 * width, stride = 2)]
    down2: BasicBlock,
    #[layer(out = 2 * width)]
    stage2: BasicBlock,
    #[layer(out = 4 * width, stride = 2)]
    down3: BasicBlock,
    #[layer(out = 4 * width)]
    stage3: BasicBlock,
    #[layer(out = 8 * width, stride = 2)]
    down4: BasicBlock,
    #[layer(out = 8 * width)]
    stage4: BasicBlock,
    average: GlobalAveragePool,
    #[layer(out = classes)]
    scores: Linear,
}

#[derive(Model, Clone, Debug, PartialEq)]
#[model(config(out: usize, between: usize), input(x))]
pub struct DoubleConv {
    #[layer(out = between, kernel = 3, padding = 1, bias = false)]
    first: (Conv2d, BatchNorm, Relu),
    #[layer(out = out, kernel = 3, padding = 1, bias = false)]
    second: (Conv2d, BatchNorm, Relu),
}

#[derive(Model, Clone, Debug, PartialEq)]
#[model(config(out: usize), input(x))]
pub struct Down {
    pool: MaxPool2d,
    #[layer(out = out, between = out)]
    conv: DoubleConv,
}

#[derive(Model, Clone, Debug, PartialEq)]
#[model(config(out: usize, between: usize), input(x, skip))]
pub struct Up {
    #[layer(from(x))]
    up: Upsample,
    #[layer(from(skip, up))]
    joined: Concat,
    #[layer(out = out, between = between)]
    conv: DoubleConv,
}

/// Ronneberger et al., 2015, padded, with batch norms and upsampling by repetition.
#[derive(Model, Clone, Debug, PartialEq)]
#[model(
    config(width: usize = 64, classes: usize = 2),
    input(image: [batch, 3, 16 * h, 16 * w]),
    output = [batch, classes, 16 * h, 16 * w],
)]
pub struct UNet {
    #[layer(out = width, between = width)]
    start: DoubleConv,
    #[layer(out = 2 * width)]
    down1: Down,
    #[layer(out = 4 * width)]
    down2: Down,
    #[layer(out = 8 * width)]
    down3: Down,
    #[layer(out = 8 * width)]
    down4: Down,
    #[layer(from(down4, down3), out = 4 * width, between = 8 * width)]
    up1: Up,
    #[layer(from(up1, down2), out = 2 * width, between = 4 * width)]
    up2: Up,
    #[layer(from(up2, down1), out = width, between = 2 * width)]
    up3: Up,
    #[layer(from(up3, start), out = width, between = width)]
    up4: Up,
    #[layer(out = classes, kernel = 1)]
    classes: Conv2d,
}
