//! "Did you mean …?"

/// The word that `word` was probably meant to be: an edit or a swap of neighbours away for every
/// three letters.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let longest = word.chars().count().max(candidate.chars().count());
            let edits = distance(word, candidate);
            (edits > 0 && longest > 1 && edits <= (longest / 3).max(1))
                .then_some((edits, candidate))
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn typing_errors_are_recognized_and_other_words_are_not() {
        let words = ["from", "residual", "repeat", "tie"];
        let meant = |word| nearest(word, words);
        assert_eq!(meant("form"), Some("from"));
        assert_eq!(meant("residaul"), Some("residual"));
        assert_eq!(meant("repeats"), Some("repeat"));
        assert_eq!(meant("bias"), None);
        assert_eq!(meant("from"), None);
    }
}
