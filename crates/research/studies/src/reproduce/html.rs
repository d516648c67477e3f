//! The report as one page that needs nothing else: no script, no network.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::report::{ClaimReport, GateReport, NumberReport, PaperReport, Report};
use super::store::KeptFigure;
use super::verdict::Verdict;
use crate::claims::{GateKind, Level, Number, Origin};
use crate::ours::Ours;

/// Nothing may be loaded; styles stand in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const TITLE: &str = "Five papers on multipath transfer, reproduced";

pub(super) fn page(report: &Report) -> String {
    let size = match report.size {
        "full" => "the full form of each study",
        _ => "the short form of each study",
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (TITLE) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                a.skip href="#summary" { "Skip to the summary" }
                header {
                    h1 { (TITLE) }
                    p {
                        (report.program) " measured what the papers' tables and figures say, in "
                        (size) ". The same seeds give this page again, byte for byte."
                    }
                }
                nav aria-label="Papers" {
                    ul {
                        @for paper in &report.papers {
                            li { a href={ "#" (paper.name) } { (paper.name) } }
                        }
                        li { a href="#reading" { "how to read it" } }
                    }
                }
                main {
                    (summary(report))
                    @for paper in &report.papers {
                        (section(paper))
                    }
                    (reading())
                }
            }
        }
    };
    page.into_string() + "\n"
}

/// Papers by claims.
fn summary(report: &Report) -> Markup {
    let (holds, judged) = (report.count(Verdict::Holds), report.judged());
    let percent = 100.0 * holds as f64 / judged.max(1) as f64;
    html! {
        section #summary aria-labelledby="summary-heading" {
            h2 #summary-heading { "Summary" }
            p {
                (holds) " of " (judged) " results that are judged hold (" (format!("{percent:.0}"))
                " %)."
            }
            ul.legend {
                @for verdict in Verdict::ALL {
                    li {
                        span class={ "sign " (verdict.class()) } aria-hidden="true" {
                            (verdict.sign())
                        }
                        " " (verdict.words()) ": " (report.count(verdict))
                    }
                }
            }
            table.matrix {
                caption { "Papers and their claims" }
                thead { tr { th scope="col" { "Paper" } th scope="col" { "Claims" } } }
                tbody {
                    @for paper in &report.papers {
                        tr {
                            th scope="row" { a href={ "#" (paper.name) } { (paper.name) } }
                            td { ul.chips { @for claim in &paper.claims { li { (chip(claim)) } } } }
                        }
                    }
                }
            }
        }
    }
}

/// A claim in the matrix.
fn chip(claim: &ClaimReport) -> Markup {
    let verdict = claim.verdict;
    html! {
        a class={ "chip " (verdict.class()) } href={ "#" (anchor(claim)) }
            title={ (verdict.words()) ": " (claim.claim) } {
            span aria-hidden="true" { (verdict.sign()) " " }
            (claim.place)
            span.unseen { ": " (verdict.words()) }
        }
    }
}

fn anchor(claim: &ClaimReport) -> String {
    claim.id.replace('/', "-")
}

fn section(paper: &PaperReport) -> Markup {
    html! {
        section id=(paper.name) aria-labelledby={ (paper.name) "-heading" } {
            h2 id={ (paper.name) "-heading" } { (paper.name) ": " (paper.title) }
            @for claim in &paper.claims { (article(claim)) }
        }
    }
}

fn article(claim: &ClaimReport) -> Markup {
    let verdict = claim.verdict;
    let heading = format!("{}-heading", anchor(claim));
    let levels: Vec<&str> = claim.levels.iter().copied().map(Level::name).collect();
    html! {
        article id=(anchor(claim)) class=(verdict.class()) aria-labelledby=(heading) {
            h3 id=(heading) {
                (claim.place) " "
                span class={ "badge " (verdict.class()) } {
                    span aria-hidden="true" { (verdict.sign()) " " } (verdict.words())
                }
            }
            p.claim { (claim.claim) }
            @if !claim.numbers.is_empty() { (numbers(claim)) }
            @if !claim.gates.is_empty() { (gates(claim)) }
            @for gate in &claim.gates { (cause(gate)) }
            @for figure in &claim.figures { (picture(figure)) }
            @if let Some(command) = &claim.command {
                p.how {
                    code { (command) }
                    @if let Some(study) = claim.study { " · study " (study) }
                    @if !levels.is_empty() { " · level " (levels.join(", ")) }
                }
            }
        }
    }
}

/// A table that may be wider than the page: it scrolls, by keys as well.
fn wide(name: &str, table: &Markup) -> Markup {
    html! { div.wide tabindex="0" role="region" aria-label=(name) { (table) } }
}

fn numbers(claim: &ClaimReport) -> Markup {
    let caption = format!("{}: the paper's numbers and ours", claim.place);
    let table = html! {
        table {
            caption { "The paper's numbers and ours" }
            thead {
                tr {
                    th scope="col" { "What" }
                    th.number scope="col" { "Paper" }
                    th.number scope="col" { "Ours, ± half the 95 % interval" }
                    th.number scope="col" { "Off" }
                    th scope="col" { "Unit" }
                    th.number scope="col" { "Runs" }
                }
            }
            tbody {
                @for number in &claim.numbers {
                    tr {
                        th scope="row" { (number.name) }
                        td.number { (number.paper) }
                        td.number { (number.ours.as_ref().map_or_else(none, interval)) }
                        td.number { (off(number)) }
                        td { (number.unit) }
                        td.number {
                            (number.ours.as_ref().map_or_else(none, |ours| ours.runs.to_string()))
                        }
                    }
                }
            }
        }
    };
    wide(&caption, &table)
}

fn none() -> String {
    "–".to_owned()
}

