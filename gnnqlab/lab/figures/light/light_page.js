// Common part of pages without Plotly: compressed values, the page's theme, and pages that embed this one in a frame.
async function readValues() {
  const packed = Uint8Array.from(atob(document.getElementById("values").textContent), (each) => each.charCodeAt(0));
  const text = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(text).text());
}

const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const still = window.matchMedia("(prefers-reduced-motion: reduce)");
let frameTheme = null; // theme of the page around, if it has one of its own
const theme = () => frameTheme ?? (systemDark.matches ? "dark" : "light");

function showTheme() {
  document.documentElement.dataset.theme = theme();
}
showTheme();

// Call `redraw` when the theme or the width changes, and tell the page around the height of this one.
function watchPage(redraw) {
  const change = () => {
    showTheme();
    redraw();
  };
  systemDark.addEventListener("change", change);
  window.addEventListener("message", ({ data }) => {
    if (!data?.gnnqlabTheme || data.gnnqlabTheme === frameTheme) return;
    frameTheme = data.gnnqlabTheme;
    change();
  });
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth !== width) {
      width = document.body.clientWidth;
      redraw();
    }
    if (window.parent !== window)
      window.parent.postMessage({ gnnqlabHeight: Math.ceil(document.body.getBoundingClientRect().height) + 2 }, "*");
  }).observe(document.body);
}
