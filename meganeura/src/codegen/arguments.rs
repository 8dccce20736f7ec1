//! Numbers of a shader as its uniform block.
//!
//! Some drivers take long to compile long shaders. Where sizes and strides do not shape the
//! code, they are taken out of it, so that contractions of different sizes are one text and
//! are compiled once.

/// Words of a uniform block.
pub(super) const WORDS: usize = 32;
/// Smaller numbers are left in place: they are tile sizes and lanes, which the code depends
/// on.
const SMALLEST: u32 = 32;
const DECLARATION: &str = "var<uniform> arguments: array<vec4<u32>, 8>;\n";

/// Replace the unsigned decimal literals of a shader by arguments, equal ones by one. With
/// too many of them everything stays as it is.
pub(super) fn lift(source: &str) -> (String, [u32; WORDS]) {
    let mut values: Vec<u32> = Vec::new();
    let lines: Vec<String> = source
        .lines()
        .map(|line| match is_fixed(line) {
            true => line.to_owned(),
            false => lift_line(line, &mut values),
        })
        .collect();
    let mut arguments = [0; WORDS];
    if values.len() > WORDS {
        return (source.to_owned(), arguments);
    }
    arguments[..values.len()].copy_from_slice(&values);
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

fn lift_line(line: &str, values: &mut Vec<u32>) -> String {
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        result.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        // The fraction of a float ends in `f`, hexadecimal numbers do not parse.
        match word
            .strip_suffix('u')
            .and_then(|digits| digits.parse::<u32>().ok())
        {
            Some(value) if value >= SMALLEST => {
                let index = values
                    .iter()
                    .position(|&known| known == value)
                    .unwrap_or_else(|| {
                        values.push(value);
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
                "var<storage> b0: array<f32, 64>;\n@compute @workgroup_size(64u)\n// {size}u\n\
                 let a = m0 * {size}u + 3u + x64u;\nlet b = min({count}u, {size}u - 1u) & 0x7fffffffu;\n\
                 let c = 64.5f;"
            )
        };
        let (text, arguments) = lift(&with(100, 200));
        assert_eq!(arguments[..3], [100, 200, 0]);
        assert!(
            text.contains("let a = m0 * arguments[0].x + 3u + x64u;"),
            "{text}"
        );
        assert!(
            text.contains("min(arguments[0].y, arguments[0].x - 1u) & 0x7fffffffu"),
            "{text}"
        );
        assert!(
            text.contains("@workgroup_size(64u)") && text.contains("64.5f"),
            "{text}"
        );
        let comment = |text: &str, size: &str| text.replace(size, "");
        let (other, _) = lift(&with(300, 700));
        assert_eq!(comment(&text, "100u"), comment(&other, "300u"));
    }

    #[test]
    fn too_many_numbers_stay() {
        let source: String = (100..100 + WORDS + 1)
            .map(|n| format!("let a{n} = {n}u;\n"))
            .collect();
        assert_eq!(lift(&source).0, source);
    }
}
