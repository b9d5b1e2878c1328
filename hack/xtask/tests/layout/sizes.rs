//! A file has at most 600 lines, a function at most 80. In functions, lines of comments and of multi-line literals do not count,
//! so a test may contain a long expected text.

use super::{source::Source, tree};
use syn::visit::Visit;

const FILE: usize = 600;
const FUNCTION: usize = 80;

/// Name, first and last line of every function.
#[derive(Default)]
struct Functions {
    found: Vec<(String, usize, usize)>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        self.found.push((signature.ident.to_string(), first, block.brace_token.span.close().end().line));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, function);
    }
}

fn too_long_files(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if lines <= FILE { Vec::new() } else { vec![format!("{}: {lines} lines, at most {FILE}", source.path)] }
}

fn too_long_functions(source: &Source) -> Vec<String> {
    let file = match syn::parse_file(&source.text) {
        Ok(file) => file,
        Err(error) => return vec![format!("{}:{}: does not parse: {error}", source.path, error.span().start().line)],
    };
    let mut functions = Functions::default();
    functions.visit_file(&file);
    let code = source.code();
    let lines: Vec<&str> = code.text.lines().collect();
    let length =
        |first: usize, last: usize| lines[first - 1..last].iter().filter(|line| !line.trim().is_empty()).count();
    let measured = functions.found.into_iter().map(|(name, first, last)| (name, first, length(first, last)));
    let message =
        |(name, first, length)| format!("{}:{first}: {name} has {length} lines, at most {FUNCTION}", source.path);
    measured.filter(|(_, _, length)| *length > FUNCTION).map(message).collect()
}

#[test]
fn files_stay_short() {
    tree::assert_none(&tree::sources().iter().flat_map(too_long_files).collect::<Vec<_>>());
}

#[test]
fn a_long_file_is_found() {
    let lines = |count| Source::new("a.rs", &"// a\n".repeat(count));
    tree::assert_none(&too_long_files(&lines(FILE)));
    tree::assert_one(&too_long_files(&lines(FILE + 1)), "601 lines");
}

#[test]
fn functions_stay_short() {
    tree::assert_none(&tree::sources().iter().flat_map(too_long_functions).collect::<Vec<_>>());
}

#[test]
fn a_long_function_is_found() {
    let body = |count: usize| "    call();\n".repeat(count);
    let free = |count| Source::new("a.rs", &format!("//! A.\nfn a() {{\n{}}}\n", body(count)));
    tree::assert_none(&too_long_functions(&free(FUNCTION - 2)));
    tree::assert_one(&too_long_functions(&free(FUNCTION - 1)), "a has 81 lines");
    let method = format!("impl A {{\nfn b() {{\n{}}}\n}}\n", body(FUNCTION));
    tree::assert_one(&too_long_functions(&Source::new("a.rs", &method)), "b has 82 lines");
    let provided = format!("trait A {{\nfn c() {{\n{}}}\n}}\n", body(FUNCTION));
    tree::assert_one(&too_long_functions(&Source::new("a.rs", &provided)), "c has 82 lines");
    let literal = format!("fn d() {{ check(\"\n{}\") }}\n", "text\n".repeat(200));
    tree::assert_none(&too_long_functions(&Source::new("a.rs", &literal)));
}