fn interval(ours: &Ours) -> String {
    match ours.ci95 {
        _ if !ours.mean.is_finite() => none(),
        Some(ci95) => {
            let digits = digits(ours.mean);
            format!("{:.digits$} ± {ci95:.digits$}", ours.mean)
        }
        None => short(ours.mean),
    }
}

/// By how much ours is off the paper's.
fn off(number: &NumberReport) -> String {
    match (number.paper, &number.ours) {
        (Number::Value(paper), Some(ours)) if *paper != 0.0 && ours.mean.is_finite() => {
            format!("{:+.1} %", 100.0 * (ours.mean / paper - 1.0))
        }
        _ => none(),
    }
}

/// A number in as many digits as it deserves.
fn short(value: f64) -> String {
    match value.abs() {
        size if size > 0.0 && size < 1e-3 => format!("{value:.1e}"),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.*}", digits(value)),
    }
}

fn digits(value: f64) -> usize {
    match value.abs() {
        size if size < 1.0 => 4,
        size if size < 10.0 => 3,
        size if size < 100.0 => 2,
        _ => 1,
    }
}

fn gates(claim: &ClaimReport) -> Markup {
    let caption = format!("{}: what is asked for", claim.place);
    let table = html! {
        table {
            caption { "What is asked for" }
            thead {
                tr {
                    th scope="col" { "What must hold" }
                    th scope="col" { "Limits" }
                    th scope="col" { "Set by" }
                    th scope="col" { "Found" }
                    th scope="col" { "Holds" }
                }
            }
            tbody { @for gate in &claim.gates { (gate_row(gate)) } }
        }
    };
    wide(&caption, &table)
}

fn gate_row(gate: &GateReport) -> Markup {
    let holds = match gate.holds {
        Some(true) => "yes",
        Some(false) => "no",
        None => "only with --full",
    };
    let origin = match gate.from {
        Origin::Paper => "the paper",
        Origin::Ours => "us, before the first result",
        Origin::Later => "us, after a result was seen",
    };
    html! {
        tr {
            th scope="row" {
                (gate.what)
                @match gate.kind {
                    GateKind::Value => {}
                    GateKind::Order => { " " span.tag { "order" } }
                    GateKind::Control => { " " span.tag { "control" } }
                }
            }
            td { (gate.limits) " " (gate.unit) }
            td { (origin) @if !gate.why.is_empty() { ": " (gate.why) } }
            td { (gate.found) }
            td { strong.no[gate.holds == Some(false)] { (holds) } }
        }
    }
}

/// Why a gate doesn't hold, and what is known of how far it is off.
fn cause(gate: &GateReport) -> Markup {
    let bounds = gate.cases.iter().filter_map(|case| {
        let of = match case.case.name.as_str() {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        let bound = case.bound.filter(|_| !case.holds)?;
        Some(format!("{} of {bound}{of}", short(case.case.value)))
    });
    let bounds: Vec<String> = bounds.collect();
    html! {
        @if let (Some(cause), Some(tested)) = (gate.cause, gate.tested) {
            dl.cause {
                dt { "Why not" } dd { (gate.what) ": " (cause) "." }
                dt { "Tested by" } dd { (tested) "." }
                @if !bounds.is_empty() {
                    dt { "Found, of the recorded bound" } dd { (bounds.join("; ")) "." }
                }
            }
        }
    }
}

fn picture(figure: &KeptFigure) -> Markup {
    html! {
        figure {
            div.wide tabindex="0" role="region" aria-label={ "Plot: " (figure.title) } {
                div.plot role="img" aria-label=(figure.title) { (PreEscaped(&figure.svg)) }
            }
            figcaption { (figure.title) }
        }
    }
}

fn reading() -> Markup {
    html! {
        section #reading aria-labelledby="reading-heading" {
            h2 #reading-heading { "How to read it" }
            p {
                "A claim " strong { "holds" } " if each of its gates does: what the table under it \
                 asks for. It " strong { "holds in order" } " if the gates about who has more \
                 hold, and some number doesn't. Gates marked "
                span.tag { "control" }
                " test a cause by changing one thing, and don't count. A gate that doesn't hold \
                 has a recorded bound: a result beyond it fails the project's tests."
            }
            p {
                "Claims, the papers' numbers, tolerances and bounds stand in "
                code { "crates/research/studies/claims" }
                " of the source tree; this page's data, in " code { "report.json" }
                " beside it."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::Size;
    use crate::reproduce::{Selection, Store};

    #[test]
    fn numbers_have_the_digits_that_they_deserve() {
        for (value, text) in [
            (3.8e-5, "3.8e-5"),
            (0.0, "0"),
            (0.7654321, "0.7654"),
            (9.26, "9.260"),
            (94.36, "94.36"),
            (1234.56, "1234.6"),
            (30.0, "30"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn everything_is_escaped_and_nothing_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "code".to_owned()).unwrap();
        let study = crate::registry::find("balia").unwrap();
        let outcome = crate::study::Outcome {
            page: String::new(),
            gates: vec![
                crate::gate::gate("balia/table-3-single-order")
                    .value(1.0, "<script>alert(1)</script> & \"x\""),
            ],
            ours: Vec::new(),
            tables: Vec::new(),
            headline: Vec::new(),
            figures: Vec::new(),
            details: serde_json::Value::Null,
        };
        let kept = store.keep(study, Size::Short, &outcome).unwrap();
        let selection = Selection::of(Some("balia/table-3")).unwrap();
        let text = page(&Report::new(&selection, Size::Short, &[kept]));
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot;"));
        assert!(!text.contains("<script"));
        for loads in ["src=", "<link", "@import", "url(", "http://", "https://"] {
            assert!(!text.contains(loads), "{loads}");
        }
        assert!(text.contains("manyway reproduce balia/table-3 --quick"));
    }
}
