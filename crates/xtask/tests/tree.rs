//! The checks on this repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use manyway_xtask::{Crate, broken_links, cycles, links, overlong_lines};
use syn::visit::{self, Visit};

fn top() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Files that git tracks or would track, from the top folder.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(top())
        .output()
        .expect("git lists the files");
    let text = String::from_utf8(listed.stdout).unwrap();
    let mut found: Vec<PathBuf> = text
        .lines()
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .map(PathBuf::from)
        .filter(|name| top().join(name).exists())
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no file ends with {endings:?}");
    found
}

fn read(name: &Path) -> String {
    fs::read_to_string(top().join(name)).unwrap()
}

/// Whether a file is production code: below `src`, and no test module.
fn is_production(name: &Path) -> bool {
    let text = name.to_string_lossy();
    text.contains("/src/") && !text.contains("/tests")
}

#[test]
fn no_file_imports_itself_by_way_of_others() {
    let mut found = String::new();
    for root in files(&["src/lib.rs", "src/main.rs"]) {
        let edges = Crate::read(&top().join(&root)).unwrap().edges();
        for ring in cycles(
            edges
                .iter()
                .map(|edge| (edge.from.clone(), edge.to.clone())),
        ) {
            found.push_str(&format!("\n{}:", root.display()));
            for edge in &edges {
                if ring.contains(&edge.from) && ring.contains(&edge.to) {
                    let short = |file: &Path| {
                        let src = top().join(root.parent().unwrap());
                        file.strip_prefix(src).unwrap_or(file).display().to_string()
                    };
                    let (from, to) = (short(&edge.from), short(&edge.to));
                    found.push_str(&format!("\n  {from} -> {to}: {}", edge.name));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "files that depend on each other; move what both need to a module below them:{found}"
    );
}

#[test]
fn lines_have_at_most_100_characters() {
    let mut found = String::new();
    for name in files(&[
        ".rs",
        ".md",
        ".sh",
        ".ci/run",
        ".ci/chaos",
        ".ci/hostile",
        ".ci/loopback",
        ".ci/nat",
        ".ci/nightly",
        ".ci/tcp-share",
    ]) {
        // Pages of results stand as their commands write them.
        if name.starts_with("docs/results") && !name.ends_with("README.md") {
            continue;
        }
        let markdown = name.extension().is_some_and(|it| it == "md");
        for line in overlong_lines(&read(&name), 100, markdown) {
            let (name, at, wide) = (name.display(), line.line, line.characters);
            found.push_str(&format!("\n{name}:{at}: {wide}"));
        }
    }
    assert!(
        found.is_empty(),
        "lines with more than 100 characters:{found}"
    );
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut found = String::new();
    for name in files(&[".md"]) {
        // The texts that studies fill in become pages of results.
        let page = match name.starts_with("crates/research/studies/src") {
            true => top().join("docs/results/page.md"),
            false => top().join(&name),
        };
        for link in broken_links(&page, &read(&name)) {
            found.push_str(&format!("\n{}: {link}", name.display()));
        }
    }
    assert!(
        found.is_empty(),
        "links to files or headings that don't exist:{found}"
    );
}

/// A page that the book doesn't have is one that nobody finds.
#[test]
fn the_book_has_each_page_once() {
    let summary = read(Path::new("docs/SUMMARY.md"));
    let mut listed: Vec<PathBuf> = links(&summary)
        .iter()
        .map(|page| Path::new("docs").join(page))
        .collect();
    listed.sort();
    let pages = files(&[".md"]).into_iter();
    let pages = pages.filter(|name| name.starts_with("docs") && !name.ends_with("SUMMARY.md"));
    assert_eq!(listed, pages.collect::<Vec<_>>());
}

/// Our crates that a manifest names, apart from those for tests, and whether they are optional.
fn own_dependencies(manifest: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut counts = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if counts && (name == "manyway" || name.starts_with("manyway-")) {
            let name = name.strip_prefix("manyway-").unwrap_or(name);
            found.push((name, line.contains("optional = true")));
        }
    }
    found
}

/// `docs/architecture.md` says it in words. Cargo itself refuses rings within a neighbourhood.
#[test]
fn dependencies_between_neighbourhoods_point_downwards() {
    let mut manifests = files(&["/Cargo.toml"]);
    manifests.retain(|name| name.starts_with("crates") && !name.iter().any(|it| it == "fuzz"));
    // `wire` in `core`, of crates/core/wire/Cargo.toml; `os` in `os`, of crates/os/Cargo.toml.
    let place = |name: &Path| -> (String, String) {
        let parts = name.iter().map(|part| part.to_string_lossy().into_owned());
        let parts: Vec<String> = parts.collect();
        (parts[parts.len() - 2].clone(), parts[1].clone())
    };
    let places: BTreeMap<String, String> = manifests.iter().map(|name| place(name)).collect();
    let mut found = BTreeSet::new();
    for name in &manifests {
        let (user, here) = place(name);
        // The program may use them all.
        if user == "cli" {
            continue;
        }
        for (used, optional) in own_dependencies(&read(name)) {
            let there = places.get(used).map_or("nowhere", String::as_str);
            if there != "core" && there != here {
                let how = if optional { " by a feature" } else { "" };
                found.insert(format!("{user} -> {used}{how}"));
            }
        }
    }
    let allowed = [
        "manyway -> registry by a feature",
        "registry -> os",
        "relay -> os by a feature",
        "runtime -> os",
        "simulate -> relay by a feature",
        "simulate -> session by a feature",
        "simulate -> transfer by a feature",
        "studies -> session",
        "testbed -> os by a feature",
        "testbed -> scenario by a feature",
    ];
    assert_eq!(found, BTreeSet::from(allowed.map(str::to_owned)));
}

/// What cargo compiles by itself.
fn is_target(name: &Path) -> bool {
    let folder = name.parent().and_then(Path::file_name).unwrap_or_default();
    name.ends_with("src/lib.rs")
        || name.ends_with("main.rs")
        || ["tests", "examples", "benches", "fuzz_targets"]
            .iter()
            .any(|it| folder == *it)
}

/// A test in a file that no module declares would never run.
#[test]
fn every_file_is_a_module_of_something() {
    let names = files(&[".rs"]);
    let texts: Vec<String> = names.iter().map(|name| read(name)).collect();
    let mut found = String::new();
    for name in names.iter().filter(|name| !is_target(name)) {
        let module = match name.ends_with("mod.rs") {
            true => name.parent().unwrap(),
            false => name.as_path(),
        };
        let folder = module.parent().unwrap();
        let parents = ["mod.rs", "lib.rs", "main.rs"].map(|it| folder.join(it));
        let parents = [parents.as_slice(), &[folder.with_extension("rs")]].concat();
        let declared = format!("mod {};", module.file_stem().unwrap().to_string_lossy());
        let by_path = format!("{}\"]", name.file_name().unwrap().to_string_lossy());
        let is_declared = names.iter().zip(&texts).any(|(other, text)| {
            let is_parent = parents.contains(other) && text.contains(&declared);
            is_parent || (other != name && text.contains("#[path") && text.contains(&by_path))
        });
        if !is_declared {
            found.push_str(&format!("\n{}", name.display()));
        }
    }
    assert!(found.is_empty(), "files that no `mod` declares:{found}");
}

/// Names of laws that code compares something with: a comparison or a pattern.
struct Compared<'a> {
    laws: &'a BTreeSet<String>,
    found: Vec<String>,
}

impl Compared<'_> {
    fn note(&mut self, literal: &syn::Lit) {
        if let syn::Lit::Str(text) = literal
            && self.laws.contains(&text.value())
        {
            self.found.push(text.value());
        }
    }
}

