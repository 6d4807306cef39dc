"use strict";
// Draws the figures, in the colours of the page, and again when the reader switches between light and dark.
const page = JSON.parse(document.getElementById("figures").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const pointer = window.matchMedia("(hover: hover)");
const narrow = window.matchMedia("(max-width: 40rem)");

function draw() {
  const template = page.templates[dark.matches ? "dark" : "light"];
  for (const [id, figure] of Object.entries(page.figures)) {
    const layout = structuredClone(figure.layout);
    layout.template = template;
    if (narrow.matches) {
      layout.font = { size: 11 };
      layout.margin = { ...layout.margin, l: 40, r: 8 };
      if (figure.data[0].type === "bar") layout.yaxis.title = { text: "" }; // the names say what they are
    }
    Plotly.react(id, figure.data, layout, {
      responsive: true,
      displaylogo: false,
      displayModeBar: pointer.matches ? "hover" : false, // a finger has no use for it
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
  }
}

// Plotly lies in the page packed, so that the page stays small enough to be mailed.
async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (each) => each.charCodeAt(0));
  const script = document.createElement("script");
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  script.textContent = await new Response(plain).text();
  document.head.append(script);
}

unpack().then(() => {
  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
});
