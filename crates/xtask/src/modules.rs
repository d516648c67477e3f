//! The modules of a crate and which file takes names from which.
//!
//! An import is followed to the file that defines the name: through `crate`, `self` and `super`,
//! through child modules, and through re-exports. A `pub use` alone hands a name on and is no
//! dependence; code in the same file that uses the name is. A module is part of the modules that
//! enclose it and may use their names: from a file to the `mod.rs` or `lib.rs` above it there is no
//! edge, only the other way round. Paths inside macro calls are read as tokens. Methods and fields
//! aren't followed: who calls them has the type from somewhere. Items under `#[cfg(test)]` are left
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

/// A file that couldn't be read as Rust, and why.
#[derive(Debug)]
pub struct ParseError {
    file: PathBuf,
    why: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for ParseError {}

/// One file takes a name from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The file that uses the name.
    pub from: PathBuf,
    /// The file that defines it.
    pub to: PathBuf,
    /// The name.
    pub name: String,
}

/// The modules of one crate.
#[derive(Debug, Default)]
pub struct Crate {
    modules: Vec<Module>,
}

#[derive(Debug)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    defined: BTreeSet<String>,
    /// Paths that the module's code depends on.
    used: BTreeSet<Vec<String>>,
}

impl Crate {
    /// Reads a crate from its root file, `lib.rs` or `main.rs`.
    ///
    /// # Errors
    /// A file can't be read or isn't Rust, or a module has no file.
    pub fn read(root: &Path) -> Result<Self, ParseError> {
        let mut this = Self::default();
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        this.read_file(root, &folder, None)?;
        Ok(this)
    }

    /// All dependences between different files of the crate.
    pub fn edges(&self) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        for (at, module) in self.modules.iter().enumerate() {
            for path in &module.used {
                let Some(to) = self.resolve(at, path, 0) else {
                    continue;
                };
                let (Target::Module(to) | Target::Item(to)) = to;
                let to = &self.modules[to].file;
                if *to != module.file && !self.encloses(to, at) {
                    edges.insert(Edge {
                        from: module.file.clone(),
                        to: to.clone(),
                        name: path.last().cloned().unwrap_or_default(),
                    });
                }
            }
        }
        edges
    }

    /// Whether a file has a module that a module is inside of.
    fn encloses(&self, file: &Path, inner: usize) -> bool {
        let parents =
            std::iter::successors(self.modules[inner].parent, |&it| self.modules[it].parent);
        parents.into_iter().any(|it| self.modules[it].file == file)
    }

    fn read_file(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
    ) -> Result<usize, ParseError> {
        let error = |why: String| ParseError {
            file: file.to_owned(),
            why,
        };
        let text = fs::read_to_string(file).map_err(|e| error(e.to_string()))?;
        let parsed = syn::parse_file(&text).map_err(|e| error(e.to_string()))?;
        self.add(file, folder, parent, &parsed.items)
    }

    fn add(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
        items: &[Item],
    ) -> Result<usize, ParseError> {
        let at = self.modules.len();
        let mut reader = Reader::default();
        for item in items {
            reader.visit_item(item);
        }
        self.modules.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            imports: reader.imports,
            globs: reader.globs,
            defined: reader.defined,
            used: reader.used,
        });
        for module in reader.children {
            let name = module.ident.to_string();
            let inner = folder.join(&name);
            let child = if let Some((_, items)) = &module.content {
                self.add(file, &inner, Some(at), items)?
            } else {
                let flat = folder.join(format!("{name}.rs"));
                let file = if flat.exists() {
                    flat
                } else {
                    inner.join("mod.rs")
                };
                self.read_file(&file, &inner, Some(at))?
            };
            self.modules[at].children.insert(name, child);
        }
        self.settle(at);
        Ok(at)
    }

    /// Names that a module's code uses without a path count only if they were imported.
    fn settle(&mut self, at: usize) {
        let module = &mut self.modules[at];
        let (imports, children) = (&module.imports, &module.children);
        module.used.retain(|path| {
            let first = path[0].as_str();
            matches!(first, "crate" | "self" | "super")
                || imports.contains_key(first)
                || children.contains_key(first)
        });
    }

    /// What a path names, seen from a module; `None` for what another crate has.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<Target> {
        // Re-exports can lead to each other.
        if depth > 20 {
            return None;
        }
        let mut at = from;
        let mut inside = false;
        for (index, name) in path.iter().enumerate() {
            let module = &self.modules[at];
            match name.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = module.parent?,
                _ => {
                    let found = self.look_up(at, name, depth);
                    match found {
                        Some(Target::Module(module)) => at = module,
                        Some(Target::Item(_)) => return found,
                        // A name that a macro makes, or that comes from outside.
                        None => return (inside && index > 0).then_some(Target::Item(at)),
                    }
                }
            }
            inside = true;
        }
        inside.then_some(Target::Module(at))
    }

    fn look_up(&self, at: usize, name: &str, depth: usize) -> Option<Target> {
        let module = &self.modules[at];
        if let Some(&child) = module.children.get(name) {
            return Some(Target::Module(child));
        }
        if module.defined.contains(name) {
            return Some(Target::Item(at));
        }
        if let Some(path) = module.imports.get(name) {
            return self.resolve(at, path, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let Some(Target::Module(there)) = self.resolve(at, glob, depth + 1) else {
                return None;
            };
            (there != at && depth < 20).then(|| self.look_up(there, name, depth + 1))?
        })
    }
}

/// Where a path ends: at a module, or at something that a module's file defines.
#[derive(Copy, Clone)]
enum Target {
    Module(usize),
    Item(usize),
}

