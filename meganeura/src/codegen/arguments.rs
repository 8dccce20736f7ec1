//! Numbers of a shader as its uniform block.
//!
//! Some drivers take long to compile long shaders. Where sizes and strides do not shape the
//! code, they are taken out of it, so that contractions of different sizes are one text and
//! are compiled once.

/// Words of a uniform block.
pub(super) const WORDS: usize = 48;
/// Smaller numbers are left in place, because most are tile sizes and lanes, which the code
/// depends on; sizes among them are marked.
const SMALLEST: u32 = 32;
const MARK: char = '#';
const DECLARATION: &str = "var<uniform> arguments: array<vec4<u32>, 12>;\n";

/// A literal that becomes an argument however small it is.
pub(super) fn marked(value: usize) -> String {
    format!("{MARK}{value}u")
}

/// A number and where it stands: the line without any digits, and its place among the
/// line's numbers. Lines that are repeated for each row of a tile share their arguments, but
/// numbers that are equal by coincidence do not, or the text would depend on it.
#[derive(Debug, PartialEq)]
struct Number {
    line: String,
    place: usize,
    value: u32,
}

/// Replace the unsigned decimal literals of a shader by arguments. With too many of them
/// everything stays as it is.
pub(super) fn lift(source: &str) -> (String, [u32; WORDS]) {
    let mut values: Vec<Number> = Vec::new();
    let lines: Vec<String> = source
        .lines()
        .map(|line| match is_fixed(line) {
            true => line.to_owned(),
            false => lift_line(line, &mut values),
        })
        .collect();
    let mut arguments = [0; WORDS];
    if values.len() > WORDS {
        return (source.replace(MARK, ""), arguments);
    }
    for (argument, number) in arguments.iter_mut().zip(&values) {
        *argument = number.value;
    }
    let text = lines.join("\n") + "\n";
    match values.is_empty() {
        true => (text, arguments),
        false => (DECLARATION.to_owned() + &text, arguments),
    }
}

/// Lines whose numbers must be known when compiling, or are not code.
fn is_fixed(line: &str) -> bool {
    let line = line.trim_start();
    ["@compute", "var<", "const ", "//"]
        .iter()
        .any(|start| line.starts_with(start))
}

fn lift_line(line: &str, values: &mut Vec<Number>) -> String {
    let pattern: String = line.chars().filter(|c| !c.is_ascii_digit()).collect();
    let mut place = 0;
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        let (before, from) = rest.split_at(start);
        let is_marked = before.ends_with(MARK);
        result.push_str(before.strip_suffix(MARK).unwrap_or(before));
        rest = from;
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        // The fraction of a float ends in `f`, hexadecimal numbers do not parse.
        match word
            .strip_suffix('u')
            .and_then(|digits| digits.parse::<u32>().ok())
        {
            Some(value) if value >= SMALLEST || is_marked => {
                let number = Number {
                    line: pattern.clone(),
                    place,
                    value,
                };
                place += 1;
                let known = values.iter().position(|known| *known == number);
                let index = known.unwrap_or_else(|| {
                    values.push(number);
                    values.len() - 1
                });
                let lane = ["x", "y", "z", "w"][index % 4];
                result.push_str(&format!("arguments[{}].{lane}", index / 4));
            }
            _ => result.push_str(word),
        }
        rest = &rest[end..];
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_leave_the_text_and_structure_stays() {
        let with = |size: usize, count: usize| {
            format!(
                "var<storage> b0: array<f32, 64>;\n@compute @workgroup_size(64u)\n\
                 let a0 = m0 * {size}u + 3u + x64u;\nlet a1 = m1 * {size}u + 3u + x64u;\n\
                 let b = min({}, {size}u - 1u) & 0x7fffffffu;\nlet c = 64.5f;\n",
                marked(count)
            )
        };
        let (text, arguments) = lift(&with(100, 2));
        assert_eq!(arguments[..4], [100, 2, 100, 0]);
        for expected in [
            "let a0 = m0 * arguments[0].x + 3u + x64u;",
            "let a1 = m1 * arguments[0].x + 3u + x64u;",
            "min(arguments[0].y, arguments[0].z - 1u) & 0x7fffffffu",
            "@workgroup_size(64u)",
            "64.5f",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        // Coincidences do not show.
        assert_eq!(text, lift(&with(300, 300)).0);
    }

    #[test]
    fn too_many_numbers_stay() {
        let source: String = (100..=100 + WORDS)
            .map(|n| format!("let a{n} = {n}u;\n"))
            .collect();
        let marked = source.replace("= 1", "= #1");
        assert_eq!(lift(&marked).0, source);
    }
}
