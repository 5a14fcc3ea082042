"""Style and script of the report page; no network, no fonts to load, readable at the width of a phone."""

STYLE = """
:root { --ink: #1f2933; --soft: #52606d; --line: #e4e7eb; --wash: #f7f8fa; --pass: #00664b; --fail: #b3261e; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; color: var(--ink); background: #fff; line-height: 1.5; font-size: 16px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 1.2rem; margin: 44px 0 6px; padding-top: 14px; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 24px 0 4px; }
p { margin: 6px 0; max-width: 70ch; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-size: .9rem; }
.banner { color: #fff; border-radius: 8px; padding: 16px 20px; margin: 18px 0; }
.banner.pass { background: var(--pass); }
.banner.fail { background: var(--fail); }
.banner strong { display: block; font-size: 2rem; line-height: 1.1; letter-spacing: .06em; }
.banner p { margin: 6px 0 0; }
.banner ul { margin: 8px 0 0; max-width: 80ch; }
.banner li { margin: 4px 0; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: .9rem; margin: 16px 0 0; }
nav a, a { color: #005a8c; }
.scroll { overflow-x: auto; margin: 8px 0 16px; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th { background: var(--wash); font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.short { white-space: nowrap; }
td.word { font-weight: 700; white-space: nowrap; }
td.word.pass { color: var(--pass); }
td.word.fail { color: var(--fail); }
td.word.none { color: var(--soft); font-weight: 400; }
td.digest { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
ul { margin: 6px 0; padding-left: 22px; }
figure { margin: 8px 0 20px; min-width: 0; }
.plot { width: 100%; }
.drawing { display: block; width: 100%; max-width: 760px; height: auto; }
h4 { font-size: .9rem; margin: 10px 0 2px; }
.detail { border-left: 3px solid var(--line); padding-left: 12px; margin: 2px 0; }
.tall { max-height: 75vh; overflow-y: auto; }
.heat { border-collapse: separate; border-spacing: 0; width: auto; font-size: .78rem; }
.heat th, .heat td { padding: 3px 6px; white-space: nowrap; }
.heat thead { position: sticky; top: 0; z-index: 2; }
.heat thead th { vertical-align: bottom; background: var(--wash); }
.heat .upright { writing-mode: vertical-rl; transform: rotate(180deg); font-weight: 600; }
.heat th.first { position: sticky; left: 0; z-index: 1; background: var(--wash); text-align: left; }
.heat td { text-align: right; }
.heat td.warn, .heat th.first.warn { background: #fdecc8; }
.heat td.fail, .heat th.first.fail { background: #f8cfcb; color: var(--fail); font-weight: 700; }
.heat td.none { color: var(--soft); }
summary { cursor: pointer; font-weight: 600; font-size: .95rem; padding: 6px 0; }
@media (max-width: 640px) {
  main { padding: 16px 12px 48px; }
  h1 { font-size: 1.25rem; }
  .banner { padding: 14px 16px; }
  .criteria thead { display: none; }
  .criteria tr { display: block; padding: 10px 0; border-bottom: 1px solid var(--line); }
  .criteria tr:last-child { border-bottom: 0; }
  .criteria td { display: block; border: 0; padding: 1px 12px; text-align: left; }
  .criteria td.which, .criteria td.word { display: inline-block; padding-right: 0; }
  .criteria td.title { font-weight: 600; }
  .criteria td.number::before { content: attr(data-label) ": "; color: var(--soft); }
  .criteria td.number { display: inline-block; padding-right: 0; }
}
@media print { nav { display: none; } .scroll, .tall { overflow: visible; max-height: none; } }
"""

SCRIPT = """
(function () {
  function unfold() {
    var target = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", unfold);
  unfold();
  var narrow = window.innerWidth < 640;
  document.querySelectorAll("script[type='application/json']").forEach(function (source) {
    var figure = JSON.parse(source.textContent);
    var layout = figure.layout || {};
    layout.title = undefined;
    layout.margin = Object.assign({}, layout.margin, { t: 34, l: narrow ? 44 : 56, r: narrow ? 8 : 16 });
    if (narrow) { layout.dragmode = false; }
    Plotly.newPlot(source.dataset.target, figure.data, layout,
      { responsive: true, displaylogo: false, displayModeBar: narrow ? false : "hover" });
  });
})();
"""

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; connect-src 'none'"
)
"""Content security policy: the page may use what it carries and fetch nothing."""
