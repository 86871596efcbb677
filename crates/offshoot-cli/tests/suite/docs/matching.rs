//! Comparing what a document shows with what was printed.
//!
//! Ids differ from run to run, so one of the document stands for one of the run: the same one each
//! time, at any length. `…` stands for anything, and a line that is only `…` for any lines. The
//! number of blanks between words is free, because columns are as wide as their contents.

/// The shortest run of digits that is an id: what git shows.
const SHORTEST_ID: usize = 7;

/// Which id of the document stands for which of the run, each as long as it was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids(Vec<(String, String)>);

impl Ids {
    /// Whether two ids may stand for each other; remembers the pair.
    fn pair(&mut self, shown: &str, real: &str) -> bool {
        let same = |a: &str, b: &str| a.starts_with(b) || b.starts_with(a);
        for (known_shown, known_real) in &mut self.0 {
            if same(known_shown, shown) != same(known_real, real) {
                return false;
            }
            if same(known_shown, shown) {
                if shown.len() > known_shown.len() {
                    (*known_shown, *known_real) = (shown.to_owned(), real.to_owned());
                }
                return true;
            }
        }
        self.0.push((shown.to_owned(), real.to_owned()));
        true
    }

    /// A command with the ids of the run. None if it has one that was never shown, which nobody
    /// who reads the document could have typed.
    pub(crate) fn typed(&self, command: &str) -> Result<String, String> {
        let mut typed = String::new();
        for piece in pieces(command) {
            match piece {
                Piece::Id(shown) => {
                    let known = self.0.iter().find(|(known, _)| known.starts_with(shown));
                    let (_, real) = known.ok_or_else(|| shown.to_owned())?;
                    typed.push_str(&real[..shown.len()]);
                }
                Piece::Text(text) => typed.push_str(text),
                Piece::Anything => typed.push('…'),
            }
        }
        Ok(typed)
    }
}

/// A part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Id(&'a str),
    Anything,
}

fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let (piece, length) = match word {
            0 if rest.starts_with('…') => (Piece::Anything, '…'.len_utf8()),
            0 => {
                let end = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '…');
                let end = end.unwrap_or(rest.len());
                (Piece::Text(&rest[..end]), end)
            }
            _ if is_id(&rest[..word]) => (Piece::Id(&rest[..word]), word),
            _ => (Piece::Text(&rest[..word]), word),
        };
        pieces.push(piece);
        rest = &rest[length..];
    }
    pieces
}

fn is_hex(word: &str) -> bool {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    word.bytes().all(hex)
}

/// Whether a word of a document is an id. Documents have none that could be a word or a number;
/// what is printed may be anything.
fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_number = digits == word.len() && word.len() != 12 && word.len() != 40;
    word.len() >= SHORTEST_ID && is_hex(word) && digits > 0 && !is_number
}

/// Whether a line of the document is what was printed, with these ids and new ones.
fn line(pieces: &[Piece<'_>], printed: &str, ids: &Ids) -> Option<Ids> {
    let Some((first, rest)) = pieces.split_first() else {
        return printed.is_empty().then(|| ids.clone());
    };
    match first {
        Piece::Text(text) => line(rest, printed.strip_prefix(text)?, ids),
        Piece::Anything => {
            let mut ends = (0..=printed.len()).filter(|end| printed.is_char_boundary(*end));
            ends.find_map(|end| line(rest, &printed[end..], ids))
        }
        Piece::Id(shown) => {
            let word = printed.find(|c: char| !c.is_ascii_alphanumeric());
            let word = &printed[..word.unwrap_or(printed.len())];
            // What goes on with `…` is shown as far as the document has it.
            let length = match rest.first() {
                Some(Piece::Anything) => shown.len().min(word.len()),
                _ => word.len(),
            };
            if length != shown.len() || !is_hex(word) {
                return None;
            }
            let mut ids = ids.clone();
            if !ids.pair(shown, &word[..length]) {
                return None;
            }
            line(rest, &printed[length..], &ids)
        }
    }
}

fn single_spaced(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the document shows what was printed. If so, the ids have grown.
pub(crate) fn matches(shown: &[String], printed: &[String], ids: &mut Ids) -> bool {
    fn all(shown: &[String], printed: &[String], ids: &Ids) -> Option<Ids> {
        let Some((first, rest)) = shown.split_first() else {
            return printed.is_empty().then(|| ids.clone());
        };
        if first.trim() == "…" {
            return (0..=printed.len()).find_map(|end| all(rest, &printed[end..], ids));
        }
        let (printed, after) = printed.split_first()?;
        let first = single_spaced(first);
        let ids = line(&pieces(&first), &single_spaced(printed), ids)?;
        all(rest, after, &ids)
    }
    match all(shown, printed, ids) {
        Some(grown) => {
            *ids = grown;
            true
        }
        None => false,
    }
}

#[test]
fn ids_stand_for_one_another_and_only_for_one() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let mut ids = Ids::default();
    let mut same = |shown: &str, printed: &str| matches(&lines(shown), &lines(printed), &mut ids);
    assert!(same("snapshot 2b54a45f1f5c", "snapshot   0123456789ab"));
    assert!(same("2b54a45 Import", "0123456 Import"));
    assert!(!same("2b54a45 Import", "9993456 Import"), "another one");
    assert!(
        !same("aaaa45f1f5c1", "0123456789ab"),
        "shown as another one before"
    );
    assert!(same(
        "{\"base\":\"2b54a45f…\",…}",
        "{\"base\":\"0123456789abcdef\",\"x\":1}"
    ));
    assert!(same("one\n…\nfour", "one\ntwo\nthree\nfour"));
    assert!(!same("one\nfour", "one\ntwo\nfour"));
    assert!(!same("defaced", "feedfac"), "a word is no id");
    assert_eq!(
        ids.typed("undo 2b54a45f1f5c"),
        Ok("undo 0123456789ab".to_owned())
    );
    assert_eq!(
        ids.typed("undo ffff45f1f5c1"),
        Err("ffff45f1f5c1".to_owned())
    );
}
