#!/usr/bin/env bash
# What `#[derive(Model)]` adds to `cargo check`: for one model of 60 fields, and for 50 models of
# 10 fields. Each is checked with the derive and as plain structs, from scratch and without
# incremental compilation; the difference is what the derive costs.
#
#     benches/derive-cost/run.sh [repetitions]
set -euo pipefail
cd "$(dirname "$0")/../.."
repetitions=${1:-3}
work=target/derive-cost
mkdir -p "$work/src"

cat > "$work/Cargo.toml" <<TOML
[package]
name = "derive-cost"
version = "0.0.0"
edition = "2024"
publish = false
[dependencies]
meganeura = { path = "../../meganeura", default-features = false }
[workspace]
TOML
cp Cargo.lock "$work/Cargo.lock"

# model NAME FIELDS DERIVED
model() {
    if [ "$3" = derived ]; then
        echo "#[derive(Model)]"
        echo "#[model(config(width: usize = 64), input(x: [batch, width]), output = [batch, 8])]"
    fi
    echo "pub struct $1 {"
    for ((i = 1; i < $2; i++)); do
        case "$3-$((i % 3))" in
            derived-0) echo "    #[layer(residual)]" ;;
            derived-*) echo "    #[layer(out = width)]" ;;
        esac
        case $((i % 3)) in
            0) echo "    pub f$i: PreNorm<Gelu>," ;;
            1) echo "    pub f$i: Linear," ;;
            2) echo "    pub f$i: (Linear, Relu)," ;;
        esac
    done
    [ "$3" = derived ] && echo "    #[layer(out = 8)]"
    echo "    pub last: Linear,"
    echo "}"
}

# measure, with the source on standard input: the fastest of all repetitions, in milliseconds
measure() {
    { echo "use meganeura::prelude::*;"; cat; } > "$work/src/lib.rs"
    local best=999999999
    CARGO_INCREMENTAL=0 cargo check --quiet --offline --manifest-path "$work/Cargo.toml" --target-dir "$work/target"
    for ((r = 0; r < repetitions; r++)); do
        touch "$work/src/lib.rs"
        local start end
        start=$(date +%s%N)
        CARGO_INCREMENTAL=0 cargo check --quiet --offline --manifest-path "$work/Cargo.toml" --target-dir "$work/target"
        end=$(date +%s%N)
        local taken=$(((end - start) / 1000000))
        [ "$taken" -lt "$best" ] && best=$taken
    done
    echo "$best"
}

fifty() { for ((m = 0; m < 50; m++)); do model "M$m" 10 "$1"; done; }

for case in one fifty; do
    for kind in plain derived; do
        case $case in
            one) taken=$(model Wide 60 "$kind" | measure) ;;
            fifty) taken=$(fifty "$kind" | measure) ;;
        esac
        printf '%-6s %-8s %6d ms\n' "$case" "$kind" "$taken"
        [ "$kind" = plain ] && plain=$taken
    done
    printf '%-6s %-8s %6d ms\n' "$case" added $((taken - plain))
done
