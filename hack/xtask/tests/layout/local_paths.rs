//! The paths in a Rust file that lead into its own crate: they begin with `crate`, `super` or `self`, or with an imported name.

use super::source::is_cfg_test;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use syn::visit::Visit;

/// One path, as its segments.
pub(crate) struct LocalPath {
    pub(crate) line: usize,
    /// The inline modules around the path, which `super` and `self` are relative to.
    pub(crate) inside: Vec<String>,
    pub(crate) segments: Vec<String>,
}

/// A name that a module exports although another module defines it: `pub use path as name`. `name` is `*` for a glob.
pub(crate) struct ReExport {
    pub(crate) name: String,
    pub(crate) path: Vec<String>,
}

/// The paths of a file, without those in its tests.
#[derive(Default)]
pub(crate) struct LocalPaths {
    pub(crate) paths: Vec<LocalPath>,
    pub(crate) re_exports: Vec<ReExport>,
    inside: Vec<String>,
    /// Imported names and their paths.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths that begin with another name.
    bare: Vec<LocalPath>,
}

impl LocalPaths {
    /// Parses a file. `None` if it is not valid Rust.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut paths = Self::default();
        paths.visit_file(&syn::parse_file(text).ok()?);
        for LocalPath { line, inside, segments } in std::mem::take(&mut paths.bare) {
            if let Some(imported) = paths.imports.get(&segments[0]) {
                let segments = [imported, &segments[1..]].concat();
                paths.paths.push(LocalPath { line, inside, segments });
            }
        }
        Some(paths)
    }

    fn add(&mut self, line: usize, segments: Vec<String>) {
        if segments.len() < 2 {
            return;
        }
        let paths = if is_local(&segments[0]) { &mut self.paths } else { &mut self.bare };
        paths.push(LocalPath { line, inside: self.inside.clone(), segments });
    }

    fn add_use(&mut self, tree: &syn::UseTree, before: &[String], is_exported: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let (ident, exported_name) = match tree {
            syn::UseTree::Path(path) => return self.add_use(&path.tree, &with(&path.ident), is_exported),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.add_use(item, before, is_exported));
            }
            syn::UseTree::Glob(glob) => {
                self.add(glob.star_token.spans[0].start().line, before.to_vec());
                self.export(is_exported, "*".to_owned(), before.to_vec());
                return;
            }
            syn::UseTree::Name(name) => (&name.ident, &name.ident),
            syn::UseTree::Rename(rename) => (&rename.ident, &rename.rename),
        };
        let path = if ident == "self" { before.to_vec() } else { with(ident) };
        let name = if ident == "self" { before.last().cloned().unwrap_or_default() } else { exported_name.to_string() };
        if path.first().is_some_and(|first| is_local(first)) {
            self.add(ident.span().start().line, path.clone());
            self.imports.insert(name.clone(), path.clone());
        }
        self.export(is_exported, name, path);
    }

    fn export(&mut self, is_exported: bool, name: String, path: Vec<String>) {
        if is_exported && self.inside.is_empty() {
            self.re_exports.push(ReExport { name, path });
        }
    }

    /// Macros are not parsed, so their tokens are searched for paths.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let (mut segments, mut colons, mut line) = (Vec::new(), 0, 0);
        for token in tokens {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !segments.is_empty() && colons < 2 => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 => {
                    segments.push(ident.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Group(_) | TokenTree::Literal(_) => {
                    self.add(line, std::mem::take(&mut segments));
                }
            }
            colons = 0;
            match token {
                TokenTree::Ident(ident) => {
                    line = ident.span().start().line;
                    segments.push(ident.to_string());
                }
                TokenTree::Group(group) => self.add_tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        self.add(line, segments);
    }
}

fn is_local(segment: &str) -> bool {
    ["crate", "super", "self"].contains(&segment)
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(is_cfg_test)
}

impl<'ast> Visit<'ast> for LocalPaths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) && module.ident != "tests" {
            self.inside.push(module.ident.to_string());
            syn::visit::visit_item_mod(self, module);
            self.inside.pop();
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            syn::visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            let is_exported = !matches!(item.vis, syn::Visibility::Inherited);
            self.add_use(&item.tree, &[], is_exported);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first() {
            let line = first.ident.span().start().line;
            self.add(line, path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }
}

#[test]
fn paths_in_uses_code_and_macros_are_found() {
    let text = "use crate::a::{b, c as d, e::*};\npub use super::f::G;\nfn h() -> crate::i::J { format!(\"{}\", x::y(super::k::l(1))) }\n\
                mod m { use super::n; }\n#[cfg(test)]\nmod tests { use crate::o::p; }\n#[cfg(test)]\nuse crate::q::r;\n\
                pub(in crate::s) fn t() {}\nuse other::u;\nfn v() { c::w(); d::x(); u::y(); z!(b::x) }\n";
    let paths = LocalPaths::parse(text).unwrap();
    let found: Vec<String> = paths.paths.iter().map(|path| path.segments.join("::")).collect();
    let expected = [
        "crate::a::b",
        "crate::a::c",
        "crate::a::e",
        "super::f::G",
        "crate::i::J",
        "super::k::l",
        "super::n",
        "crate::a::c::x",
        "crate::a::b::x",
    ];
    assert_eq!(found, expected);
    assert_eq!(paths.paths[6].inside, ["m"]);
    let exported: Vec<&str> = paths.re_exports.iter().map(|export| export.name.as_str()).collect();
    assert_eq!(exported, ["G"]);
}