/// Collects what one module imports, defines and uses.
#[derive(Default)]
struct Reader<'a> {
    children: Vec<&'a ItemMod>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    defined: BTreeSet<String>,
    used: BTreeSet<Vec<String>>,
}

impl<'a> Reader<'a> {
    fn import(&mut self, tree: &UseTree, prefix: &[String], handed_on: bool) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), handed_on),
            UseTree::Name(name) if name.ident == "self" => {
                let last = prefix.last().cloned().unwrap_or_default();
                self.add_import(last, prefix.to_vec(), handed_on);
            }
            UseTree::Name(name) => {
                self.add_import(name.ident.to_string(), with(&name.ident), handed_on);
            }
            UseTree::Rename(name) => {
                self.add_import(name.rename.to_string(), with(&name.ident), handed_on);
            }
            UseTree::Glob(_) => {
                if !handed_on {
                    self.used.insert(prefix.to_vec());
                }
                self.globs.push(prefix.to_vec());
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, prefix, handed_on);
                }
            }
        }
    }

    fn add_import(&mut self, name: String, path: Vec<String>, handed_on: bool) {
        if !handed_on {
            self.used.insert(path.clone());
        }
        // `use thiserror;` or `use foo as foo` name themselves.
        if path != [name.clone()] {
            self.imports.insert(name, path);
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_used(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.add_used(std::mem::take(&mut path));
                    self.tokens(group.stream());
                }
                _ => self.add_used(std::mem::take(&mut path)),
            }
        }
        self.add_used(path);
    }

    fn add_used(&mut self, path: Vec<String>) {
        // `pub(crate)` and `super::*` name no item.
        let keyword = |name: &String| matches!(name.as_str(), "crate" | "self" | "super");
        if !path.iter().all(keyword) {
            self.used.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'ast> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(module) => return self.children.push(module),
            Item::Use(import) => {
                let handed_on = !matches!(import.vis, Visibility::Inherited);
                return self.import(&import.tree, &[], handed_on);
            }
            Item::Struct(it) => drop(self.defined.insert(it.ident.to_string())),
            Item::Enum(it) => drop(self.defined.insert(it.ident.to_string())),
            Item::Union(it) => drop(self.defined.insert(it.ident.to_string())),
            Item::Trait(it) => drop(self.defined.insert(it.ident.to_string())),
            Item::Type(it) => drop(self.defined.insert(it.ident.to_string())),
            Item::Const(it) => drop(self.defined.insert(it.ident.to_string())),
            Item::Static(it) => drop(self.defined.insert(it.ident.to_string())),
            Item::Fn(it) => drop(self.defined.insert(it.sig.ident.to_string())),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.add_used(path.segments.iter().map(|s| s.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|condition| condition.is_ident("test"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of files by name, and its edges as `from -> to: name`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let short = |file: &Path| {
            file.strip_prefix(folder.path())
                .unwrap()
                .display()
                .to_string()
        };
        Crate::read(&folder.path().join("lib.rs"))
            .unwrap()
            .edges()
            .iter()
            .map(|edge| {
                format!(
                    "{} -> {}: {}",
                    short(&edge.from),
                    short(&edge.to),
                    edge.name
                )
            })
            .collect()
    }

    #[test]
    fn an_import_leads_to_the_file_that_defines_the_name() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::Thing; struct Other(Thing);"),
            ("b/mod.rs", "mod inner; pub use inner::Thing;"),
            ("b/inner.rs", "pub struct Thing;"),
        ]);
        assert_eq!(found, ["a.rs -> b/inner.rs: Thing"]);
    }

    #[test]
    fn a_path_without_an_import_counts() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "fn f() { super::b::g() }"),
            ("b.rs", "pub fn g() {}"),
        ]);
        assert_eq!(found, ["a.rs -> b.rs: g"]);
    }

    #[test]
    fn a_path_in_a_macro_call_counts() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "fn f() { println!(\"{}\", crate::b::g()); }"),
            ("b.rs", "pub fn g() {}"),
        ]);
        assert_eq!(found, ["a.rs -> b.rs: g"]);
    }

    #[test]
    fn a_module_that_is_imported_is_followed_below() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use super::b; fn f() { b::inner::g() }"),
            ("b/mod.rs", "pub mod inner;"),
            ("b/inner.rs", "pub fn g() {}"),
        ]);
        assert_eq!(found, ["a.rs -> b/inner.rs: g", "a.rs -> b/mod.rs: b"]);
    }

    #[test]
    fn tests_and_handed_on_names_do_not_count() {
        let found = edges(&[
            ("lib.rs", "mod a; pub use a::A; #[cfg(test)] mod tests;"),
            (
                "a.rs",
                "pub struct A; #[cfg(test)] mod tests { use crate::missing::X; }",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_name_that_is_handed_on_and_used_counts() {
        let found = edges(&[
            ("lib.rs", "mod a; pub use a::A; fn f(_: A) {}"),
            ("a.rs", "pub struct A;"),
        ]);
        assert_eq!(found, ["lib.rs -> a.rs: A"]);
    }

    #[test]
    fn a_module_may_use_what_encloses_it() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; struct Top;"),
            ("a/mod.rs", "mod inner; struct A;"),
            (
                "a/inner.rs",
                "struct Inner(super::A, crate::Top, crate::b::B);",
            ),
            ("b.rs", "pub struct B;"),
        ]);
        assert_eq!(found, ["a/inner.rs -> b.rs: B"]);
    }
}
