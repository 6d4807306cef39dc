"use strict";
// Draws the figures in the colours of the page, and again after a switch between light and dark, and for printing.
const page = JSON.parse(document.getElementById("figures").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const pointer = window.matchMedia("(hover: hover)");
const narrow = window.matchMedia("(max-width: 40rem)");
// Largest figure in pixels on a sheet of A4, with room for its words.
const sheet = { width: 676, height: 830 };

let printing = false; // while true, colours and widths are those of paper

function draw() {
  const template = page.templates[dark.matches && !printing ? "dark" : "light"];
  for (const [id, figure] of Object.entries(page.figures)) {
    const layout = structuredClone(figure.layout);
    layout.template = template;
    // A taller figure is drawn wider and made smaller as a whole, so that it stays on one sheet.
    const shrunk = printing ? Math.min(1, sheet.height / layout.height) : 1;
    document.getElementById(id).style.zoom = shrunk;
    if (printing) {
      layout.width = sheet.width / shrunk;
    } else if (narrow.matches && !columns(layout)) {
      layout.font = { size: 11 };
      layout.margin = { ...layout.margin, l: 40, r: 8 };
      if (figure.data[0].type === "bar") layout.yaxis.title = { text: "" }; // the names of the bars are enough
    }
    // Two panels side by side do not fit on a phone: such a figure keeps its width and scrolls sideways in its frame.
    document.getElementById(id).style.minWidth = narrow.matches && !printing && columns(layout) ? "46rem" : "";
    Plotly.react(id, printing ? figure.data.map(plain) : figure.data, layout, {
      responsive: !printing,
      displaylogo: false,
      showSendToCloud: false,
      displayModeBar: pointer.matches && !printing ? "hover" : false, // a finger has no use for it
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
  }
}

// Returns true if panels are side by side.
function columns(layout) {
  const axes = Object.entries(layout).filter(([name]) => /^xaxis\d*$/.test(name));
  return axes.some(([, axis]) => (axis.domain?.[0] ?? 0) > 0.2);
}

// Without patterns: browsers print them as pictures of many megabytes.
function plain(trace) {
  return trace.marker?.pattern ? { ...trace, marker: { ...trace.marker, pattern: { shape: "" } } } : trace;
}

unpack().then(() => {
  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
  for (const [event, begins] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(event, () => {
      printing = begins;
      draw();
    });
  }
});
