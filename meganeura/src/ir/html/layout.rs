//! Where nodes stand: layers below each other, in each the nodes by depth.

use std::collections::BTreeSet;

use super::super::{Attributes, Graph, Lowering, Node};

/// A node's place; without width where it is not shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spot {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// The frame of a layer.
#[derive(Clone, Debug)]
pub struct Frame {
    pub title: String,
    pub depth: usize,
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Layout {
    pub boxes: Vec<Spot>,
    pub frames: Vec<Frame>,
    pub width: f64,
    pub height: f64,
}

const WIDTH: f64 = 680.0;
const MARGIN: f64 = 14.0;
const GAP: f64 = 14.0;
const ROW: f64 = 26.0;

/// Nodes of one layer.
struct Group {
    path: String,
    members: Vec<usize>,
    /// Leaves that belong to no layer: they come first.
    leaves: bool,
}

/// Lay a graph out.
pub fn place(graph: &Graph, nodes: &[Node], shown: &[bool], labels: &[String]) -> Layout {
    let mut boxes: Vec<Spot> = nodes
        .iter()
        .zip(labels)
        .map(|(node, label)| {
            let view = matches!(node.op.def.lowering, Lowering::View(_));
            let shape = node.ty.shape.to_string().chars().count();
            let letters = label.chars().count();
            let longest = if view { letters } else { letters.max(shape) };
            Spot {
                width: 7.0 * longest as f64 + 18.0,
                height: if view { 20.0 } else { 38.0 },
                ..Spot::default()
            }
        })
        .collect();
    let groups = groups(graph, nodes, shown);
    let (mut frames, mut y) = (Vec::new(), MARGIN);
    let mut outer: Option<(String, f64)> = None;
    for (place, group) in groups.iter().enumerate() {
        let stem = stem(&group.path);
        let next = groups
            .get(place + 1)
            .and_then(|next| self::stem(&next.path));
        if outer
            .as_ref()
            .is_some_and(|(open, _)| Some(open) != stem.as_ref())
        {
            close(&mut frames, &mut outer, &mut y);
        }
        if outer.is_none()
            && let Some(stem) = stem.filter(|stem| next.as_ref() == Some(stem))
        {
            outer = Some((stem, y));
            y += 26.0;
        }
        let top = y;
        let inset = if outer.is_some() {
            2.0 * MARGIN
        } else {
            MARGIN
        };
        y += 26.0;
        y = rows(group, nodes, &mut boxes, y, inset);
        let title = match (&outer, group.leaves) {
            (_, true) => "inputs",
            (Some((stem, _)), _) if group.path == *stem => "",
            (Some((stem, _)), _) => &group.path[stem.len() + 1..],
            (None, _) if group.path.is_empty() => "model",
            (None, _) => &group.path,
        };
        frames.push(Frame {
            title: title.to_owned(),
            depth: 1 + usize::from(outer.is_some()),
            x: inset - MARGIN / 2.0,
            y: top,
            width: WIDTH - 2.0 * inset + MARGIN,
            height: y - top,
        });
        y += GAP;
    }
    close(&mut frames, &mut outer, &mut y);
    frames.sort_by_key(|frame| frame.depth);
    for (spot, shown) in boxes.iter_mut().zip(shown) {
        if !shown {
            *spot = Spot::default();
        }
    }
    Layout {
        boxes,
        frames,
        width: WIDTH,
        height: y + MARGIN,
    }
}

/// Draw the frame around the layers of one stem, if one is open.
fn close(frames: &mut Vec<Frame>, outer: &mut Option<(String, f64)>, y: &mut f64) {
    if let Some((title, top)) = outer.take() {
        frames.push(Frame {
            title,
            depth: 0,
            x: MARGIN / 2.0,
            y: top,
            width: WIDTH - MARGIN,
            height: *y - top,
        });
        *y += GAP;
    }
}

/// The layer that encloses a layer: `blocks.3` of `blocks.3.attention.query`.
fn stem(path: &str) -> Option<String> {
    let mut parts = path.split('.');
    let first = parts.next()?;
    let second = parts.next()?;
    Some(match second.parse::<usize>() {
        Ok(_) => format!("{first}.{second}"),
        Err(_) => first.to_owned(),
    })
}

/// The layer that a leaf's name says it belongs to.
fn layer_of(name: &str, paths: &BTreeSet<String>) -> String {
    let dots = name.match_indices('.').map(|(dot, _)| &name[..dot]);
    let mut known = dots.filter(|path| paths.contains(*path));
    known.next_back().unwrap_or("").to_owned()
}

/// Nodes by layer, layers by where they stand on average.
fn groups(graph: &Graph, nodes: &[Node], shown: &[bool]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let ops = nodes.iter().filter(|node| !node.inputs.is_empty());
    let paths: BTreeSet<String> = ops.map(|node| graph.scope_path(node.scope)).collect();
    for (index, node) in nodes.iter().enumerate().filter(|(index, _)| shown[*index]) {
        let leaf = matches!(node.op.def.lowering, Lowering::Leaf);
        let path = match &node.op.attributes {
            Attributes::Named(name, ..) if leaf => layer_of(name, &paths),
            _ => graph.scope_path(node.scope),
        };
        let leaves = leaf && path.is_empty();
        let known = groups
            .iter()
            .position(|group| group.path == path && group.leaves == leaves);
        match known {
            Some(known) => groups[known].members.push(index),
            None => groups.push(Group {
                path,
                members: vec![index],
                leaves,
            }),
        }
    }
    // Forward nodes come first, backward nodes in reverse: where its first op stands is a
    // layer's place.
    let place = |group: &Group| {
        let ops = group.members.iter();
        let first = ops.copied().find(|&index| !nodes[index].inputs.is_empty());
        match group.leaves {
            true => (0, 0),
            false if group.path.is_empty() => (2, 0),
            false => (1, first.unwrap_or(usize::MAX)),
        }
    };
    groups.sort_by_key(place);
    // Layers of one stem stay together.
    let mut ordered: Vec<Group> = Vec::new();
    for group in groups {
        let same = |other: &Group| {
            stem(&other.path).is_some() && stem(&other.path) == stem(&group.path)
                || stem(&group.path).is_some_and(|stem| stem == other.path)
        };
        match ordered.iter().rposition(same) {
            Some(last) => ordered.insert(last + 1, group),
            None => ordered.push(group),
        }
    }
    ordered
}

/// Place the nodes of a layer in rows by depth; the end of the last row.
fn rows(group: &Group, nodes: &[Node], boxes: &mut [Spot], mut y: f64, inset: f64) -> f64 {
    let mut depths: Vec<usize> = vec![0; nodes.len()];
    let mut inside = vec![false; nodes.len()];
    let mut ranks: Vec<Vec<usize>> = Vec::new();
    for &index in &group.members {
        let below = nodes[index].inputs.iter().map(|input| input.index());
        let depth = below
            .filter(|&input| inside[input])
            .map(|input| depths[input] + 1)
            .max()
            .unwrap_or(0);
        inside[index] = true;
        depths[index] = depth;
        if ranks.len() <= depth {
            ranks.resize(depth + 1, Vec::new());
        }
        ranks[depth].push(index);
    }
    // A leaf stands just above who reads it.
    for &index in &group.members {
        let reads = |user: &&usize| {
            nodes[**user]
                .inputs
                .iter()
                .any(|input| input.index() == index)
        };
        let first = group
            .members
            .iter()
            .filter(reads)
            .map(|&user| depths[user])
            .min();
        if let Some(first) = first
            && nodes[index].inputs.is_empty()
            && first > depths[index] + 1
        {
            ranks[depths[index]].retain(|&other| other != index);
            depths[index] = first - 1;
            ranks[first - 1].push(index);
        }
    }
    for mut rank in ranks.into_iter().filter(|rank| !rank.is_empty()) {
        let wanted = |index: usize, boxes: &[Spot]| {
            let parents = nodes[index]
                .inputs
                .iter()
                .map(|input| &boxes[input.index()]);
            let centres: Vec<f64> = parents
                .filter(|spot| spot.y > 0.0)
                .map(|spot| spot.x + spot.width / 2.0)
                .collect();
            match centres.len() {
                0 => WIDTH / 2.0,
                count => centres.iter().sum::<f64>() / count as f64,
            }
        };
        let mut keyed: Vec<(f64, usize)> = rank
            .drain(..)
            .map(|index| (wanted(index, boxes), index))
            .collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let most = WIDTH - 2.0 * inset - MARGIN;
        let mut rest = &keyed[..];
        while !rest.is_empty() {
            let (mut count, mut total) = (0, -GAP);
            while count < rest.len()
                && (count == 0 || total + GAP + boxes[rest[count].1].width <= most)
            {
                total += GAP + boxes[rest[count].1].width;
                count += 1;
            }
            let (row, later) = rest.split_at(count);
            let height = row
                .iter()
                .map(|(_, index)| boxes[*index].height)
                .fold(0.0, f64::max);
            put(row, boxes, y, height, (inset, WIDTH - inset), total);
            y += height + ROW;
            rest = later;
        }
    }
    y - ROW + MARGIN
}

/// Place the nodes of a row near where they want to be, without overlap.
fn put(
    row: &[(f64, usize)],
    boxes: &mut [Spot],
    y: f64,
    height: f64,
    (low, high): (f64, f64),
    total: f64,
) {
    let mut left = low;
    let mut remaining = total;
    for &(wanted, index) in row {
        let width = boxes[index].width;
        let latest = high - remaining;
        let x = (wanted - width / 2.0).min(latest).max(left);
        boxes[index].x = x;
        boxes[index].y = y + (height - boxes[index].height) / 2.0;
        left = x + width + GAP;
        remaining -= width + GAP;
    }
    // All together nearer to where they want to be.
    let centre = |index: usize, boxes: &[Spot]| boxes[index].x + boxes[index].width / 2.0;
    let off = row
        .iter()
        .map(|&(wanted, index)| wanted - centre(index, boxes));
    let shift = off.sum::<f64>() / row.len() as f64;
    let first = row.first().map_or(low, |&(_, index)| boxes[index].x);
    let shift = shift.clamp((low - first).min(0.0), (high - (left - GAP)).max(0.0));
    for &(_, index) in row {
        boxes[index].x += shift;
    }
}
