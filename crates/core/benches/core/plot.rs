//! Draws CPU time per replaced pod against the number of nodes as SVG, with logarithmic axes.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Ranges of the axes in powers of ten: number of nodes, and milliseconds per pod.
const X: (f64, f64) = (3.0, 5.0);
const Y: (f64, f64) = (-4.0, 3.0);

/// kube-controller-manager 1.36.2, maxUnavailable 1; see docs/performance.md.
const UPSTREAM: &[(f64, f64)] = &[(1_000.0, 54.6), (2_000.0, 106.5)];

/// Number of nodes and milliseconds per pod in the rows `update at 1` of docs/performance.md.
pub(crate) fn processes(page: &str) -> Vec<(f64, f64)> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let nodes = cells.first()?.strip_suffix(" x 1")?;
        let is_wanted = cells.get(1) == Some(&"update at 1");
        let ms = cells.get(4).filter(|_| is_wanted)?;
        Some((nodes.parse().ok()?, ms.parse().ok()?))
    });
    rows.collect()
}

pub(crate) fn draw(core: &[(f64, f64)], processes: &[(f64, f64)]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">\
         CPU per replaced pod, rolling update at maxUnavailable 1</text>\n"
    );
    grid(&mut svg);
    curve(&mut svg, UPSTREAM, "#c0392b", "kube-controller-manager");
    curve(&mut svg, processes, "#2471a3", "everynode, process");
    curve(&mut svg, core, "#1e8449", "everynode, core alone");
    svg.push_str("</svg>\n");
    svg
}

fn x(nodes: f64) -> f64 {
    LEFT + (nodes.log10() - X.0) / (X.1 - X.0) * (WIDTH - LEFT - RIGHT)
}

fn y(ms: f64) -> f64 {
    HEIGHT - BOTTOM - (ms.log10() - Y.0) / (Y.1 - Y.0) * (HEIGHT - TOP - BOTTOM)
}

fn grid(svg: &mut String) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for (power, label) in [(3, "1,000"), (4, "10,000"), (5, "100,000 nodes")] {
        let at = x(10f64.powi(power));
        line(svg, (at, TOP), (at, bottom));
        text(svg, (at, bottom + 18.0), "middle", "#333", label);
    }
    let labels = ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"];
    for (power, label) in (-4..).zip(labels) {
        let at = y(10f64.powi(power));
        line(svg, (LEFT, at), (right, at));
        text(svg, (LEFT - 8.0, at + 4.0), "end", "#333", label);
    }
}

fn curve(svg: &mut String, points: &[(f64, f64)], colour: &str, name: &str) {
    let Some(&(nodes, ms)) = points.last() else { return };
    let path: Vec<String> =
        points.iter().map(|(nodes, ms)| format!("{:.1},{:.1}", x(*nodes), y(*ms))).collect();
    let path = path.join(" ");
    add(
        svg,
        format_args!(
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n"
        ),
    );
    for (nodes, ms) in points {
        add(
            svg,
            format_args!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"/>\n",
                x(*nodes),
                y(*ms)
            ),
        );
    }
    text(svg, (x(nodes) + 9.0, y(ms) + 4.0), "start", colour, name);
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    add(
        svg,
        format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>\n"
        ),
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, colour: &str, text: &str) {
    add(
        svg,
        format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">\
             {text}</text>\n"
        ),
    );
}

fn add(svg: &mut String, element: std::fmt::Arguments) {
    svg.write_fmt(element).expect("writing to a string never fails");
}
