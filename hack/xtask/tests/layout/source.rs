//! Rust source split into code without comments and literals, the literals, and the comments.

use syn::spanned::Spanned;

/// One file of the tree, its path relative to the root of the workspace.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The code of a file with comments and literals replaced by blanks, so that line numbers stay the same.
pub(crate) struct Code {
    pub(crate) text: String,
    pub(crate) literals: Vec<Fragment>,
    pub(crate) comments: Vec<Fragment>,
}

/// A literal or a comment, and the line on which it begins.
pub(crate) struct Fragment {
    pub(crate) line: usize,
    pub(crate) text: String,
}

enum Stretch {
    Comment(usize),
    Literal(usize),
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Whether the file is for tests only. Most rules are about production code.
    pub(crate) fn is_test(&self) -> bool {
        let parts = || self.path.split('/');
        parts().any(|part| part == "tests" || part == "tests.rs") || self.path.starts_with("e2e/")
    }

    /// The part of the path below `crates/<krate>/src/`.
    pub(crate) fn within(&self, krate: &str) -> Option<&str> {
        self.path.strip_prefix("crates/")?.strip_prefix(krate)?.strip_prefix("/src/")
    }

    /// The crate under `crates/` that the file is a source of.
    pub(crate) fn krate(&self) -> Option<&str> {
        let (krate, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(krate)
    }

    pub(crate) fn code(&self) -> Code {
        read(&self.text)
    }

    /// The code without items for tests.
    pub(crate) fn shipped_code(&self) -> Code {
        let mut code = self.code();
        if self.is_test() {
            return Code { text: String::new(), literals: Vec::new(), comments: Vec::new() };
        }
        for (first, last) in test_items(&self.text) {
            code.literals.retain(|literal| !(first..=last).contains(&literal.line));
            code.comments.retain(|comment| !(first..=last).contains(&comment.line));
            let keep = |(at, line): (usize, &str)| {
                if (first..=last).contains(&(at + 1)) { String::new() } else { line.to_owned() }
            };
            code.text = code.text.lines().enumerate().map(keep).collect::<Vec<_>>().join("\n");
        }
        code
    }
}

impl Code {
    /// The lines, counted from one, that contain `needle` as a whole word.
    pub(crate) fn lines_with(&self, needle: &str) -> Vec<usize> {
        let holds = |line: &str| line.match_indices(needle).any(|(at, _)| is_whole_word(line, at, needle));
        self.text.lines().enumerate().filter(|(_, line)| holds(line)).map(|(at, _)| at + 1).collect()
    }
}

/// Whether the match at `at` is a whole word.
pub(crate) fn is_whole_word(line: &str, at: usize, needle: &str) -> bool {
    let before = line[..at].chars().next_back();
    let after = line[at + needle.len()..].chars().next();
    let joins = |edge: Option<char>, outside: Option<char>| edge.is_some_and(is_word) && outside.is_some_and(is_word);
    !joins(needle.chars().next(), before) && !joins(needle.chars().next_back(), after)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn read(text: &str) -> Code {
    let letters: Vec<char> = text.chars().collect();
    let mut code = Code { text: String::with_capacity(text.len()), literals: Vec::new(), comments: Vec::new() };
    let (mut at, mut line) = (0, 1);
    while at < letters.len() {
        let end = match stretch(&letters, at) {
            Some(Stretch::Comment(end)) => {
                code.comments.push(Fragment { line, text: letters[at..end].iter().collect() });
                end
            }
            Some(Stretch::Literal(end)) => {
                code.literals.push(Fragment { line, text: letters[at..end].iter().collect() });
                end
            }
            None => {
                line += usize::from(letters[at] == '\n');
                code.text.push(letters[at]);
                at += 1;
                continue;
            }
        };
        let blanked = letters[at..end].iter().map(|letter| if *letter == '\n' { '\n' } else { ' ' });
        code.text.extend(blanked);
        line += letters[at..end].iter().filter(|letter| **letter == '\n').count();
        at = end;
    }
    code
}

/// The comment or literal that begins at `at`.
fn stretch(letters: &[char], at: usize) -> Option<Stretch> {
    match (letters[at], letters.get(at + 1)) {
        ('/', Some('/')) => Some(Stretch::Comment(position(letters, at, '\n'))),
        ('/', Some('*')) => Some(Stretch::Comment(block_comment(letters, at))),
        ('"', _) => Some(Stretch::Literal(quoted(letters, at, '"'))),
        ('\'', Some('\\')) => Some(Stretch::Literal(quoted(letters, at, '\''))),
        ('\'', _) if letters.get(at + 2) == Some(&'\'') => Some(Stretch::Literal(at + 3)),
        ('r' | 'b' | 'c', _) if at == 0 || !is_word(letters[at - 1]) => raw(letters, at).map(Stretch::Literal),
        _ => None,
    }
}

fn position(letters: &[char], from: usize, wanted: char) -> usize {
    letters[from..].iter().position(|letter| *letter == wanted).map_or(letters.len(), |offset| from + offset)
}

fn block_comment(letters: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < letters.len() {
        match (letters[at], letters.get(at + 1)) {
            ('/', Some('*')) => depth += 1,
            ('*', Some('/')) => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at.min(letters.len())
}

fn quoted(letters: &[char], from: usize, quote: char) -> usize {
    let mut at = from + 1;
    while at < letters.len() && letters[at] != quote {
        at += if letters[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(letters.len())
}

fn raw(letters: &[char], from: usize) -> Option<usize> {
    let mark = if letters[from] == 'r' { from } else { from + 1 };
    if letters.get(mark) != Some(&'r') {
        return None;
    }
    let hashes = letters[mark + 1..].iter().take_while(|letter| **letter == '#').count();
    let body = mark + 1 + hashes;
    if letters.get(body) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let end = letters[body + 1..].windows(closing.len()).position(|window| window == closing);
    Some(end.map_or(letters.len(), |offset| body + 1 + offset + closing.len()))
}

/// First and last line of each top-level item under `#[cfg(test)]`.
fn test_items(text: &str) -> Vec<(usize, usize)> {
    let Ok(file) = syn::parse_file(text) else { return Vec::new() };
    let lines = |item: &syn::Item| (item.span().start().line, item.span().end().line);
    file.items.iter().filter(|item| attributes(item).iter().any(is_cfg_test)).map(lines).collect()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "syn adds kinds of items; only these contain code for tests")]
fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

/// The text of a string literal in one line.
pub(crate) fn string_text(literal: &str) -> Option<String> {
    let text = literal.strip_prefix('"')?.strip_suffix('"')?;
    Some(text.split("\\\n").map(str::trim_start).collect::<Vec<_>>().concat())
}

pub(crate) fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().trim() == "test")
}

#[test]
fn comments_and_literals_are_not_code() {
    let code =
        read("let a = \"x // y\"; // async\nlet b = r#\"tokio\"#; /* now( /* */ */ let c: &'a str = 'q';\nasync");
    assert_eq!(code.lines_with("async"), [3], "{}", code.text);
    assert_eq!(code.lines_with("tokio"), [] as [usize; 0]);
    assert_eq!(code.lines_with("str"), [2]);
    assert_eq!(code.literals.iter().map(|literal| literal.line).collect::<Vec<_>>(), [1, 2, 2]);
}

#[test]
fn items_for_tests_are_not_shipped() {
    let source =
        Source::new("crates/a/src/plan.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n    async fn b() {}\n}\nfn c() {}");
    assert!(source.shipped_code().lines_with("async").is_empty());
    assert_eq!(source.shipped_code().lines_with("c"), [6]);
}