impl<'ast> Visit<'ast> for Compared<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if matches!(binary.op, syn::BinOp::Eq(_) | syn::BinOp::Ne(_)) {
            for side in [&binary.left, &binary.right] {
                if let syn::Expr::Lit(literal) = &**side {
                    self.note(&literal.lit);
                }
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let compares = [
            "eq",
            "ne",
            "starts_with",
            "contains",
            "eq_ignore_ascii_case",
        ];
        if compares.iter().any(|name| call.method == name) {
            for argument in &call.args {
                if let syn::Expr::Lit(literal) = argument {
                    self.note(&literal.lit);
                }
            }
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_pat(&mut self, pattern: &'ast syn::Pat) {
        if let syn::Pat::Lit(literal) = pattern {
            self.note(&literal.lit);
        }
        visit::visit_pat(self, pattern);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // `matches!(name, "lia" | "olia")`
        if call.path.is_ident("matches") {
            for token in call.tokens.clone() {
                if let Ok(literal) = syn::parse2::<syn::Lit>(token.into()) {
                    self.note(&literal);
                }
            }
        }
    }
}

#[test]
fn no_law_is_asked_for_by_name() {
    let laws: BTreeSet<String> = manyway_control::registry::laws()
        .map(|law| law.name().to_owned())
        .collect();
    let mut found = String::new();
    for name in files(&[".rs"]) {
        if !is_production(&name) || name.starts_with("crates/core/control/src/registry") {
            continue;
        }
        // A study says of each law what its paper says: names are its data.
        if name.starts_with("crates/research/studies/src") {
            continue;
        }
        let mut compared = Compared {
            laws: &laws,
            found: Vec::new(),
        };
        compared.visit_file(&syn::parse_file(&read(&name)).unwrap());
        for law in compared.found {
            // Not the law: the weight of a RED queue, and the carrier of paths.
            let other = ["scenario/src/file/queue.rs", "runtime/src/tcp/mod.rs"];
            if law == "auto" && other.iter().any(|file| name.ends_with(file)) {
                continue;
            }
            found.push_str(&format!("\n{}: {law}", name.display()));
        }
    }
    assert!(
        found.is_empty(),
        "code that asks for a law by its name instead of what it can (its capabilities):{found}"
    );
}

/// `impl Connection` and `&mut Connection`.
#[derive(Default)]
struct Reaches {
    found: Vec<&'static str>,
}

fn is_connection(kind: &syn::Type) -> bool {
    matches!(kind, syn::Type::Path(it)
        if it.path.segments.last().is_some_and(|last| last.ident == "Connection"))
}

impl<'ast> Visit<'ast> for Reaches {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_connection(&item.self_ty) && item.trait_.is_none() {
            self.found.push("impl Connection");
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_type_reference(&mut self, reference: &'ast syn::TypeReference) {
        if reference.mutability.is_some() && is_connection(&reference.elem) {
            self.found.push("&mut Connection");
        }
        visit::visit_type_reference(self, reference);
    }
}

#[test]
fn only_the_orchestrator_knows_the_whole_connection() {
    let mut found = String::new();
    for name in files(&[".rs"]) {
        let session = name.starts_with("crates/transport/session/src");
        if !session || !is_production(&name) || name.ends_with("connection/mod.rs") {
            continue;
        }
        let mut reaches = Reaches::default();
        reaches.visit_file(&syn::parse_file(&read(&name)).unwrap());
        // The endpoint lends a connection to its user.
        let allowed = if name.ends_with("endpoint/mod.rs") {
            1
        } else {
            0
        };
        if reaches.found.len() > allowed {
            found.push_str(&format!("\n{}: {:?}", name.display(), reaches.found));
        }
    }
    assert!(
        found.is_empty(),
        "components that reach into the connection:{found}"
    );
}

/// Packets that aren't encrypted are for simulations: nothing that talks to a network may be able
/// to make them.
#[test]
fn only_simulations_go_without_encryption() {
    let mut found = String::new();
    for name in files(&["Cargo.toml"]) {
        let own = ["crates/transport/session", "crates/research/simulate"];
        let text = read(&name);
        let ways = ["\"simulation\"", "/simulation\"", "\nsimulation ="];
        let turns_on = ways.iter().any(|way| text.contains(way));
        if turns_on && !own.iter().any(|folder| name.starts_with(folder)) {
            found.push_str(&format!("\n{}: the feature simulation", name.display()));
        }
    }
    for name in files(&[".rs"]) {
        let allowed = [
            "crates/transport/session/src",
            "crates/research/simulate/src/stack/host.rs",
            "crates/xtask/tests",
        ];
        let text = read(&name);
        let names = ["Endpoint::simulated", "Suite::Checksum"];
        for word in names.iter().filter(|word| text.contains(**word)) {
            if !allowed.iter().any(|place| name.starts_with(place)) {
                found.push_str(&format!("\n{}: {word}", name.display()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "unencrypted packets outside of simulations:{found}"
    );
}

/// Other systems are to need changes in few places.
#[test]
fn what_only_linux_has_is_behind_one_module() {
    let allowed = [
        "crates/os/src",
        "crates/testbed/src",
        "crates/cli/src/linux",
    ];
    let marks = [
        "target_os",
        "target_vendor",
        "os::linux",
        "\"/proc/",
        "\"/sys/",
    ];
    let mut found = String::new();
    for name in files(&[".rs"]) {
        let is_ours = name.starts_with("crates") && is_production(&name);
        if !is_ours || allowed.iter().any(|place| name.starts_with(place)) {
            continue;
        }
        let text = read(&name);
        // Tests come last in a file.
        let lines = text
            .lines()
            .take_while(|line| !line.contains("mod tests {"));
        for (line, at) in lines.zip(1..) {
            for mark in marks.iter().filter(|mark| line.contains(**mark)) {
                found.push_str(&format!("\n{}:{at}: {mark}", name.display()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "what only some systems have belongs in crates/os, with what the others do instead; \
         commands that need Linux, in crates/cli/src/linux:{found}"
    );
}
